//! The changes of a step against the recorded ones.

use crate::backend::Log;
use crate::case::{Step, Write, Writes};
use crate::pattern::{Absence, Bindings, fits, mismatches};

/// Every mutation that was sent otherwise than recorded, was not sent, or was not expected.
pub(crate) fn check_writes(step: &Step, log: &Log, bindings: &mut Bindings) -> Vec<String> {
    let expected: Vec<(Write, bool)> = match &step.writes {
        Some(Writes::Word(word)) if word == "any" => return vec![],
        Some(Writes::Word(word)) => return vec![format!("the case has unknown writes {word:?}")],
        Some(Writes::These(writes)) => writes.iter().map(|write| (write.clone(), false)).collect(),
        None => log.recorded_writes(),
    };
    let same = |expected: &Write, sent: &Write, bindings: &mut Bindings| {
        expected.endpoint == sent.endpoint
            && expected.field == sent.field
            && fits(&expected.arguments, &sent.arguments, Absence::Null, bindings)
    };
    let mut found = Vec::new();
    let mut sent = log.writes.iter().peekable();
    for (write, spare) in &expected {
        match sent.peek() {
            Some(next) if same(write, next, bindings) => {
                sent.next();
            }
            _ if *spare => {}
            Some(next) => {
                let place = format!("{} {}", next.endpoint, next.field);
                if next.endpoint == write.endpoint && next.field == write.field {
                    let differences = mismatches(&write.arguments, &next.arguments, Absence::Null, bindings);
                    found.push(format!("mutation {place}: {}", differences.join("; ")));
                } else {
                    found.push(format!("expected the mutation {} {}, got {place}", write.endpoint, write.field));
                }
                sent.next();
            }
            None => found.push(format!("the mutation {} {} was not sent", write.endpoint, write.field)),
        }
    }
    found.extend(
        sent.map(|write| format!("not expected: mutation {} {} {}", write.endpoint, write.field, write.arguments)),
    );
    found
}
