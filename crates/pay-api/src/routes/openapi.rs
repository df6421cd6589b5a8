//! The OpenAPI document, generated from the routes.

use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use crate::problem::{Code, ProblemDocument};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Payment consistency service",
        description = "Charges a user's wallet and hands over a benefit, with neither happening twice and every \
            payment coming to an explainable end.\n\nIds are strings, money is an integer of minor units, times are \
            RFC 3339 in UTC. Every refusal is `application/problem+json` with a stable `code`; 503 carries \
            `Retry-After` only when nothing was recorded.",
        version = env!("CARGO_PKG_VERSION"),
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    components(schemas(ProblemDocument, Code)),
    modifiers(&ApiKeyScheme),
    tags(
        (name = "payments", description = "For applications"),
        (name = "operators", description = "For people who act"),
        (name = "channels", description = "For those who tell of events by themselves"),
        (name = "operations", description = "For the machinery around the process"),
        (name = "documentation", description = "This document"),
    ),
)]
struct Frame;

struct ApiKeyScheme;

impl Modify for ApiKeyScheme {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("An API key; its role is `client`, `on_call` or `operator`"))
            .build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("api_key", SecurityScheme::Http(scheme));
    }
}

/// Everything but the routes.
pub(super) fn frame() -> utoipa::openapi::OpenApi {
    Frame::openapi()
}

/// The whole document.
pub fn openapi() -> utoipa::openapi::OpenApi {
    let mut document = super::all_routes().into_openapi();
    super::parameters::describe(&mut document);
    document
}
