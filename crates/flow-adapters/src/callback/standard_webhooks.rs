//! The Standard Webhooks scheme: HMAC-SHA256 over `{id}.{timestamp}.{body}`, base64, one or several signatures in one
//! header, so that a sender can sign with the old and the new secret at once.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flow_config::WebhookSecret;
use flow_core::ids::EventId;
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::header::HeaderMap;
use sha2::Sha256;

use super::{Forged, Fresh, header};

const ID: &str = "webhook-id";
const TIMESTAMP: &str = "webhook-timestamp";
const SIGNATURE: &str = "webhook-signature";
/// What a signature of this version begins with.
const VERSION: &str = "v1,";
/// Most signatures of one header that are looked at.
const MAX_SIGNATURES: usize = 16;

/// Every secret that is accepted. `Debug` hides them.
#[derive(Debug)]
pub(super) struct Secrets(Vec<WebhookSecret>);

impl Secrets {
    pub(super) fn new(secrets: &[WebhookSecret]) -> Secrets {
        Secrets(secrets.to_vec())
    }

    /// The event's id, which is signed along with the body.
    pub(super) fn verify(&self, headers: &HeaderMap, body: &[u8], fresh: Fresh) -> Result<EventId, Forged> {
        let id = header(headers, ID, ID)?;
        let event_id = EventId::new(id).map_err(|_| Forged::Malformed(ID))?;
        let timestamp = header(headers, TIMESTAMP, TIMESTAMP)?;
        let given = header(headers, SIGNATURE, SIGNATURE)?;
        fresh.check(TIMESTAMP, timestamp)?;
        let signatures: Vec<Vec<u8>> = given
            .split(' ')
            .take(MAX_SIGNATURES)
            .filter_map(|signature| STANDARD.decode(signature.strip_prefix(VERSION)?).ok())
            .collect();
        let mut fits = false;
        for secret in &self.0 {
            // HMAC takes keys of every length.
            let Ok(mac) = Hmac::<Sha256>::new_from_slice(secret.expose()) else { continue };
            let mac = mac
                .chain_update(id)
                .chain_update(".")
                .chain_update(timestamp)
                .chain_update(".")
                .chain_update(body);
            for signature in &signatures {
                // In constant time; and to the end, whichever fits.
                fits |= mac.clone().verify_slice(signature).is_ok();
            }
        }
        if fits { Ok(event_id) } else { Err(Forged::WrongSignature) }
    }
}
