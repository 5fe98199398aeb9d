//! What goes to stdout: one JSON document, or text for people. Notes and errors go to stderr.

mod json;
mod table;

use std::io::{ErrorKind, IsTerminal, Write};

use pipefy::settings::Environment;
use serde_json::Value;

pub(crate) use json::{Style, write as json_text};

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

impl Shown {
    /// Shows a value. A `success` that is false makes the exit code 1.
    pub(crate) fn value(value: Value) -> Self {
        let code = u8::from(value.get("success") == Some(&Value::Bool(false)));
        Self { body: Body::Value(value), code, ..Self::default() }
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
    err_colours: bool,
    columns: Option<u16>,
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
            err_colours: colours(std::io::stderr().is_terminal()),
            columns: environment.variable("COLUMNS").and_then(|text| text.trim().parse().ok()),
        }
    }

    /// Writes a command's result and gives the exit code.
    pub(crate) fn show(&self, shown: Shown, json: bool) -> u8 {
        let Shown { body, after, notes, code } = shown;
        let mut bytes = match body {
            Body::Nothing => Vec::new(),
            Body::Bytes(bytes) => bytes,
            Body::Text(text) => text.into_bytes(),
            Body::Either(human, _) if !json => self.human(&human).into_bytes(),
            Body::Value(value) if !json => self.human(&value).into_bytes(),
            Body::Either(_, value) | Body::Value(value) => json_text(&value, Style::MACHINE).into_bytes(),
        };
        if let Some(line) = after.filter(|_| !json) {
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
        }
        let written = self.out(&bytes);
        for note in notes {
            self.err(&note);
        }
        written.max(code)
    }

    fn human(&self, value: &Value) -> String {
        let style = if self.out_colours { Style::COLOURED } else { Style::PLAIN };
        match value {
            Value::Array(items) if items.is_empty() => "(empty list)\n".to_owned(),
            Value::Array(items) => match table::Grid::of(items) {
                Some(grid) if self.out_is_terminal => grid.drawn(self.columns),
                Some(grid) => grid.tabbed(),
                None => json_text(value, style),
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

    /// Writes a line to stderr, as far as anybody reads it.
    pub(crate) fn err(&self, line: &str) {
        let mut err = std::io::stderr().lock();
        let _ = writeln!(err, "{line}");
    }

    /// Writes to stderr without ending the line.
    pub(crate) fn ask(&self, question: &str) {
        let mut err = std::io::stderr().lock();
        let _ = write!(err, "{question}");
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
        let text = if self.err_colours { text.ansi().to_string() } else { text.to_string() };
        self.err(text.trim_end());
    }
}
