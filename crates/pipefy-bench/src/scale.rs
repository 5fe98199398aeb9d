//! How a server scales: sessions held, lists of tools, large answers.

use std::time::Duration;

use serde_json::json;

use crate::load::{self, Held, Work};
use crate::process::{self, Server};
use crate::report::{self, Spread};
use crate::run::STATELESS;
use crate::{Failure, Options};

/// Enough for every session of the curve, whatever the default is.
const ROOM: [(&str, &str); 2] = [("PIPEFY_MCP_SESSION_CAP", "1000000"), ("PIPEFY_MCP_SESSIONS_PER_CALLER", "1000000")];

/// Connections under load; each goes from session to session.
const IN_FLIGHT: usize = 32;

/// Prints the three tables.
pub(crate) async fn print(options: &Options) -> Result<(), Failure> {
    let path = options.need("server")?.to_owned();
    let duration = Duration::from_secs_f64(options.number("seconds", 2.0)?);
    let mebibytes: usize = options.number("answer-mib", 16)?;
    let counts = options.get("counts").unwrap_or("1,10,100,1000,10000");
    let counts = counts.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>()?;

    let (_backend, backend) = process::helper(&["backend"])?;
    let server = Server { path: path.clone(), backend };
    sessions(&server, &counts, duration).await?;
    lists(&server, duration).await?;
    large(&path, mebibytes).await
}

/// Sessions held, and calls over all of them.
async fn sessions(server: &Server, counts: &[usize], duration: Duration) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for &count in counts {
        let (process, address) = server.http(&ROOM)?;
        // Connections and what is made once are not counted as a session's.
        load::held(&address, IN_FLIGHT).await?.round(Work::Card, duration / 4).await?;
        let before = process.resident()?;
        let mut held = load::held(&address, count).await?;
        let opened = process.resident()?;
        let cpu = process.cpu()?;
        let round = held.round(Work::Card, duration).await?;
        let cpu = process.cpu()? - cpu;
        let calls = round.latencies.len() as f64;
        if round.wrong > 0 {
            return Err(format!("{} calls did not answer the card", round.wrong).into());
        }
        rows.push(vec![
            count.to_string(),
            format!("{:.1}", opened as f64 / 1024.0),
            format!("{:.1}", opened.saturating_sub(before) as f64 / count as f64),
            format!("{:.0}", calls / round.elapsed.as_secs_f64()),
            format!("{:.1}", cpu * 1e6 / calls),
            format!("{:.0}", round.quantile_us(0.5)),
            format!("{:.0}", round.quantile_us(0.99)),
        ]);
    }
    report::line(&format!("\nsessions held, get_card in turn over all of them, up to {IN_FLIGHT} in flight"))?;
    report::table(&["sessions", "MiB", "KiB each", "calls/s", "CPU us/call", "p50 us", "p99 us"], &rows)
}

/// Lists of all tools per second.
async fn lists(server: &Server, duration: Duration) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for (name, switches, count) in [("stateless JSON", &STATELESS[..], 0), ("stateful SSE", &ROOM[..], IN_FLIGHT)] {
        let (_process, address) = server.http(switches)?;
        let mut held =
            if count == 0 { Held::without_sessions(&address).await? } else { load::held(&address, count).await? };
        held.round(Work::List, duration / 4).await?;
        let mut rates = Vec::new();
        for _ in 0..3 {
            let round = held.round(Work::List, duration).await?;
            if round.wrong > 0 {
                return Err(format!("{name}: {} lists were none", round.wrong).into());
            }
            rates.push(round.latencies.len() as f64 / round.elapsed.as_secs_f64());
        }
        rows.push(vec![name.to_owned(), Spread::of(&rates).text(0)]);
    }
    report::line("")?;
    report::table(&[&format!("tools/list, {IN_FLIGHT} in flight"), "lists/s"], &rows)
}

/// Peak memory while one large answer passes, in multiples of its size.
async fn large(path: &str, mebibytes: usize) -> Result<(), Failure> {
    let size = mebibytes << 20;
    let (_backend, backend) = process::helper(&["backend", "--answer-bytes", &size.to_string()])?;
    let server = Server { path: path.to_owned(), backend };
    let mut rows = Vec::new();
    for (name, revision) in [("text", "2025-03-26"), ("text and structured content", "2025-06-18")] {
        let mut switches = STATELESS.to_vec();
        switches.push(("PIPEFY_MCP_RESULT_BUDGET", "0"));
        let (process, address) = server.http(&switches)?;
        let before = process.resident()?;
        let answered = load::answer_size(&address, revision, &load::tool_call(1)).await?;
        if answered < size {
            return Err(format!("{name}: {answered} bytes came through of {size}").into());
        }
        let grown = process.peak()?.saturating_sub(before);
        rows.push(vec![
            name.to_owned(),
            format!("{:.1}", answered as f64 / f64::from(1 << 20)),
            format!("{:.1}", grown as f64 / 1024.0),
            format!("{:.2}", grown as f64 * 1024.0 / size as f64),
        ]);
    }
    report::line(&format!("\none answer of {mebibytes} MiB, {}", json!({"result_budget": 0})))?;
    report::table(&["as", "MiB answered", "MiB more at the peak", "times the answer"], &rows)
}
