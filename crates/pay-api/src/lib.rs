//! The HTTP front of the payment service: takes payments, shows flows, lets people act on them.
//!
//! Translates between HTTP and the core and decides nothing about a payment: axum and JSON live here and nowhere
//! else, and every state change is made by `flow_core::advance`. Adapters, database and configuration are given to
//! [`Api`] by the binary; a test gives it others.

pub mod auth;
pub mod problem;
pub mod view;
pub mod work;

mod api;
mod http;
mod json;
mod payment;
mod routes;
mod scenes;
mod settings;
mod ticket;

pub use api::{Api, Ops, ReadyCheck};
pub use http::{idempotency_key, preferred_wait_ms};
pub use payment::{MoneyBody, PaymentBody};
pub use routes::{Late, ListQuery, late_router, openapi, router};
pub use scenes::Scenes;
pub use settings::Settings;
pub use ticket::{AssignBody, ReasonBody};
