//! The examples in `packaging/` are what their readers take them for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::path::{Path, PathBuf};
use std::process::Command;

use pipefy::settings::{Environment, Overrides, REGISTRY, load_server};
use yaml_rust2::{Yaml, YamlLoader};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

/// The pages, by name.
fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let inside = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let all = inside.chain(["README.md", "SECURITY.md", "fuzz/README.md"].map(|page| root.join(page)));
    let pages = all.filter(|path| path.extension().is_some_and(|end| end == "md"));
    pages.map(|path| (path.display().to_string(), std::fs::read_to_string(path).unwrap())).collect()
}

/// Whether `fn name(` stands in this code as a test that is run.
fn is_a_test(code: &str, name: &str) -> bool {
    let lines: Vec<&str> = code.lines().map(str::trim).collect();
    let begins = format!("fn {name}(");
    let found =
        lines.iter().position(|line| line.trim_start_matches("pub ").trim_start_matches("async ").starts_with(&begins));
    let Some(found) = found else { return false };
    let above = lines[..found].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    let marks: Vec<&&str> = above.filter(|line| line.starts_with("#[")).collect();
    let is_test = marks.iter().any(|mark| **mark == "#[test]" || mark.starts_with("#[tokio::test"));
    is_test && !marks.iter().any(|mark| mark.starts_with("#[ignore"))
}

/// Every test that a page names as proof, as in `crate/tests/file.rs::name`, is there and is run.
#[test]
fn every_proof_that_a_page_names_exists() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seen = std::collections::BTreeMap::new();
    for (page, text) in pages() {
        for proof in text.split('`').filter(|word| word.contains(".rs::")) {
            let (path, name) = proof.split_once("::").unwrap();
            let code = std::fs::read_to_string(crates.join(path)).unwrap_or_else(|_| panic!("{page}: no file {path}"));
            assert!(is_a_test(&code, name), "{page}: {proof} is no test that is run");
            let short = page.rsplit('/').next().unwrap().to_owned();
            *seen.entry(short).or_insert(0) += 1;
        }
    }
    for (page, least) in [("threat-model.md", 50), ("reliability.md", 30), ("agents.md", 1)] {
        let found = seen.get(page).copied().unwrap_or(0);
        assert!(found >= least, "{page} names {found} proofs: it names them in another way");
    }
}

/// Where a table has a column for the proof, every row has one.
#[test]
fn every_claim_of_a_table_has_its_proof() {
    let mut rows = 0;
    for (page, text) in pages() {
        let mut wants_proof = false;
        for line in text.lines() {
            let Some(cells) = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) else {
                wants_proof = false;
                continue;
            };
            let last = cells.rsplit('|').next().unwrap().trim();
            if last == "Test" {
                wants_proof = true;
            } else if wants_proof && !last.starts_with("--") {
                assert!(last.contains(".rs::") || last.contains("compile-fail"), "{page}: {line}");
                rows += 1;
            }
        }
    }
    assert!(rows > 60, "only {rows} rows have a proof");
}

/// Every fuzz target is described, and every one that is described is there.
#[test]
fn the_fuzz_targets_are_the_ones_that_are_described() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let files = std::fs::read_dir(folder.join("targets")).unwrap();
    let mut files: Vec<String> =
        files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    files.sort();
    let page = read("README.md");
    let mut described: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    described.sort_unstable();
    assert_eq!(files, described);
    let manifest: toml::Table = toml::from_str(&read("Cargo.toml")).unwrap();
    let mut built: Vec<&str> =
        manifest["bin"].as_array().unwrap().iter().map(|bin| bin["name"].as_str().unwrap()).collect();
    built.sort_unstable();
    assert_eq!(files, built);
}

fn text(name: &str) -> String {
    std::fs::read_to_string(file(name)).unwrap()
}

/// Every setting that an example names exists, and the values together are valid.
fn settings_are_valid<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) {
    let mut environment = Environment::empty().with_variable("PIPEFY_MCP_PROFILE", "remote");
    for (name, value) in pairs {
        let known = REGISTRY.iter().any(|variable| variable.env.contains(&name)) || name == "PIPEFY_CONFIG_FILE";
        assert!(known, "{name} is no setting");
        if name != "PIPEFY_CONFIG_FILE" {
            environment = environment.with_variable(name, value);
        }
    }
    load_server(&environment, &Overrides::new()).unwrap();
}

