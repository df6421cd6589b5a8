//! The routes, one file each. The OpenAPI document and the router come from the same list, so that neither can have a
//! route that the other lacks.

mod advance_flow;
mod answer;
mod assign_ticket;
mod cancel_flow;
mod confirm_ticket;
mod create_payment;
mod docs;
mod get_flow;
mod get_ticket;
mod hold_flow;
mod ignore_ticket;
mod list_attempts;
mod list_events;
mod list_flows;
mod list_notifications;
mod list_tickets;
mod list_trail;
mod openapi;
mod ops;
mod parameters;
mod receive_callback;
mod release_flow;
mod resend_notification;
mod resolve_ticket;
mod starting;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use flow_core::ports::Clock;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::Api;
use crate::http::{observe, panicked};
use crate::problem::{Code, Problem};

pub use list_flows::ListQuery;
pub use openapi::openapi;
pub use starting::{Late, late_router};

fn all_routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::with_openapi(openapi::frame())
        .routes(routes!(create_payment::create_payment))
        .routes(routes!(list_flows::list_flows))
        .routes(routes!(get_flow::get_flow))
        .routes(routes!(list_events::list_events))
        .routes(routes!(cancel_flow::cancel_flow))
        .routes(routes!(hold_flow::hold_flow))
        .routes(routes!(release_flow::release_flow))
        .routes(routes!(advance_flow::advance_flow))
        .routes(routes!(receive_callback::receive_callback))
        .routes(routes!(list_notifications::list_notifications))
        .routes(routes!(list_attempts::list_attempts))
        .routes(routes!(resend_notification::resend_notification))
        .routes(routes!(list_tickets::list_tickets))
        .routes(routes!(get_ticket::get_ticket))
        .routes(routes!(list_trail::list_trail))
        .routes(routes!(assign_ticket::assign_ticket))
        .routes(routes!(resolve_ticket::resolve_ticket))
        .routes(routes!(ignore_ticket::ignore_ticket))
        .routes(routes!(confirm_ticket::confirm_ticket))
        .routes(routes!(ops::healthz))
        .routes(routes!(ops::readyz))
        .routes(routes!(ops::metrics))
        .routes(routes!(docs::openapi_json))
        .routes(routes!(docs::docs))
}

/// The whole API as a service.
pub fn router(api: Arc<Api>) -> Router {
    let (router, _) = all_routes().split_for_parts();
    let clock = Arc::clone(&api.clock);
    finish(router.fallback(no_such_route).with_state(api), clock)
}

/// What every router of ours has around its routes: problems for methods it lacks and for panics, and the outermost
/// layer.
fn finish(router: Router, clock: Arc<dyn Clock>) -> Router {
    router
        .method_not_allowed_fallback(no_such_method)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(clock, observe))
}

async fn no_such_route() -> Problem {
    Problem::new(Code::RouteNotFound, "there is nothing here; /docs lists what there is")
}

async fn no_such_method(request: Request) -> Problem {
    Problem::new(
        Code::MethodNotAllowed,
        format!("{} is not answered here; the Allow header lists what is", request.method()),
    )
}
