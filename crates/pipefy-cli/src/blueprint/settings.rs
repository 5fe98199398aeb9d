//! The settings of things: how a file names them, how Pipefy reads and writes them, and what goes without saying.

use serde_json::{Map, Value};

use super::things::Kind;

/// One setting.
pub(super) struct Setting {
    /// In a file.
    pub(super) key: &'static str,
    /// In Pipefy's answers.
    read: &'static str,
    /// In what Pipefy is sent.
    pub(super) write: &'static str,
    rest: Rest,
}

/// The value that a setting has when nothing is said about it, which files leave out.
#[derive(Clone, Copy)]
enum Rest {
    Off,
    On,
    Blank,
    Zero,
    NoList,
}

impl Rest {
    fn value(self) -> Value {
        match self {
            Self::Off => false.into(),
            Self::On => true.into(),
            Self::Blank => "".into(),
            Self::Zero => 0.into(),
            Self::NoList => Value::Array(Vec::new()),
        }
    }
}

const fn setting(key: &'static str, api: &'static str, rest: Rest) -> Setting {
    Setting { key, read: api, write: api, rest }
}

const PIPE: &[Setting] = &[
    setting("name", "name", Rest::Blank),
    setting("icon", "icon", Rest::Blank),
    setting("color", "color", Rest::Blank),
];

const LABEL: &[Setting] = &[setting("color", "color", Rest::Blank)];

const PHASE: &[Setting] = &[
    setting("done", "done", Rest::Off),
    setting("color", "color", Rest::Blank),
    setting("description", "description", Rest::Blank),
    setting("late_after_seconds", "lateness_time", Rest::Zero),
    // Said in any case: what goes without saying depends on where the phase is.
    Setting {
        key: "takes_new_cards",
        read: "can_receive_card_directly_from_draft",
        write: "can_receive_card_directly_from_draft",
        rest: Rest::Blank,
    },
];

const FIELD: &[Setting] = &[
    setting("required", "required", Rest::Off),
    setting("editable", "editable", Rest::On),
    setting("options", "options", Rest::NoList),
    setting("description", "description", Rest::Blank),
    setting("help", "help", Rest::Blank),
    setting("minimal_view", "minimal_view", Rest::Off),
    setting("custom_validation", "custom_validation", Rest::Blank),
    Setting { key: "sync_with_card", read: "synced_with_card", write: "sync_with_card", rest: Rest::Off },
    setting("can_create_new", "canCreateNewConnected", Rest::On),
    setting("can_connect_existing", "canConnectExisting", Rest::On),
    setting("can_connect_multiple", "canConnectMultiples", Rest::On),
    setting("child_must_exist_to_finish", "childMustExistToFinishParent", Rest::Off),
    setting("children_must_be_done_to_finish", "allChildrenMustBeDoneToFinishParent", Rest::Off),
    setting("children_must_be_done_to_move", "allChildrenMustBeDoneToMoveParent", Rest::Off),
];

/// Settings that only a field which connects has.
const CONNECTOR: [&str; 6] = [
    "can_create_new",
    "can_connect_existing",
    "can_connect_multiple",
    "child_must_exist_to_finish",
    "children_must_be_done_to_finish",
    "children_must_be_done_to_move",
];

const CONNECTION: &[Setting] = &[
    setting("can_create_new", "canCreateNewItems", Rest::On),
    setting("can_connect_existing", "canConnectExistingItems", Rest::On),
    setting("can_connect_multiple", "canConnectMultipleItems", Rest::On),
    setting("fills_fields", "autoFillFieldEnabled", Rest::Off),
    setting("child_must_exist_to_move", "childMustExistToMoveParent", Rest::Off),
    setting("child_must_exist_to_finish", "childMustExistToFinishParent", Rest::Off),
    setting("children_must_be_done_to_move", "allChildrenMustBeDoneToMoveParent", Rest::Off),
    setting("children_must_be_done_to_finish", "allChildrenMustBeDoneToFinishParent", Rest::Off),
];

