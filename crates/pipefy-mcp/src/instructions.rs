//! What a model is told about this server when it connects: what it is, and once for all tools the options many of them
//! share.

/// Sent with `initialize` and `server/discover`. Every byte is paid for in each conversation.
pub const INSTRUCTIONS: &str = "\
Pipefy: Kanban-style processes (pipes, phases, cards), database tables, automations, AI agents, portals and reports.
Options that many tools share; every tool that reads takes the first three and what they name, listed or not:
- fields: only these fields of each item, e.g. [\"id\", \"title\"], of cards and records also form fields by label; saves \
room in large results.
- format: compact gives lists as columns and rows, csv as CSV text.
- all: follow the pages up to max_items (5000) and max_seconds (60); `complete` says whether that was everything, \
`returned` and `total` how much, `next_cursor` (or a page's end_cursor) where to go on, as `after`.
- dry_run: lists what would be sent and sends nothing.
- verify: reads the change back and says whether it took effect.
- idempotency_key: every write takes it, listed or not: the same call with the same key changes something once, and says \
what came of it. Use a fresh UUID for each change.
- confirm, confirmation_token: what destroys something previews first. Show the preview to the user; after explicit approval \
call again with the same arguments, confirm=true and the preview's token (valid 5 minutes).
- debug: adds error codes and a correlation id for Pipefy's support.
A result with success=false says what failed and what to do. `truncated` says what was cut and how to get the rest.";
