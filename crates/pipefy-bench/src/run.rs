//! One benchmark run: starts everything, loads each target in turn, reports.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::hosted::Callers;
use crate::load::{self, Mode, Round};
use crate::process::{self, Process, Server};
use crate::report::{self, Spread};
use crate::stdio::{Piped, version_time};
use crate::{Failure, Options};

/// Settings of a server without sessions.
pub(crate) const STATELESS: [(&str, &str); 2] =
    [("PIPEFY_MCP_STATELESS", "true"), ("PIPEFY_MCP_JSON_RESPONSE", "true")];

/// Load before the first measured round of a target: connections, caches and lazily made parts are warm after it.
const WARM_UP: Duration = Duration::from_millis(800);

/// Something that answers calls.
struct Target {
    name: &'static str,
    way: Way,
    idle_kib: u64,
    loaded_kib: u64,
    rounds: Vec<Measured>,
}

enum Way {
    Http { process: Process, address: String, mode: Mode, bearers: Vec<String> },
    Stdio(Piped),
}

/// One measured round.
struct Measured {
    calls_per_second: f64,
    cpu_us: f64,
    p50_us: f64,
    p90_us: f64,
    p99_us: f64,
    wrong: usize,
}

impl Target {
    fn http(name: &'static str, (process, address): (Process, String), mode: Mode) -> Result<Self, Failure> {
        let idle_kib = process.resident()?;
        let way = Way::Http { process, address, mode, bearers: Vec::new() };
        Ok(Self { name, way, idle_kib, loaded_kib: 0, rounds: Vec::new() })
    }

    /// For these people, one connection after the other.
    fn called_by(mut self, callers: &Callers) -> Self {
        if let Way::Http { bearers, .. } = &mut self.way {
            bearers.clone_from(&callers.bearers);
        }
        self
    }

    fn stdio(name: &'static str, server: &Server) -> Result<Self, Failure> {
        let piped = Piped::start(server)?;
        let idle_kib = piped.process.resident()?;
        Ok(Self { name, way: Way::Stdio(piped), idle_kib, loaded_kib: 0, rounds: Vec::new() })
    }

    async fn load(&mut self, in_flight: usize, duration: Duration) -> Result<Round, Failure> {
        match &mut self.way {
            Way::Http { address, mode, bearers, .. } => load::round(address, *mode, bearers, in_flight, duration).await,
            Way::Stdio(piped) => tokio::task::block_in_place(|| piped.round(in_flight, duration)),
        }
    }

    fn process(&self) -> &Process {
        match &self.way {
            Way::Http { process, .. } => process,
            Way::Stdio(piped) => &piped.process,
        }
    }

    async fn measure(&mut self, in_flight: usize, duration: Duration) -> Result<(), Failure> {
        let before = self.process().cpu()?;
        let round = self.load(in_flight, duration).await?;
        let cpu = self.process().cpu()? - before;
        self.loaded_kib = self.process().resident()?;
        let calls = round.latencies.len() as f64;
        self.rounds.push(Measured {
            calls_per_second: calls / round.elapsed.as_secs_f64(),
            cpu_us: cpu * 1e6 / calls,
            p50_us: round.quantile_us(0.5),
            p90_us: round.quantile_us(0.9),
            p99_us: round.quantile_us(0.99),
            wrong: round.wrong,
        });
        Ok(())
    }

    fn spread(&self, figure: impl Fn(&Measured) -> f64) -> Spread {
        Spread::of(&self.rounds.iter().map(figure).collect::<Vec<_>>())
    }
}

