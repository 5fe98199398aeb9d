//! What people and programs see: representative results of every form, over all domains, on the seeded sandbox.
//!
//! Look at a changed snapshot as whoever reads it would: is it what was asked for, does it fit, is anything in the way?

use std::fmt::Write as _;

use crate::rig::Rig;

/// The words of a line; what stands between single quotes is one word.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (at, part) in line.split('\'').enumerate() {
        if at % 2 == 1 {
            words.last_mut().unwrap().push_str(part);
            continue;
        }
        let mut pieces = part.split(' ');
        words.last_mut().unwrap().push_str(pieces.next().unwrap());
        words.extend(pieces.map(str::to_owned));
    }
    words
}

/// Runs these lines one after the other: what is on standard output, then what is on standard error behind `! `, then the exit
/// code where it is not 0. A line may begin with a setting (`COLUMNS=60`); it is 100 columns wide otherwise.
fn transcript(rig: &Rig, lines: &[&str]) -> String {
    let mut text = String::new();
    for line in lines {
        let mut words = words(line);
        let mut settings = Vec::new();
        while let Some((name, value)) = words[0].split_once('=') {
            settings.push((name.to_owned(), value.to_owned()));
            words.remove(0);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (before, after) = line.split_at(settings.iter().map(|(name, value)| name.len() + value.len() + 2).sum());
        let run = rig.finished(rig.command(&words).env("COLUMNS", "100").envs(settings).output().unwrap());
        let _ = writeln!(text, "$ {before}pipefy {after}");
        text.push_str(&run.masked(&run.stdout.replace("\r\n", "\n")));
        for line in run.masked(&run.stderr).lines() {
            let _ = writeln!(text, "! {line}");
        }
        if let Some(code) = run.code.filter(|code| *code != 0) {
            let _ = writeln!(text, "[exit code {code}]");
        }
        text.push('\n');
    }
    // Blanks at the ends of lines are no part of a snapshot.
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Snapshots it. What differs between runs is masked: times and dates with the width that they have, and signed addresses.
macro_rules! shown {
    ($name:literal, $rig:expr, $lines:expr) => {
        insta::with_settings!({ filters => vec![
            (r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z", "[...... TIME ......]"),
            (r"\b20\d{2}-\d{2}-\d{2}\b", "[. DATE .]"),
            (r"\?X-Amz-[^\x22\\ ]+", "?[SIGNATURE]"),
            (r"127\.0\.0\.1:\d+", "[ADDRESS]"),
            (r"in \d+ ms", "in [N] ms"),
            (r"endCursor=\S+", "endCursor=[CURSOR]"),
        ], omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!($name, transcript($rig, $lines));
        });
    };
}

#[test]
fn organizations_pipes_and_phases() {
    shown!(
        "results_workflow",
        &Rig::new(),
        &[
            "org list",
            "org list --json",
            "COLUMNS=160 org list --format table",
            "COLUMNS=60 org list --format table",
            "org get 300516709 --format yaml",
            "pipe list",
            "pipe list --format table",
            "COLUMNS=60 pipe list --format table",
            "COLUMNS=200 pipe list --format table",
            "pipe list --format csv",
            "pipe list --format ids",
            "pipe list --format ndjson",
            "pipe list --jq .organizations[].pipes[]|.name",
            "pipe list --format csv --jq '[.organizations[].pipes[] | {id, name}]'",
            "pipe get 'name:Customer Support' --format table",
            "pipe get 'name:Customer Support' --fields id,name,phases.name --format yaml",
            "phase get 'name:Customer Support/New' --format table",
            "phase cards 'name:Customer Support/New' --first 3 --format table",
            "phase count 'name:Customer Support/New'",
            "phase targets 'name:Customer Support/New' --format ids",
            "label list --pipe 'name:Customer Support' --format csv",
            "label list --pipe 'name:Contract Review' --json",
            "field-condition list --phase 'name:Purchase Requests/Approval' --format table",
        ]
    );
}

#[test]
fn cards_and_records() {
    shown!(
        "results_cards",
        &Rig::new(),
        &[
            "card list --pipe 'name:Customer Support' --first 2",
            "card list --pipe 'name:Customer Support' --first 4 --format table",
            "COLUMNS=60 card list --pipe 'name:Customer Support' --first 4 --format table",
            "card list --pipe 'name:Contract Review' --first 2 --include-fields --format csv",
            "card list --pipe 'name:Customer Support' --first 2 --fields id,title,current_phase.name --format ndjson",
            "card list --pipe 'name:Customer Support' --first 3 --format ids",
            "card list --pipe 'name:Customer Support' --first 3 --jq .cards.edges[].node.title",
            "card list --pipe 'name:Customer Support' --all --max-items 3 --format ids",
            "card list --pipe 'name:Customer Support' --title 'no such title' --format table",
            "card list --pipe 'name:Customer Support' --title 'no such title' --format ids",
            "card get 'name:Customer Support/Cannot log in' --format yaml",
            "card get 'name:Customer Support/Cannot log in' --format table",
            "card get 'name:Customer Support/Cannot log in' --fields title,current_phase.name --json",
            "card find --pipe 'name:Customer Support' --field channel --value Chat --first 2 --format table",
            "card export --pipe 'name:Customer Support' --max-items 2 --fields id,title,phase,Channel --format csv",
            "card export --pipe 'name:Customer Support' --max-items 2 --fields id,title,phase --format table",
            "table list --format table",
            "table get name:Customers --format table",
            "record find --table name:Customers --first 3 --format table",
            "record export --table name:Customers --max-items 2 --format csv",
        ]
    );
}

#[test]
fn rules_people_and_reports() {
    shown!(
        "results_around",
        &Rig::new(),
        &[
            "webhook list --pipe 'name:Customer Support' --format table",
            "member list --pipe 'name:Customer Support' --format table",
            "member list --pipe 'name:Customer Support' --format csv",
            "automation list --pipe 'name:Customer Support'",
            "automation list --pipe 'name:Customer Support' --format table",
            "automation events list --pipe 'name:Customer Support' --format ids",
            "COLUMNS=180 agent list --repo 'name:Customer Support' --format table",
            "COLUMNS=120 kb list --pipe-uuid 'name:Customer Support' --format table",
            "ai-provider list --org-uuid 'name:Aurora Labs' --format yaml",
            "email template list --repo 'name:Purchase Requests' --fields id,name,subject --format table",
            "portal list --organization-uuid 'name:Aurora Labs' --format table",
            "COLUMNS=60 report-pipe list --pipe 'name:Customer Support' --format table",
            "report-org list --org 'name:Aurora Labs' --format ids",
            "relation pipe list 'name:Purchase Requests' --json",
            "relation card list 'name:Customer Support/Cannot log in' --format table",
            "introspect query organization --jq .name",
            "introspect type PipeReportExport --format table",
            "graphql exec -q {organizations{id,name}} --format csv",
        ]
    );
}

#[test]
fn changes_and_what_would_change() {
    let rig = Rig::new();
    std::fs::write(
        rig.home.path().join("rows.csv"),
        "Contract,Counterparty\nLease of the roof,Solar Ltd\nCoffee machine,Beans & Co\n",
    )
    .unwrap();
    shown!(
        "results_changes",
        &rig,
        &[
            "label create --pipe 'name:Customer Support' --name Later --color '#f00' --dry-run",
            "label create --pipe 'name:Customer Support' --name Later --color '#f00'",
            "card move 'name:Customer Support/Cannot log in' --phase 'name:Customer Support/Solved' --dry-run --format table",
            "card update 'name:Customer Support/Cannot log in' --title 'Can log in' --verify --jq .updateCard.card.title",
            "card update 'name:Customer Support/Can log in' --field-updates '[{\"field_id\":\"nosuch\",\"value\":\"x\"}]'",
            "card delete 'name:Customer Support/Can log in'",
            "card delete 'name:Customer Support/Can log in' --dry-run",
            "tools call delete_pipe --args '{\"pipe_id\": \"name:Contract Review\"}'",
            "graphql exec -q 'mutation { deleteCard(input: {id: 1}) { success } }'",
            "email inbox send --card 'name:Customer Support/Can log in' --to a@b.example --from-email me@b.example --subject Hi --body Hello",
            "card delete 'name:Customer Support/Can log in' --yes",
            "--read-only label create --pipe 'name:Customer Support' --name Never --color '#f00'",
            "card import rows.csv --pipe 'name:Contract Review' --key Contract --dry-run",
            "card import rows.csv --pipe 'name:Contract Review' --key Contract --parallel 1 --format csv",
            "card import rows.csv --pipe 'name:Contract Review' --key Contract --format table",
            "card import rows.csv --pipe 'name:Contract Review' --key Counterpart",
            "card import rows.csv --pipe 'name:Contract Review'",
        ]
    );
}

#[test]
fn what_is_wrong_and_what_to_do_about_it() {
    let rig = Rig::new();
    let organization = rig.json(&["org", "list", "--json"])[0]["id"].as_str().unwrap().to_owned();
    rig.json(&["pipe", "create", "Contract Review", "--org", &organization, "--json"]);
    shown!(
        "results_errors",
        &rig,
        &[
            "crad list",
            "card lst",
            "card get",
            "card list --pip 5",
            "card list --pipe 5 --first many",
            "card list --pipe 5 --search {title}",
            "card list --pipe 5 --format xml",
            "card list --pipe 5 --jq .a[",
            "card list --pipe 5 --json --format csv",
            "card list --pipe 'name:Customer Support' --fields id,titel --first 1",
            "pipe get 'name:Customr Support'",
            "pipe get 'name:Contract Review'",
            "pipe get name:qqqq",
            "pipe get 'Customer Support'",
            "phase get name:Doing",
            "phase get 'name:Customer Support/Sloved'",
            "card get 301017278",
            "pipe get 300516709",
            "phase get 301017278",
            "card find --pipe 301017278 --field Subject --value x",
            "card find --pipe 301017278 --field 420028367 --value x",
            "portal get 5",
            "report-pipe get --pipe 301017278 --report-id 99",
            "tools describe get_crad",
            "org get",
            "graphql exec -q '{ nope }' --jq .errors[].message",
            "PIPEFY_TOKEN=nobody org list",
            "PIPEFY_TOKEN= org list",
            "PIPEFY_BASE_URL=http://127.0.0.1:9 org list",
            "PIPEFY_BASE_URL=nonsense PIPEFY_ORG_ID=twelve org list",
            "--scope pipes=301017278 pipe get 301017268",
        ]
    );
}

#[test]
fn about_the_program_itself() {
    shown!(
        "results_program",
        &Rig::new(),
        &[
            "config show",
            "PIPEFY_ORG_ID=300516702 --account work config show",
            "config show --all --jq '.[] | select(.setting == \"static_token\") | [.value, .source]'",
            "doctor",
            "mcp scan",
            "mcp install --client cursor --server pipefy-mcp-server",
            "mcp scan --format csv --jq '[.[] | {client, scope, name, starts}]'",
            "skills list",
            "tools list --domain bulk",
            "tools search 'move the card to approved' --limit 3",
            "tools describe get_card --format yaml --jq '{name, class, command, arguments}'",
        ]
    );
}

#[test]
fn pipes_as_code() {
    let rig = Rig::new();
    let pulled = rig.run(&["pipe", "pull", "name:Contract Review"]);
    std::fs::write(rig.home.path().join("pipe.yaml"), &pulled.stdout).unwrap();
    let edited = pulled.stdout.replacen("color: gray", "color: red", 1).replacen("      required: true\n", "", 1);
    let edited = edited.replacen("  - name: Review\n", "  - name: Review\n    description: By two people\n", 1);
    std::fs::write(rig.home.path().join("edited.yaml"), edited).unwrap();
    shown!(
        "results_pipes_as_code",
        &rig,
        &[
            "pipe pull 'name:Contract Review'",
            "pipe diff pipe.yaml",
            "pipe diff edited.yaml",
            "pipe diff edited.yaml --format table",
            "pipe diff edited.yaml --json",
            "pipe apply edited.yaml --dry-run",
            "pipe apply edited.yaml",
            "pipe apply edited.yaml",
            "pipe diff nosuch.yaml",
            "pipe diff pipe.yaml 'name:Contract Review' --format csv",
        ]
    );
}
