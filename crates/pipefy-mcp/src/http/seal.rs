//! Sealed session ids: `<id>.<mac>`, where the mac binds the id to the person it was given to.
//!
//! The protocol's session id is a bearer of its own: whoever knows it may read the session's stream and answer its questions.
//! The seal makes it useless to anybody but the caller it was given to, without a table of owners: the mac covers the id and
//! the caller's issuer, client and subject, so a refreshed token still fits and another person's never does. Every replica
//! that has the key can check it.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use secrecy::{ExposeSecret as _, SecretString};

use super::bearer::Owner;

/// Characters of the mac: 128 bits in hexadecimal.
const MAC_LEN: usize = 32;

/// The key that seals ids.
pub(crate) struct Seal(hmac::Key);

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal")
    }
}

impl Seal {
    /// With the configured key, or a random one that dies with the process.
    pub(crate) fn new(key: Option<&SecretString>) -> Self {
        Self(match key {
            Some(key) => hmac::Key::new(hmac::HMAC_SHA256, key.expose_secret().as_bytes()),
            None => {
                let random = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4(), uuid::Uuid::new_v4()];
                let bytes: Vec<u8> = random.iter().flat_map(|part| *part.as_bytes()).collect();
                hmac::Key::new(hmac::HMAC_SHA256, &bytes)
            }
        })
    }

    /// What the client gets for `id`.
    pub(crate) fn seal(&self, id: &str, owner: &Owner) -> String {
        format!("{id}.{}", self.mac(id, owner))
    }

    /// The id inside, if it was sealed for `owner`.
    pub(crate) fn open<'a>(&self, sealed: &'a str, owner: &Owner) -> Option<&'a str> {
        let (id, mac) = sealed.split_once('.')?;
        verify_slices_are_equal(self.mac(id, owner).as_bytes(), mac.as_bytes()).ok().map(|()| id)
    }

    /// Names the owner without saying who it is; the same on every replica that has the key.
    pub(crate) fn tag(&self, owner: &Owner) -> String {
        // No session has an empty id.
        self.mac("", owner)
    }

    fn mac(&self, id: &str, owner: &Owner) -> String {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(b"pipefy-mcp session 1");
        // Length-prefixed, and "absent" is not "empty": no two owners have the same bytes.
        let mut part = |text: Option<&str>| match text {
            None => context.update(&[0]),
            Some(text) => {
                context.update(&[1]);
                context.update(&(text.len() as u64).to_be_bytes());
                context.update(text.as_bytes());
            }
        };
        part(Some(id));
        match owner {
            Owner::Local => part(None),
            Owner::Caller(caller) => {
                part(Some(&caller.client_id));
                part(caller.issuer.as_deref());
                part(caller.subject.as_deref());
            }
        }
        let mut text = String::with_capacity(MAC_LEN);
        for byte in context.sign().as_ref().iter().take(MAC_LEN / 2) {
            text.extend([byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16).unwrap_or('0')));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use proptest::prelude::*;

    use super::*;

    fn owner() -> impl Strategy<Value = Owner> {
        let text = || prop_oneof!["[a-c|:.]{0,3}", "\\PC{0,6}"];
        prop_oneof![
            1 => Just(Owner::Local),
            8 => (text(), prop::option::of(text()), prop::option::of(text()))
                .prop_map(|(client, issuer, subject)| Owner::caller(&client, issuer.as_deref(), subject.as_deref())),
        ]
    }

    proptest! {
        #[test]
        fn no_text_is_an_id(text in prop_oneof!["\\PC{0,60}", "[a-f0-9]{0,32}[.][a-f0-9]{32}"], owner in owner()) {
            prop_assert_eq!(Seal::new(None).open(&text, &owner), None);
        }

        #[test]
        fn a_seal_opens_for_its_owner_alone(id in "[a-f0-9-]{1,40}", owner in owner(), other in owner()) {
            let seal = Seal::new(None);
            let sealed = seal.seal(&id, &owner);
            prop_assert_eq!(seal.open(&sealed, &owner), Some(id.as_str()));
            prop_assert_eq!(seal.open(&sealed, &other).is_some(), owner == other);
            prop_assert_eq!(seal.tag(&owner) == seal.tag(&other), owner == other);
        }

        #[test]
        fn a_changed_seal_opens_for_nobody(id in "[a-f0-9]{1,8}", owner in owner(), at in any::<prop::sample::Index>(), by in any::<char>()) {
            let seal = Seal::new(None);
            let sealed = seal.seal(&id, &owner);
            let at = at.index(sealed.len());
            let changed = format!("{}{by}{}", &sealed[..at], &sealed[at + 1..]);
            prop_assert_eq!(seal.open(&changed, &owner).is_some(), changed == sealed);
        }
    }

    #[test]
    fn only_the_owner_opens_a_seal() {
        let owner = |client: &str, issuer: Option<&str>, subject: Option<&str>| Owner::caller(client, issuer, subject);
        let owners = [
            Owner::Local,
            owner("c", Some("i"), Some("s")),
            owner("c", Some("i"), None),
            owner("c", Some("i"), Some("")),
            owner("c", None, Some("s")),
            owner("ci", Some(""), Some("s")),
            owner("c", Some("is"), Some("")),
            owner("d", Some("i"), Some("s")),
        ];
        let seal = Seal::new(None);
        for (index, owner) in owners.iter().enumerate() {
            let sealed = seal.seal("abc", owner);
            for (other, stranger) in owners.iter().enumerate() {
                assert_eq!(seal.open(&sealed, stranger), (index == other).then_some("abc"), "{index} {other}");
            }
            assert_eq!(Seal::new(None).open(&sealed, owner), None);
            for broken in [
                "",
                "abc",
                "abc.",
                ".",
                "abd",
                &sealed[..sealed.len() - 1],
                &format!("{sealed}0"),
                &format!("x{sealed}"),
            ] {
                assert_eq!(seal.open(broken, owner), None, "{broken}");
            }
        }
        let key = SecretString::from("k".repeat(32));
        assert_eq!(Seal::new(Some(&key)).open(&Seal::new(Some(&key)).seal("a", &owners[1]), &owners[1]), Some("a"));
    }
}
