//! What the wallet says of its own accord: a callback for each charge and each refund that it makes, lost, doubled, late,
//! before its own answer, and now and then wrong. Signatures are the adapter's matter: whatever comes here bears a good one.

use std::sync::Arc;
use std::time::Duration;

use flow_core::callback::{Callbacks, Claim, EventKey, EventType, NewEvent};
use flow_core::flow::Flow;
use flow_core::ids::{ChannelName, EventId};
use flow_core::money::Money;
use flow_core::ports::Recorded;
use flow_testkit::samples;
use pay_api::work::Work;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

use crate::cast::Cast;
use crate::dice::{Draw, Topic};
use crate::site::Site;
use crate::time::sleep_ms;
use crate::trace::{What, Who};

/// How long the channel waits for its 2xx.
const PATIENCE_MS: u64 = 5_000;
/// Most times that it says the same thing because it was not heard.
const MAX_TRIES: u32 = 4;

/// A callback under way.
#[derive(Debug)]
pub(crate) struct Letter {
    event: NewEvent,
    after_ms: u64,
    /// Chooses the process that it goes to.
    entrance: u64,
}

/// Where callbacks come in, of one process.
#[derive(Clone)]
pub(crate) struct CallbackEntrance {
    pub(crate) callbacks: Arc<Callbacks>,
    pub(crate) work: Arc<Work>,
}

impl Site {
    /// The wallet has just charged or paid back under this flow's number, and tells of it.
    pub(crate) fn tell_of(&self, flow: &Flow, event_type: EventType) {
        let mut draw = self.draw_for_flow(Topic::Callback, flow.id.get());
        let rough = self.plan.far_trouble > 0 && self.allows(&draw);
        let (copies, is_wrong) = (draw.pick(&[0, 1, 1, 1, 2, 3]), draw.chance(80));
        let (copies, is_wrong) = if rough { (copies, is_wrong) } else { (1, false) };
        if copies != 1 || is_wrong {
            self.note(Who::Wallet, What::Fault(draw.point, "a callback is lost, doubled or wrong", 0));
        }
        let (claim, money) =
            if is_wrong { wrong(flow, &mut draw) } else { (Claim::Success, Some(flow.money.clone())) };
        let event =
            event(flow, event_type, claim, money, &format!("{}-{}", draw.point.nth, event_type.as_str()));
        for _ in 0..copies {
            let after_ms = if rough { draw.spread(0, self.plan.longest_late_ms) } else { 1 };
            self.post(Letter { event: event.clone(), after_ms, entrance: draw.between(0, 9) });
        }
    }

    /// Somebody with the channel's secret says that a flow is paid, or paid back, of which the wallet knows nothing.
    pub(crate) fn tell_stories_of(&self, flow: &Flow) {
        let mut draw = self.draw_for_flow(Topic::Callback, flow.id.get());
        if self.plan.far_trouble == 0 || !draw.chance(60) || !self.allows(&draw) {
            return;
        }
        self.note(Who::Wallet, What::Fault(draw.point, "a callback tells stories", 0));
        let (event_type, claim) = (draw.pick(&EventType::ALL), draw.pick(&Claim::ALL));
        let event =
            event(flow, event_type, claim, Some(flow.money.clone()), &format!("story-{}", draw.point.nth));
        self.post(Letter { event, after_ms: draw.spread(0, 60_000), entrance: draw.between(0, 9) });
    }
}

/// A claim, or an amount, that is not true of what was done.
fn wrong(flow: &Flow, draw: &mut Draw) -> (Claim, Option<Money>) {
    let another = samples::money(flow.money.amount() + 1, flow.money.currency().as_str());
    match draw.between(0, 3) {
        0 => (Claim::Failed, Some(flow.money.clone())),
        1 => (Claim::Processing, None),
        2 => (Claim::Success, Some(samples::money(flow.money.amount(), "XXX"))),
        _ => (Claim::Success, Some(another)),
    }
}

fn event(flow: &Flow, event_type: EventType, claim: Claim, money: Option<Money>, id: &str) -> NewEvent {
    NewEvent {
        key: EventKey {
            order_no: flow.trade_order_no.clone(),
            event_type,
            channel: ChannelName::new("main").expect("letters"),
            event_id: EventId::new(id.to_owned()).expect("visible and short"),
        },
        claim,
        money,
        raw: Vec::new(),
        trace_id: None,
    }
}

/// Carries callbacks to processes, each on its own way.
pub(crate) async fn carry(cast: Arc<Cast>, mut letters: UnboundedReceiver<Letter>) {
    while let Some(letter) = letters.recv().await {
        let cast = Arc::clone(&cast);
        tokio::spawn(async move {
            sleep_ms(letter.after_ms).await;
            for number in 0..MAX_TRIES {
                if told(&cast, &letter).await {
                    break;
                }
                sleep_ms(1_000 << number).await;
            }
            cast.site().arrived();
        });
    }
}

/// Says it once; whether the channel was answered with a 2xx.
async fn told(cast: &Cast, letter: &Letter) -> bool {
    let Some(CallbackEntrance { callbacks, work }) = cast.callback_entrance(letter.entrance) else {
        return false;
    };
    let flow = letter.event.key.order_no.parts().map_or(0, |(_, flow_id)| flow_id.get());
    // A process that dies under it never answers.
    let recording = callbacks.record(letter.event.clone());
    let recorded = timeout(Duration::from_millis(PATIENCE_MS), recording).await;
    let heard = match &recorded {
        Ok(Ok(Recorded::Stored(_))) => "kept",
        Ok(Ok(Recorded::Known(_))) => "known",
        Ok(Err(_)) => "not kept",
        Err(_) => "no answer",
    };
    cast.site().note(Who::Wallet, What::Heard(Topic::Callback, flow, heard));
    let Ok(Ok(recorded)) = recorded else { return false };
    cast.site().acknowledged(letter.event.key.clone());
    if let Recorded::Stored(event) = recorded {
        // Too much at once is the scanner's.
        drop(work.callback(&callbacks, event));
    }
    true
}
