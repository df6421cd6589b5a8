//! What a request key stands for, in 32 bytes.

use sha2::{Digest, Sha256};

/// SHA-256 over what a client asked for: a key used again with another fingerprint is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Digest of the parts in order. Each part is preceded by its length, so that moving a byte from one part to the
    /// next gives another fingerprint.
    pub fn of(parts: &[&[u8]]) -> Fingerprint {
        let mut digest = Sha256::new();
        for part in parts {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        Fingerprint(digest.finalize().into())
    }

    /// 64 lower-case hexadecimal digits, as stored.
    pub fn to_hex(self) -> String {
        hex::encode(self.0)
    }

    /// Reads what [`Fingerprint::to_hex`] wrote.
    pub fn from_hex(text: &str) -> Option<Fingerprint> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Fingerprint(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_tells_where_one_part_ends() {
        assert_ne!(Fingerprint::of(&[b"ab", b"c"]), Fingerprint::of(&[b"a", b"bc"]));
        assert_ne!(Fingerprint::of(&[b"a"]), Fingerprint::of(&[b"a", b""]));
        let print = Fingerprint::of(&[b"a"]);
        assert_eq!(Fingerprint::from_hex(&print.to_hex()), Some(print));
        assert_eq!(Fingerprint::from_hex("00"), None);
    }
}