/// Runs everything that the options ask for.
pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    let duration = Duration::from_secs_f64(options.number("seconds", 3.0)?);
    let rounds: usize = options.number("rounds", 5)?;
    let delay: u64 = options.number("delay-ms", 0)?;
    let starts: usize = options.number("starts", 10)?;
    let sessions: usize = options.number("sessions", 1000)?;
    let callers = match options.number("callers", 0)? {
        0 => None,
        count => Some(Callers::sign_in(count).await?),
    };
    let with_stdio = options.get("no-stdio").is_none();
    let levels = options.get("in-flight").unwrap_or("32");
    let levels = levels.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>()?;

    let (_backend, backend) = process::helper(&["backend", "--delay-ms", &delay.to_string()])?;
    let named = |option| options.get(option).map(|path| Server { path: path.to_owned(), backend: backend.clone() });
    let (server, reference) = (named("server"), named("reference"));
    if server.is_none() && reference.is_none() {
        options.need("server")?;
    }

    let mut results = Map::new();
    results.insert(
        "conditions".to_owned(),
        json!({"cores": std::thread::available_parallelism()?.get(), "seconds": duration.as_secs_f64(),
               "rounds": rounds, "backend_delay_ms": delay}),
    );
    let mut all_levels = Vec::new();
    for in_flight in levels {
        let floor = process::helper(&["floor", "--backend", &backend])?;
        let mut targets = vec![Target::http("floor", floor, Mode::Plain)?];
        if let Some(server) = &server {
            targets.push(Target::http("stateless JSON", server.http(&STATELESS)?, Mode::Stateless)?);
            targets.push(Target::http("stateful SSE", server.http(&[])?, Mode::Stateful)?);
            if let Some(callers) = &callers {
                let switches = callers.switches();
                let mut hosted: Vec<(&str, &str)> =
                    switches.iter().map(|(name, value)| (*name, value.as_str())).collect();
                let stateful = Target::http("hosted stateful SSE", server.http(&hosted)?, Mode::Stateful)?;
                hosted.extend(STATELESS);
                let stateless = Target::http("hosted stateless JSON", server.http(&hosted)?, Mode::Stateless)?;
                targets.extend([stateless.called_by(callers), stateful.called_by(callers)]);
            }
            if with_stdio {
                targets.push(Target::stdio("stdio", server)?);
            }
        }
        if let Some(reference) = &reference {
            targets.push(Target::http("reference SSE", reference.http(&[])?, Mode::Stateful)?);
            if with_stdio {
                targets.push(Target::stdio("reference stdio", reference)?);
            }
        }
        for target in &mut targets {
            target.load(in_flight, WARM_UP).await?;
        }
        for _ in 0..rounds {
            for target in &mut targets {
                target.measure(in_flight, duration).await?;
            }
        }
        all_levels.push(print_load(in_flight, delay, &targets)?);
    }
    results.insert("load".to_owned(), Value::Array(all_levels));
    results
        .insert("start_up".to_owned(), start_up(server.as_ref(), reference.as_ref(), options.get("pipefy"), starts)?);
    results.insert("memory_and_catalogue".to_owned(), sizes(server.as_ref(), reference.as_ref(), sessions).await?);

    if let Some(file) = options.get("json") {
        std::fs::write(file, serde_json::to_string_pretty(&Value::Object(results))? + "\n")?;
    }
    Ok(())
}

