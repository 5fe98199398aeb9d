//! Commands about this program: signing in, the capabilities by name, the sandbox.

use crate::command::{Command, Form, Preset, choice, flag, float, int, object, path, text, word};
use crate::{auth, config, doctor, man, mcp, sandbox, skills, tools};

pub(super) static COMMANDS: &[Command] = &[
    Command::local("auth login", "Sign in with the browser; the session is kept in the keychain", auth::login)
        .form(Form::Text)
        .takes(&[
            flag("--no-browser", "no_browser", "Print the URL instead of opening a browser"),
            float("--callback-timeout", "callback_timeout", "Seconds to wait for the browser")
                .at_least(5.0)
                .or(Preset::Float(180.0)),
            flag("--device", "device", "Sign in by a code that is entered on any device"),
        ]),
    Command::local("auth status", "Show who is signed in, and how", auth::show),
    Command::local("auth logout", "End the session and remove it from the keychain", auth::logout).form(Form::Text),
    Command::local("tools list", "List every capability, with its command where it has one", tools::list).takes(&[
        text("--domain", "domain", "Only this domain, e.g. workflow"),
        text("--match", "match", "Only names and descriptions that contain this"),
    ]),
    Command::local(
        "tools search",
        "Find capabilities by what you want done (English, Portuguese or Spanish), best first",
        tools::search,
    )
    .takes(&[
        word("query", "What you want done, e.g. \"move the card to approved\""),
        int("--limit", "limit", "At most so many").range(1, 500).or(Preset::Int(10)),
    ]),
    Command::local(
        "tools describe",
        "Show a capability: what it does and the JSON schema of its arguments",
        tools::describe,
    )
    .takes(&[word("name", "Tool name, e.g. get_card")]),
    Command::local("tools call", "Call a capability by its tool name", tools::call).takes(&[
        word("name", "Tool name, e.g. get_card"),
        object("--args", "args", "Arguments as a JSON object, shared options such as fields or dry_run included"),
        flag("--yes -y", "yes", "Do what needs a confirmation without asking"),
    ]),
    Command::local("config show", "Show the settings, their values and where those come from", config::show)
        .takes(&[flag("--all", "all", "Also those that have their default")]),
    Command::local("doctor", "Look what stands between this machine and Pipefy", doctor::examine),
    Command::local("man", "Write the manual pages, one per command, into a folder", man::write)
        .form(Form::Text)
        .takes(&[word("folder", "Folder, created where there is none")]),
    Command::local("mcp install", "Register the MCP server with a client", mcp::install).form(Form::Text).takes(&[
        choice("--client", "client", mcp::CLIENTS, "Whose settings are changed").required(),
        text("--name", "name", "Name of the entry").or(Preset::Text("pipefy")),
        path("--server", "server", "Program to start; the pipefy-mcp-server beside this one when not given"),
        flag("--read-only", "read_only", "Let it change nothing"),
        text("--env", "env", "NAME=VALUE for the server; may be repeated").many(),
    ]),
    Command::local(
        "mcp scan",
        "Show the registrations that clients have; exit code 1 when there is one, 2 when a file cannot be read",
        mcp::scan,
    ),
    Command::local("mcp uninstall", "Take the MCP server out of a client's settings", mcp::uninstall)
        .form(Form::Text)
        .takes(&[choice("--client", "client", mcp::CLIENTS, "Whose settings are changed").required()]),
    Command::local("sandbox serve", "Serve a sandbox on this machine until Ctrl-C", sandbox::serve)
        .form(Form::Text)
        .takes(&[
            int("--port", "port", "Port to listen on; 0 takes a free one").range(0, 65_535),
            path("--data", "data", "File that keeps the data, or :memory:; the sandbox's own file when not given"),
            int("--seed", "seed", "Number that decides ids and contents of fresh data").range(0, i64::MAX),
        ]),
    Command::local("skills list", "List the playbooks that agents can have as skills", skills::list),
    Command::local("skills show", "Print the skill file of a playbook", skills::show)
        .form(Form::Text)
        .takes(&[word("name", "Name, e.g. set-up-pipe")]),
    Command::local("skills install", "Put the skill files where an agent looks for them", skills::install)
        .form(Form::Text)
        .takes(&[
            choice("--client", "client", skills::CLIENTS, "The agent, for all of your projects"),
            path("--dir", "dir", "A folder instead, e.g. .claude/skills of a project"),
            text("--skill", "skill", "Only this one; may be repeated").many(),
            flag("--force", "force", "Replace files that somebody has changed"),
        ]),
];
