//! What goes to stdout: one JSON document, or text for people. Notes and errors go to stderr.

mod bar;
mod format;
mod jq;
mod json;
mod plain;
mod table;
mod things;
mod yaml;

use std::io::{ErrorKind, IsTerminal, Write};

use pipefy::settings::Environment;
use pipefy_tools::Out;
use serde_json::{Map, Value};

pub(crate) use bar::Bar;
pub(crate) use format::Format;
pub(crate) use jq::Filter;
pub(crate) use json::{Style, write as json_text};
pub(crate) use plain::plain;
pub(crate) use yaml::{read as read_yaml, write as yaml_text};

use table::Grid;

/// What a command shows.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// The data.
    pub(crate) body: Body,
    /// A line after the data, in the form for people only.
    pub(crate) after: Option<String>,
    /// Lines for stderr.
    pub(crate) notes: Vec<String>,
    /// Exit code when everything was written.
    pub(crate) code: u8,
}

/// The data a command shows.
#[derive(Debug, Default)]
pub(crate) enum Body {
    /// Nothing.
    #[default]
    Nothing,
    /// A value, in the form that was asked for.
    Value(Value),
    /// In the form for people this, in JSON the other.
    Either(Value, Value),
    /// Text, whatever form was asked for.
    Text(String),
    /// Bytes as they are.
    Bytes(Vec<u8>),
}

/// How the result is wanted.
#[derive(Default)]
pub(crate) struct Rendering {
    /// For programs, as JSON.
    pub(crate) json: bool,
    /// In this form.
    pub(crate) format: Option<Format>,
    /// What this filter gives.
    pub(crate) filter: Option<Filter>,
    /// What the command may be about, as keys of results name it: `pipes`.
    pub(crate) nouns: Vec<String>,
    /// How its next page is had.
    pub(crate) more: &'static str,
}

/// A form in which rows can be written one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    Json,
    Csv,
}

impl Rendering {
    /// The form of rows, when they need not be known together.
    pub(crate) fn lines(&self) -> Option<Lines> {
        match (self.format, &self.filter) {
            (Some(Format::Ndjson), None) => Some(Lines::Json),
            (Some(Format::Csv), None) => Some(Lines::Csv),
            _ => None,
        }
    }

    /// Whether a program reads it.
    pub(crate) fn is_for_programs(&self) -> bool {
        self.json || self.filter.is_some() || self.format.is_some_and(|format| format != Format::Table)
    }
}

impl Shown {
    /// Shows a value. The exit code is 1 where it is no `success` or not `valid`, where a part of it is no `success` (Pipefy's
    /// reasons are then said on stderr).
    pub(crate) fn value(value: Value) -> Self {
        let denies = |value: &Value, key: &str| value.get(key) == Some(&Value::Bool(false));
        let refused = value.as_object().into_iter().flat_map(Map::values).filter(|part| denies(part, "success"));
        let mut notes = Vec::new();
        let mut code = u8::from(denies(&value, "success") || denies(&value, "valid"));
        for part in refused {
            code = 1;
            let reasons = ["userErrors", "errors"].iter().filter_map(|key| part.get(*key)?.as_array()).flatten();
            let reasons = reasons.filter_map(|reason| reason.as_str().or_else(|| reason.get("message")?.as_str()));
            notes.extend(reasons.map(|reason| format!("error: {reason}")));
        }
        Self { body: Body::Value(value), notes, code, ..Self::default() }
    }

    /// Shows text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { body: Body::Text(text.into()), ..Self::default() }
    }

    /// Adds a line for stderr.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Sets the exit code.
    pub(crate) fn code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }
}

/// What is known about the terminal, and the only way to write to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal {
    out_is_terminal: bool,
    out_colours: bool,
    err_is_terminal: bool,
    err_colours: bool,
    columns: Option<u16>,
    /// Says nothing on stderr.
    mute: bool,
}

