//! Making API keys and the digests that the configuration holds.

use rand::{TryRng as _, rngs::SysRng};
use sha2::{Digest, Sha256};

/// What the configuration needs to know of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashedKey {
    /// SHA-256 of the key, 64 lower-case hexadecimal digits.
    pub sha256_hex: String,
}

/// Shortest accepted key, in characters: anything shorter could be guessed from its digest.
const MIN_KEY_CHARS: usize = 20;

/// Why a text is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Guessable.
    #[error("the key has fewer than {MIN_KEY_CHARS} characters; use a longer one, or let one be generated")]
    TooShort,
    /// Would not survive an HTTP header.
    #[error("the key has characters other than visible ASCII; a header cannot carry it")]
    NotVisible,
    /// No randomness to be had.
    #[error("the operating system gave no randomness")]
    NoRandomness(String),
}

/// The digest of a key.
///
/// # Errors
/// [`KeyError`] for a key that is too short or that a header cannot carry.
pub fn hash_key(key: &str) -> Result<HashedKey, KeyError> {
    if !key.chars().all(|c| c.is_ascii_graphic()) {
        return Err(KeyError::NotVisible);
    }
    if key.len() < MIN_KEY_CHARS {
        return Err(KeyError::TooShort);
    }
    Ok(HashedKey { sha256_hex: hex::encode(Sha256::digest(key.as_bytes())) })
}

/// A new key of 256 bits from the operating system's randomness, `pk_` and 64 hexadecimal digits.
///
/// # Errors
/// [`KeyError::NoRandomness`].
pub fn generate_key() -> Result<String, KeyError> {
    let mut bytes = [0_u8; 32];
    SysRng.try_fill_bytes(&mut bytes).map_err(|error| KeyError::NoRandomness(error.to_string()))?;
    Ok(format!("pk_{}", hex::encode(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_plain_sha256() {
        let hashed = hash_key("abcdefghijklmnopqrstuvwxyz").unwrap();
        assert_eq!(hashed.sha256_hex, "71c480df93d6ae2f1efad1447c66c9525e316218cf51fc8d9ed832f2daf18b73");
        assert_eq!(hash_key("short"), Err(KeyError::TooShort));
        assert_eq!(hash_key("with a space in the middle"), Err(KeyError::NotVisible));
    }

    #[test]
    fn generated_keys_are_accepted_and_differ() {
        let (one, two) = (generate_key().unwrap(), generate_key().unwrap());
        assert_ne!(one, two);
        assert_ne!(hash_key(&one).unwrap(), hash_key(&two).unwrap());
    }
}
