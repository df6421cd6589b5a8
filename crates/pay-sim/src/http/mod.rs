//! The HTTP side: both contracts, the admin surface, and the connections underneath (so that one can be cut on purpose).

mod admin;
mod bill;
mod contract;
mod disturb;
mod reply;
mod server;

pub use server::{Options, Running, StartError, start};

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};

use crate::faults::System;
use crate::sim::Sim;

/// Longest body accepted, in bytes.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// Everything on one port.
fn full_router(sim: Arc<Sim>) -> Router {
    wallet_routes()
        .merge(business_routes())
        .merge(admin_routes())
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(sim)
}

/// One system's contract alone, for a port of its own.
fn system_router(sim: Arc<Sim>, system: System) -> Router {
    let routes = match system {
        System::Wallet => wallet_routes(),
        System::Business => business_routes(),
    };
    routes.layer(DefaultBodyLimit::max(MAX_BODY_BYTES)).with_state(sim)
}

fn wallet_routes() -> Router<Arc<Sim>> {
    Router::new()
        .route("/wallet/v1/debits", post(contract::debit))
        .route("/wallet/v1/debits/{trade_order_no}", get(contract::query))
        .route("/wallet/v1/debits/{trade_order_no}/close", post(contract::close))
        .route("/wallet/v1/refunds", post(contract::refund))
        .route("/wallet/v1/refunds/{refund_order_no}", get(contract::query_refund))
}

fn business_routes() -> Router<Arc<Sim>> {
    Router::new()
        .route("/business/v1/executions", post(contract::execute))
        .route("/business/v1/facts", get(contract::fact))
}

fn admin_routes() -> Router<Arc<Sim>> {
    Router::new()
        .route("/healthz", get(admin::healthz))
        .route("/faults", post(admin::add_fault).get(admin::list_faults).delete(admin::clear_faults))
        .route("/faults/{id}", axum::routing::delete(admin::remove_fault))
        .route("/mutants", post(admin::set_mutants).get(admin::get_mutants))
        .route("/accounts/{user_id}", post(admin::set_balance))
        .route("/ledger", get(admin::target_ledger))
        .route("/ledger/summary", get(admin::summary))
        .route("/ledger/dump", get(admin::dump))
        .route("/ledger/{trade_order_no}", get(admin::order_ledger))
        .route(
            "/callbacks",
            post(admin::set_callbacks).get(admin::get_callbacks).delete(admin::clear_callbacks),
        )
        .route("/bills/faults", post(bill::add_fault).get(bill::list_faults).delete(bill::clear_faults))
        .route("/bills/{day}", get(bill::bill))
        .route("/reset", post(admin::reset))
        .route("/wait", get(admin::wait))
}
