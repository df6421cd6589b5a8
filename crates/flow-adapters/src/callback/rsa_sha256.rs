//! RSA with SHA-256 (PKCS #1 v1.5), over what channels of two kinds sign: time, nonce and body, or a form's sorted
//! parameters.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::HeaderMap;
use rsa::PublicKey;
use rsa::pkcs1v15::{Signature, VerifyingKey};
use rsa::pkcs8::DecodePublicKey as _;
use rsa::signature::Verifier as _;
use rsa::traits::PublicKeyParts as _;
use sha2::Sha256;
use url::form_urlencoded;

use super::{Forged, Fresh, header};

const BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
/// Accepted sizes of a key, in bits.
const BITS: std::ops::RangeInclusive<u32> = 2_048..=8_192;
/// Most keys of one file.
const MAX_KEYS: usize = 8;
/// Longest nonce, in characters.
const MAX_NONCE_CHARS: usize = 128;
/// Most parameters of one form.
const MAX_PARAMETERS: usize = 128;

const SIGN: &str = "sign";
const SIGN_TYPE: &str = "sign_type";

/// The form's parameters by name, each given once.
pub(super) type Form = BTreeMap<String, String>;

/// Every key that is accepted.
#[derive(Debug)]
pub(super) struct PublicKeys(Vec<VerifyingKey<Sha256>>);

/// Where the signed parts are.
#[derive(Debug)]
pub(super) struct HeaderNames<'c> {
    pub(super) timestamp: &'c str,
    pub(super) nonce: &'c str,
    pub(super) signature: &'c str,
}

impl PublicKeys {
    /// Every public key of a PEM text; `None` if there is none, or one that cannot be used.
    pub(super) fn from_pem(text: &str) -> Option<PublicKeys> {
        let mut keys = Vec::new();
        for block in text.split(BEGIN).skip(1).take(MAX_KEYS) {
            let key = PublicKey::from_public_key_pem(format!("{BEGIN}{block}").trim()).ok()?;
            let bits = key.n().bit_width_vartime();
            if !BITS.contains(&bits) {
                return None;
            }
            keys.push(VerifyingKey::new(key));
        }
        if keys.is_empty() { None } else { Some(PublicKeys(keys)) }
    }

    fn verify(&self, signed: &[u8], signature: &str, name: &'static str) -> Result<(), Forged> {
        let bytes = STANDARD.decode(signature).map_err(|_| Forged::Malformed(name))?;
        let signature = Signature::try_from(bytes.as_slice()).map_err(|_| Forged::WrongSignature)?;
        let fits = self.0.iter().any(|key| key.verify(signed, &signature).is_ok());
        if fits { Ok(()) } else { Err(Forged::WrongSignature) }
    }

    /// Time, nonce and body, each followed by a line feed.
    pub(super) fn verify_body(
        &self,
        headers: &HeaderMap,
        names: &HeaderNames<'_>,
        body: &[u8],
        fresh: Fresh,
    ) -> Result<(), Forged> {
        let timestamp = header(headers, names.timestamp, "the time's header")?;
        let nonce = header(headers, names.nonce, "the nonce's header")?;
        let signature = header(headers, names.signature, "the signature's header")?;
        fresh.check("the time's header", timestamp)?;
        if nonce.len() > MAX_NONCE_CHARS {
            return Err(Forged::Malformed("the nonce's header"));
        }
        let mut signed = format!("{timestamp}\n{nonce}\n").into_bytes();
        signed.extend_from_slice(body);
        signed.push(b'\n');
        self.verify(&signed, signature, "the signature's header")
    }

    /// The parameters, decoded, sorted by name and joined as `a=1&b=2`, without the signature itself. No time is signed:
    /// what comes again is known by its event id.
    pub(super) fn verify_form(&self, body: &[u8]) -> Result<Form, Forged> {
        let mut form = Form::new();
        for (name, value) in form_urlencoded::parse(body).into_owned().take(MAX_PARAMETERS + 1) {
            // With a separator inside a value, another form would have the same signature.
            if name.contains(['&', '=']) || value.contains('&') {
                return Err(Forged::Malformed("a parameter"));
            }
            if form.insert(name, value).is_some() {
                return Err(Forged::Malformed("a parameter"));
            }
        }
        if form.len() > MAX_PARAMETERS {
            return Err(Forged::Malformed("the form"));
        }
        let signature = form.remove(SIGN).ok_or(Forged::Malformed(SIGN))?;
        if form.remove(SIGN_TYPE).is_some_and(|kind| kind != "RSA2") {
            return Err(Forged::Malformed(SIGN_TYPE));
        }
        let pairs: Vec<String> = form.iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.verify(pairs.join("&").as_bytes(), &signature, SIGN)?;
        Ok(form)
    }
}
