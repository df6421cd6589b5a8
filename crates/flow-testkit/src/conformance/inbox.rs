//! The inbox's suite. Every case starts from an empty inbox of its own.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use flow_core::callback::{Claim, EventKey, EventType, NewEvent};
use flow_core::ids::{ChannelName, EventId, TradeOrderNo, Version};
use flow_core::money::Money;
use flow_core::ports::{
    CasOutcome, FlowStore, Inbox, InboxChange, InboxEvent, InboxPage, InboxState, InboxWrite, Recorded,
    StoreError,
};

use crate::samples;

/// Makes inboxes to test.
#[async_trait]
pub trait InboxFactory: Send + Sync {
    /// An empty inbox.
    async fn fresh(&self) -> InboxBench;
}

/// An empty inbox under test.
pub struct InboxBench {
    /// The inbox.
    pub inbox: Arc<dyn Inbox>,
    /// The same data, as another process sees it.
    pub second: Arc<dyn Inbox>,
    /// Tells the database's time.
    pub clock: Arc<dyn FlowStore>,
    /// Whatever must outlive the case, such as the guard that drops a schema.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// The inbox's suite, one test per case.
#[macro_export]
macro_rules! inbox_conformance {
    ($factory:expr) => {
        $crate::conformance_cases! { inbox; $factory;
            an_event_is_kept_once_and_comes_back_as_it_went_in,
            every_part_of_the_key_makes_another_event,
            an_event_without_money_and_the_longest_body_are_kept,
            a_body_that_is_too_long_is_refused_and_leaves_nothing,
            a_recorded_event_is_the_recorders_until_its_claim_ends,
            only_due_events_are_listed_in_pages_by_id,
            a_claim_excludes_everybody_else,
            only_the_right_version_settles_and_only_once,
            an_event_that_is_tried_again_is_due_later,
            an_end_is_an_end,
            of_32_equal_recordings_one_is_news,
            of_32_claims_one_is_granted,
            what_is_open_is_counted,
        }
    };
}

const AN_HOUR_MS: u64 = 3_600_000;

fn event(number: i64) -> NewEvent {
    NewEvent {
        key: EventKey {
            order_no: TradeOrderNo::derive(samples::user(number), samples::flow_id(number)),
            event_type: EventType::Payment,
            channel: ChannelName::new("main").unwrap(),
            event_id: EventId::new(format!("evt-{number}")).unwrap(),
        },
        claim: Claim::Success,
        money: Some(samples::cny(1_990)),
        raw: format!("{{\"number\":{number}}}").into_bytes(),
        trace_id: None,
    }
}

async fn stored(inbox: &Arc<dyn Inbox>, event: NewEvent, claim_ms: u64) -> InboxEvent {
    match inbox.record(event, claim_ms).await.expect("the inbox is up") {
        Recorded::Stored(stored) => stored,
        Recorded::Known(state) => panic!("it is no news, and {state:?}"),
    }
}

async fn page(bench: &InboxBench, ahead_ms: i64) -> InboxPage {
    let now: DateTime<Utc> = bench.clock.now().await.expect("the database tells its time");
    InboxPage { after_id: 0, due_by: now + TimeDelta::milliseconds(ahead_ms), limit_rows: 100 }
}

async fn due(bench: &InboxBench, ahead_ms: i64) -> Vec<InboxEvent> {
    let page = page(bench, ahead_ms).await;
    bench.second.list_due_events(page).await.expect("the inbox is up")
}

async fn settle(bench: &InboxBench, event: &InboxEvent, change: InboxChange) -> CasOutcome {
    let write = InboxWrite { id: event.id, version: event.version, change };
    bench.inbox.settle_event(write).await.expect("the inbox is up")
}

/// Its repetition is known, whoever hears it.
pub async fn an_event_is_kept_once_and_comes_back_as_it_went_in(factory: &dyn InboxFactory) {
    let bench = factory.fresh().await;
    let kept = stored(&bench.inbox, event(1), 0).await;
    assert_eq!(bench.second.record(event(1), 0).await.unwrap(), Recorded::Known(InboxState::New));
    // The same event with another body and another claim is the same event.
    let retold = NewEvent { claim: Claim::Failed, raw: b"other".to_vec(), ..event(1) };
    assert_eq!(bench.inbox.record(retold, 0).await.unwrap(), Recorded::Known(InboxState::New));
    let listed = due(&bench, 0).await;
    let [found] = listed.as_slice() else { panic!("one event: {listed:?}") };
    assert_eq!((found.id, &found.key, found.claim), (kept.id, &event(1).key, Claim::Success));
    assert_eq!((&found.money, found.version, found.tries), (&Some(samples::cny(1_990)), Version::FIRST, 0));
    let apart_ms = (found.received_at - kept.received_at).num_milliseconds().abs();
    assert!(apart_ms < 10_000, "the recorder is told an estimate: {apart_ms} ms");
}

/// Number, type, channel and id: each alone makes the difference, and case counts.
pub async fn every_part_of_the_key_makes_another_event(factory: &dyn InboxFactory) {
    let bench = factory.fresh().await;
    let first = event(1);
    let other = |edit: &dyn Fn(&mut EventKey)| {
        let mut other = first.clone();
        edit(&mut other.key);
        other
    };
    let all = [
        first.clone(),
        other(&|key| key.order_no = event(2).key.order_no),
        other(&|key| key.event_type = EventType::Refund),
        other(&|key| key.channel = ChannelName::new("other").unwrap()),
        other(&|key| key.event_id = EventId::new("evt-2").unwrap()),
        other(&|key| key.event_id = EventId::new("EVT-1").unwrap()),
    ];
    for event in &all {
        stored(&bench.inbox, event.clone(), 0).await;
    }
    for event in &all {
        let again = bench.inbox.record(event.clone(), 0).await.unwrap();
        assert_eq!(again, Recorded::Known(InboxState::New), "{:?}", event.key);
    }
    assert_eq!(due(&bench, 0).await.len(), all.len());
}

/// Bytes are bytes, up to the limit.
pub async fn an_event_without_money_and_the_longest_body_are_kept(factory: &dyn InboxFactory) {
    let bench = factory.fresh().await;
    let raw = vec![0xFF; NewEvent::MAX_RAW_BYTES];
    stored(&bench.inbox, NewEvent { money: None, raw, ..event(1) }, 0).await;
    stored(&bench.inbox, NewEvent { raw: Vec::new(), money: Some(most()), ..event(2) }, 0).await;
    let listed = due(&bench, 0).await;
    assert_eq!(listed.iter().map(|event| event.money.clone()).collect::<Vec<_>>(), [None, Some(most())]);
}

fn most() -> Money {
    samples::money(i64::MAX, "ABCDEFGHIJKLMNOP")
}

/// Beyond it nothing is kept.
pub async fn a_body_that_is_too_long_is_refused_and_leaves_nothing(factory: &dyn InboxFactory) {
    let bench = factory.fresh().await;
    let raw = vec![b'x'; NewEvent::MAX_RAW_BYTES + 1];
    let refused = bench.inbox.record(NewEvent { raw, ..event(1) }, 0).await;
    assert!(matches!(refused, Err(StoreError::Guarded { .. })), "{refused:?}");
    assert_eq!(due(&bench, 0).await, []);
}

/// Nobody else finds it due meanwhile; afterwards everybody does.
pub async fn a_recorded_event_is_the_recorders_until_its_claim_ends(factory: &dyn InboxFactory) {
    let bench = factory.fresh().await;
    let kept = stored(&bench.inbox, event(1), AN_HOUR_MS).await;
    assert_eq!(due(&bench, 0).await, []);
    let claimed = bench.second.claim_event(kept.id, kept.version, 1_000).await.unwrap();
    assert_eq!(claimed, CasOutcome::Lost, "it is not due");
    assert_eq!(due(&bench, 2 * 3_600_000).await.len(), 1);
}

/// Ids ascend, and a cursor goes on where the page ended.
pub async fn only_due_events_are_listed_in_pages_by_id(factory: &dyn InboxFactory) {
    let bench = factory.fresh().await;
    let mut ids = Vec::new();
    for number in 1..=5 {
        ids.push(stored(&bench.inbox, event(number), 0).await.id);
        stored(&bench.inbox, event(100 + number), AN_HOUR_MS).await;
    }
    let whole = page(&bench, 0).await;
    let mut seen = Vec::new();
    let mut after_id = 0;
    loop {
        let rows = bench
            .inbox
            .list_due_events(InboxPage { after_id, limit_rows: 2, ..whole })
            .await
            .expect("the inbox is up");
        assert!(rows.len() <= 2);
        let Some(last) = rows.last() else { break };
        after_id = last.id.get();
        seen.extend(rows.into_iter().map(|row| row.id));
    }
    assert_eq!(seen, ids);
}

/// Whoever has seen the same version comes too late.
pub async fn a_claim_excludes_everybody_else(factory: &dyn InboxFactory) {
    let bench = factory.fresh().await;
    let kept = stored(&bench.inbox, event(1), 0).await;
    let first = bench.inbox.claim_event(kept.id, kept.version, AN_HOUR_MS).await.unwrap();
    let second = bench.second.claim_event(kept.id, kept.version, AN_HOUR_MS).await.unwrap();
    let later = bench.second.claim_event(kept.id, kept.version.next(), AN_HOUR_MS).await.unwrap();
    assert_eq!((first, second, later), (CasOutcome::Applied, CasOutcome::Lost, CasOutcome::Lost));
    assert_eq!(due(&bench, 0).await, []);
    let listed = due(&bench, 2 * 3_600_000).await;
    assert_eq!((listed[0].version, listed[0].tries), (kept.version.next(), 1));
}

/// A process that took too long, and lost its claim, writes nothing.
pub async fn only_the_right_version_settles_and_only_once(factory: &dyn InboxFactory) {
    let bench = factory.fresh().await;
    let slow = stored(&bench.inbox, event(1), 0).await;
    let claimed = bench.second.claim_event(slow.id, slow.version, AN_HOUR_MS).await.unwrap();
    assert_eq!(claimed, CasOutcome::Applied);
    assert_eq!(settle(&bench, &slow, InboxChange::Processed).await, CasOutcome::Lost);
    let owner = InboxEvent { version: slow.version.next(), ..slow };
    assert_eq!(settle(&bench, &owner, InboxChange::Processed).await, CasOutcome::Applied);
    assert_eq!(settle(&bench, &owner, InboxChange::Processed).await, CasOutcome::Lost);
}

/// Not before, and with its tries counted by whoever claims it.
pub async fn an_event_that_is_tried_again_is_due_later(factory: &dyn InboxFactory) {
    let bench = factory.fresh().await;
    let kept = stored(&bench.inbox, event(1), 0).await;
    let again = InboxChange::TryAgain { next_in_ms: AN_HOUR_MS, note: "ORDER_UNKNOWN" };
    assert_eq!(settle(&bench, &kept, again).await, CasOutcome::Applied);
    assert_eq!(due(&bench, 3_000_000).await, []);
    let listed = due(&bench, 2 * 3_600_000).await;
    assert_eq!((listed.len(), listed[0].version), (1, kept.version.next()));
    assert_eq!(bench.inbox.record(event(1), 0).await.unwrap(), Recorded::Known(InboxState::New));
}

/// Ended events are never due, claimed or written again, and say how they ended.
pub async fn an_end_is_an_end(factory: &dyn InboxFactory) {
    let bench = factory.fresh().await;
    let ends = [
        InboxChange::Processed,
        InboxChange::Contradicted { note: "OTHER_AMOUNT" },
        InboxChange::GivenUp { note: "ORDER_UNKNOWN" },
    ];
    for (number, end) in (1..).zip(ends) {
        let kept = stored(&bench.inbox, event(number), 0).await;
        assert_eq!(settle(&bench, &kept, end).await, CasOutcome::Applied);
        let ended = InboxEvent { version: kept.version.next(), ..kept };
        let claimed = bench.inbox.claim_event(ended.id, ended.version, 1_000).await.unwrap();
        assert_eq!(claimed, CasOutcome::Lost, "{end:?}");
        let again = InboxChange::TryAgain { next_in_ms: 0, note: "NOT_CONFIRMED" };
        assert_eq!(settle(&bench, &ended, again).await, CasOutcome::Lost, "{end:?}");
        let known = bench.second.record(event(number), 0).await.unwrap();
        assert_eq!(known, Recorded::Known(end.state()));
    }
    assert_eq!(due(&bench, 2 * 3_600_000).await, []);
}

/// However many hear it at once.
pub async fn of_32_equal_recordings_one_is_news(factory: &dyn InboxFactory) {
    let bench = factory.fresh().await;
    let recordings = (0..32).map(|turn| {
        let inbox = Arc::clone(if turn % 2 == 0 { &bench.inbox } else { &bench.second });
        tokio::spawn(async move { inbox.record(event(1), AN_HOUR_MS).await.expect("the inbox is up") })
    });
    let mut news = 0;
    for recording in recordings.collect::<Vec<_>>() {
        match recording.await.unwrap() {
            Recorded::Stored(_) => news += 1,
            Recorded::Known(state) => assert_eq!(state, InboxState::New),
        }
    }
    assert_eq!(news, 1);
}

/// However many find it due at once.
pub async fn of_32_claims_one_is_granted(factory: &dyn InboxFactory) {
    let bench = factory.fresh().await;
    let kept = stored(&bench.inbox, event(1), 0).await;
    let claims = (0..32).map(|turn| {
        let inbox = Arc::clone(if turn % 2 == 0 { &bench.inbox } else { &bench.second });
        tokio::spawn(async move { inbox.claim_event(kept.id, kept.version, AN_HOUR_MS).await })
    });
    let mut granted = 0;
    for claim in claims.collect::<Vec<_>>() {
        granted += u32::from(claim.await.unwrap().unwrap() == CasOutcome::Applied);
    }
    assert_eq!(granted, 1);
}

/// Ended ones are not.
pub async fn what_is_open_is_counted(factory: &dyn InboxFactory) {
    let bench = factory.fresh().await;
    assert_eq!(bench.inbox.summarise_inbox().await.unwrap().open_rows, 0);
    let ended = stored(&bench.inbox, event(1), 0).await;
    stored(&bench.inbox, event(2), AN_HOUR_MS).await;
    stored(&bench.inbox, event(3), 0).await;
    settle(&bench, &ended, InboxChange::Processed).await;
    let summary = bench.second.summarise_inbox().await.unwrap();
    assert_eq!(summary.open_rows, 2);
    assert!(summary.oldest_open_age_ms < 60_000, "{summary:?}");
}
