//! The configured API keys, known by their SHA-256 alone: a leaked configuration lets nobody in.

use chrono::{DateTime, Utc};
use flow_config::ApiKey;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::Caller;

/// All configured keys.
#[derive(Debug, Clone, Default)]
pub struct KeyRing {
    keys: Vec<ApiKey>,
}

impl KeyRing {
    /// A ring of these keys. Several keys may belong to one caller, so that they can be replaced one by one.
    pub fn new(keys: Vec<ApiKey>) -> KeyRing {
        KeyRing { keys }
    }

    /// The caller that presented this key; `None` for an unknown or expired one.
    ///
    /// Every configured key is compared, in constant time and to the end, so that the time taken tells nothing of
    /// which one came close.
    pub fn authenticate(&self, presented: &str, now: DateTime<Utc>) -> Option<Caller> {
        let digest: [u8; 32] = Sha256::digest(presented.as_bytes()).into();
        let mut found = u32::MAX;
        for (index, key) in (0_u32..).zip(&self.keys) {
            let same: Choice = key.sha256.as_bytes().ct_eq(&digest);
            found.conditional_assign(&index, same);
        }
        let key = self.keys.get(usize::try_from(found).ok()?)?;
        if key.expires_at.is_some_and(|end| now >= end) {
            return None;
        }
        Some(Caller { id: key.name.clone(), role: key.role })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_config::{KeyHash, Role};
    use flow_core::ids::CallerId;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn key(caller: &str, secret: &str, expires_at: Option<&str>) -> ApiKey {
        ApiKey {
            name: CallerId::new(caller).unwrap(),
            role: Role::Client,
            sha256: KeyHash::from_hex(&hex::encode(Sha256::digest(secret.as_bytes()))).unwrap(),
            expires_at: expires_at.map(at),
        }
    }

    #[test]
    fn the_right_key_names_its_caller_and_others_nobody() {
        let ring = KeyRing::new(vec![
            key("shop", "one", None),
            key("game", "two", None),
            key("shop", "three", None),
        ]);
        let now = at("2030-01-01T00:00:00Z");
        let who = |secret| ring.authenticate(secret, now).map(|caller| caller.id.to_string());
        assert_eq!(who("one").as_deref(), Some("shop"));
        assert_eq!(who("two").as_deref(), Some("game"));
        assert_eq!(who("three").as_deref(), Some("shop"));
        for wrong in ["", "One", "one ", "four"] {
            assert_eq!(who(wrong), None, "{wrong:?}");
        }
        assert_eq!(KeyRing::default().authenticate("one", now), None);
    }

    #[test]
    fn a_key_ends_at_its_moment() {
        let ring = KeyRing::new(vec![key("shop", "one", Some("2030-01-01T00:00:00Z"))]);
        assert!(ring.authenticate("one", at("2029-12-31T23:59:59.999Z")).is_some());
        assert!(ring.authenticate("one", at("2030-01-01T00:00:00Z")).is_none());
    }
}
