//! What channels have said, over the in-memory stores and two downstream systems: kept, asked about, never believed.

use std::sync::Arc;

use flow_core::answer::UnavailableCause;
use flow_core::callback::{
    CallbackSettings, Callbacks, Came, Claim, Contradiction, EventKey, EventType, NewEvent,
};
use flow_core::flow::Flow;
use flow_core::ids::{ChannelName, EventId, TradeOrderNo};
use flow_core::ports::{InboxChange, InboxState, Recorded, StoreError};
use flow_core::retry::Schedule;
use flow_core::state::State;
use flow_testkit::fakes::{Call, Fault};
use flow_testkit::jitter::FixedJitter;
use flow_testkit::mem_inbox::{MemInbox, StoredEvent};
use flow_testkit::mem_store::{StoreFault, StoreOp};
use flow_testkit::samples;
use pay_scanner::inbox::{InboxSettings, InboxSweep, InboxTally};
use tokio_util::sync::CancellationToken;

use crate::convergence::Product;

const CLAIM_MS: u64 = 15_000;
const GIVE_UP_AFTER_MS: u64 = 3_600_000;

/// A product with an inbox.
struct Bench {
    product: Product,
    inbox: MemInbox,
}

impl Bench {
    fn new() -> Bench {
        let product = Product::new();
        let inbox = MemInbox::new(product.clock.clone());
        Bench { product, inbox }
    }

    fn callbacks(&self) -> Arc<Callbacks> {
        let settings = CallbackSettings {
            claim_ms: CLAIM_MS,
            retry: Schedule::new(vec![1_000, 60_000]).unwrap(),
            give_up_after_ms: GIVE_UP_AFTER_MS,
            budget_ms: 10_000,
        };
        Arc::new(Callbacks::new(
            Arc::new(self.inbox.clone()),
            Arc::new(self.product.store.clone()),
            self.product.advancer(1),
            Arc::new(FixedJitter::NONE),
            settings,
        ))
    }

    /// One scanner process.
    fn sweep(&self) -> InboxSweep {
        let settings = InboxSettings { page_rows: 2, max_parallel_events: 3 };
        InboxSweep::new(Arc::new(self.product.store.clone()), self.callbacks(), settings)
    }

    async fn round(&self) -> InboxTally {
        self.sweep().round(&CancellationToken::new()).await.unwrap()
    }

    /// Keeps an event, as an API does that dies before it works on it.
    async fn keep(&self, event: NewEvent) {
        let recorded = self.callbacks().record(event).await.unwrap();
        assert!(matches!(recorded, Recorded::Stored(_)), "{recorded:?}");
    }

    /// The same, some time ago.
    async fn keep_until_due(&self, event: NewEvent) {
        self.keep(event).await;
        self.product.clock.advance_ms(CLAIM_MS);
    }

    fn flow(&self, number: i64) -> Flow {
        self.product.store.flow(samples::flow_id(number)).unwrap()
    }

