//! Session ids and messages as anybody may send them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pipefy_mcp::fuzzing::{Ids, message};

type Caller<'a> = (&'a str, Option<&'a str>, Option<&'a str>);

fuzz_target!(|data: (&str, Caller<'_>, Caller<'_>, &[u8])| {
    let (text, owner, other, bytes) = data;
    let ids = Ids::new();
    assert_eq!(ids.open(text, owner), None);
    let id: String = text.chars().filter(|c| *c != '.').collect();
    let sealed = ids.seal(&id, owner);
    assert_eq!(ids.open(&sealed, owner), Some(id));
    assert_eq!(ids.open(&sealed, other).is_some(), owner == other);
    assert_eq!(Ids::new().open(&sealed, owner), None);
    message(bytes);
});
