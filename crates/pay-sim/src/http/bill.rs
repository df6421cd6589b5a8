//! The wallet's bill for a day, and what is wrong with it.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use chrono::NaiveDate;
use chrono_tz::Tz;
use serde::Deserialize;
use serde_json::json;
use sha1::{Digest as _, Sha1};

use super::reply::{Reply, json};
use crate::bill::{self, Ask, BillFault, Format, NoBill, Pack, Rows, Window};
use crate::sim::Sim;

/// Orders read under one lock.
const PAGE_ORDERS: usize = 500;
/// What the channel vouches for: SHA-1 of the bill before it was packed.
const SHA1: HeaderName = HeaderName::from_static("x-bill-sha1");

type Shared = State<Arc<Sim>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    #[serde(default)]
    format: Format,
    #[serde(default)]
    pack: Pack,
    #[serde(default = "shanghai")]
    zone: Tz,
}

fn shanghai() -> Tz {
    Tz::Asia__Shanghai
}

/// The bill for a day; rows of a day that goes on may still be missing.
pub(super) async fn bill(
    State(sim): Shared,
    day: Result<Path<NaiveDate>, PathRejection>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Response {
    let (day, wanted) = match (day, wanted) {
        (Ok(Path(day)), Ok(Query(wanted))) => (day, wanted),
        (Err(rejection), _) => return Reply::invalid(rejection.body_text()).into_response(),
        (_, Err(rejection)) => return Reply::invalid(rejection.body_text()).into_response(),
    };
    let Some(window) = Window::of(day, wanted.zone) else {
        return Reply::invalid("the day is not in the calendar of its zone").into_response();
    };
    let faults = sim.bill_faults.all();
    let (truncated, wrong_total) =
        (faults.contains(&BillFault::Truncated), faults.contains(&BillFault::WrongTotal));
    let Wanted { format, pack, zone } = wanted;
    let ask = Ask { day, zone, format, pack, wrong_total };
    let made = match collect(&sim, Rows::new(window, faults)).await {
        Ok(rows) => bill::write(&rows.sorted(), &ask),
        Err(no_bill) => Err(no_bill),
    };
    let mut made = match made {
        Ok(made) => made,
        Err(no_bill) => {
            return Reply::error(StatusCode::UNPROCESSABLE_ENTITY, "NO_SUCH_BILL", no_bill).into_response();
        }
    };
    let sha1: String = Sha1::digest(&made.unpacked).iter().map(|byte| format!("{byte:02x}")).collect();
    if truncated {
        made.bytes.truncate(made.bytes.len() / 3 * 2);
    }
    let mut response = Response::new(Body::from(made.bytes));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(made.content_type));
    headers.extend(HeaderValue::try_from(sha1).ok().map(|sha1| (SHA1, sha1)));
    response
}

/// Page by page: exact once the day is over.
async fn collect(sim: &Sim, mut rows: Rows) -> Result<Rows, NoBill> {
    let mut after: Option<String> = None;
    loop {
        let page = sim.read(|world| world.moved_after(after.as_deref(), PAGE_ORDERS));
        rows.add(page.moved)?;
        after = page.last;
        if after.is_none() {
            return Ok(rows);
        }
        tokio::task::yield_now().await;
    }
}

pub(super) async fn add_fault(State(sim): Shared, fault: Result<Json<BillFault>, JsonRejection>) -> Response {
    let fault = match fault {
        Ok(Json(fault)) => fault,
        Err(rejection) => return Reply::invalid(rejection.body_text()).into_response(),
    };
    match sim.bill_faults.add(fault) {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(full) => Reply::error(StatusCode::UNPROCESSABLE_ENTITY, "TOO_MANY_FAULTS", full).into_response(),
    }
}

pub(super) async fn list_faults(State(sim): Shared) -> Response {
    json(StatusCode::OK, &json!({ "faults": sim.bill_faults.all() }))
}

pub(super) async fn clear_faults(State(sim): Shared) -> StatusCode {
    sim.bill_faults.clear();
    StatusCode::NO_CONTENT
}
