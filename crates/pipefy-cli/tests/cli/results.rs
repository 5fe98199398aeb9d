//! What people and programs see: representative results of every form, over all domains, on the seeded sandbox.
//!
//! Look at a changed snapshot as whoever reads it would: is it what was asked for, does it fit, is anything in the way?

use std::fmt::Write as _;

use crate::rig::Rig;

const SUPPORT: &str = "name:Customer Support";
const NEW: &str = "name:Customer Support/New";
const LOGIN: &str = "name:Customer Support/Cannot log in";
const CUSTOMERS: &str = "name:Customers";

/// Runs these lines, words split at blanks, and gives the transcript. `@pipe` and the like stand for names with blanks.
fn transcript(rig: &Rig, lines: &[&str]) -> String {
    let organization = &rig.json(&["org", "list", "--json"])["organizations"][0];
    let uuid = organization["uuid"].as_str().unwrap();
    let id = organization["id"].as_str().unwrap();
    let pipe = rig.pipe("Customer Support");
    let pipe_uuid = rig.run(&["pipe", "get", &pipe, "--jq", ".pipe.uuid"]).stdout.trim().to_owned();
    let mut text = String::new();
    for line in lines {
        let words: Vec<&str> = line
            .split(' ')
            .map(|word| match word {
                "@pipe" => SUPPORT,
                "@phase" => NEW,
                "@card" => LOGIN,
                "@table" => CUSTOMERS,
                "@org" => uuid,
                "@org_id" => id,
                "@pipe_uuid" => &pipe_uuid,
                "@pipe_id" => &pipe,
                word => word,
            })
            .collect();
        let run = rig.finished(rig.command(&words).env("COLUMNS", "100").output().unwrap());
        let _ = writeln!(text, "$ pipefy {line}\n{run}");
    }
    // What a run before was not: it succeeded, and said nothing beside.
    text.replace("exit code: 0\n----- stdout\n", "").replace("----- stderr\n\n", "\n")
}

/// Snapshots it. Times and signed addresses are masked, with the width that they have.
macro_rules! shown {
    ($name:literal, $lines:expr) => {
        let rig = Rig::new();
        insta::with_settings!({ filters => vec![
            (r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z", "[...... TIME ......]"),
            (r"\b20\d{2}-\d{2}-\d{2}\b", "[. DATE .]"),
            (r"\?X-Amz-[^\x22\\ ]+", "?[SIGNATURE]"),
            (r"127\.0\.0\.1:\d+", "[ADDRESS]"),
        ], omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!($name, transcript(&rig, $lines));
        });
    };
}

#[test]
fn organizations_pipes_and_phases() {
    shown!(
        "results_workflow",
        &[
            "org list --format table",
            "org list --format csv",
            "pipe list --format table",
            "pipe list --format csv",
            "pipe list --format ids",
            "pipe list --jq .organizations[].pipes[]|.name",
            "pipe get @pipe --format table",
            "pipe get @pipe --fields id,name,phases.name --format yaml",
            "phase get @phase --format table",
            "phase cards @phase --first 3 --format table",
            "phase targets @phase --format ids",
            "label list --pipe @pipe --format csv",
            "field-condition list --phase @phase --format table",
        ]
    );
}

#[test]
fn cards_and_records() {
    shown!(
        "results_cards",
        &[
            "card list --pipe @pipe --first 4 --format table",
            "card list --pipe @pipe --first 2 --include-fields --format csv",
            "card list --pipe @pipe --first 2 --fields id,title,current_phase.name --format ndjson",
            "card list --pipe @pipe --first 3 --format ids",
            "card list --pipe @pipe --first 3 --jq .cards.edges[].node.title",
            "card get @card --format yaml",
            "card get @card --fields title,current_phase.name --format json",
            "card find --pipe @pipe --field channel --value Chat --first 2 --format table",
            "card export --pipe @pipe --max-items 2 --fields id,title,phase,Channel --format csv",
            "card export --pipe @pipe --max-items 2 --fields id,title,phase --format table",
            "table list --format table",
            "table get @table --format table",
            "record find --table @table --first 3 --format table",
            "record export --table @table --max-items 2 --format csv",
            "card get 1",
        ]
    );
}

#[test]
fn rules_people_and_reports() {
    shown!(
        "results_around",
        &[
            "webhook list --pipe @pipe --format table",
            "member list --pipe @pipe --format table",
            "member list --pipe @pipe --format csv",
            "automation list --pipe @pipe --format table",
            "automation events list --pipe @pipe --format ids",
            "agent list --repo @pipe_uuid --format table",
            "kb list --pipe-uuid @pipe_uuid --format table",
            "ai-provider list --org-uuid @org --format yaml",
            "email template list --repo @pipe_id --format table",
            "portal list --organization-uuid @org --format table",
            "report-pipe list --pipe @pipe_id --format table",
            "report-org list --org @org_id --format ids",
            "relation pipe list @pipe_id --format json",
            "relation card list @card --format table",
            "tools describe get_card --format yaml",
            "introspect query organization --jq .name",
            "graphql exec -q {organizations{id,name}} --format csv",
        ]
    );
}
