//! `--read-only` and `--scope` before the command.

use crate::rig::Rig;

fn card_of(rig: &Rig, pipe: &str) -> String {
    let listed = rig.json(&["card", "list", "--pipe", pipe, "--first", "1", "--json"]);
    listed["cards"]["edges"][0]["node"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn read_only_refuses_every_write_and_lets_reads_through() {
    let rig = Rig::new();
    let pipe = rig.pipe("Customer Support");
    let card = card_of(&rig, &pipe);
    for line in [
        vec!["--read-only", "card", "delete", &card, "--yes"],
        vec!["--read-only", "graphql", "exec", "-q", "mutation { deleteCard(input: {id: 1}) { success } }", "--yes"],
        vec!["--read-only", "label", "create", "--pipe", &pipe, "--name", "N", "--color", "#FF0000"],
    ] {
        let run = rig.run(&line);
        assert_ne!(run.code, Some(0), "{line:?}\n{run}");
        assert!(run.stderr.contains("only reads are allowed"), "{line:?}\n{run}");
    }
    let shown = rig.json(&["--read-only", "card", "get", &card, "--json"]);
    assert_eq!(shown["card"]["id"], card.as_str());
    let set = rig
        .finished(rig.command(&["card", "delete", &card, "--yes"]).env("PIPEFY_MCP_READ_ONLY", "1").output().unwrap());
    assert!(set.stderr.contains("only reads are allowed"), "{set}");
}

#[test]
fn a_scope_refuses_what_is_outside_and_stops_when_it_is_not_understood() {
    let rig = Rig::new();
    let ours = rig.pipe("Customer Support");
    let found = rig.json(&["pipe", "list", "--json"]);
    let theirs = found["organizations"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|organization| organization["pipes"].as_array().unwrap())
        .map(|pipe| pipe["id"].as_str().unwrap().to_owned())
        .find(|id| *id != ours)
        .unwrap();
    let scope = format!("pipes={ours}");
    assert_eq!(rig.run(&["--scope", &scope, "pipe", "get", &ours]).code, Some(0));
    let run = rig.run(&["--scope", &scope, "pipe", "get", &theirs]);
    assert!(run.code != Some(0) && run.stderr.contains("outside of the scope"), "{run}");
    let both = format!("pipes={theirs}");
    assert_eq!(rig.run(&["--scope", &scope, "--scope", &both, "pipe", "get", &theirs]).code, Some(0));
    let left = rig.json(&["--scope", &scope, "pipe", "list", "--json"]);
    assert!(left.to_string().contains(&ours) && !left.to_string().contains(&format!("\"{theirs}\"")), "{left}");
    for bad in ["pipe=1", "pipes=", "pipes", "org=1,2"] {
        let run = rig.run(&["--scope", bad, "pipe", "list"]);
        assert_eq!(run.code, Some(2), "{bad}\n{run}");
        assert!(run.stderr.contains("--scope"), "{bad}\n{run}");
    }
}

/// What commands read without a capability of their own is within the scope as well, and a name does not tell what is outside.
#[test]
fn no_command_shows_what_is_outside_of_the_scope() {
    let rig = Rig::new();
    let (ours, theirs) = (rig.pipe("Customer Support"), rig.pipe("Contract Review"));
    let file = rig.run(&["pipe", "pull", &theirs]);
    assert_eq!(file.code, Some(0), "{file}");
    std::fs::write(rig.home.path().join("pipe.yaml"), &file.stdout).unwrap();
    let organizations = rig.json(&["graphql", "exec", "-q", "{ organizations { id } }", "--json"]);
    let organizations: Vec<String> = organizations["organizations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|organization| organization["id"].as_str().unwrap().to_owned())
        .collect();
    let of = |pipe: &str| {
        let query = format!("{{ pipe(id: {pipe}) {{ organizationId }} }}");
        rig.json(&["graphql", "exec", "-q", &query, "--json"])["pipe"]["organizationId"].as_str().unwrap().to_owned()
    };
    let own = of(&theirs);
    let elsewhere = organizations.iter().find(|id| **id != own).unwrap();
    let pins = [format!("pipes={ours}"), format!("org={elsewhere}")];
    for pin in &pins {
        let scope = ["--scope", pin];
        for line in [
            &["pipe", "pull", &theirs][..],
            &["pipe", "pull", "name:Contract Review"],
            &["pipe", "diff", "pipe.yaml", &theirs],
            &["pipe", "diff", "pipe.yaml"],
            &["pipe", "apply", "pipe.yaml", &theirs, "--yes"],
            &["pipe", "apply", "pipe.yaml", &theirs, "--dry-run"],
            &["pipe", "apply", "pipe.yaml", "--org", &own],
            &["pipe", "get", "name:Contract Review"],
            &["pipe", "get", "name:Contract Reviev"],
            &["phase", "get", "name:Contract Review/Review"],
            &["phase", "get", "name:Contract Reviev/Review"],
            &["phase", "get", &format!("name:{theirs}/No such phase")],
            &["card", "get", "name:Contract Review/x"],
            &["card", "export", "--pipe", "name:Contract Review"],
        ] {
            let run = rig.run(&[&scope[..], line].concat());
            assert!(run.code == Some(2) && run.stdout.is_empty(), "{pin} {line:?}\n{run}");
            let told = line.contains(&theirs.as_str()) || line.iter().any(|word| word.contains(&theirs));
            assert!(told || !run.stderr.contains(&theirs), "{pin} {line:?}\n{run}");
        }
    }
    let set = rig.command(&["pipe", "pull", &theirs]).env("PIPEFY_MCP_SCOPE_PIPES", &ours).output().unwrap();
    let set = rig.finished(set);
    assert!(set.code == Some(2) && set.stderr.contains("outside of the scope"), "{set}");
    // What is inside is found as ever.
    let scope = ["--scope", pins[0].as_str()];
    for line in [&["pipe", "pull", "name:Customer Support"][..], &["pipe", "get", "name:Customer Support"]] {
        let run = rig.run(&[&scope[..], line].concat());
        assert_eq!(run.code, Some(0), "{run}");
    }
    let near = rig.run(&[&scope[..], &["pipe", "get", "name:Customer Suport"]].concat());
    assert!(near.stderr.contains("did you mean Customer Support"), "{near}");
}

/// Each account has its own settings: what it may do, and where it signs in.
#[test]
fn an_account_brings_its_own_limits() {
    let rig = Rig::new();
    let ours = rig.pipe("Customer Support");
    let theirs = rig.pipe("Contract Review");
    let config = rig.home.path().join(".config/pipefy");
    std::fs::create_dir_all(&config).unwrap();
    let file = format!(
        "org_id = \"1\"\n[accounts.guest]\nstatic_token = \"sandbox-token-guest\"\n[accounts.admin]\nread_only = true\n\
         scope_pipes = [\"{ours}\"]\nstatic_token = \"sandbox-token-admin\"\norg_id = \"2\"\n"
    );
    std::fs::write(config.join("config.toml"), file).unwrap();
    let who =
        |account: &str| rig.json(&["--account", account, "auth", "status", "--json"])["identity"]["email"].clone();
    assert_eq!(who("admin"), "ana.souza@aurora.example");
    assert_eq!(who("guest"), "carla.dias@guest.example");
    assert_eq!(rig.run(&["--account", "admin", "pipe", "get", &ours]).code, Some(0));
    for (line, wanted) in [
        (&["--account", "admin", "pipe", "get", &theirs][..], "outside of the scope"),
        (&["--account", "admin", "label", "create", "--pipe", &ours, "--name", "N", "--color", "#f00"], "only reads"),
        // An account without a section has its stored login alone, whatever token is set.
        (&["--account", "other", "pipe", "get", &ours], "pipefy --account other auth login"),
    ] {
        let run = rig.run(line);
        assert!(run.code != Some(0) && run.stderr.contains(wanted), "{line:?}\n{run}");
    }
    assert_eq!(rig.run(&["pipe", "get", &theirs]).code, Some(0));
    let shown = rig.json(&["--account", "admin", "config", "show", "--json"]);
    let of = |setting: &str| shown.as_array().unwrap().iter().find(|row| row["setting"] == setting).unwrap().clone();
    assert_eq!((of("org_id")["value"].as_str(), of("static_token")["value"].as_str()), (Some("2"), Some("***")));
    assert!(of("org_id")["place"].as_str().unwrap().starts_with("accounts.admin.org_id ("), "{shown}");
}