    fn only_event(&self) -> StoredEvent {
        let mut events = self.inbox.events();
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    fn wallet_calls(&self) -> u64 {
        Call::ALL.into_iter().map(|call| self.product.world.calls(call)).sum()
    }
}

fn event(number: i64, event_type: EventType, claim: Claim) -> NewEvent {
    NewEvent {
        key: EventKey {
            order_no: TradeOrderNo::derive(samples::user(number), samples::flow_id(number)),
            event_type,
            channel: ChannelName::new("main").unwrap(),
            event_id: EventId::new(format!("evt-{number}")).unwrap(),
        },
        claim,
        money: Some(samples::new_flow(number, chrono::DateTime::UNIX_EPOCH).money),
        raw: b"{}".to_vec(),
        trace_id: None,
    }
}

fn paid(number: i64) -> NewEvent {
    event(number, EventType::Payment, Claim::Success)
}

fn tally(fields: InboxTally) -> InboxTally {
    fields
}

#[tokio::test]
async fn what_a_dead_process_left_is_found_when_its_claim_ends() {
    let bench = Bench::new();
    bench.product.create(1, 3_600);
    bench.keep(paid(1)).await;
    assert_eq!(bench.round().await, InboxTally::default(), "it is still the other process's");
    bench.product.clock.advance_ms(CLAIM_MS);
    assert_eq!(bench.round().await, tally(InboxTally { seen: 1, processed: 1, ..InboxTally::default() }));
    assert_eq!(bench.flow(1).state, State::BizSuccess);
    let event = bench.only_event();
    assert_eq!((event.state, event.event.tries), (InboxState::Processed, 1));
    assert!(event.processed_at.is_some());
    let triggers: Vec<String> =
        bench.product.store.events_of(samples::flow_id(1)).into_iter().skip(1).map(|e| e.trigger).collect();
    assert!(triggers.iter().all(|trigger| trigger == "CALLBACK"), "{triggers:?}");
    assert_eq!(bench.round().await, InboxTally::default(), "an end is an end");
}

#[tokio::test]
async fn an_event_whose_order_is_not_there_yet_is_kept_and_tried_again() {
    let bench = Bench::new();
    bench.keep_until_due(paid(1)).await;
    let kept = tally(InboxTally { seen: 1, kept: 1, ..InboxTally::default() });
    assert_eq!(bench.round().await, kept);
    assert_eq!((bench.only_event().state, bench.only_event().note), (InboxState::New, Some("ORDER_UNKNOWN")));
    assert_eq!(bench.round().await, InboxTally::default(), "not before its time");
    bench.product.create(1, 3_600);
    bench.product.clock.advance_ms(60_000);
    assert_eq!(bench.round().await.processed, 1);
    assert_eq!(bench.flow(1).state, State::BizSuccess);
}

#[tokio::test]
async fn an_order_number_with_another_user_is_another_order() {
    let bench = Bench::new();
    bench.product.create(1, 3_600);
    let order_no = TradeOrderNo::derive(samples::user(2), samples::flow_id(1));
    let foreign = NewEvent { key: EventKey { order_no, ..paid(1).key }, ..paid(1) };
    bench.keep_until_due(foreign).await;
    assert_eq!(bench.round().await.kept, 1);
    assert_eq!((bench.flow(1).version.0, bench.wallet_calls()), (0, 0));
}

#[tokio::test]
async fn a_claim_that_the_wallet_does_not_know_of_moves_nothing_and_is_given_up() {
    let bench = Bench::new();
    bench.product.create(1, 3_600 * 4);
    // The debit never gets to the wallet: whatever the event says, there is no such order.
    let refused = Fault::Unavailable { cause: UnavailableCause::NotConnected, retry_after_ms: None };
    bench.product.world.script().set_source(move |call| (call == Call::Debit).then(|| refused.clone()));
    bench.keep_until_due(paid(1)).await;
    assert_eq!(bench.round().await.kept, 1);
    assert!(matches!(bench.flow(1).state, State::WaitPay | State::Paying), "{:?}", bench.flow(1).state);
    assert_eq!((bench.flow(1).paid_at, bench.only_event().note), (None, Some("NOT_CONFIRMED")));
    let mut rounds = 0;
    while bench.only_event().state == InboxState::New {
        bench.product.clock.advance_ms(60_000);
        bench.round().await;
        rounds += 1;
        assert!(rounds < 100, "given up after an hour of minutes");
    }
    assert_eq!(
        (bench.only_event().state, bench.only_event().note),
        (InboxState::GivenUp, Some("NOT_CONFIRMED"))
    );
    assert!((55..=61).contains(&rounds), "{rounds} tries within the hour");
    assert_eq!(bench.flow(1).state, State::Paying);
    assert_eq!(bench.product.world.ledger(&bench.flow(1).trade_order_no).charges, 0);
}

#[tokio::test]
async fn what_contradicts_is_written_down_and_changes_nothing() {
    let other_amount = NewEvent { money: Some(samples::cny(1)), ..paid(1) };
    let other_currency = NewEvent { money: Some(samples::money(1, "POINTS")), ..paid(1) };
    let cases = [
        (other_amount, Contradiction::OtherAmount),
        (other_currency, Contradiction::OtherCurrency),
        (event(1, EventType::Refund, Claim::Success), Contradiction::RefundedUnasked),
        (event(1, EventType::Refund, Claim::Processing), Contradiction::RefundUnasked),
    ];
    for (event, how) in cases {
        let bench = Bench::new();
        bench.product.create(1, 3_600);
        let before = bench.flow(1);
        bench.keep_until_due(event).await;
        assert_eq!(bench.round().await.contradicted, 1, "{how:?}");
        let event = bench.only_event();
        assert_eq!((event.state, event.note), (InboxState::Contradicted, Some(how.as_str())));
        assert_eq!(bench.flow(1), before, "{how:?}");
        assert_eq!(bench.wallet_calls(), 0, "nobody was even asked");
    }
}

#[tokio::test]
async fn two_scanners_share_what_is_due() {
    let bench = Bench::new();
    for number in 1..=9 {
        bench.product.create(number, 3_600);
        bench.keep(paid(number)).await;
    }
    bench.product.clock.advance_ms(CLAIM_MS);
    let (one, two, stop) = (bench.sweep(), bench.sweep(), CancellationToken::new());
    let (ours, theirs) = tokio::join!(one.round(&stop), two.round(&stop));
    let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
    assert_eq!(ours.processed + theirs.processed, 9, "{ours:?} {theirs:?}");
    for number in 1..=9 {
        assert_eq!(bench.flow(number).state, State::BizSuccess);
        assert_eq!(bench.product.world.ledger(&bench.flow(number).trade_order_no).charges, 1);
    }
    assert!(bench.inbox.events().iter().all(|event| event.event.tries == 1), "each was claimed once");
}

#[tokio::test]
async fn whoever_lost_its_claim_writes_nothing() {
    let bench = Bench::new();
    bench.product.create(1, 3_600);
    let callbacks = bench.callbacks();
    let Recorded::Stored(slow) = callbacks.record(paid(1)).await.unwrap() else { panic!("it is news") };
    bench.product.clock.advance_ms(CLAIM_MS);
    assert_eq!(bench.round().await.processed, 1);
    let now = bench.product.clock.now();
    assert_eq!(callbacks.work(slow, now).await.unwrap(), Came::TakenOver);
    assert_eq!(bench.product.world.ledger(&bench.flow(1).trade_order_no).charges, 1);
}

#[tokio::test]
async fn a_database_that_goes_away_leaves_the_event_open() {
    let bench = Bench::new();
    bench.product.create(1, 3_600);
    bench.keep_until_due(paid(1)).await;
    bench.product.store.fail_next(StoreOp::Load, StoreFault::Unavailable);
    assert_eq!(bench.round().await.failed, 1);
    assert_eq!(bench.only_event().state, InboxState::New);
    bench.inbox.set_away(true);
    let failed = bench.sweep().round(&CancellationToken::new()).await;
    assert!(matches!(failed, Err(StoreError::Unavailable { .. })), "{failed:?}");
    bench.inbox.set_away(false);
    bench.product.clock.advance_ms(CLAIM_MS);
    assert_eq!(bench.round().await.processed, 1);
}

#[tokio::test]
async fn a_stopped_round_begins_nothing() {
    let bench = Bench::new();
    bench.keep_until_due(paid(1)).await;
    let stop = CancellationToken::new();
    stop.cancel();
    assert_eq!(bench.sweep().round(&stop).await.unwrap(), InboxTally::default());
    assert_eq!(bench.only_event().event.tries, 0);
}

#[tokio::test]
async fn a_held_flow_ends_the_event() {
    let bench = Bench::new();
    bench.product.create(1, 3_600);
    let hold = |flow: &mut Flow| {
        flow.hold = Some(flow_core::flow::Hold {
            reason: flow_core::flow::HoldReason::Operator,
            since: flow.created_at,
            by: samples::actor("alice"),
        });
    };
    bench.product.store.write_by_hand(samples::flow_id(1), hold).unwrap();
    bench.keep_until_due(paid(1)).await;
    assert_eq!(bench.round().await.processed, 1);
    assert_eq!(bench.wallet_calls(), 0);
    assert_eq!(
        bench.only_event().state,
        InboxChange::Processed.state(),
        "people decide; the wallet is asked again when they release it"
    );
}
