//! Manual pages, the Debian package, the installer, and completion in real shells.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use axum::Router;
use axum::routing::get;

use crate::rig::Rig;

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

/// Whether this machine has a program; a line says when a test is left out.
pub(crate) fn there_is(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("not run: there is no {program} on this machine");
    }
    found
}

/// Every command, as the golden tree has it.
fn commands() -> serde_json::Map<String, serde_json::Value> {
    const TREE: &str =
        include_str!("../../src/snapshots/pipefy__contract_tests__the_tree_of_commands_changes_on_purpose_only.snap");
    serde_json::from_str(TREE.splitn(3, "---\n").nth(2).unwrap()).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn said(output: &Output) -> String {
    format!("{}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr))
}

/// A program that only starts the real one, so that packages stay small.
fn stand_in(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let path = folder.join("pipefy");
    std::fs::write(&path, format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_pipefy"))).unwrap();
    assert!(Command::new("chmod").arg("755").arg(&path).status().unwrap().success());
}

#[test]
fn every_command_has_a_manual_page() {
    let rig = Rig::bare();
    let run = rig.run(&["man", "pages"]);
    assert_eq!(run.code, Some(0), "{run}");
    let folder = rig.home.path().join("pages");
    let page = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert!(page("pipefy.1").contains("pipefy\\-card(1)"), "{}", page("pipefy.1"));
    assert!(page("pipefy-pipe-apply.1").contains("\\-\\-dry\\-run"));
    for (path, row) in commands() {
        let page = page(&format!("pipefy-{}.1", path.replace(' ', "-")));
        for takes in row["takes"].as_array().unwrap() {
            let name = takes["name"].as_str().unwrap();
            if let Some(flag) = name.split(' ').next().filter(|name| name.starts_with('-')) {
                assert!(page.contains(&flag.replace('-', "\\-")), "{path} {flag}");
            }
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_debian_package_holds_what_it_should() {
    if !there_is("dpkg-deb") || !there_is("gzip") {
        return;
    }
    let rig = Rig::bare();
    let (programs, out) = (rig.home.path().join("programs"), rig.home.path().join("out"));
    stand_in(&programs);
    let built = Command::new(packaging("deb")).args([&programs, &out]).env("DEB_COMPRESSION", "gzip").output().unwrap();
    assert!(built.status.success(), "{}", said(&built));
    let package = std::fs::read_dir(&out).unwrap().next().unwrap().unwrap().path();
    let ask = |what: &str| text(&Command::new("dpkg-deb").arg(what).arg(&package).output().unwrap().stdout);
    let info = ask("--info");
    let version = rig.run(&["--version"]).stdout;
    for line in ["Package: pipefy", &format!("Version: {}", version.trim()), "Depends: libc6"] {
        assert!(info.contains(line), "{info}");
    }
    let contents = ask("--contents");
    for path in [
        "./usr/bin/pipefy",
        "./usr/share/man/man1/pipefy.1.gz",
        "./usr/share/man/man1/pipefy-card-get.1.gz",
        "./usr/share/bash-completion/completions/pipefy",
        "./usr/share/zsh/vendor-completions/_pipefy",
        "./usr/share/fish/vendor_completions.d/pipefy.fish",
        "./usr/share/doc/pipefy/copyright",
    ] {
        assert!(contents.lines().any(|line| line.ends_with(path) && line.contains("root/root")), "{path}\n{contents}");
    }
    // A step that fails fails the whole.
    let failed = Command::new(packaging("deb")).args([&rig.home.path().join("nowhere"), &out]).output().unwrap();
    assert!(!failed.status.success());
}

/// Serves files of these names and texts; gives the address.
fn serve(rig: &Rig, files: Vec<(String, Vec<u8>)>) -> String {
    rig.block_on(async {
        let mut router = Router::new();
        for (name, bytes) in files {
            router = router.route(&format!("/{name}"), get(move || async move { bytes.clone() }));
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("http://{address}")
    })
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn the_installer_installs_what_fits_its_checksum_and_nothing_else() {
    if !there_is("curl") || !there_is("tar") || !there_is("sha256sum") {
        return;
    }
    let rig = Rig::new();
    let folder = rig.home.path().join("archive");
    stand_in(&folder);
    let sh = |script: &str| {
        let output = Command::new("sh").arg("-c").arg(script).current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        output.stdout
    };
    sh(
        "tar -czf good.tar.gz pipefy; echo x > pipefx; tar -czf empty.tar.gz pipefx; printf '#!/bin/sh\\nexit 3\\n' > pipefy; tar -czf broken.tar.gz pipefy",
    );
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let sum = |name: &str| sh(&format!("sha256sum {name}"));
    let name = |version: &str| format!("pipefy-{version}-x86_64-unknown-linux-gnu.tar.gz");
    let good = read("good.tar.gz");
    let mut bent = good.clone();
    let middle = bent.len() / 2;
    bent[middle] ^= 1;
    let mut files = vec![
        (name("nosum"), good.clone()),
        (name("cut"), good.clone()),
        (format!("{}.sha256", name("cut")), Vec::new()),
    ];
    for (version, bytes, from) in [
        ("latest", good, "good.tar.gz"),
        ("bent", bent, "good.tar.gz"),
        ("empty", read("empty.tar.gz"), "empty.tar.gz"),
        ("broken", read("broken.tar.gz"), "broken.tar.gz"),
    ] {
        files.push((name(version), bytes));
        files.push((format!("{}.sha256", name(version)), sum(from)));
    }
    let url = serve(&rig, files);
    let to = rig.home.path().join("bin");
    let install = |args: &[&str]| {
        let mut command = Command::new("sh");
        command.arg(packaging("install.sh")).args(args).arg("--to").arg(&to);
        command.output().unwrap()
    };
    for (version, wanted) in [
        ("nosuch", "cannot be fetched"),
        ("nosum", "cannot be fetched"),
        ("cut", "checksum"),
        ("bent", "checksum"),
        ("empty", "holds no program"),
        ("broken", "does not run"),
    ] {
        let output = install(&["--from", &url, "--version", version]);
        assert!(!output.status.success() && said(&output).contains(wanted), "{version}: {}", said(&output));
        assert!(!to.join("pipefy").exists(), "{version}");
    }
    assert!(said(&install(&["--from", "http://example.com"])).contains("is not https"));
    assert!(!install(&[]).status.success());
    for _ in 0..2 {
        let output = install(&["--from", &url]);
        assert!(output.status.success(), "{}", said(&output));
    }
    let version = Command::new(to.join("pipefy")).arg("--version").output().unwrap();
    assert_eq!(text(&version.stdout), rig.run(&["--version"]).stdout);
    let left: Vec<_> = std::fs::read_dir(&to).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn scripts_are_clean() {
    if there_is("shellcheck") {
        for script in ["deb", "install.sh"] {
            let output = Command::new("shellcheck").arg(packaging(script)).output().unwrap();
            assert!(output.status.success(), "{}", said(&output));
        }
    }
}

/// Whether a shell offers something. Ids are offered within a moment only: on a machine that stands still it may take some tries.
fn offers(rig: &Rig, shell: &str, script: &str, wanted: impl Fn(&str) -> bool) {
    let mut last = String::new();
    for _ in 0..20 {
        last = offered(rig, shell, script);
        if wanted(&last) {
            return;
        }
    }
    panic!("{shell}: {script}: {last}");
}

/// What a shell offers behind a line, with completion as it is installed.
fn offered(rig: &Rig, shell: &str, script: &str) -> String {
    let program = rig.home.path().join("programs");
    stand_in(&program);
    let mut command = Command::new(shell);
    command.args(["-c", script]).env_clear().env("HOME", rig.home.path()).env("TERM", "dumb");
    command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", program.display()));
    command.env("PIPEFY_BASE_URL", rig.url()).env("PIPEFY_ALLOW_INSECURE_URLS", "true");
    command.env("PIPEFY_TOKEN", pipefy_sandbox::DEFAULT_TOKEN).env("PIPEFY_KEYCHAIN_BACKEND", "file");
    let output = command.current_dir(rig.home.path()).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{shell}: {}", said(&output));
    text(&output.stdout)
}

#[test]
fn real_shells_complete_words_and_ids() {
    let rig = Rig::new();
    let pipe = rig.pipe("Contract Review");
    let phase = rig.json(&["pipe", "get", &pipe, "--json"])["pipe"]["phases"][0]["id"].as_str().unwrap().to_owned();
    let lines: [(&str, &str); 4] = [
        ("pipefy org l", "list"),
        ("pipefy pipe get ", pipe.as_str()),
        ("pipefy card list --pipe ", pipe.as_str()),
        ("pipefy phase get ", phase.as_str()),
    ];
    if there_is("bash") {
        for (line, wanted) in lines {
            let script = format!(
                "eval \"$(_PIPEFY_COMPLETE=source_bash pipefy)\"; COMP_WORDS=({line}); [ -z '{}' ] || COMP_WORDS+=(''); \
                 COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _pipefy_completion pipefy; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
                if line.ends_with(' ') { "x" } else { "" }
            );
            offers(&rig, "bash", &script, |all| all.lines().any(|offer| offer == wanted));
        }
    }
    if there_is("fish") {
        for (line, wanted) in lines {
            let script = format!("env _PIPEFY_COMPLETE=source_fish pipefy | source; complete --do-complete '{line}'");
            offers(&rig, "fish", &script, |all| all.lines().any(|offer| offer.split('\t').next() == Some(wanted)));
        }
    }
    if there_is("zsh") {
        // The function is called with what the line editor would give it; `_arguments` tells what it is handed.
        for (line, wanted) in lines {
            let script = format!(
                "compdef() {{ :; }}; _arguments() {{ print -r -- \"$@\"; }}; _files() {{ :; }}; \
                 eval \"$(_PIPEFY_COMPLETE=source_zsh pipefy)\"; words=(${{=:-{line}}}); [[ '{line}' == *' ' ]] && words+=(''); \
                 CURRENT=${{#words}}; _pipefy_completion"
            );
            offers(&rig, "zsh", &script, |all| all.contains(wanted));
        }
    }
}

#[test]
fn ids_are_offered_in_silence_and_for_a_moment_only() {
    let ask = |rig: &Rig, line: &str| {
        let mut command = rig.command(&[]);
        command.env("_PIPEFY_COMPLETE", "complete_fish").env("_TYPER_COMPLETE_ARGS", line);
        command.env("_TYPER_COMPLETE_FISH_ACTION", "get-args");
        rig.finished(command.output().unwrap())
    };
    let rig = Rig::new();
    // On a machine that stands still there may be nothing to offer within the moment, which is as it should be.
    let offered = (0..20).map(|_| ask(&rig, "pipefy pipe get ")).find(|run| run.stdout.contains("\tContract Review"));
    assert!(offered.is_some(), "{}", ask(&rig, "pipefy pipe get "));
    let pipe = rig.pipe("Contract Review");
    let run = ask(&rig, &format!("pipefy card create {pipe} --phase-id "));
    assert!(run.stderr.is_empty(), "{run}");
    // Nobody signed in, nobody there, an answer that never comes, settings that are nonsense.
    for (name, value) in [
        ("PIPEFY_TOKEN", ""),
        ("PIPEFY_BASE_URL", "http://127.0.0.1:9"),
        ("PIPEFY_BASE_URL", "nonsense"),
        ("PIPEFY_READ_ONLY", "perhaps"),
    ] {
        let mut command = rig.command(&[]);
        command
            .env("_PIPEFY_COMPLETE", "complete_bash")
            .env("COMP_WORDS", "pipefy\npipe\nget\n")
            .env("COMP_CWORD", "3");
        let run = rig.finished(command.env(name, value).output().unwrap());
        assert!(run.code == Some(0) && run.stdout.is_empty() && run.stderr.is_empty(), "{name}={value}\n{run}");
    }
    let url = format!("{}/_sandbox/faults", rig.url());
    rig.block_on(async {
        let plan = serde_json::json!({ "latency_ms": 60_000, "rules": [] });
        reqwest::Client::new().post(url).json(&plan).send().await.unwrap();
    });
    let started = std::time::Instant::now();
    let run = ask(&rig, "pipefy pipe get ");
    assert!(run.stdout.is_empty() && run.stderr.is_empty(), "{run}");
    // Far from the latency, whatever else this machine does.
    assert!(started.elapsed() < std::time::Duration::from_secs(40));
}
