//! People on call: they hold, release, push and cancel at random while it storms, and clear up when all is calm.

use std::sync::Arc;

use flow_core::flow::{Flow, Trigger};
use flow_core::ids::{FlowId, TraceId};
use flow_testkit::samples;
use pay_api::work::Work;

use crate::cast::Cast;
use crate::plan::{Act, ActKind};
use crate::site::Site;
use crate::time::sleep_ms;
use crate::trace::{What, Who};

/// How often people look for held flows once all is calm.
const LOOK_EVERY_MS: u64 = 60_000;

/// Does one thing at its time.
pub(crate) async fn act(site: Arc<Site>, cast: Arc<Cast>, act: Act) {
    sleep_ms(act.at_ms).await;
    let flows = site.store.flows();
    let Some(api) = cast.api(act.which).filter(|_| !flows.is_empty() && !site.is_calm()) else { return };
    let which = usize::try_from(act.which).unwrap_or(0) % flows.len();
    let flow_id = flows[which].id;
    site.trace().incident(act.point);
    match act.kind {
        ActKind::Hold => hold(&site, &api, flow_id).await,
        ActKind::Release => release(&site, &api, flow_id).await,
        ActKind::Push => push(&site, &api, flow_id).await,
        ActKind::Cancel => cancel(&site, &api, flow_id).await,
    }
}

async fn hold(site: &Site, api: &Work, flow_id: FlowId) {
    site.note(Who::Person, What::Wanted("hold flow", flow_id.get()));
    if let Ok(mut started) =
        api.hold(flow_id, samples::actor("on-call"), api.call(Trigger::Operator, trace_id()))
    {
        drop(started.answer().await);
    }
}

async fn release(site: &Site, api: &Work, flow_id: FlowId) {
    site.note(Who::Person, What::Wanted("release flow", flow_id.get()));
    let call = api.call(Trigger::Operator, trace_id());
    if let Ok(mut started) = api.release(flow_id, samples::actor("on-call"), call) {
        drop(started.answer().await);
    }
}

async fn push(site: &Site, api: &Work, flow_id: FlowId) {
    site.note(Who::Person, What::Wanted("advance flow", flow_id.get()));
    if let Ok(mut started) = api.advance(flow_id, api.call(Trigger::Operator, trace_id())) {
        drop(started.answer().await);
    }
}

async fn cancel(site: &Site, api: &Work, flow_id: FlowId) {
    site.note(Who::Person, What::Wanted("cancel flow", flow_id.get()));
    let call = api.call(Trigger::Operator, trace_id());
    if let Ok(mut started) = api.cancel(flow_id, samples::actor("on-call"), call) {
        drop(started.answer().await);
    }
}

/// Releases whatever is held, again and again.
pub(crate) async fn clear_up(site: Arc<Site>, cast: Arc<Cast>) {
    for round in 0u64.. {
        // Whom the wallet took a wrong amount from is not helped by trying again.
        let held = |flow: &Flow| is_held(flow) && !site.is_overcharged(flow);
        for flow in site.store.flows().into_iter().filter(held) {
            if let Some(api) = cast.api(round) {
                release(&site, &api, flow.id).await;
            }
        }
        sleep_ms(LOOK_EVERY_MS).await;
    }
}

fn is_held(flow: &Flow) -> bool {
    flow.hold.is_some() && !flow.state.is_terminal()
}

fn trace_id() -> TraceId {
    TraceId::new("on-call").expect("visible and short")
}
