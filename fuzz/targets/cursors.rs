//! Any sequence of cursors that a service may give.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|ways: Vec<Option<String>>| {
    let most = ways.len() + 1;
    let read = pipefy_tools::fuzzing::pages(ways);
    assert!(read.len() <= most);
    for (number, cursor) in read.iter().enumerate() {
        assert!(!read[..number].contains(cursor), "{read:?}");
    }
});
