//! The question before something irreversible. Asked on stderr, answered by a person at a terminal or by `--yes`.

use std::io::{BufRead, IsTerminal};

use pipefy_tools::{Confirm, Kind, ToolError};

use crate::failure::Failure;
use crate::output::Terminal;

/// Asks whether to do `what` ("permanently delete card 5") and waits for an answer.
///
/// # Errors
/// [`Failure::Aborted`] for no, end of input or Ctrl-C; a refusal when nobody can be asked.
pub(crate) async fn confirm(terminal: &Terminal, what: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::refused(format!(
            "This would {what}, and nobody can be asked: standard input is no terminal. Nothing was \
             sent. Repeat the command with --yes to confirm."
        )));
    }
    let terminal = *terminal;
    let question = format!("{}? [y/N]: ", capitalised(what));
    let asked = tokio::task::spawn_blocking(move || ask(&terminal, &question, &mut std::io::stdin().lock()));
    tokio::select! {
        answer = asked => match answer {
            Ok(true) => Ok(()),
            _ => Err(Failure::Aborted),
        },
        _ = tokio::signal::ctrl_c() => {
            terminal.err("");
            Err(Failure::Aborted)
        }
    }
}

/// Repeats the question until the answer is one; end of input is no.
fn ask(terminal: &Terminal, question: &str, input: &mut impl BufRead) -> bool {
    loop {
        terminal.ask(question);
        let mut line = String::new();
        match input.read_line(&mut line) {
            Ok(read) if read > 0 => {}
            _ => {
                terminal.err("");
                return false;
            }
        }
        match line.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => return true,
            "" | "n" | "no" => return false,
            _ => terminal.err("Error: please answer y or n"),
        }
    }
}

/// Whoever asks is told yes: the person at the terminal has been asked before.
pub(crate) struct Agreed;

impl Confirm for Agreed {
    fn confirm(&self, _: &str, _: &str) -> Result<(), ToolError> {
        Ok(())
    }
}

/// Refuses what was not confirmed on the command line.
pub(crate) struct Unconfirmed;

impl Confirm for Unconfirmed {
    fn confirm(&self, verb: &str, resource: &str) -> Result<(), ToolError> {
        Err(ToolError::new(
            Kind::Refused,
            format!("This would {verb} {resource}. Nothing was sent. Repeat the command with --yes to confirm."),
        )
        .code("CONFIRMATION_REQUIRED"))
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use pipefy::settings::Environment;

    #[test]
    fn only_yes_is_yes() {
        let terminal = Terminal::new(&Environment::empty());
        for (typed, yes) in [
            ("y\n", true),
            (" YES \n", true),
            ("yes", true),
            ("n\n", false),
            ("No\n", false),
            ("\n", false),
            ("", false),
            ("maybe\nyep\ny\n", true),
            ("maybe\n", false),
        ] {
            assert_eq!(ask(&terminal, "Permanently delete card 5? [y/N]: ", &mut typed.as_bytes()), yes, "{typed:?}");
        }
    }
}
