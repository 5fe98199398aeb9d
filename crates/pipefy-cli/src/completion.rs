//! Shell completion: the scripts, where they go, and the answers they ask for.
//!
//! The scripts set `_PIPEFY_COMPLETE=complete_<shell>` and what was typed, and run the program again. Completion needs
//! neither settings nor credentials; where there are both, ids of pipes and phases are asked for, for a moment and in silence.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use pipefy::settings::Environment;
use pipefy::{Query, pipes};
use pipefy_tools::IdKind;
use serde_json::Value;

use crate::command::{Command, Kind, Param};
use crate::failure::Failure;
use crate::flow::{Approved, Flow};
use crate::output::Terminal;
use crate::run::Start;
use crate::{commands, parse};

/// Tells the program that a shell asks.
const ASKED: &str = "_PIPEFY_COMPLETE";

/// With this set, the two options take the shell's name instead of looking for it.
pub(crate) const NO_DETECTION: &str = "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shell {
    Bash,
    Zsh,
    Fish,
    WindowsPower,
    Pwsh,
}

impl Shell {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "bash" => Self::Bash,
            "zsh" => Self::Zsh,
            "fish" => Self::Fish,
            "powershell" => Self::WindowsPower,
            "pwsh" => Self::Pwsh,
            _ => return None,
        })
    }

    fn script(self) -> &'static str {
        match self {
            Self::Bash => BASH,
            Self::Zsh => ZSH,
            Self::Fish => FISH,
            Self::WindowsPower | Self::Pwsh => POWERSHELL,
        }
    }
}

const BASH: &str = r#"_pipefy_completion() {
    local IFS=$'\n'
    COMPREPLY=( $( env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD _PIPEFY_COMPLETE=complete_bash $1 ) )
    return 0
}

complete -o default -F _pipefy_completion pipefy
"#;

const ZSH: &str = r#"#compdef pipefy

_pipefy_completion() {
    eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _PIPEFY_COMPLETE=complete_zsh pipefy)
}

compdef _pipefy_completion pipefy
"#;

const FISH: &str = "complete --command pipefy --no-files --arguments \"(env _PIPEFY_COMPLETE=complete_fish \
_TYPER_COMPLETE_FISH_ACTION=get-args _TYPER_COMPLETE_ARGS=(commandline -cp) pipefy)\" --condition \"env \
_PIPEFY_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=is-args _TYPER_COMPLETE_ARGS=(commandline -cp) pipefy\"\n";

const POWERSHELL: &str = r#"Register-ArgumentCompleter -Native -CommandName pipefy -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $Env:_PIPEFY_COMPLETE = "complete_powershell"
    $Env:_TYPER_COMPLETE_ARGS = $commandAst.ToString()
    $Env:_TYPER_COMPLETE_WORD_TO_COMPLETE = $wordToComplete
    pipefy | ForEach-Object {
        $word, $help = $_ -split ":::", 2
        [System.Management.Automation.CompletionResult]::new($word, $word, 'ParameterValue', $(if ($help) { $help } else { $word }))
    }
    $Env:_PIPEFY_COMPLETE = ""
    $Env:_TYPER_COMPLETE_ARGS = ""
    $Env:_TYPER_COMPLETE_WORD_TO_COMPLETE = ""
}
"#;

/// How long a person waits for ids.
const MOMENT: Duration = Duration::from_millis(1_500);

/// Pipes whose phases are looked up when it is not said which one is meant.
const PIPES: usize = 10;

/// One word that could come next, and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Offer {
    word: String,
    help: String,
}

