//! Completion: the answers to shells, the scripts, and where they go.

use crate::rig::Rig;

#[test]
fn shells_get_words_in_their_form() {
    let rig = Rig::bare();
    let ask = |variables: &[(&str, &str)]| {
        let mut command = rig.command(&[]);
        // Completion works whatever the settings hold.
        command.envs(variables.iter().copied()).env("PIPEFY_BASE_URL", "nonsense");
        let run = rig.finished(command.output().unwrap());
        assert!(run.stderr.is_empty(), "{run}");
        (run.code.unwrap(), run.stdout)
    };
    let bash = [("_PIPEFY_COMPLETE", "complete_bash"), ("COMP_WORDS", "pipefy\norg\nl"), ("COMP_CWORD", "2")];
    assert_eq!(ask(&bash), (0, "list\n".to_owned()));
    let zsh = [("_PIPEFY_COMPLETE", "complete_zsh"), ("_TYPER_COMPLETE_ARGS", "pipefy card get --js")];
    assert_eq!(ask(&zsh), (0, "_arguments '*: :((\"--json\":\"Print JSON, for programs\"))'\n".to_owned()));
    let fish = |action| {
        [
            ("_PIPEFY_COMPLETE", "complete_fish"),
            ("_TYPER_COMPLETE_ARGS", "pipefy tools d"),
            ("_TYPER_COMPLETE_FISH_ACTION", action),
        ]
    };
    assert_eq!(ask(&fish("is-args")).0, 0);
    assert!(ask(&fish("get-args")).1.starts_with("describe\tShow a capability"));
    let power = [
        ("_PIPEFY_COMPLETE", "complete_powershell"),
        ("_TYPER_COMPLETE_ARGS", "pipefy org li"),
        ("_TYPER_COMPLETE_WORD_TO_COMPLETE", "li"),
    ];
    assert!(ask(&power).1.starts_with("list:::"));
    assert!(ask(&[("_PIPEFY_COMPLETE", "source_zsh")]).1.starts_with("#compdef pipefy"));
}

#[test]
fn installing_twice_changes_nothing_more() {
    let rig = Rig::bare();
    let install = |shell: &str| {
        let mut command = rig.command(&["--install-completion", shell]);
        command.env("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1");
        rig.finished(command.output().unwrap())
    };
    let read = |path: &str| std::fs::read_to_string(rig.home.path().join(path)).unwrap_or_default();
    for (shell, script, profile) in [
        ("bash", ".bash_completions/pipefy.sh", ".bashrc"),
        ("zsh", ".zfunc/_pipefy", ".zshrc"),
        ("fish", ".config/fish/completions/pipefy.fish", ""),
        ("pwsh", ".config/powershell/Microsoft.PowerShell_profile.ps1", ""),
    ] {
        let run = install(shell);
        assert_eq!(run.code, Some(0), "{run}");
        assert!(run.stdout.contains("restart the terminal"), "{run}");
        let first = (read(script), read(profile));
        assert!(first.0.contains("pipefy"), "{shell}");
        assert_eq!(install(shell).code, Some(0));
        assert_eq!((read(script), read(profile)), first, "{shell}");
    }
    assert_eq!(install("tcsh").code, Some(1));
    assert!(read(".bashrc").contains(".bash_completions/pipefy.sh"));
    assert!(read(".zshrc").contains("zstyle"));
}
