//! Signing by the Standard Webhooks scheme: HMAC-SHA256 over `{id}.{timestamp}.{body}`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// A channel's secret. `Debug` hides it.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(hidden)")
    }
}

/// Why a text is no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("secret must be whsec_ and base64")]
pub struct BadSecret;

impl Secret {
    /// Reads `whsec_` and base64.
    ///
    /// # Errors
    /// [`BadSecret`].
    pub fn parse(text: &str) -> Result<Secret, BadSecret> {
        let encoded = text.strip_prefix("whsec_").ok_or(BadSecret)?;
        STANDARD.decode(encoded).map(Secret).map_err(|_| BadSecret)
    }

    /// Nobody's secret.
    pub(super) fn forger() -> Secret {
        Secret(b"whoever signs with this is not the channel".to_vec())
    }

    /// The value of the header `webhook-signature`.
    #[must_use]
    pub fn sign(&self, id: &str, timestamp: &str, body: &str) -> String {
        // HMAC takes keys of every length.
        let mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("every key has an accepted length");
        let mac = mac.chain_update(format!("{id}.{timestamp}.{body}"));
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vector_of_the_specification() {
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", r#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(Secret::parse("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap_err(), BadSecret);
    }
}
