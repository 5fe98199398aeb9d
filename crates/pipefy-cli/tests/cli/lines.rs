//! Command lines: version, help, options in any order, ids with a hyphen.

use crate::rig::Rig;
use crate::transcript;

#[test]
fn the_version_comes_before_everything() {
    let rig = Rig::bare();
    let version = format!("{}\n", env!("CARGO_PKG_VERSION"));
    for line in [&["--version"][..], &["--version", "no-such-command"], &["--base-url", "x", "--version"]] {
        let run = rig.run(line);
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), version.as_str()), "{line:?}\n{run}");
    }
    assert_eq!(rig.run(&["--bogus", "--version"]).code, Some(2));
    assert_eq!(rig.run(&["org", "list", "--version"]).code, Some(2));
}

#[test]
fn usage_errors_say_what_is_wrong() {
    let rig = Rig::bare();
    for (line, wanted) in [
        (&["card", "list", "--js"][..], "--json"),
        (&["crad"], "card"),
        (&["card", "list"], "--pipe"),
        (&["card", "get", "1", "--json=true"], "--json"),
        (&["card", "list", "--pipe"], "--pipe"),
        (&["card", "list", "--pipe", "1", "--first", "5.5"], "whole number"),
        (&["card", "list", "--pipe", "1", "--first", "0"], "at least 1"),
        (&["card", "get", "--x", "1"], "--x"),
        (&["card", "get", "--", "--x"], "two hyphens"),
        (&["card", "get", " "], "blank"),
        (&["card", "get", "1", "--token", "x"], "--token"),
        (&["--sandbox", "--token", "x", "org", "list"], "--token"),
        (&["--sandbox-data", "x", "org", "list"], "--sandbox"),
        (&["tools", "describe", "get_crad"], "get_card"),
        (&["card", "-h"], "-h"),
    ] {
        let run = rig.run(line);
        assert_eq!(run.code, Some(2), "{line:?}\n{run}");
        assert!(run.stderr.contains(wanted) && run.stdout.is_empty(), "{line:?}\n{run}");
    }
    transcript!(rig.run(&["card", "list", "--pipe", "1", "--search", "{\"title\": }"]), @"
    exit code: 2
    ----- stdout
    ----- stderr
    error: --search is not valid JSON: expected value at line 1 column 11

    Usage: pipefy card list [OPTIONS] --pipe <TEXT>

    For more information, try '--help'.
    ");
}

#[test]
fn an_id_may_start_with_a_hyphen_and_never_confirms() {
    let rig = Rig::bare();
    for (line, code, wanted) in [
        // Without --yes the question is about exactly this id.
        (&["card", "delete", "-Zy1"][..], 2, "permanently delete card -Zy1,"),
        (&["card", "delete", "-ZocGcM0"], 2, "permanently delete card -ZocGcM0,"),
        (&["card", "delete", "-jy"], 2, "permanently delete card -jy,"),
        (&["card", "delete", "--json", "-y1"], 2, "permanently delete card -y1,"),
        (&["card", "delete", "--", "-y"], 2, "permanently delete card -y,"),
        // Only -y is left: no id.
        (&["card", "delete", "-y"], 2, "CARD_ID"),
        (&["card", "delete", "5", "-jy"], 2, "unexpected argument"),
        // Confirmed: the next thing that is missing is a credential.
        (&["card", "delete", "-Zy1", "-y"], 2, "Missing Pipefy authentication"),
        (&["card", "delete", "-y", "-Zy1"], 2, "Missing Pipefy authentication"),
        (&["card", "delete", "-y", "-j", "5"], 2, "Missing Pipefy authentication"),
        (&["card", "get", "-ZocGcM0"], 2, "Missing Pipefy authentication"),
        (&["card", "move", "-Zo", "--phase", "-Ph"], 2, "Missing Pipefy authentication"),
    ] {
        let run = rig.run(line);
        assert_eq!(run.code, Some(code), "{line:?}\n{run}");
        assert!(run.stderr.contains(wanted), "{line:?} lacks {wanted:?}\n{run}");
    }
}

#[test]
fn help_of_a_command_shows_its_options() {
    transcript!(Rig::bare().run(&["card", "delete", "--help"]), @"
    exit code: 0
    ----- stdout
    Delete a card for good

    Usage: pipefy card delete [OPTIONS] <CARD_ID>

    Arguments:
      <CARD_ID>  Card id

    Options:
          --help           Show this help
      -j, --json           Print JSON, for programs
          --format <WORD>  Print in this form; csv, table and ids show only the things [possible values:
                           json, ndjson, yaml, csv, table, ids]
          --jq <TEXT>      Print what this jq filter gives, text unquoted
      -y, --yes            Do it without asking
          --dry-run        Show what would be sent and send nothing
          --verify         Read the change back
          --debug          Show codes and the correlation id in errors
    ----- stderr
    ");
}

#[test]
fn values_come_from_files_and_standard_input_too() {
    let rig = Rig::new();
    let pipe = rig.pipe("Customer Support");
    std::fs::write(rig.home.path().join("search.json"), "{\"title\": \"no such title\"}").unwrap();
    let found = rig.json(&["card", "list", "--pipe", &pipe, "--search", "@search.json", "--json"]);
    assert_eq!(found["cards"]["edges"].as_array().unwrap().len(), 0);
    let run =
        rig.run_with(&["card", "list", "--pipe", &pipe, "--search", "-", "--json"], "{\"title\": \"no such title\"}");
    assert_eq!(run.code, Some(0), "{run}");
    let run = rig.run(&["card", "list", "--pipe", &pipe, "--search", "@missing.json"]);
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("missing.json cannot be read"), "{run}");
}