fn print_load(in_flight: usize, delay: u64, targets: &[Target]) -> Result<Value, Failure> {
    report::line(&format!(
        "\nget_card, {in_flight} in flight, backend delay {delay} ms: median (lowest-highest) of the rounds"
    ))?;
    let floor = targets.first().map(|floor| (floor.spread(|round| round.cpu_us), floor.spread(|round| round.p50_us)));
    let (floor_cpu, floor_p50) = floor.ok_or("no floor")?;
    let mut rows = Vec::new();
    let mut values = Map::new();
    for target in targets {
        let wrong: usize = target.rounds.iter().map(|round| round.wrong).sum();
        if wrong > 0 {
            return Err(
                format!("{}: {wrong} calls did not answer the card; its figures mean nothing", target.name).into()
            );
        }
        let rate = target.spread(|round| round.calls_per_second);
        let cpu = target.spread(|round| round.cpu_us);
        let p50 = target.spread(|round| round.p50_us);
        let p90 = target.spread(|round| round.p90_us);
        let p99 = target.spread(|round| round.p99_us);
        rows.push(vec![
            target.name.to_owned(),
            rate.text(0),
            cpu.text(1),
            format!("{:.2}", cpu.median / floor_cpu.median),
            p50.text(0),
            format!("{:.2}", p50.median / floor_p50.median),
            format!("{:.0}", p90.median),
            format!("{:.0}", p99.median),
            mib(target.idle_kib),
            mib(target.loaded_kib),
        ]);
        values.insert(
            target.name.to_owned(),
            json!({"calls_per_second": rate.json(), "cpu_us_per_call": cpu.json(), "p50_us": p50.json(),
                   "p90_us": p90.json(), "p99_us": p99.json(), "cpu_to_floor": cpu.median / floor_cpu.median,
                   "p50_to_floor": p50.median / floor_p50.median, "resident_idle_kib": target.idle_kib,
                   "resident_loaded_kib": target.loaded_kib}),
        );
    }
    report::table(
        &[
            "target",
            "calls/s",
            "CPU us/call",
            "to floor",
            "p50 us",
            "to floor",
            "p90 us",
            "p99 us",
            "MiB idle",
            "MiB loaded",
        ],
        &rows,
    )?;
    Ok(json!({"in_flight": in_flight, "targets": values}))
}

fn mib(kib: u64) -> String {
    format!("{:.1}", kib as f64 / 1024.0)
}

/// Start to the answer of `initialize` on stdio, and `pipefy --version`.
fn start_up(
    server: Option<&Server>,
    reference: Option<&Server>,
    pipefy: Option<&str>,
    starts: usize,
) -> Result<Value, Failure> {
    let times = |measure: &dyn Fn() -> Result<Duration, Failure>| {
        let times: Result<Vec<f64>, Failure> = (0..starts).map(|_| Ok(measure()?.as_secs_f64() * 1e3)).collect();
        Ok::<_, Failure>(Spread::of(&times?))
    };
    let mut figures = Vec::new();
    for (name, server) in [("initialize on stdio", server), ("reference, initialize on stdio", reference)] {
        if let Some(server) = server {
            figures.push((name, times(&|| Ok(Piped::start(server)?.start_up))?));
        }
    }
    if let Some(program) = pipefy {
        figures.push(("pipefy --version", times(&|| version_time(program))?));
    }
    report::line("")?;
    let rows: Vec<_> = figures.iter().map(|(name, spread)| vec![(*name).to_owned(), spread.text(1)]).collect();
    report::table(&["start-up", "ms"], &rows)?;
    Ok(Value::Object(figures.iter().map(|(name, spread)| ((*name).to_owned(), spread.json())).collect()))
}

/// Memory of idle sessions, and bytes of the catalogue.
async fn sizes(server: Option<&Server>, reference: Option<&Server>, sessions: usize) -> Result<Value, Failure> {
    let mut rows = Vec::new();
    let mut values = Map::new();
    for (name, server) in [("server", server), ("reference", reference)] {
        let Some(server) = server else { continue };
        let (process, address) = server.http(&[])?;
        let answer = load::tools_list(&address).await?;
        let tools = answer.pointer("/result/tools").and_then(Value::as_array).map_or(0, Vec::len);
        let bytes = answer.to_string().len();
        // One session first, so that what is made once is not counted as a session's.
        load::idle_sessions(&address, 1).await?;
        let before = process.resident()?;
        load::idle_sessions(&address, sessions).await?;
        let grown = process.resident()?.saturating_sub(before) as f64 / sessions.max(1) as f64;
        rows.push(vec![name.to_owned(), tools.to_string(), bytes.to_string(), format!("{grown:.1}")]);
        values.insert(
            name.to_owned(),
            json!({"tools": tools, "tools_list_bytes": bytes, "idle_sessions": sessions, "idle_session_kib": grown}),
        );
    }
    report::line("")?;
    report::table(&["sizes", "tools", "tools/list bytes", "KiB per idle session"], &rows)?;
    Ok(Value::Object(values))
}
