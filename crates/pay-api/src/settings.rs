//! What the HTTP front may be told: waits and bounds.

use flow_config::{AdvanceConfig, ApiConfig};

/// Bounds of the HTTP front. All of them are upper limits: nothing here is needed for correctness.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long `POST` waits for a terminal state when the client does not say, in milliseconds.
    pub default_wait_ms: u64,
    /// Longest wait a client gets, in milliseconds.
    pub max_wait_ms: u64,
    /// Most clients waiting for a change at once; further ones are answered at once.
    pub max_waiters: usize,
    /// Pace at which a wait looks into the database, in milliseconds; changes made here are seen at once.
    pub wait_poll_ms: u64,
    /// Largest accepted body, in bytes.
    pub max_body_bytes: usize,
    /// Most pieces of background work (create and advance) under way at once.
    pub max_in_flight: usize,
    /// Time budget of one advance, in milliseconds.
    pub advance_budget_ms: u64,
    /// How long after its creation the scanner may find a flow, in milliseconds.
    pub first_due_in_ms: u64,
    /// Most rows of one page.
    pub max_page_rows: u32,
    /// Rows of one page when the client does not say.
    pub default_page_rows: u32,
}

impl Settings {
    /// What the configuration says; the bounds it does not know are fixed here.
    pub fn from_config(api: &ApiConfig, advance: &AdvanceConfig) -> Settings {
        Settings {
            default_wait_ms: api.default_wait_ms,
            max_wait_ms: api.max_wait_ms,
            max_waiters: 2_048,
            wait_poll_ms: 250,
            max_body_bytes: api.max_body_bytes,
            max_in_flight: api.max_in_flight_requests,
            advance_budget_ms: advance.sync_budget_ms,
            first_due_in_ms: advance.first_due_in_ms,
            max_page_rows: 200,
            default_page_rows: 50,
        }
    }
}
