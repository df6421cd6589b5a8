//! `POST /payments`

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use flow_core::create::{CreateError, PaymentRequest, Taken};
use flow_core::flow::Flow;
use flow_core::ids::{IdempotencyKey, TraceId};

use super::answer::{self, IDEMPOTENT_REPLAYED};
use crate::api::Api;
use crate::auth::{Caller, Role};
use crate::http::{RequestId, RequestNotes, idempotency_key, preferred_wait_ms, take_json};
use crate::payment::PaymentBody;
use crate::problem::{Problem, refusals};
use crate::view::{FlowView, rests};

refusals!(Refusals: MalformedJson, InvalidBody, BodyUnreadable, IdempotencyKeyMissing, IdempotencyKeyInvalid,
    Unauthenticated, Forbidden, RequestTimeout, OpenAttemptDiffers, TargetOfOtherCaller, Contended, BodyTooLarge,
    UnsupportedMediaType, IdempotencyKeyReused, SceneUnknown, CurrencyNotAllowed, AmountOutOfRange, DeadlinePassed,
    DeadlineTooFar, ContextTooLong, TooManyRequests, Internal, DatabaseUnavailable, OutcomeUnknown);

/// Make a payment
///
/// Role `client`. The same `Idempotency-Key` always answers with the same flow, in its current state and with
/// `Idempotent-Replayed: true`; with another body it is refused. Another key for a target that has an open or
/// successful attempt joins that attempt: 200 without the replay header. Waits for a final state as long as
/// `Prefer: wait=N` says (seconds); after that it answers 202, and the payment goes on. A client that hangs up stops
/// nothing.
#[utoipa::path(
    post,
    path = "/payments",
    tag = "payments",
    operation_id = "createPayment",
    security(("api_key" = [])),
    params(
        ("Idempotency-Key" = String, Header, description = "1 to 255 visible ASCII characters, bare or as a quoted \
            string; fresh for every payment, the same for every repetition of it"),
        ("Prefer" = Option<String>, Header, description = "`wait=N`: wait up to N seconds for a final state"),
        ("X-Request-Id" = Option<String>, Header, description = "Correlates with logs; echoed"),
    ),
    request_body = PaymentBody,
    responses(
        (status = 201, description = "Created, and final within the wait", body = FlowView,
            headers(("Location" = String, description = "The flow"))),
        (status = 202, description = "Created, and under way", body = FlowView,
            headers(("Location" = String, description = "The flow"),
                ("Retry-After" = u32, description = "Seconds until asking again is useful"))),
        (status = 200, description = "An existing flow: a replay, or a join of the target's attempt", body = FlowView,
            headers(("Location" = String, description = "The flow"),
                ("Idempotent-Replayed" = Option<String>, description = "`true` if this key was used before"))),
        Refusals,
    ),
)]
pub(super) async fn create_payment(
    State(api): State<Arc<Api>>,
    caller: Caller,
    RequestId(request_id): RequestId,
    notes: RequestNotes,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let started_ms = api.clock.monotonic_ms();
    caller.require(&[Role::Client])?;
    let key = idempotency_key(&headers)?;
    let body = PaymentBody::parse(&take_json(&headers, body, api.settings.max_body_bytes).await?)?;
    let request = match payment_request(&api, &caller, &key, request_id, &body) {
        Ok(request) => request,
        Err(refused) => return replay_or(&api, &caller, &key, &body, refused).await,
    };
    let wait_ms = api.granted_wait_ms(preferred_wait_ms(&headers), api.settings.default_wait_ms);

    let mut started = api.work.pay(request, wait_ms)?;
    let taken = started.answer().await??;
    let spent_ms = api.clock.monotonic_ms().saturating_sub(started_ms);
    let left_ms = wait_ms.saturating_sub(spent_ms);
    match taken {
        Taken::Created(seen) => {
            notes.note_flow(seen.value.id);
            let flow = api.wait_for_rest(seen.value, started.rest(), left_ms).await;
            let status = if flow.state.is_terminal() { StatusCode::CREATED } else { StatusCode::ACCEPTED };
            Ok(answer::flow(status, &flow, &caller))
        }
        Taken::Replayed(seen) => {
            notes.note_flow(seen.value.id);
            let flow = api.wait_for(seen.value.clone(), left_ms, rests).await.unwrap_or(seen.value);
            Ok(replayed(&flow, &caller))
        }
        Taken::Joined(seen) => {
            notes.note_flow(seen.value.id);
            let flow = api.wait_for(seen.value.clone(), left_ms, rests).await.unwrap_or(seen.value);
            Ok(answer::flow(StatusCode::OK, &flow, &caller))
        }
    }
}

fn replayed(flow: &Flow, caller: &Caller) -> Response {
    let mut response = answer::flow(StatusCode::OK, flow, caller);
    response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    response
}

/// What a request gets that its scene refuses: a key used before still answers with its own flow, whatever the scene's
/// rules have become since.
async fn replay_or(
    api: &Api,
    caller: &Caller,
    key: &IdempotencyKey,
    body: &PaymentBody,
    refused: Problem,
) -> Result<Response, Problem> {
    let known = api.store.look_up(&caller.id, key, &body.target()).await?;
    match known.value.request {
        Some(record) if record.fingerprint == body.fingerprint() => Ok(replayed(&record.flow, caller)),
        Some(record) => Err(CreateError::KeyReused { flow_id: record.flow.id }.into()),
        None => Err(refused),
    }
}

fn payment_request(
    api: &Api,
    caller: &Caller,
    key: &IdempotencyKey,
    request_id: TraceId,
    body: &PaymentBody,
) -> Result<PaymentRequest, Problem> {
    let (rules, money) = api.scenes.admit(&body.scene, body.money.amount, &body.money.currency)?;
    Ok(PaymentRequest {
        caller: caller.id.clone(),
        key: key.clone(),
        fingerprint: body.fingerprint(),
        target: body.target(),
        money,
        deadline: body.deadline,
        deadline_horizon_ms: rules.deadline_horizon_ms,
        wallet: rules.wallet.clone(),
        business: rules.business.clone(),
        context: body.context.clone(),
        trace_id: Some(request_id),
        first_due_in_ms: api.settings.first_due_in_ms,
    })
}
