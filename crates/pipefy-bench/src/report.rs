//! Figures and their printing.

use std::io::Write as _;

use serde_json::{Value, json};

use crate::Failure;

/// A figure over the rounds.
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Spread {
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let last = sorted.len().saturating_sub(1);
        let median = (at(last / 2) + at(last.div_ceil(2))) / 2.0;
        Self { median, low: at(0), high: at(last) }
    }

    pub(crate) fn json(&self) -> Value {
        json!({"median": self.median, "low": self.low, "high": self.high})
    }

    /// `12.3 (11.9-13.0)`
    pub(crate) fn text(&self, digits: usize) -> String {
        format!("{:.digits$} ({:.digits$}-{:.digits$})", self.median, self.low, self.high)
    }
}

/// Prints a line on standard output.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Prints a line on standard error; there is nothing to do when that fails.
pub(crate) fn line_on_stderr(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints rows under headings, the first column left-aligned, the others right-aligned.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(headings.get(column).map(|heading| heading.len())).max().unwrap_or(0)
    };
    let print = |cells: &[String]| {
        let cells = cells.iter().enumerate().map(|(column, cell)| {
            let width = width(column);
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        line(cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    print(&headings.iter().map(|heading| (*heading).to_owned()).collect::<Vec<_>>())?;
    rows.iter().try_for_each(|row| print(row))
}
