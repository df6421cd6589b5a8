//! Who is calling, and what they may do.

mod clock;
mod generate;
mod keys;

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::{HeaderMap, header, request::Parts};
use flow_core::ids::{Actor, CallerId};

use crate::api::Api;
use crate::http::{RequestNotes, only};
use crate::problem::{Code, Problem};

pub use clock::{SystemWallClock, WallClock};
pub use flow_config::Role;
pub use generate::{HashedKey, KeyError, generate_key, hash_key};
pub use keys::KeyRing;

/// An authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The application or person the key was given to.
    pub id: CallerId,
    /// What the key may do.
    pub role: Role,
}

impl Caller {
    /// Refuses callers of other roles.
    ///
    /// # Errors
    /// 403.
    pub fn require(&self, roles: &[Role]) -> Result<(), Problem> {
        if roles.contains(&self.role) {
            return Ok(());
        }
        let wanted: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
        Err(Problem::new(
            Code::Forbidden,
            format!("the role of this API key is {}; needed is: {}", self.role.as_str(), wanted.join(" or ")),
        ))
    }

    /// The name under which the caller acts on a flow, for the audit log.
    pub fn actor(&self) -> Actor {
        // A caller id is a shorter text of fewer characters than an actor may have.
        Actor::new(self.id.as_str()).expect("every caller id is an actor")
    }

    /// The one application whose flows the caller may see; `None`: all.
    pub fn sees_only(&self) -> Option<&CallerId> {
        match self.role {
            Role::Client => Some(&self.id),
            Role::OnCall | Role::Operator => None,
        }
    }
}

impl FromRequestParts<Arc<Api>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Caller, Problem> {
        let token = bearer_token(&parts.headers)?;
        let caller = api.keys.authenticate(token, api.wall_clock.now()).ok_or_else(|| {
            Problem::new(Code::Unauthenticated, "the API key is not known or has expired; nothing was done")
        })?;
        if let Some(notes) = parts.extensions.get::<RequestNotes>() {
            notes.note_caller(&caller.id);
        }
        Ok(caller)
    }
}

fn bearer_token(headers: &HeaderMap) -> Result<&str, Problem> {
    let missing = || Problem::new(Code::Unauthenticated, "send the API key as `Authorization: Bearer <key>`");
    // Of two, a proxy may have checked the one and we the other.
    let value = only(headers, &header::AUTHORIZATION)
        .map_err(|_| Problem::new(Code::Unauthenticated, "send one Authorization header; nothing was done"))?
        .ok_or_else(missing)?;
    let (scheme, token) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(missing)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(token.trim()) } else { Err(missing()) }
}
