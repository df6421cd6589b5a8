//! Serving before there is anything to serve: while the database is not reached the process is live, not ready, and
//! refuses everything else in a way that clients understand.

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::get;
use flow_core::ports::Clock;
use tower::ServiceExt as _;

use super::{finish, ops};
use crate::api::Ops;
use crate::problem::Problem;

/// A router that is given later.
#[derive(Debug, Clone, Default)]
pub struct Late(Arc<OnceLock<Router>>);

impl Late {
    /// From now on this one answers. The first one given stays.
    pub fn open(&self, router: Router) {
        let _ = self.0.set(router);
    }
}

/// Answers with `late` once it is there; until then with health, readiness and metrics, and 503 for the rest.
pub fn late_router(late: Late, ops: Ops, clock: Arc<dyn Clock>) -> Router {
    let starting = Router::new()
        .route("/healthz", get(ops::healthz))
        .route("/readyz", get(ops::readyz))
        .route("/metrics", get(ops::metrics))
        .fallback(not_started)
        .with_state(ops);
    let starting = finish(starting, clock);
    Router::new().fallback(choose).with_state((late, starting))
}

async fn choose(State((late, starting)): State<(Late, Router)>, request: Request) -> Response {
    let router = late.0.get().unwrap_or(&starting).clone();
    match router.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

async fn not_started() -> Problem {
    ops::not_ready("the process is starting; nothing was recorded")
}
