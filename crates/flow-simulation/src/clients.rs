//! Clients: they press the button, press it again, give up, come back with the same key or another, cancel, and start
//! anew when a payment has failed. What they are told is checked against what is.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use flow_core::advance::Cancelled;
use flow_core::create::{CreateError, PaymentRequest, Taken};
use flow_core::flow::{Flow, Trigger};
use flow_core::ids::{Fingerprint, FlowId, TraceId};
use flow_core::ports::StoreError;
use flow_core::state::State;
use flow_testkit::samples;
use tokio::time::timeout;

use crate::cast::Cast;
use crate::dice::{Draw, Topic};
use crate::mind;
use crate::plan::ClientPlan;
use crate::site::Site;
use crate::time::sleep_ms;
use crate::trace::{What, Who};

/// Most payments that one client begins.
const MAX_PAYMENTS: u32 = 3;

/// Most tries of one payment.
const MAX_TRIES: u32 = 5;

impl Known {
    /// "Nothing was recorded" must be true, and stay so.
    fn is_refused(&self) -> bool {
        self.refused && self.flow.is_none() && !self.in_doubt && !self.key_is_taken
    }
}

/// One client's life.
pub(crate) struct Client {
    pub(crate) site: Arc<Site>,
    pub(crate) cast: Arc<Cast>,
    pub(crate) plan: ClientPlan,
    /// Requests of which it was told for sure that nothing was recorded, and that it did not try again.
    pub(crate) refused: Vec<PaymentRequest>,
}

/// What a client knows of one payment.
#[derive(Default)]
struct Known {
    flow: Option<FlowId>,
    /// A try ended without an answer, or with one that leaves it open.
    in_doubt: bool,
    /// It was told that nothing was recorded.
    refused: bool,
    /// It was told that the key is another payment's.
    key_is_taken: bool,
}

impl Client {
    /// Begins payments until it has what it wants, or has had enough.
    pub(crate) async fn live(mut self) -> Vec<PaymentRequest> {
        sleep_ms(self.plan.start_ms).await;
        self.payments().await;
        self.refused
    }

    async fn payments(&mut self) {
        for number in 0..MAX_PAYMENTS {
            if self.site.is_calm() {
                return;
            }
            let mut draw = self.draw();
            let request = self.request(number, &mut draw);
            let known = self.pay(&request).await;
            self.refused.retain(|refused| refused.key != request.key);
            if known.is_refused() {
                self.refused.push(request.clone());
            }
            let Some(flow_id) = known.flow else {
                sleep_ms(draw.spread(10, 20_000)).await;
                continue;
            };
            if draw.chance(350) {
                sleep_ms(draw.spread(0, 10_000)).await;
                self.cancel(flow_id).await;
            }
            self.wait_for_end(flow_id).await;
            if draw.chance(200) {
                // Presses the button once more, whatever came of it.
                self.pay(&request).await;
            }
            let failed = self.site.store.flow(flow_id).is_some_and(|flow| flow.state.frees_target());
            if !failed || !draw.chance(700) {
                return;
            }
        }
    }

    fn draw(&self) -> Draw {
        self.site.draw(Topic::Client, i64::from(self.plan.number))
    }

    fn note(&self, what: What) {
        self.site.note(Who::Client(self.plan.number), what);
    }

    fn request(&self, number: u32, draw: &mut Draw) -> PaymentRequest {
        self.site.time.sync();
        let target = self.plan.target;
        let longest_ms = self.site.plan.longest_deadline_ms;
        let ahead_ms = if draw.chance(250) {
            draw.spread(50, longest_ms)
        } else {
            draw.between(longest_ms / 4, longest_ms)
        };
        let ahead_ms = i64::try_from(ahead_ms).unwrap_or(50);
        let deadline = self.site.time.database.now() + TimeDelta::milliseconds(ahead_ms);
        let amount = if draw.chance(60) { 250 } else { 100 };
        let caller = samples::caller_named(if draw.chance(40) { "rival" } else { "shop" });
        // Now and then a key that was used before, by mistake.
        let key_number = if draw.chance(30) { 0 } else { number };
        let parts =
            [target.to_be_bytes(), i64::to_be_bytes(amount), deadline.timestamp_millis().to_be_bytes()];
        PaymentRequest {
            caller,
            key: samples::key(&format!("key-{}-{key_number}", self.plan.number)),
            fingerprint: Fingerprint::of(&[&parts[0], &parts[1], &parts[2]]),
            money: samples::cny(amount),
            trace_id: TraceId::new(format!("client-{}-{number}", self.plan.number)).ok(),
            first_due_in_ms: self.site.plan.first_due_in_ms,
            ..samples::request(target, deadline)
        }
    }