/// Writes a part of the result to stdout as soon as it is known.
impl Out for Terminal {
    fn put(&self, bytes: &[u8]) -> std::io::Result<bool> {
        let mut out = std::io::stdout().lock();
        match out.write_all(bytes).and_then(|()| out.flush()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Terminal {
    /// Colours: `FORCE_COLOR` set, or a terminal without `NO_COLOR`. Width: `COLUMNS`, else what the terminal says.
    pub(crate) fn new(environment: &Environment) -> Self {
        let set = |name: &str| environment.variable(name).is_some_and(|value| !value.is_empty());
        let dumb = environment.variable("TERM") == Some("dumb");
        let colours = |terminal: bool| set("FORCE_COLOR") || (terminal && !dumb && !set("NO_COLOR"));
        let out_is_terminal = std::io::stdout().is_terminal();
        Self {
            out_is_terminal,
            out_colours: colours(out_is_terminal),
            err_is_terminal: std::io::stderr().is_terminal(),
            err_colours: colours(std::io::stderr().is_terminal()),
            columns: environment.variable("COLUMNS").and_then(|text| text.trim().parse().ok()),
            mute: false,
        }
    }

    /// One that says nothing on stderr.
    pub(crate) fn mute() -> Self {
        Self {
            out_is_terminal: false,
            out_colours: false,
            err_is_terminal: false,
            err_colours: false,
            columns: None,
            mute: true,
        }
    }

    /// Writes a command's result and gives the exit code.
    pub(crate) fn show(&self, shown: Shown, rendering: &Rendering) -> u8 {
        let Shown { body, after, mut notes, code } = shown;
        let programs = rendering.is_for_programs();
        let rendered = match body {
            Body::Nothing => Ok(Vec::new()),
            Body::Bytes(bytes) => Ok(bytes),
            Body::Text(text) => Ok(text.into_bytes()),
            Body::Either(human, _) if !programs => self.render(human, rendering, &mut notes).map(String::into_bytes),
            Body::Either(_, value) | Body::Value(value) => {
                self.render(value, rendering, &mut notes).map(String::into_bytes)
            }
        };
        let mut bytes = match rendered {
            Ok(bytes) => bytes,
            Err(problem) => {
                self.err(&problem);
                return code.max(1);
            }
        };
        if let Some(line) = after.filter(|_| !programs) {
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
        }
        let written = self.out(&bytes);
        for note in notes {
            self.err(&note);
        }
        written.max(code)
    }

    /// The value as it is wanted.
    fn render(&self, value: Value, rendering: &Rendering, notes: &mut Vec<String>) -> Result<String, String> {
        let value = match &rendering.filter {
            None => value,
            Some(filter) => {
                let mut results = filter.run(&value).map_err(|error| format!("--jq failed: {error}"))?;
                match (rendering.format, results.len()) {
                    (None, _) => return Ok(lines(&results)),
                    (Some(_), 1) => results.pop().unwrap_or_default(),
                    (Some(_), _) => results.into(),
                }
            }
        };
        match rendering.format {
            Some(format) => {
                if format.is_about_things() && value.get("dry_run") == Some(&Value::Bool(true)) {
                    notes.push("note: nothing was sent; these steps would be taken, in this order".to_owned());
                }
                let told = notes.iter().any(|note| note.contains("there are more"));
                if format.is_about_things() && !told && things::has_more(&value) {
                    notes.push(format!("note: there are more; {}", rendering.more));
                }
                format.write(&value, &rendering.nouns, &|grid| self.drawn(grid))
            }
            None if rendering.json => Ok(json_text(&value, Style::MACHINE)),
            None => Ok(self.human(&value)),
        }
    }

    /// As wide as the terminal; as wide as it gets where there is none.
    fn drawn(&self, grid: &Grid) -> String {
        match self.out_is_terminal || self.columns.is_some() {
            true => grid.drawn(self.columns),
            false => grid.unbounded(),
        }
    }

    fn human(&self, value: &Value) -> String {
        let style = if self.out_colours { Style::COLOURED } else { Style::PLAIN };
        match value {
            Value::Array(items) if items.is_empty() => "(empty list)\n".to_owned(),
            Value::Array(items) => match (Grid::of(items), self.out_is_terminal) {
                (Some(_), true) => Grid::pretty(items).map(|grid| grid.drawn(self.columns)).unwrap_or_default(),
                (Some(grid), false) => grid.tabbed(),
                (None, _) => json_text(value, style),
            },
            Value::Object(_) => json_text(value, style),
            Value::String(text) => format!("{text}\n"),
            scalar => format!("{scalar}\n"),
        }
    }

    /// Writes to stdout. A reader that has gone is no failure; anything else gives exit code 1.
    pub(crate) fn out(&self, bytes: &[u8]) -> u8 {
        let mut out = std::io::stdout().lock();
        match out.write_all(bytes).and_then(|()| out.flush()) {
            Ok(()) => 0,
            Err(error) if error.kind() == ErrorKind::BrokenPipe => 0,
            Err(error) => {
                self.err(&format!("The result could not be written: {error}"));
                1
            }
        }
    }

    /// How far the work has come, on stderr where that is a terminal.
    pub(crate) fn bar(&self) -> Bar {
        Bar::new(self.err_is_terminal)
    }

    /// Writes a line to stderr, as far as anybody reads it. Much of what is said comes from outside, so control characters
    /// are shown, not sent.
    pub(crate) fn err(&self, line: &str) {
        self.say(&plain(line));
    }

    fn say(&self, line: &str) {
        if self.mute {
            return;
        }
        let mut err = std::io::stderr().lock();
        let _ = writeln!(err, "{line}");
    }

    /// Writes to stderr without ending the line.
    pub(crate) fn ask(&self, question: &str) {
        let mut err = std::io::stderr().lock();
        let _ = write!(err, "{}", plain(question));
        let _ = err.flush();
    }

    /// Writes help to stdout.
    pub(crate) fn help(&self, help: &clap::builder::StyledStr) -> u8 {
        let text = if self.out_colours { help.ansi().to_string() } else { help.to_string() };
        self.out(text.as_bytes())
    }

    /// Writes a usage error to stderr.
    pub(crate) fn misuse(&self, error: &clap::Error) {
        let text = error.render();
        match self.err_colours {
            true => self.say(&plain::coloured(text.ansi().to_string().trim_end())),
            false => self.err(text.to_string().trim_end()),
        }
    }
}

/// Whether a result holds nothing: Pipefy knows no such thing, or does not show it.
pub(crate) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => !map.is_empty() && map.values().all(Value::is_null),
        _ => false,
    }
}

/// One result a line: text as it is, anything else as JSON.
fn lines(results: &[Value]) -> String {
    let mut text = String::new();
    for result in results {
        match result {
            Value::String(string) => text.push_str(string),
            other => text.push_str(&other.to_string()),
        }
        text.push('\n');
    }
    text
}
