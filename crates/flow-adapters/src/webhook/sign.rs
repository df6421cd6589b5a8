//! The signature of Standard Webhooks, version 1: HMAC-SHA256 over id, timestamp and the body's bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flow_config::SigningSecret;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The value of `webhook-signature`: one signature per secret, so that a receiver that knows either is served while a
/// secret is being replaced.
pub(super) fn signatures<'s>(
    secrets: impl Iterator<Item = &'s SigningSecret>,
    id: &str,
    timestamp_s: i64,
    body: &[u8],
) -> String {
    let signed: Vec<String> = secrets.map(|secret| signature(secret, id, timestamp_s, body)).collect();
    signed.join(" ")
}

fn signature(secret: &SigningSecret, id: &str, timestamp_s: i64, body: &[u8]) -> String {
    // HMAC takes keys of any length; there is no error to meet.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.expose()) else { return String::new() };
    mac.update(format!("{id}.{timestamp_s}.").as_bytes());
    mac.update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's own libraries.
    #[test]
    fn the_published_example_is_signed_as_published() {
        let secret: SigningSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().expect("a secret");
        let body = br#"{"test": 2432232314}"#;
        let signed = signatures([&secret].into_iter(), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn while_a_secret_is_replaced_both_sign() {
        let secrets = [24, 25].map(|length| SigningSecret::from_bytes(vec![7; length]));
        let one = |secret| signatures([secret].into_iter(), "evt_1_2", 5, b"{}");
        let both = signatures(secrets.iter(), "evt_1_2", 5, b"{}");
        assert_eq!(both, format!("{} {}", one(&secrets[0]), one(&secrets[1])));
        assert_ne!(one(&secrets[0]), one(&secrets[1]));
        assert_ne!(one(&secrets[0]), signatures([&secrets[0]].into_iter(), "evt_1_2", 6, b"{}"));
        assert_ne!(one(&secrets[0]), signatures([&secrets[0]].into_iter(), "evt_1_3", 5, b"{}"));
    }
}
