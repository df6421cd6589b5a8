//! `GET /payment-flows`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use flow_core::ids::{CallerId, FlowId, RefundOrderNo, TradeOrderNo};
use flow_core::ports::FlowFilter;
use flow_core::state::State as FlowState;

use crate::api::Api;
use crate::auth::Caller;
use crate::http::Query;
use crate::problem::{Problem, refusals};
use crate::settings::Settings;
use crate::view::{FlowList, FlowView};

refusals!(Refusals: InvalidParameter, Unauthenticated, Internal, DatabaseUnavailable);

/// Longest age that can be asked for, in milliseconds: ten years.
pub(super) const MAX_AGE_MS: u64 = 315_360_000_000;

/// Find payments
///
/// Any role; a client sees its own flows. Newest first; everything that is given must hold.
#[utoipa::path(
    get,
    path = "/payment-flows",
    tag = "payments",
    operation_id = "listPaymentFlows",
    security(("api_key" = [])),
    params(
        ("user_id" = Option<String>, Query, description = "Of this user"),
        ("scene" = Option<String>, Query, description = "Of this scene"),
        ("biz_key" = Option<String>, Query, description = "Of this business goal"),
        ("trade_order_no" = Option<String>, Query, description = "With this charge number"),
        ("refund_order_no" = Option<String>, Query, description = "With this refund number"),
        ("caller" = Option<String>, Query, description = "Created by this application"),
        ("state" = Option<String>, Query, description = "In this state, as in `state` of a flow"),
        ("open" = Option<bool>, Query, description = "`true`: not final; `false`: final"),
        ("held" = Option<bool>, Query, description = "`true`: frozen; `false`: not"),
        ("min_age_ms" = Option<u64>, Query, description = "In its present state for at least so long"),
        ("limit" = Option<u32>, Query, description = "Most flows of the page"),
        ("cursor" = Option<String>, Query, description = "From the previous page; opaque"),
    ),
    responses((status = 200, description = "A page of flows", body = FlowList), Refusals),
)]
pub(super) async fn list_flows(
    State(api): State<Arc<Api>>,
    caller: Caller,
    query: Query,
) -> Result<Json<FlowList>, Problem> {
    let ListQuery { filter, before, limit_rows } = ListQuery::read(query, &caller, &api.settings)?;
    let Some(filter) = filter else {
        return Ok(Json(FlowList { flows: vec![], has_more: false, cursor: None }));
    };
    let page = api.store.find(&filter, before, limit_rows).await?;
    Ok(Json(FlowList {
        cursor: page.flows.last().filter(|_| page.has_more).map(|flow| flow.id.to_string()),
        has_more: page.has_more,
        flows: page.flows.iter().map(|flow| FlowView::of(flow, &caller)).collect(),
    }))
}

/// What a query string of `GET /payment-flows` asks for.
#[derive(Debug, Clone)]
pub struct ListQuery {
    /// What must hold of a flow, with the caller's own name where it sees its own alone; `None` when it asks for what
    /// the caller may not see.
    pub filter: Option<FlowFilter>,
    /// Only flows older than this one: the cursor.
    pub before: Option<FlowId>,
    /// Most rows of the page.
    pub limit_rows: u32,
}

impl ListQuery {
    /// Reads a query string.
    ///
    /// # Errors
    /// 400, naming the parameter.
    pub fn parse(text: &str, caller: &Caller, settings: &Settings) -> Result<ListQuery, Problem> {
        ListQuery::read(Query::of(text), caller, settings)
    }

    fn read(mut query: Query, caller: &Caller, settings: &Settings) -> Result<ListQuery, Problem> {
        let filter = read_filter(&mut query, caller)?;
        let limit_rows = read_limit(&mut query, settings)?;
        let before = query.take_with("cursor", |text| text.parse().map_err(|_| not_ours("cursor")))?;
        query.finish()?;
        Ok(ListQuery { filter, before, limit_rows })
    }
}

/// The filter; `None` when it asks for what the caller may not see.
fn read_filter(query: &mut Query, caller: &Caller) -> Result<Option<FlowFilter>, Problem> {
    let asked = query.take::<CallerId>("caller")?;
    let visible = match (caller.sees_only(), &asked) {
        (Some(own), Some(asked)) => own == asked,
        (Some(_), None) | (None, Some(_) | None) => true,
    };
    let filter = FlowFilter {
        caller: caller.sees_only().cloned().or(asked),
        user_id: query.take("user_id")?,
        scene: query.take("scene")?,
        biz_key: query.take("biz_key")?,
        trade_order_no: query.take_with("trade_order_no", |text| {
            TradeOrderNo::try_from(text.to_owned()).map_err(|e| e.to_string())
        })?,
        refund_order_no: query.take_with("refund_order_no", |text| {
            RefundOrderNo::try_from(text.to_owned()).map_err(|e| e.to_string())
        })?,
        state: query.take_with("state", |text| {
            FlowState::parse(text).ok_or_else(|| "state is not one of a flow's states".to_owned())
        })?,
        open: query.take_flag("open")?,
        held: query.take_flag("held")?,
        min_age_ms: query.take_whole("min_age_ms", MAX_AGE_MS)?,
    };
    Ok(visible.then_some(filter))
}

/// Rows of the page; more than the most is the most.
pub(super) fn read_limit(query: &mut Query, settings: &Settings) -> Result<u32, Problem> {
    let asked = query.take_whole("limit", u64::from(u32::MAX))?;
    match asked.map(u32::try_from) {
        None => Ok(settings.default_page_rows),
        Some(Ok(0)) => Err(Problem::parameter("limit", "limit must be at least 1")),
        Some(Ok(rows)) => Ok(rows.min(settings.max_page_rows)),
        Some(Err(_)) => Ok(settings.max_page_rows),
    }
}

/// The complaint about a cursor.
pub(super) fn not_ours(name: &str) -> String {
    format!("{name} is not one that a previous page gave; start without it")
}
