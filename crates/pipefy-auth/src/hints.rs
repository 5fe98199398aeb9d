//! What to do when the keychain does not take a session.

use std::path::Path;

/// The operating system, as far as keychains differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// macOS.
    MacOs,
    /// Linux.
    Linux,
    /// Windows.
    Windows,
    /// Anything else.
    Other,
}

impl Platform {
    /// The one this was built for.
    pub const fn current() -> Platform {
        if cfg!(target_os = "macos") {
            Platform::MacOs
        } else if cfg!(windows) {
            Platform::Windows
        } else if cfg!(target_os = "linux") {
            Platform::Linux
        } else {
            Platform::Other
        }
    }
}

const ESCAPE_HATCH: &str =
    "Or do without it: set PIPEFY_KEYCHAIN_BACKEND=file, or a static PIPEFY_TOKEN; see docs/cli/auth.md.";

/// Advice for the store that failed: by its name first, then by platform. One platform's advice never names another's.
pub fn keychain_hint(backend: &str, platform: Platform, config_dir: Option<&Path>) -> String {
    if backend == "PlaintextKeyring" {
        let dir = config_dir.map_or_else(|| "the configuration directory".to_owned(), |dir| dir.display().to_string());
        return format!("Check that {dir} is writable, or set a static PIPEFY_TOKEN; see docs/cli/auth.md.");
    }
    match platform {
        Platform::MacOs => format!(
            "errSecInvalidOwnerEdit (-25244) means that the item belongs to another program, or that this one may not ask: run \
             `pipefy auth logout`, or `security delete-generic-password -s pipefy`, then sign in once from Terminal.app and choose \
             Always Allow. {ESCAPE_HATCH}"
        ),
        Platform::Linux => format!(
            "Start and unlock a Secret Service daemon (gnome-keyring, or kwallet with its Secret Service) in this session. {ESCAPE_HATCH}"
        ),
        Platform::Windows => format!(
            "Look for pipefy entries in Credential Manager, and run `pipefy auth login` once from an interactive prompt. {ESCAPE_HATCH}"
        ),
        Platform::Other => format!("`pipefy auth status` shows what is stored. {ESCAPE_HATCH}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;

    #[test]
    fn each_platform_gets_its_own_advice() {
        let words = [
            (
                Platform::MacOs,
                vec![
                    "errSecInvalidOwnerEdit",
                    "-25244",
                    "security delete-generic-password -s pipefy",
                    "Terminal.app",
                    "Always Allow",
                ],
            ),
            (Platform::Linux, vec!["Secret Service", "gnome-keyring", "kwallet"]),
            (Platform::Windows, vec!["Credential Manager", "interactive prompt"]),
        ];
        for (platform, own) in &words {
            let hint = keychain_hint("Keyring", *platform, None);
            for word in own.iter().chain(&["PIPEFY_KEYCHAIN_BACKEND=file", "PIPEFY_TOKEN", "docs/cli/auth.md"]) {
                assert!(hint.contains(word), "{platform:?} lacks {word}");
            }
            for (other, foreign) in &words {
                assert!(other == platform || foreign.iter().all(|word| !hint.contains(word)), "{platform:?}: {hint}");
            }
            assert!(hint.is_ascii());
        }
        let file = keychain_hint("PlaintextKeyring", Platform::Linux, Some(Path::new("/home/ana/.config/pipefy")));
        for word in ["/home/ana/.config/pipefy", "writable", "PIPEFY_TOKEN", "docs/cli/auth.md"] {
            assert!(file.contains(word), "{file}");
        }
        assert!(!file.contains("gnome-keyring"));
        assert!(keychain_hint("x", Platform::Other, None).contains("pipefy auth status"));
    }
}