const AUTOMATION: &[Setting] = &[
    setting("active", "active", Rest::On),
    setting("event", "event_id", Rest::Blank),
    setting("action", "action_id", Rest::Blank),
    setting("every", "scheduler_frequency", Rest::Blank),
    setting("cron", "schedulerCron", Rest::Blank),
    setting("response_schema", "responseSchema", Rest::Blank),
];

/// The settings of a kind that are values of their own.
pub(super) fn of(kind: Kind) -> &'static [Setting] {
    match kind {
        Kind::Pipe => PIPE,
        Kind::Label => LABEL,
        Kind::Phase => PHASE,
        Kind::Field => FIELD,
        Kind::Condition => &[],
        Kind::Connection => CONNECTION,
        Kind::Automation => AUTOMATION,
    }
}

/// Everything that a body of a kind may hold, in the order in which files show it.
pub(super) fn keys(kind: Kind) -> Vec<&'static str> {
    let before: &[&str] = match kind {
        Kind::Field => &["type", "connects"],
        Kind::Connection => &["pipe", "table"],
        _ => &[],
    };
    let after: &[&str] = match kind {
        Kind::Condition => &["when", "actions"],
        Kind::Connection => &["fields"],
        Kind::Automation => &["event_params", "when", "search", "in", "action_params"],
        _ => &[],
    };
    before.iter().copied().chain(of(kind).iter().map(|setting| setting.key)).chain(after.iter().copied()).collect()
}

/// What an answer says about a thing, without what goes without saying.
pub(super) fn read(kind: Kind, row: &Value) -> Map<String, Value> {
    let connects = row.get("type").and_then(Value::as_str) == Some("connector");
    let mut body = Map::new();
    for setting in of(kind) {
        if kind == Kind::Field && !connects && CONNECTOR.contains(&setting.key) {
            continue;
        }
        if let Some(value) = row.get(setting.read) {
            body.insert(setting.key.to_owned(), value.clone());
        }
    }
    quiet(kind, &mut body);
    body
}

/// Takes out what goes without saying.
pub(super) fn quiet(kind: Kind, body: &mut Map<String, Value>) {
    let rest = |key: &str| of(kind).iter().find(|setting| setting.key == key).map(|setting| setting.rest.value());
    body.retain(|key, value| !value.is_null() && rest(key).is_none_or(|rest| *value != rest));
}

/// What Pipefy is sent for the settings of a body: those of `only`, or all that it holds. A setting that is gone gets the value
/// that goes without saying.
pub(super) fn write(kind: Kind, body: &Map<String, Value>, only: Option<&[&str]>) -> Map<String, Value> {
    let mut sent = Map::new();
    for setting in of(kind) {
        let value = body.get(setting.key);
        match only {
            Some(only) if only.contains(&setting.key) => {
                sent.insert(setting.write.to_owned(), value.cloned().unwrap_or_else(|| setting.rest.value()));
            }
            None => sent.extend(value.map(|value| (setting.write.to_owned(), value.clone()))),
            Some(_) => {}
        }
    }
    sent
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use serde_json::json;

    #[test]
    fn what_goes_without_saying_is_left_out_and_comes_back() {
        let row = json!({"type": "number", "required": true, "editable": true, "help": null, "options": [], "canConnectExisting": false});
        let body = read(Kind::Field, &row);
        assert_eq!(Value::Object(body.clone()), json!({"required": true}));
        let sent = write(Kind::Field, &body, Some(&["required", "help", "options", "editable"]));
        assert_eq!(Value::Object(sent), json!({"required": true, "editable": true, "options": [], "help": ""}));
        let connector = json!({"type": "connector", "canConnectExisting": false, "synced_with_card": true});
        let body = read(Kind::Field, &connector);
        let sent = Value::Object(write(Kind::Field, &body, None));
        assert_eq!(sent, json!({"sync_with_card": true, "canConnectExisting": false}));
    }
}