/// Answers a shell's question, if one was asked; gives the exit code.
pub(crate) fn answer(environment: &Environment, terminal: &Terminal) -> Option<u8> {
    let asked = environment.variable(ASKED).filter(|asked| !asked.is_empty())?;
    let variable = |name: &str| environment.variable(name).unwrap_or_default();
    let (what, shell) = asked.split_once('_')?;
    let Some(shell) = Shell::named(shell) else {
        terminal.err(&unknown(shell));
        return Some(1);
    };
    if what == "source" {
        return Some(terminal.out(shell.script().as_bytes()));
    }
    let (words, typed) = match shell {
        Shell::Bash => {
            let mut words: Vec<String> = variable("COMP_WORDS").split_whitespace().map(str::to_owned).collect();
            let at = variable("COMP_CWORD").parse().unwrap_or(words.len());
            let typed = words.get(at).cloned().unwrap_or_default();
            words.truncate(at);
            (words, typed)
        }
        Shell::WindowsPower | Shell::Pwsh => {
            let typed = variable("_TYPER_COMPLETE_WORD_TO_COMPLETE").to_owned();
            let mut words: Vec<String> =
                variable("_TYPER_COMPLETE_ARGS").split_whitespace().map(str::to_owned).collect();
            if !typed.is_empty() && words.last() == Some(&typed) {
                words.pop();
            }
            (words, typed)
        }
        Shell::Zsh | Shell::Fish => {
            let line = variable("_TYPER_COMPLETE_ARGS");
            let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let typed =
                if line.ends_with(char::is_whitespace) { String::new() } else { words.pop().unwrap_or_default() };
            (words, typed)
        }
    };
    let words = words.get(1..).unwrap_or_default();
    let mut offers = offers(words, &typed);
    if offers.is_empty()
        && let Some(wanted) = wanted(words)
    {
        offers = living(environment, wanted);
        offers.retain(|offer| offer.word.starts_with(&typed));
    }
    if shell == Shell::Fish && variable("_TYPER_COMPLETE_FISH_ACTION") == "is-args" {
        return Some(u8::from(offers.is_empty()));
    }
    Some(terminal.out(reply(shell, &offers).as_bytes()))
}

fn reply(shell: Shell, offers: &[Offer]) -> String {
    let lines = |line: fn(&Offer) -> String| offers.iter().map(line).collect::<Vec<_>>().join("\n");
    let text = match shell {
        Shell::Bash => lines(|offer| offer.word.clone()),
        Shell::Fish => lines(|offer| format!("{}\t{}", offer.word, offer.help)),
        Shell::WindowsPower | Shell::Pwsh => lines(|offer| format!("{}:::{}", offer.word, offer.help)),
        Shell::Zsh => {
            if offers.is_empty() {
                return "_files\n".to_owned();
            }
            let escaped =
                |text: &str| text.replace('\\', "\\\\").replace('"', "\"\"").replace('$', "\\$").replace('`', "\\`");
            let items = offers
                .iter()
                .map(|offer| format!("\"{}\":\"{}\"", escaped(&offer.word).replace(':', "\\:"), escaped(&offer.help)));
            return format!("_arguments '*: :(({}))'\n", items.collect::<Vec<_>>().join("\n"));
        }
    };
    if text.is_empty() { text } else { text + "\n" }
}

/// The words that may follow `words` (without the program) and start with `typed`.
fn offers(words: &[String], typed: &str) -> Vec<Offer> {
    let mut rest = words.iter().map(String::as_str).peekable();
    while let Some(word) = rest.next_if(|word| word.starts_with('-')) {
        let takes_value = parse::GLOBALS.iter().any(|(flag, takes_value)| *flag == word && *takes_value);
        if takes_value && rest.next().is_none() {
            return Vec::new();
        }
    }
    let mut path = String::new();
    while commands::find(&path).is_none() {
        let Some(word) = rest.next() else { break };
        if !path.is_empty() {
            path.push(' ');
        }
        path.push_str(word);
    }
    let mut offers: Vec<Offer> = match commands::find(&path) {
        Some(command) => {
            let options = parse::options(command);
            let last = rest.last();
            let waiting = last.and_then(|last| {
                options.iter().find(|option| option.takes_value() && option.flags().any(|flag| flag == last))
            });
            match waiting {
                Some(option) => values(command.path, option),
                None if typed.starts_with('-') => flags(&options),
                None => Vec::new(),
            }
        }
        None if typed.starts_with('-') && path.is_empty() => {
            parse::GLOBALS.iter().map(|(flag, _)| Offer { word: (*flag).to_owned(), help: String::new() }).collect()
        }
        None => commands::children(&path)
            .into_iter()
            .map(|name| {
                let below = if path.is_empty() { name.to_owned() } else { format!("{path} {name}") };
                let help = commands::group(&below).or_else(|| commands::find(&below).map(|command| command.about));
                Offer { word: name.to_owned(), help: help.unwrap_or_default().to_owned() }
            })
            .collect(),
    };
    offers.retain(|offer| offer.word.starts_with(typed));
    offers
}

