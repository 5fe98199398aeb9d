//! `keyring.cfg`: sessions in a file, for hosts without a credential store. Only when asked for.
//!
//! INI text as Python's `keyring` writes it: section and option are escaped names, the value is base64 over
//! continuation lines. Other sections and options are kept as they are, byte for byte.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretString};

use super::{SERVICE, SecretStore, StoreError};
use crate::lock::create_private_dir;

/// A plain-text store in a file with mode 0600. Written whole and renamed into place, so a reader never sees half.
#[derive(Clone, Debug)]
pub struct FileStore {
    path: PathBuf,
}

impl FileStore {
    /// A store in `path`; nothing is read or created yet.
    pub fn new(path: PathBuf) -> FileStore {
        FileStore { path }
    }

    fn read(&self) -> Result<Ini, StoreError> {
        let bytes = match std::fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Ini::default()),
            Err(error) => return Err(self.failed("read", &error)),
        };
        let damaged = |reason: &str| StoreError::Damaged { path: self.path.clone(), reason: reason.to_owned() };
        let text = String::from_utf8(bytes).map_err(|_| damaged("it is not UTF-8"))?;
        Ini::parse(&text).map_err(|line| damaged(&format!("line {line} is not INI")))
    }

    fn write(&self, ini: &Ini) -> Result<(), StoreError> {
        write_private(&self.path, ini.text().as_bytes()).map_err(|error| self.failed("written", &error))
    }

    fn failed(&self, what: &str, error: &std::io::Error) -> StoreError {
        StoreError::Failed(format!("{} could not be {what} ({})", self.path.display(), error.kind()))
    }
}

/// Writes a file that only its owner may read, atomically: a temporary file beside it, then a rename.
pub(super) fn write_private(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let (temporary, opened) = create_beside(path)?;
    let written = opened.and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    let done = written.and_then(|()| std::fs::rename(&temporary, path));
    if done.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    done
}

/// Whether [`write_private`] could do its work. The folder is made where it is missing.
fn can_write_beside(path: &Path) -> std::io::Result<()> {
    let (temporary, opened) = create_beside(path)?;
    opened?;
    std::fs::remove_file(temporary)
}

