//! Tokens that somebody else wrote: confirmations, bearers, and those in the instructions of agents.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use pipefy_auth::inbound::{JwtValidator, Rejection};
use pipefy_tools::{ConfirmationKey, fuzzing, mint, verify};
use serde_json::Map;

static VALIDATOR: LazyLock<JwtValidator> = LazyLock::new(|| {
    // Nothing listens there, so that no bearer can be good.
    let settings = pipefy::settings::JwtValidationSettings { allow_insecure_urls: true, ..Default::default() };
    JwtValidator::new(&settings, "http://127.0.0.1:1".to_owned(), "https://mcp.example.com/mcp").expect("settings")
});
static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
});

fuzz_target!(|data: (&str, i64)| {
    let (text, now) = data;
    // The key is not known to whoever wrote the text.
    let key = ConfirmationKey::from_bytes(b"a key that the fuzzer does not know");
    let now = now % 4_102_444_800;
    assert!(verify(&key, "delete_card", &Map::new(), Some(text), now).is_err());
    let good = mint(&key, "delete_card", &Map::new(), now);
    assert!(verify(&key, "delete_card", &Map::new(), Some(&good), now).is_ok());
    let judged = RUNTIME.block_on(VALIDATOR.validate(text));
    assert!(matches!(judged, Err(Rejection::Invalid(_) | Rejection::Unavailable { .. })));
    fuzzing::instructions(text);
});