/// Ids that a word would be one of.
struct Wanted {
    /// Options of the program itself.
    globals: Vec<String>,
    kind: IdKind,
    /// The pipe that was named before.
    pipe: Option<String>,
}

/// What the word behind `words` is, when it is the id of a pipe or phase.
fn wanted(words: &[String]) -> Option<Wanted> {
    let (at, command) = (1..=words.len()).find_map(|end| {
        let start = words.iter().take(end).position(|word| commands::children("").contains(&word.as_str()))?;
        let path = words.get(start..end)?.join(" ");
        Some((start, commands::find(&path)?))
    })?;
    let rest = words.get(at + command.path.split(' ').count()..)?;
    let param = expected(command, rest)?;
    let touches = commands::tool_of(command)?.op().touches;
    let kind = touches.iter().find(|id| id.arg == param.name)?.kind;
    let pipe =
        command.options().find(|option| touches.iter().any(|id| id.arg == option.name && id.kind == IdKind::Pipe));
    let pipe = pipe.and_then(|option| {
        let place = rest.iter().position(|word| option.flags().any(|flag| flag == word))?;
        rest.get(place + 1).cloned()
    });
    let globals = words.get(..at)?.to_vec();
    matches!(kind, IdKind::Pipe | IdKind::Repo | IdKind::Phase).then_some(Wanted { globals, kind, pipe })
}

/// The option that waits for a value, else the next positional argument.
fn expected(command: &Command, rest: &[String]) -> Option<Param> {
    let options = parse::options(command);
    let named = |word: &str| options.iter().find(|option| option.flags().any(|flag| flag == word));
    let (mut positional, mut waiting) = (0, None);
    for word in rest {
        match (waiting.take(), named(word)) {
            (Some(_), _) => {}
            (None, Some(option)) if option.takes_value() => waiting = Some(*option),
            (None, Some(_)) => {}
            (None, None) => positional += usize::from(!word.starts_with('-')),
        }
    }
    waiting.or_else(|| command.arguments().nth(positional).copied())
}

/// The ids that whoever is signed in can see. Nothing where nobody is, or where it takes longer than a moment.
fn living(environment: &Environment, wanted: Wanted) -> Vec<Offer> {
    let line = std::iter::once("pipefy").chain(wanted.globals.iter().map(String::as_str)).chain(["pipe", "list"]);
    let line: Vec<OsString> = line.map(OsString::from).collect();
    let Ok(line) = parse::parse(&line) else { return Vec::new() };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    let start = Start {
        environment: environment.clone(),
        terminal: Terminal::mute(),
        globals: line.globals,
        command: line.command,
        yes: false,
        json: false,
        lines: None,
    };
    let found = runtime.block_on(async {
        let found = async {
            let loaded = start.settings().ok()?;
            start.session(&loaded, Approved::No, async |flow| ids(flow, &wanted).await).await.ok()
        };
        tokio::time::timeout(MOMENT, found).await.ok().flatten()
    });
    runtime.shutdown_background();
    found.unwrap_or_default()
}