#[test]
fn the_unit_is_one() {
    let unit = text("systemd/pipefy-mcp-server.service");
    let pairs = unit.lines().filter_map(|line| line.strip_prefix("Environment=")?.split_once('='));
    settings_are_valid(pairs);
    for line in ["DynamicUser=yes", "NoNewPrivileges=yes", "ExecReload=/bin/kill -HUP $MAINPID"] {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
    let seconds = |name: &str| unit.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok()).unwrap();
    assert!(seconds("TimeoutStopSec=") > pipefy::settings::OperationsSettings::default().drain.as_secs() + 2);

    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        eprintln!("skipped: systemd-analyze is not installed");
        return;
    }
    // It wants to find the program, and the program is not installed here.
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("pipefy-mcp-server.service");
    std::fs::write(&copy, unit.replace("/usr/bin/pipefy-mcp-server", env!("CARGO_BIN_EXE_pipefy-mcp-server"))).unwrap();
    let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&copy).output().unwrap();
    let said = String::from_utf8_lossy(&verified.stderr);
    let about_it: Vec<&str> = said.lines().filter(|line| line.contains("pipefy-mcp-server.service")).collect();
    assert!(about_it.is_empty(), "{about_it:#?}");
}

#[test]
fn the_image_holds_the_server_and_nobody_in_particular() {
    let dockerfile = text("docker/Dockerfile").replace("\\\n", " ");
    let instructions: Vec<(&str, &str)> = dockerfile
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|line| line.trim().split_once(' ').unwrap())
        .collect();
    let known = ["FROM", "WORKDIR", "COPY", "RUN", "ENV", "EXPOSE", "USER", "STOPSIGNAL", "ENTRYPOINT"];
    assert!(instructions.iter().all(|(name, _)| known.contains(name)), "{instructions:?}");
    let stages: Vec<usize> = (0..instructions.len()).filter(|at| instructions[*at].0 == "FROM").collect();
    assert_eq!((stages.len(), stages[0]), (2, 0));
    let build = instructions[..stages[1]].iter().find(|(name, _)| *name == "RUN").unwrap().1;
    for part in ["--release", "--locked", "--no-default-features", "-p pipefy-mcp"] {
        assert!(build.contains(part), "{part}");
    }
    let last = &instructions[stages[1]..];
    let of = |name: &str| last.iter().filter(|(found, _)| *found == name).map(|(_, rest)| *rest).collect::<Vec<_>>();
    assert!(of("RUN").is_empty(), "nothing runs in the image but the server");
    let user = of("USER")[0].split(':').next().unwrap().parse::<u32>().unwrap();
    assert!(user >= 1000);
    assert_eq!(of("ENTRYPOINT"), [r#"["/usr/bin/pipefy-mcp-server"]"#]);
    assert_eq!(of("COPY"), ["--from=build /src/target/release/pipefy-mcp-server /usr/bin/pipefy-mcp-server"]);
    let pairs: Vec<(&str, &str)> =
        of("ENV").into_iter().flat_map(str::split_whitespace).map(|pair| pair.split_once('=').unwrap()).collect();
    settings_are_valid(pairs);
    for source in instructions[..stages[1]].iter().filter(|(name, _)| *name == "COPY") {
        for path in source.1.split_whitespace().rev().skip(1) {
            assert!(file("..").join(path).exists(), "{path}");
        }
    }
}

#[test]
fn the_manifests_are_consistent() {
    let all = YamlLoader::load_from_str(&text("kubernetes/pipefy-mcp.yaml")).unwrap();
    let kind = |wanted: &str| -> &Yaml { all.iter().find(|one| one["kind"].as_str() == Some(wanted)).unwrap() };
    assert_eq!(all.len(), 4);
    for one in &all {
        assert!(one["apiVersion"].as_str().is_some() && one["metadata"]["name"].as_str() == Some("pipefy-mcp"));
    }
    let data = kind("ConfigMap")["data"].as_hash().unwrap();
    settings_are_valid(data.iter().map(|(name, value)| (name.as_str().unwrap(), value.as_str().expect("text"))));
    let drain: i64 = kind("ConfigMap")["data"]["PIPEFY_MCP_DRAIN_SECONDS"].as_str().unwrap().parse().unwrap();

    let pod = &kind("Deployment")["spec"]["template"];
    let container = &pod["spec"]["containers"][0];
    let pause = container["lifecycle"]["preStop"]["sleep"]["seconds"].as_i64().unwrap();
    assert!(pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap() > pause + drain + 2);
    assert_eq!(container["readinessProbe"]["httpGet"]["path"].as_str(), Some("/readyz"));
    assert_eq!(container["livenessProbe"]["httpGet"]["path"].as_str(), Some("/healthz"));
    assert_eq!(pod["spec"]["securityContext"]["runAsNonRoot"].as_bool(), Some(true));
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"].as_bool(), Some(true));
    let label = pod["metadata"]["labels"]["app"].as_str();
    for selector in [
        &kind("Deployment")["spec"]["selector"]["matchLabels"],
        &kind("Service")["spec"]["selector"],
        &kind("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
    ] {
        assert_eq!(selector["app"].as_str(), label);
    }
    let ports: Vec<&str> =
        container["ports"].as_vec().unwrap().iter().map(|port| port["name"].as_str().unwrap()).collect();
    assert!(ports.contains(&kind("Service")["spec"]["ports"][0]["targetPort"].as_str().unwrap()));
    assert!(ports.contains(&container["readinessProbe"]["httpGet"]["port"].as_str().unwrap()));
}

#[test]
fn the_proxy_passes_on_what_the_server_needs() {
    let site = text("nginx/pipefy-mcp.conf");
    assert_eq!(site.matches('{').count(), site.matches('}').count());
    for line in site.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        assert!(line.ends_with([';', '{', '}']), "{line}");
    }
    for directive in [
        "proxy_buffering off;",
        "client_max_body_size 4m;",
        "proxy_set_header Host $host;",
        "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
        "proxy_read_timeout 330s;",
        "keepalive_timeout 60s;",
    ] {
        assert!(site.contains(directive), "{directive}");
    }
    if Command::new("nginx").arg("-v").output().is_err() {
        eprintln!("skipped: nginx is not installed");
        return;
    }
    // The certificate is the operator's, so the listener is plain here.
    let folder = tempfile::tempdir().unwrap();
    let plain: String = site
        .lines()
        .filter(|line| !line.trim().starts_with("ssl_") && !line.trim().starts_with("http2 "))
        .map(|line| format!("{}\n", line.replace("listen 443 ssl;", "listen 127.0.0.1:1;")))
        .collect();
    let whole = folder.path().join("nginx.conf");
    let logs = folder.path().display();
    std::fs::write(
        &whole,
        format!("pid {logs}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{plain}}}\n"),
    )
    .unwrap();
    let tested = Command::new("nginx").arg("-t").arg("-c").arg(&whole).arg("-p").arg(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&tested.stderr);
    assert!(!said.contains("unknown directive") && !said.contains("invalid"), "{said}");
    assert!(said.contains("syntax is ok"), "{said}");
}

fn json(name: &str) -> serde_json::Value {
    serde_json::from_str(&text(name)).unwrap()
}

/// The registry's entry, the bundle and the npm package are of one product and one version, this one; and they set nothing that
/// the server does not know. `packaging/try` shows that what is made of them starts.
#[test]
fn the_packages_are_of_this_version_and_name_settings_that_exist() {
    let registry = json("server.json");
    let (bundle, npm) = (json("mcpb/manifest.json"), json("npm/package.json"));
    let name = registry["name"].as_str().unwrap();
    assert_eq!(name.split('/').nth(1), Some("pipefy-mcp-server"));
    assert!(registry["description"].as_str().unwrap().len() <= 100);
    assert_eq!(npm["mcpName"], name);
    assert!(
        text("README.md").contains(&format!("mcp-name: {name}\n"))
            || text("README.md").contains(&format!("mcp-name: {name} "))
    );
    for document in [&registry, &bundle, &npm] {
        assert_eq!(document["version"], env!("CARGO_PKG_VERSION"));
    }
    let mut names: Vec<String> = bundle["server"]["mcp_config"]["env"].as_object().unwrap().keys().cloned().collect();
    for package in registry["packages"].as_array().unwrap() {
        assert_eq!((&package["version"], &package["identifier"]), (&npm["version"], &npm["name"]));
        assert_eq!(package["transport"]["type"], "stdio");
        for variable in package["environmentVariables"].as_array().unwrap() {
            let name = variable["name"].as_str().unwrap();
            let secret = ["TOKEN", "SECRET"].iter().any(|end| name.ends_with(end));
            assert_eq!(variable["isSecret"].as_bool().unwrap_or(false), secret, "{name}");
            names.push(name.to_owned());
        }
    }
    for name in names {
        assert!(REGISTRY.iter().any(|variable| variable.env.contains(&name.as_str())), "{name} is no setting");
    }
    let asked = bundle["user_config"].as_object().unwrap();
    let config = bundle["server"]["mcp_config"].to_string();
    for (key, about) in asked {
        assert!(config.contains(&format!("${{user_config.{key}}}")), "{key} is asked for and not used");
        // A client leaves what it has no value for as it is written.
        assert!(about["required"] == true || about.get("default").is_some(), "{key}");
    }
}