    /// Tries until there is an answer, or patience ends. Every try has the same key.
    async fn pay(&self, request: &PaymentRequest) -> Known {
        let mut known = Known::default();
        for _ in 0..MAX_TRIES {
            let mut draw = self.draw();
            let (entrance, gives_up) = (draw.between(0, 9), draw.chance(120));
            let (patience_ms, pause_ms) = (draw.spread(1, 8_000), draw.spread(0, 5_000));
            self.note(What::Wanted("pay, target", self.plan.target));
            let settled = self.try_once(request, entrance, patience_ms, &mut known).await;
            if settled || gives_up || self.site.is_calm() || self.site.is_broken() {
                break;
            }
            sleep_ms(pause_ms).await;
        }
        known
    }

    /// One request; whether its answer settles the matter for the client.
    async fn try_once(
        &self,
        request: &PaymentRequest,
        entrance: u64,
        patience_ms: u64,
        known: &mut Known,
    ) -> bool {
        let Some(api) = self.cast.api(entrance) else {
            self.note(What::Told("connection refused", 0));
            return false;
        };
        let Ok(mut started) = api.pay(request.clone(), patience_ms) else {
            self.note(What::Told("busy", 0));
            return false;
        };
        match timeout(Duration::from_millis(patience_ms), started.answer()).await {
            Err(_) | Ok(Err(_)) => {
                self.note(What::Told("nothing: hangs up", 0));
                known.in_doubt = true;
                false
            }
            Ok(Ok(Ok(taken))) => {
                let (how, flow) = match taken {
                    Taken::Created(seen) => ("created", seen.value),
                    Taken::Replayed(seen) => ("its own flow, replayed", seen.value),
                    Taken::Joined(seen) => ("the target's flow, joined", seen.value),
                };
                self.note(What::Told(how, flow.id.get()));
                self.learn(&flow, known);
                true
            }
            Ok(Ok(Err(error))) => self.refused(&error, known),
        }
    }

    /// One key always stands for one flow.
    fn learn(&self, flow: &Flow, known: &mut Known) {
        if let Some(before) = known.flow.filter(|before| *before != flow.id) {
            self.site.broken(format!("one key, two flows: {before} and {}", flow.id));
        }
        known.flow = Some(flow.id);
    }

    fn refused(&self, error: &CreateError, known: &mut Known) -> bool {
        let (told, settles) = match error {
            CreateError::KeyReused { .. } => {
                known.key_is_taken = true;
                ("key reused", true)
            }
            CreateError::OpenAttemptDiffers { .. } => ("another amount is open", true),
            CreateError::TargetOfOtherCaller => ("another application's", true),
            CreateError::DeadlinePassed => ("deadline passed", true),
            CreateError::DeadlineTooFar { .. } => ("deadline too far", true),
            CreateError::Contended => ("contended", false),
            CreateError::Store(StoreError::OutcomeUnknown) => {
                known.in_doubt = true;
                ("outcome unknown", false)
            }
            CreateError::Store(StoreError::Unavailable { .. }) => ("unavailable, nothing recorded", false),
            CreateError::Store(
                StoreError::Guarded { .. } | StoreError::Corrupt { .. } | StoreError::Unexpected(_),
            ) => {
                self.site.broken(format!("a creation was refused by the database: {error}"));
                ("defect", true)
            }
        };
        self.note(What::Told(told, 0));
        known.refused = !matches!(error, CreateError::Store(StoreError::OutcomeUnknown));
        settles
    }

    async fn cancel(&self, flow_id: FlowId) {
        let mut draw = self.draw();
        let Some(api) = self.cast.api(draw.between(0, 9)) else { return };
        self.note(What::Wanted("cancel, flow", flow_id.get()));
        let trace_id = TraceId::new(format!("cancel-{}", self.plan.number)).expect("visible and short");
        let call = api.call(Trigger::Sync, trace_id);
        let Ok(mut started) = api.cancel(flow_id, samples::actor("shop"), call) else { return };
        let told = match timeout(Duration::from_millis(draw.spread(1, 8_000)), started.answer()).await {
            Err(_) | Ok(Err(_)) => "nothing: hangs up",
            Ok(Ok(Ok(Cancelled::Recorded(_) | Cancelled::Already(_)))) => {
                if self.site.store.flow(flow_id).is_none_or(|flow| flow.cancel.is_none()) {
                    self.site
                        .broken(format!("told that cancelling flow {flow_id} is recorded, and it is not"));
                }
                "cancelling is recorded"
            }
            Ok(Ok(Ok(Cancelled::TooLate(flow)))) => {
                mind::cancel_late(&self.site, &flow);
                "too late to cancel"
            }
            Ok(Ok(Err(_))) => "cancelling failed",
        };
        self.note(What::Told(told, flow_id.get()));
    }

    /// Until the flow has ended, or the client has no more patience.
    async fn wait_for_end(&self, flow_id: FlowId) {
        let patience = Duration::from_millis(self.draw().spread(1_000, 120_000));
        let ended = async {
            loop {
                let changed = self.site.changed.notified();
                let state = self.site.store.flow(flow_id).map(|flow| flow.state);
                if self.site.is_calm() || state.is_none_or(State::is_terminal) {
                    return;
                }
                changed.await;
            }
        };
        drop(timeout(patience, ended).await);
    }
}