async fn ids(flow: &Flow<'_>, wanted: &Wanted) -> Result<Vec<Offer>, Failure> {
    let offer = |row: &Value, place: &str| {
        let text = |key: &str| row.get(key).and_then(Value::as_str).unwrap_or_default();
        let help = if place.is_empty() { text("name").to_owned() } else { format!("{place} / {}", text("name")) };
        Offer { word: text("id").to_owned(), help }
    };
    let rows = |value: &Value, path: &str| value.pointer(path).and_then(Value::as_array).cloned().unwrap_or_default();
    let seen: Vec<Offer> = match (&wanted.pipe, wanted.kind) {
        (Some(pipe), IdKind::Phase) => vec![Offer { word: pipe.clone(), help: String::new() }],
        _ => {
            let data = flow.read(&pipes::search_pipes(None)).await?;
            let organizations = rows(&data, "/organizations");
            organizations.iter().flat_map(|one| rows(one, "/pipes")).map(|row| offer(&row, "")).collect()
        }
    };
    let mut held = Vec::with_capacity(seen.len());
    for offer in seen {
        if flow.holds(IdKind::Pipe, &offer.word).await? {
            held.push(offer);
        }
    }
    let seen = held;
    if wanted.kind != IdKind::Phase {
        return Ok(seen);
    }
    let queries: Vec<Query> = seen.iter().take(PIPES).map(|pipe| pipes::get_pipe(&pipe.word)).collect();
    let mut reads: Vec<BoxFuture<'_, Result<Value, Failure>>> = Vec::new();
    for query in &queries {
        reads.push(Box::pin(flow.read(query)));
    }
    let read = join_all(reads).await;
    let phases = seen.iter().zip(read).filter_map(|(pipe, data)| Some((pipe, data.ok()?)));
    let phases = phases.flat_map(|(pipe, data)| {
        rows(&data, "/pipe/phases").iter().map(|row| offer(row, &pipe.help)).collect::<Vec<_>>()
    });
    Ok(phases.collect())
}

fn flags(options: &[Param]) -> Vec<Offer> {
    let long = |option: &Param| {
        let flags = option.flags().chain(option.negative()).filter(|flag| flag.starts_with("--"));
        flags.map(|flag| Offer { word: flag.to_owned(), help: option.help.to_owned() }).collect::<Vec<_>>()
    };
    let help = Offer { word: "--help".to_owned(), help: "Show this help".to_owned() };
    options.iter().flat_map(long).chain([help]).collect()
}

fn values(path: &str, option: &Param) -> Vec<Offer> {
    let plain =
        |words: &[&str]| words.iter().map(|word| Offer { word: (*word).to_owned(), help: String::new() }).collect();
    match option.kind {
        Kind::Choice(words) => plain(words),
        _ if path == "field create" && option.name == "field_type" => plain(FIELD_TYPES),
        _ => Vec::new(),
    }
}

/// The types of phase fields (`spec/tools-pipes-cards.md`).
const FIELD_TYPES: &[&str] = &[
    "assignee_select",
    "attachment",
    "checklist_horizontal",
    "checklist_vertical",
    "cnpj",
    "connector",
    "cpf",
    "currency",
    "date",
    "datetime",
    "due_date",
    "dynamic_content",
    "email",
    "id",
    "label_select",
    "long_text",
    "number",
    "phone",
    "radio_horizontal",
    "radio_vertical",
    "select",
    "short_text",
    "statement",
    "time",
];

fn unknown(shell: &str) -> String {
    format!("There is no completion for the shell `{shell}`; there is for bash, zsh, fish, powershell and pwsh.")
}

/// `--show-completion`, `--install-completion`: for the shell that is named, else the one this runs in.
pub(crate) fn set_up(environment: &Environment, terminal: &Terminal, install: bool, named: Option<&str>) -> u8 {
    let detected;
    let name = match named {
        Some(name) => name,
        None => {
            detected = parent_shell(environment);
            detected.as_str()
        }
    };
    let Some(shell) = Shell::named(name) else {
        terminal.err(&unknown(name));
        return 1;
    };
    if !install {
        return terminal.out(shell.script().as_bytes());
    }
    match install_for(shell, environment) {
        Ok(path) => terminal.out(
            format!(
                "{name} completion installed in {}\nCompletion will take effect once you restart the terminal\n",
                path.display()
            )
            .as_bytes(),
        ),
        Err(text) => {
            terminal.err(&text);
            1
        }
    }
}

/// The name of the process that started this one, else the login shell.
fn parent_shell(environment: &Environment) -> String {
    let parent = std::fs::read_to_string("/proc/self/stat").ok().and_then(|stat| {
        // The name in brackets may hold blanks; the parent's id is the second word after it.
        let id = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.to_owned();
        std::fs::read_to_string(format!("/proc/{id}/comm")).ok()
    });
    let parent = parent.map(|name| name.trim().to_owned()).filter(|name| Shell::named(name).is_some());
    parent
        .or_else(|| Some(Path::new(environment.variable("SHELL")?).file_name()?.to_str()?.to_owned()))
        .unwrap_or_else(|| if cfg!(windows) { "powershell".to_owned() } else { "unknown".to_owned() })
}

