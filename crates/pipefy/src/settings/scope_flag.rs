//! The `--scope` flag of every program: `--scope pipes=1,2 --scope tables=3 --scope org=4`.

use super::layers::Overrides;
use super::registry::{SCOPE_ORG, SCOPE_PIPES, SCOPE_TABLES};

/// How the flag is written, for usage lines and errors.
pub const SCOPE_FLAG_USAGE: &str = "--scope takes pipes=ID,..., tables=ID,... or org=ID, and may be repeated";

/// Takes the values of every `--scope` into `overrides`; what is given for one key several times adds up. Ids are checked
/// with the settings.
///
/// # Errors
/// An unknown key, no `=`, or a key without ids: a restriction that is not understood is never dropped.
pub fn scope_flags<'a>(
    values: impl IntoIterator<Item = &'a str>,
    overrides: &mut Overrides,
) -> Result<(), &'static str> {
    let mut pins = [
        (&SCOPE_PIPES, "pipes", String::new()),
        (&SCOPE_TABLES, "tables", String::new()),
        (&SCOPE_ORG, "org", String::new()),
    ];
    for value in values {
        let (key, ids) = value.split_once('=').ok_or(SCOPE_FLAG_USAGE)?;
        let pin = pins.iter_mut().find(|(_, name, _)| *name == key.trim()).ok_or(SCOPE_FLAG_USAGE)?;
        if ids.split(',').all(|id| id.trim().is_empty()) {
            return Err(SCOPE_FLAG_USAGE);
        }
        if !pin.2.is_empty() {
            pin.2.push(',');
        }
        pin.2.push_str(ids.trim());
    }
    for (variable, _, ids) in pins {
        if !ids.is_empty() {
            overrides.set(variable, "--scope", ids);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::settings::{Environment, ScopePins, load_cli};

    fn pins(values: &[&str]) -> Result<ScopePins, String> {
        let mut overrides = Overrides::new();
        scope_flags(values.iter().copied(), &mut overrides).map_err(str::to_owned)?;
        let environment = Environment::empty().with_variable("PIPEFY_DISABLE_STORED_SESSION", "true");
        load_cli(&environment, &overrides).map(|loaded| loaded.policy.scope).map_err(|error| error.to_string())
    }

    #[test]
    fn repeated_keys_add_up() {
        let given = pins(&["pipes=1,2", "tables=abc", "pipes=3", "org=9"]).unwrap();
        assert_eq!(given.pipes.unwrap(), ["1", "2", "3"]);
        assert_eq!(given.tables.unwrap(), ["abc"]);
        assert_eq!(given.org.as_deref(), Some("9"));
        assert!(pins(&[]).unwrap().is_open());
    }

    #[test]
    fn what_is_not_understood_stops() {
        for bad in ["pipe=1", "pipes", "pipes=", "pipes= , ", "=1", "", "cards=1", "org=1,2", "pipes=1;2", "PIPES=1"] {
            assert!(pins(&[bad]).is_err(), "{bad}");
        }
        assert!(pins(&["org=1", "org=2"]).is_err());
    }
}
