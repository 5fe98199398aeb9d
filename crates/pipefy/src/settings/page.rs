//! The documentation page of the settings, printed from the registry.

use std::fmt::Write;

use super::registry::{Group, Kind, REGISTRY, Variable};

const INTRO: &str = "\
# Settings

<!-- Printed from the registry in crates/pipefy/src/settings/registry.rs; do not edit. \
UPDATE_DOCS=1 cargo test -p pipefy settings rewrites it. -->

Each setting is taken from the first of these that has it: a command-line flag, the process environment, a `.env` file
in the working directory, `config.toml`, the default. Older names of a setting count as the setting: a legacy name in
the environment beats the new name in `.env`.

- **Environment**: names in any case. A variable that is set but empty is a value, and nearly every setting refuses it;
  for lists it means unset.
- **`.env`**: `KEY=value` lines; `${NAME}` and `${NAME:-default}` are expanded. Only the working directory is looked at.
  A line that cannot be read is skipped with a warning; one that names a `PIPEFY_` variable and does not set it (no `=`,
  a quote that is not closed) stops start-up.
- **`config.toml`**: in `$XDG_CONFIG_HOME/pipefy`, else `~/.config/pipefy` (also on macOS), on Windows in
  `%APPDATA%\\pipefy`; `PIPEFY_CONFIG_FILE` names another file (a warning where there is
  none; a folder or device is refused; `/dev/null` for no file), of at most 1 MiB. Keys are the names below, at the top level.
  Settings in a section `[accounts.NAME]` count before those at the top level while that account is chosen (`--account`,
  `PIPEFY_ACCOUNT`, `account`).
- **Switches** take `true/false`, `1/0`, `yes/no`, `y/n`, `t/f`, `on/off`. **Lists** take `[\"a\", \"b\"]` or `a,b`.
- An invalid value stops start-up with exit code 2. So does a name that is almost a safety setting (marked *): a
  misspelt `read_only` never means \"writes are allowed\".
- Secrets are never printed, also not in error messages.
";

const OUTRO: &str = "
## Variables of the surroundings

| Variable | Effect |
|---|---|
| `PIPEFY_CONFIG_FILE` | path of `config.toml` (process environment only) |
| `PIPEFY_IPAAS_CONNECTION_*` | values that an iPaaS connection may refer to with `{\"$env\": ...}`, local profile only |
| `XDG_CONFIG_HOME`, `APPDATA` | configuration directory |
| `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY` | proxies; what is on this machine, and downloads of a `file_url`, never use one |
| `SSL_CERT_FILE`, `SSL_CERT_DIR` | certificate authorities |
| `BROWSER` | browser for `pipefy auth login` |
| `NO_COLOR`, `FORCE_COLOR`, `COLUMNS`, `TERM` | human-readable output of the CLI |
";

/// The page `docs/settings.md`.
pub fn settings_page() -> String {
    let mut page = INTRO.to_owned();
    for (group, title, text) in [
        (Group::Pipefy, "Pipefy", "Used by the CLI and the server."),
        (Group::Auth, "Credentials", "Used by the CLI and by a server with profile `local`."),
        (Group::Policy, "What calls may do", "Used by the CLI and the server."),
        (Group::Mcp, "MCP server", ""),
        (Group::Jwt, "Inbound bearers (profile `remote`)", ""),
        (Group::ResourceServer, "OAuth resource identity (profile `remote`)", ""),
        (
            Group::Exchange,
            "Acting on behalf of callers (profile `remote`)",
            "Off until a client is set; see [hosted.md](hosted.md). Any of these without the client and its secret is an error.",
        ),
        (Group::Ipaas, "iPaaS (Advanced Automations)", ""),
    ] {
        let _ = write!(page, "\n## {title}\n\n");
        if !text.is_empty() {
            let _ = write!(page, "{text}\n\n");
        }
        page.push_str("| Key | Environment | Default | Value | Meaning |\n|---|---|---|---|---|\n");
        for variable in REGISTRY.iter().filter(|variable| variable.group == group) {
            page.push_str(&row(variable));
        }
    }
    page.push_str(OUTRO);
    page
}

fn row(variable: &Variable) -> String {
    let mut names: Vec<String> = variable.env.iter().map(|name| format!("`{name}`")).collect();
    names.extend(variable.deprecated.iter().map(|name| format!("`{name}` (deprecated)")));
    let value = match variable.kind {
        Kind::Choice(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            format!("{}; {}", words.join(", "), variable.rule)
        }
        Kind::Text if variable.secret => format!("secret: {}", variable.rule),
        Kind::List => format!("list: {}", variable.rule),
        _ => variable.rule.to_owned(),
    };
    format!(
        "| `{}`{} | {} | {} | {} | {} |\n",
        variable.key,
        if variable.guarded { " *" } else { "" },
        names.join(", "),
        variable.default.map_or_else(|| "unset".to_owned(), |text| format!("`{text}`")),
        value,
        variable.doc,
    )
}