/// A temporary file in the folder of `path`, empty and private.
fn create_beside(path: &Path) -> std::io::Result<(PathBuf, std::io::Result<std::fs::File>)> {
    let dir = path.parent().unwrap_or(Path::new("."));
    create_private_dir(dir)?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("store");
    let temporary = dir.join(format!(".{name}.{}", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let opened = options.open(&temporary);
    Ok((temporary, opened))
}

impl SecretStore for FileStore {
    fn name(&self) -> String {
        "PlaintextKeyring".to_owned()
    }

    fn check(&self, _account: &str) -> Result<(), StoreError> {
        match self.read() {
            // The next write puts it aside.
            Ok(_) | Err(StoreError::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
        can_write_beside(&self.path).map_err(|error| self.failed("written", &error))
    }

    fn get(&self, account: &str) -> Result<Option<SecretString>, StoreError> {
        let ini = self.read()?;
        let Some(value) = ini.get(&escape(SERVICE), &escape(account)) else { return Ok(None) };
        let packed: String = value.chars().filter(|c| !c.is_whitespace()).collect();
        // A value that is not base64 is there but is no session.
        let text = STANDARD.decode(packed).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        Ok(Some(text.unwrap_or_default().into()))
    }

    fn set(&self, account: &str, value: &SecretString) -> Result<(), StoreError> {
        let mut ini = match self.read() {
            Err(StoreError::Damaged { .. }) => {
                let aside = self.path.with_extension("cfg.damaged");
                std::fs::rename(&self.path, &aside).map_err(|error| self.failed("put aside", &error))?;
                tracing::warn!("{} was damaged and is now {}", self.path.display(), aside.display());
                Ini::default()
            }
            read => read?,
        };
        ini.set(&escape(SERVICE), &escape(account), &STANDARD.encode(value.expose_secret()));
        self.write(&ini)
    }

    fn delete(&self, account: &str) -> Result<bool, StoreError> {
        let mut ini = self.read()?;
        if !ini.remove(&escape(SERVICE), &escape(account)) {
            return Ok(false);
        }
        self.write(&ini)?;
        Ok(true)
    }
}

/// Every byte outside `[A-Za-z0-9]` becomes `_XX`; names are compared in lower case.
fn escape(name: &str) -> String {
    let mut escaped = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() {
            escaped.push(char::from(byte.to_ascii_lowercase()));
        } else {
            escaped.push_str(&format!("_{byte:02x}"));
        }
    }
    escaped
}

/// An INI file as its lines, so that what is not ours is kept as it is.
#[derive(Default)]
struct Ini {
    /// Lines before the first section.
    head: Vec<String>,
    sections: Vec<Section>,
}

struct Section {
    header: String,
    name: String,
    items: Vec<Item>,
}

enum Item {
    Other(String),
    Option { name: String, value: String, lines: Vec<String> },
}

impl Ini {
    /// Parses; the error is the number of the line that cannot be read.
    fn parse(text: &str) -> Result<Ini, usize> {
        let mut ini = Ini::default();
        for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            let trimmed = line.trim();
            let blank = trimmed.is_empty();
            let comment = trimmed.starts_with(['#', ';']);
            let indented = line.starts_with([' ', '\t']);
            let Some(section) = ini.sections.last_mut() else {
                match header(trimmed) {
                    Some(name) if !indented => ini.sections.push(Section::new(line, name)),
                    _ if blank || comment => ini.head.push(line.to_owned()),
                    _ => return Err(at + 1),
                }
                continue;
            };
            if let Some(Item::Option { value, lines, .. }) = section.items.last_mut()
                && (blank || indented)
            {
                if !comment {
                    value.push('\n');
                    value.push_str(trimmed);
                }
                lines.push(line.to_owned());
            } else if blank || comment {
                section.items.push(Item::Other(line.to_owned()));
            } else if let Some(name) = header(trimmed) {
                ini.sections.push(Section::new(line, name));
            } else {
                let (name, value) = trimmed.split_once(['=', ':']).ok_or(at + 1)?;
                if name.trim().is_empty() {
                    return Err(at + 1);
                }
                section.items.push(Item::Option {
                    name: name.trim().to_lowercase(),
                    value: value.trim().to_owned(),
                    lines: vec![line.to_owned()],
                });
            }
        }
        Ok(ini)
    }

    fn get(&self, section: &str, option: &str) -> Option<&str> {
        let sections = self.sections.iter().filter(|found| found.name.eq_ignore_ascii_case(section));
        sections.flat_map(|section| &section.items).find_map(|item| match item {
            Item::Option { name, value, .. } if name == option => Some(value.as_str()),
            _ => None,
        })
    }

    fn set(&mut self, section: &str, option: &str, value: &str) {
        let mut lines = vec![format!("{option} = ")];
        let mut rest = value;
        while !rest.is_empty() {
            let (line, tail) = rest.split_at_checked(76.min(rest.len())).unwrap_or((rest, ""));
            lines.push(format!("\t{line}"));
            rest = tail;
        }
        lines.push("\t".to_owned());
        let new = Item::Option { name: option.to_owned(), value: value.to_owned(), lines };
        let found = self.sections.iter_mut().find(|found| found.name.eq_ignore_ascii_case(section));
        let Some(found) = found else {
            let mut section = Section::new(&format!("[{section}]"), section);
            section.items.push(new);
            section.items.push(Item::Other(String::new()));
            self.sections.push(section);
            return;
        };
        let place = found.items.iter().position(|item| matches!(item, Item::Option { name, .. } if name == option));
        match place.and_then(|place| found.items.get_mut(place)) {
            Some(old) => {
                // Blank lines that separate it from what follows stay.
                let blanks = match old {
                    Item::Option { lines, .. } => lines.iter().rev().take_while(|line| line.is_empty()).count(),
                    Item::Other(_) => 0,
                };
                *old = new;
                if let Item::Option { lines, .. } = old {
                    lines.extend(std::iter::repeat_n(String::new(), blanks));
                }
            }
            None => {
                let end = found.items.iter().rposition(|item| matches!(item, Item::Option { .. }));
                found.items.insert(end.map_or(0, |at| at + 1), new);
            }
        }
    }

    fn remove(&mut self, section: &str, option: &str) -> bool {
        let mut removed = false;
        for section in self.sections.iter_mut().filter(|found| found.name.eq_ignore_ascii_case(section)) {
            section.items.retain(|item| {
                let hit = matches!(item, Item::Option { name, .. } if name == option);
                removed |= hit;
                !hit
            });
        }
        removed
    }

    fn text(&self) -> String {
        let mut lines: Vec<&str> = self.head.iter().map(String::as_str).collect();
        for section in &self.sections {
            lines.push(&section.header);
            for item in &section.items {
                match item {
                    Item::Other(line) => lines.push(line),
                    Item::Option { lines: own, .. } => lines.extend(own.iter().map(String::as_str)),
                }
            }
        }
        let mut text = lines.join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        text
    }
}

impl Section {
    fn new(header: &str, name: &str) -> Section {
        Section { header: header.to_owned(), name: name.to_owned(), items: Vec::new() }
    }
}

fn header(line: &str) -> Option<&str> {
    line.strip_prefix('[')?.split_once(']').map(|(name, _)| name).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;

    const ACCOUNT: &str = "signin.pipefy.com|pipefy-cli";

    fn store() -> (tempfile::TempDir, FileStore) {
        let dir = tempfile::tempdir().unwrap();
        let store = FileStore::new(dir.path().join("new/pipefy/keyring.cfg"));
        (dir, store)
    }

    fn get(store: &FileStore, account: &str) -> Option<String> {
        store.get(account).unwrap().map(|value| value.expose_secret().to_owned())
    }

    #[test]
    fn names_are_escaped_like_pythons() {
        assert_eq!(escape(ACCOUNT), "signin_2epipefy_2ecom_7cpipefy_2dcli");
        assert_eq!(escape("pipefy"), "pipefy");
        assert_eq!(escape("A\u{e9}"), "a_c3_a9");
    }

    #[test]
    fn entries_come_go_and_stay_private() {
        let (_dir, store) = store();
        assert_eq!(get(&store, ACCOUNT), None);
        assert!(!store.delete(ACCOUNT).unwrap());
        store.set(ACCOUNT, &"x".repeat(100).into()).unwrap();
        assert_eq!(get(&store, ACCOUNT).unwrap(), "x".repeat(100));
        let text = std::fs::read_to_string(&store.path).unwrap();
        let line = format!("\t{}", "eHh4".repeat(19));
        assert!(text.starts_with(&format!("[pipefy]\nsignin_2epipefy_2ecom_7cpipefy_2dcli = \n{line}\n\t")), "{text}");
        assert!(text.ends_with("\n\t\n\n"), "{text:?}");
        store.set(ACCOUNT, &"short".to_owned().into()).unwrap();
        store.set("other", &"o".to_owned().into()).unwrap();
        assert_eq!((get(&store, ACCOUNT).unwrap(), get(&store, "OTHER").unwrap()), ("short".into(), "o".into()));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&store.path), mode(store.path.parent().unwrap())), (0o600, 0o700));
        }
        assert!(store.delete(ACCOUNT).unwrap());
        assert_eq!((get(&store, ACCOUNT), get(&store, "other").unwrap()), (None, "o".into()));
        assert!(store.delete("other").unwrap());
        assert!(std::fs::read_to_string(&store.path).unwrap().starts_with("[pipefy]"));
        let left: Vec<_> = std::fs::read_dir(store.path.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "no temporary file is left");
    }

    #[test]
    fn any_layout_is_read_and_the_rest_of_the_file_is_kept() {
        let (_dir, store) = store();
        std::fs::create_dir_all(store.path.parent().unwrap()).unwrap();
        let text = "# mine\n\n[other]\na = 1\n  two\nb: 2\n\n[Pipefy]\n; note\nSIGNIN_2Epipefy_2ecom_7cpipefy_2dcli=\n   eDE=\nz = eA==\n\n[last]\nc=3\n";
        std::fs::write(&store.path, text).unwrap();
        assert_eq!(get(&store, ACCOUNT).unwrap(), "x1");
        assert_eq!(get(&store, "z").unwrap(), "x");
        store.set("new", &"n".to_owned().into()).unwrap();
        store.set("z", &"y".to_owned().into()).unwrap();
        let now = std::fs::read_to_string(&store.path).unwrap();
        assert!(now.starts_with("# mine\n\n[other]\na = 1\n  two\nb: 2\n\n[Pipefy]\n; note\n"), "{now}");
        assert!(now.ends_with("\n[last]\nc=3\n"), "{now}");
        assert_eq!((get(&store, "new").unwrap(), get(&store, "z").unwrap()), ("n".into(), "y".into()));
    }

    /// Written by Python's keyring 25.7 with keyrings.alt 5.0.
    #[test]
    fn the_reference_and_we_read_each_other() {
        let (_dir, store) = store();
        std::fs::create_dir_all(store.path.parent().unwrap()).unwrap();
        let theirs = include_str!("../../tests/fixtures/keyring.cfg");
        std::fs::write(&store.path, theirs).unwrap();
        let value = get(&store, ACCOUNT).unwrap();
        let session = crate::session::StoredSession::from_json(&value).expect("a session");
        assert_eq!(session.to_json().expose_secret(), value, "byte for byte");
        // Writing it again changes nothing but the white space that Python itself adds on a fresh write.
        store.set(ACCOUNT, &value.into()).unwrap();
        let ours = std::fs::read_to_string(&store.path).unwrap();
        assert_eq!(ours.replace("\n\t\n\n[other]", "\n\n[other]"), theirs);
    }

    #[test]
    fn damage_is_reported_and_put_aside_by_the_next_write() {
        let (_dir, store) = store();
        std::fs::create_dir_all(store.path.parent().unwrap()).unwrap();
        for text in ["no section\n", "[a]\nno value\n", "[pipefy]\n= x\n"] {
            std::fs::write(&store.path, text).unwrap();
            for error in [store.get("a").unwrap_err(), store.delete("a").unwrap_err()] {
                assert!(error.to_string().contains("is damaged (line"), "{error}");
            }
        }
        std::fs::write(&store.path, b"\xff").unwrap();
        assert!(store.get("a").unwrap_err().to_string().contains("not UTF-8"));
        store.set("a", &"b".to_owned().into()).unwrap();
        assert_eq!(get(&store, "a").unwrap(), "b");
        assert_eq!(std::fs::read(store.path.with_extension("cfg.damaged")).unwrap(), b"\xff");
        // Present, but no session.
        std::fs::write(&store.path, "[pipefy]\na = ***\n").unwrap();
        assert_eq!(get(&store, "a").unwrap(), "");
    }

    #[test]
    fn an_unwritable_place_is_an_error_with_a_path() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let store = FileStore::new(dir.path().join("file/keyring.cfg"));
        let error = store.set("a", &"b".to_owned().into()).unwrap_err().to_string();
        assert!(error.contains("keyring.cfg could not be"), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn no_file_panics_and_a_readable_one_is_kept(text in "[\\[\\]a-z=: \t\n#;]{0,80}") {
            if let Ok(ini) = Ini::parse(&text) {
                let again = Ini::parse(&ini.text());
                proptest::prop_assert!(again.is_ok());
            }
        }
    }
}