fn install_for(shell: Shell, environment: &Environment) -> Result<PathBuf, String> {
    let home = environment.home().ok_or("There is no home folder to install completion in.")?;
    let (path, profile) = match shell {
        Shell::Bash => {
            let path = home.join(".bash_completions/pipefy.sh");
            let line = format!("source '{}'\n", path.display());
            (path, Some((home.join(".bashrc"), line)))
        }
        Shell::Zsh => {
            let profile = home.join(".zshrc");
            let styled = std::fs::read_to_string(&profile).is_ok_and(|text| text.contains("zstyle"));
            let style = if styled { "" } else { "zstyle ':completion:*' menu select\n" };
            let line = format!("fpath+=~/.zfunc; autoload -Uz compinit; compinit\n{style}");
            (home.join(".zfunc/_pipefy"), Some((profile, line)))
        }
        Shell::Fish => (home.join(".config/fish/completions/pipefy.fish"), None),
        Shell::WindowsPower | Shell::Pwsh => {
            let profile = power_profile(shell, home);
            add_once(&profile, shell.script())?;
            return Ok(profile);
        }
    };
    write(&path, shell.script())?;
    if let Some((profile, line)) = profile {
        add_once(&profile, &line)?;
    }
    Ok(path)
}

/// Where PowerShell looks for the user's profile.
fn power_profile(shell: Shell, home: &Path) -> PathBuf {
    match (cfg!(windows), shell) {
        (true, Shell::WindowsPower) => home.join("Documents/WindowsPowerShell/Microsoft.PowerShell_profile.ps1"),
        (true, _) => home.join("Documents/PowerShell/Microsoft.PowerShell_profile.ps1"),
        (false, _) => home.join(".config/powershell/Microsoft.PowerShell_profile.ps1"),
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{} cannot be written: {error}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(path, text).map_err(failed)
}

/// Appends the text unless the file has its first line already.
fn add_once(path: &Path, text: &str) -> Result<(), String> {
    let present = std::fs::read_to_string(path).unwrap_or_default();
    let first = text.lines().next().unwrap_or_default();
    if present.lines().any(|line| line.trim() == first.trim()) {
        return Ok(());
    }
    let gap = if present.is_empty() || present.ends_with('\n') { "" } else { "\n" };
    write(path, &format!("{present}{gap}{text}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn words(line: &str, typed: &str) -> Vec<String> {
        let before: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        offers(&before, typed).into_iter().map(|offer| offer.word).collect()
    }

    #[test]
    fn words_flags_and_values_are_offered() {
        assert_eq!(words("", "or"), ["org"]);
        assert_eq!(words("--base-url x", "or"), ["org"]);
        assert_eq!(words("org", ""), words("--sandbox org", ""));
        assert!(words("org", "l").contains(&"list".to_owned()));
        assert!(words("", "--tok").contains(&"--token".to_owned()));
        assert!(words("card get", "--j").contains(&"--json".to_owned()));
        assert!(words("card get", "").is_empty());
        assert!(words("no such", "").is_empty());
        assert!(words("field create --type", "short").iter().all(|word| word == "short_text"));
    }

    #[test]
    fn every_shell_has_its_form() {
        let offers = [Offer { word: "a:b".to_owned(), help: "says \"x\"".to_owned() }];
        assert_eq!(reply(Shell::Bash, &offers), "a:b\n");
        assert_eq!(reply(Shell::Fish, &offers), "a:b\tsays \"x\"\n");
        assert_eq!(reply(Shell::Pwsh, &offers), "a:b:::says \"x\"\n");
        assert_eq!(reply(Shell::Zsh, &offers), "_arguments '*: :((\"a\\:b\":\"says \"\"x\"\"\"))'\n");
        assert!(BASH.contains("complete -o default") && ZSH.starts_with("#compdef pipefy"));
    }
}
