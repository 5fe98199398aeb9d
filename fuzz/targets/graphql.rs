//! Any text as a GraphQL document: what is called a read holds no mutation.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pipefy::EndpointKind;
use pipefy::graphql::read;

fuzz_target!(|text: &str| {
    if let Ok(written) = read(EndpointKind::Public, text) {
        let mutates = written.is_mutation();
        // The word must stand somewhere in a document that mutates; without it none may be called one.
        assert!(!mutates || text.contains("mutation"));
        // The simplest mutation of all, in front of and behind what was accepted.
        for planted in [format!("{text}\nmutation Planted {{ x }}"), format!("mutation Planted {{ x }}\n{text}")] {
            if let Ok(written) = read(EndpointKind::Public, &planted) {
                assert!(written.is_mutation(), "{planted}");
            }
        }
    }
});
