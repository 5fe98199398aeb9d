//! Exports that Pipefy makes in the background, waited for in one command.

use crate::rig::Rig;

/// A pipe, and a report of it.
fn reported(rig: &Rig) -> (String, String) {
    let pipe = rig.pipe("Customer Support");
    let uuid = rig.json(&["pipe", "get", &pipe, "--json"])["pipe"]["uuid"].as_str().unwrap().to_owned();
    let reports = rig.json(&["report-pipe", "list", "--pipe", &uuid, "--json"]);
    let report = reports["pipeReports"]["edges"][0]["node"]["id"].as_str().unwrap().to_owned();
    (pipe, report)
}

#[test]
fn a_report_comes_as_rows_in_one_command() {
    let rig = Rig::new();
    let (pipe, report) = reported(&rig);
    let run = rig.run(&["report-pipe", "export", "--pipe", &pipe, "--report-id", &report, "--format", "csv"]);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stdout.lines().count() > 2 && run.stdout.lines().next().unwrap().contains("Title"), "{run}");
    let organization = rig.json(&["org", "list", "--json"])[0]["id"].as_str().unwrap().to_owned();
    let pipes = format!("[{pipe}]");
    let run = rig.run(&["report-org", "export", "--org", &organization, "--pipe-ids", &pipes, "--format", "csv"]);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stdout.lines().count() > 2, "{run}");
    // A wait of nothing is refused before anything is started; a value that is no number is a usage error.
    for timeout in ["0", "-1", "soon"] {
        let run = rig.run(&[
            "report-pipe",
            "export",
            "--pipe",
            &pipe,
            "--report-id",
            &report,
            "--format",
            "csv",
            "--poll-timeout",
            timeout,
        ]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{timeout}: {run}");
    }
}

#[test]
fn wait_seconds_gives_the_file_and_hides_its_address() {
    let rig = Rig::new();
    let (pipe, report) = reported(&rig);
    let organization = rig.json(&["org", "list", "--json"])[0]["id"].as_str().unwrap().to_owned();
    let arguments = serde_json::json!({ "pipe_id": pipe, "pipe_report_id": report, "wait_seconds": 30 }).to_string();
    let exported = rig.json(&["tools", "call", "export_pipe_report", "--args", &arguments, "--json"]);
    let jobs = [
        "automation",
        "export",
        "jobs",
        "--org",
        &organization,
        "--period",
        "last_3_months",
        "--wait-seconds",
        "30",
        "--json",
    ];
    let jobs = rig.json(&jobs);
    for (what, shown) in [("report", &exported), ("jobs", &jobs)] {
        let text = shown.to_string();
        assert!(
            text.contains("row_count") && !text.contains("fileUrl") && !text.contains("fileURL"),
            "{what}: {shown}"
        );
        assert!(!text.contains("Signature"), "{what}: {shown}");
    }
    assert!(jobs["file"]["row_count"].as_u64().unwrap() > 1, "{jobs}");
    let run = rig.run(&[
        "automation",
        "export",
        "jobs",
        "--org",
        &organization,
        "--period",
        "last_month",
        "--wait-seconds",
        "601",
    ]);
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("1 and 600"), "{run}");
}
