//! Path and query parameters, read as strictly as bodies.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use flow_core::ids::{FlowId, TicketId};
use flow_core::notify::EventId;
use url::form_urlencoded;

use super::request_id::RequestNotes;
use crate::api::Api;
use crate::problem::Problem;

/// The flow id in the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlowIdParam(pub(crate) FlowId);

impl FromRequestParts<Arc<Api>> for FlowIdParam {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<FlowIdParam, Problem> {
        let Path(text) = Path::<String>::from_request_parts(parts, api)
            .await
            .map_err(|_| Problem::parameter("flow_id", "flow_id is not UTF-8"))?;
        let flow_id =
            text.parse::<FlowId>().map_err(|error| Problem::parameter("flow_id", error.to_string()))?;
        if let Some(notes) = parts.extensions.get::<RequestNotes>() {
            notes.note_flow(flow_id);
        }
        Ok(FlowIdParam(flow_id))
    }
}

/// The event id in the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventIdParam(pub(crate) EventId);

impl FromRequestParts<Arc<Api>> for EventIdParam {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<EventIdParam, Problem> {
        let Path(text) = Path::<String>::from_request_parts(parts, api)
            .await
            .map_err(|_| Problem::parameter("event_id", "event_id is not UTF-8"))?;
        let event_id =
            text.parse::<EventId>().map_err(|error| Problem::parameter("event_id", error.to_string()))?;
        if let Some(notes) = parts.extensions.get::<RequestNotes>() {
            notes.note_flow(event_id.flow_id);
        }
        Ok(EventIdParam(event_id))
    }
}

/// The ticket id in the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TicketIdParam(pub(crate) TicketId);

impl FromRequestParts<Arc<Api>> for TicketIdParam {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<TicketIdParam, Problem> {
        let Path(text) = Path::<String>::from_request_parts(parts, api)
            .await
            .map_err(|_| Problem::parameter("ticket_id", "ticket_id is not UTF-8"))?;
        let ticket_id =
            text.parse::<TicketId>().map_err(|error| Problem::parameter("ticket_id", error.to_string()))?;
        Ok(TicketIdParam(ticket_id))
    }
}

/// The query parameters, taken out one by one; [`Query::finish`] complains about those that are left.
#[derive(Debug)]
pub(crate) struct Query {
    left: Vec<(String, String)>,
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query, Problem> {
        Ok(Query::of(parts.uri.query().unwrap_or_default()))
    }
}

impl Query {
    /// The parameters of a query string; without the `?`.
    pub(crate) fn of(text: &str) -> Query {
        Query { left: form_urlencoded::parse(text.as_bytes()).into_owned().collect() }
    }

    /// Takes a parameter that may be absent.
    ///
    /// # Errors
    /// 400: given twice, or not of its form.
    pub(crate) fn take<T>(&mut self, name: &'static str) -> Result<Option<T>, Problem>
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        self.take_with(name, |text| text.parse::<T>().map_err(|error| error.to_string()))
    }

    /// Takes a parameter that may be absent and that `read` understands; its complaint is a whole sentence.
    ///
    /// # Errors
    /// 400: given twice, or not of its form.
    pub(crate) fn take_with<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Problem> {
        let Some(at) = self.left.iter().position(|(other, _)| other == name) else { return Ok(None) };
        let (_, text) = self.left.swap_remove(at);
        if self.left.iter().any(|(other, _)| other == name) {
            return Err(Problem::parameter(name, format!("{name} is given twice")));
        }
        read(&text).map(Some).map_err(|detail| Problem::parameter(name, detail))
    }

    /// Takes a whole number that may be absent.
    ///
    /// # Errors
    /// 400: given twice, no whole number, or above `max`.
    pub(crate) fn take_whole(&mut self, name: &'static str, max: u64) -> Result<Option<u64>, Problem> {
        self.take_with(name, |text| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            let number = if digits { text.parse::<u64>().ok() } else { None };
            number
                .filter(|n| *n <= max)
                .ok_or_else(|| format!("{name} is not a whole number from 0 to {max}"))
        })
    }

    /// Takes `true` or `false`, or nothing.
    ///
    /// # Errors
    /// 400.
    pub(crate) fn take_flag(&mut self, name: &'static str) -> Result<Option<bool>, Problem> {
        self.take_with(name, |text| text.parse().map_err(|_| format!("{name} is neither true nor false")))
    }

    /// Complains about a parameter that nobody took.
    ///
    /// # Errors
    /// 400.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        match self.left.into_iter().next() {
            None => Ok(()),
            Some((name, _)) => {
                let name: String = name.chars().take(64).collect();
                let detail = format!("{name} is not a known parameter");
                Err(Problem::new(crate::problem::Code::InvalidParameter, detail).at(name))
            }
        }
    }
}
