//! Batches and their parts.

use std::sync::Arc;

use flow_core::ports::{
    BatchBill, BatchClaim, BatchPage, CasOutcome, ClaimPart, PartClaimed, PartEnd, ReconStore,
};
use flow_core::recon::{BatchState, Partition, Tally};

use super::{AN_HOUR_MS, ReconFactory, channel, date};

fn claim(on: u32, partition: Partition, claim_ms: u64) -> ClaimPart {
    ClaimPart { channel: channel("main"), day: date(on), partition, claim_ms }
}

fn bill(digit: &str) -> BatchBill {
    BatchBill { sha256: digit.repeat(64), bytes: 120, source: "bill.csv".to_owned() }
}

fn counted(orders: u64) -> Tally {
    Tally { orders, ..Tally::default() }
}

async fn granted(store: &Arc<dyn ReconStore>, want: &ClaimPart) -> BatchClaim {
    match store.claim_part(want).await.unwrap() {
        PartClaimed::Granted(claim) => claim,
        other @ (PartClaimed::Running | PartClaimed::SplitOtherwise { .. }) => panic!("{other:?}"),
    }
}

async fn end(store: &Arc<dyn ReconStore>, claim: &BatchClaim, orders: u64, digit: &str) -> CasOutcome {
    let end = PartEnd::Done { tally: counted(orders), bill: bill(digit) };
    store.end_part(claim, &end).await.unwrap()
}

/// Done again, it is the same batch with the new counts.
pub async fn a_day_has_one_batch_however_often_it_is_run(factory: &dyn ReconFactory) {
    let bench = factory.fresh().await;
    assert_eq!(bench.store.batch(&channel("main"), date(1)).await.unwrap(), None);
    let first = granted(&bench.store, &claim(1, Partition::WHOLE, AN_HOUR_MS)).await;
    let running = bench.second.batch(&channel("main"), date(1)).await.unwrap().unwrap();
    assert_eq!((running.state, running.parts, running.parts_done), (BatchState::Running, 1, 0));
    assert_eq!((running.id, running.finished_at), (first.batch, None));
    assert_eq!(end(&bench.store, &first, 7, "a").await, CasOutcome::Applied);
    assert_eq!(end(&bench.store, &first, 9, "a").await, CasOutcome::Lost, "an end is an end");
    let again = granted(&bench.second, &claim(1, Partition::WHOLE, AN_HOUR_MS)).await;
    assert_eq!(again.batch, first.batch);
    assert_eq!(end(&bench.second, &again, 8, "b").await, CasOutcome::Applied);
    let done = bench.store.batch(&channel("main"), date(1)).await.unwrap().unwrap();
    assert_eq!(
        (done.state, done.runs, done.tally, done.bill),
        (BatchState::Done, 2, counted(8), Some(bill("b")))
    );
    assert!(done.finished_at.is_some() && done.started_at <= done.finished_at);
    let other = granted(&bench.store, &claim(2, Partition::WHOLE, AN_HOUR_MS)).await;
    assert_ne!(other.batch, first.batch);
}

/// A process that died leaves nothing locked.
pub async fn a_claimed_part_is_nobody_elses_and_one_that_ran_out_is(factory: &dyn ReconFactory) {
    let bench = factory.fresh().await;
    let dead = granted(&bench.store, &claim(1, Partition::WHOLE, 0)).await;
    let alive = granted(&bench.second, &claim(1, Partition::WHOLE, AN_HOUR_MS)).await;
    assert_eq!(bench.store.keep_part(&dead, AN_HOUR_MS).await.unwrap(), CasOutcome::Lost);
    assert_eq!(end(&bench.store, &dead, 1, "a").await, CasOutcome::Lost);
    let refused = bench.store.claim_part(&claim(1, Partition::WHOLE, AN_HOUR_MS)).await.unwrap();
    assert_eq!(refused, PartClaimed::Running);
    assert_eq!(bench.second.keep_part(&alive, 0).await.unwrap(), CasOutcome::Applied);
    granted(&bench.store, &claim(1, Partition::WHOLE, AN_HOUR_MS)).await;
}

/// Two processes never run one day at once.
pub async fn of_32_claims_one_is_granted_the_batch(factory: &dyn ReconFactory) {
    let bench = factory.fresh().await;
    let mut claims = Vec::new();
    for number in 0..32 {
        let store = Arc::clone(if number % 2 == 0 { &bench.store } else { &bench.second });
        let claiming = async move { store.claim_part(&claim(1, Partition::WHOLE, AN_HOUR_MS)).await };
        claims.push(tokio::spawn(claiming));
    }
    let mut granted = 0;
    for claim in claims {
        match claim.await.unwrap().unwrap() {
            PartClaimed::Granted(_) => granted += 1,
            PartClaimed::Running => {}
            other @ PartClaimed::SplitOtherwise { .. } => panic!("{other:?}"),
        }
    }
    assert_eq!(granted, 1);
}

/// And its counts are those of its parts.
pub async fn a_batch_is_done_when_all_its_parts_are(factory: &dyn ReconFactory) {
    let bench = factory.fresh().await;
    let part = |index| claim(1, Partition::new(index, 3).unwrap(), AN_HOUR_MS);
    let claims = [
        granted(&bench.store, &part(0)).await,
        granted(&bench.second, &part(1)).await,
        granted(&bench.store, &part(2)).await,
    ];
    end(&bench.store, &claims[0], 1, "a").await;
    end(&bench.second, &claims[1], 2, "a").await;
    let running = bench.store.batch(&channel("main"), date(1)).await.unwrap().unwrap();
    assert_eq!((running.state, running.parts_done, running.tally.orders), (BatchState::Running, 2, 3));
    end(&bench.store, &claims[2], 4, "a").await;
    let done = bench.second.batch(&channel("main"), date(1)).await.unwrap().unwrap();
    assert_eq!((done.state, done.parts_done, done.tally.orders), (BatchState::Done, 3, 7));
}

/// The reason is kept until then.
pub async fn a_failed_part_makes_a_failed_batch_and_can_be_run_again(factory: &dyn ReconFactory) {
    let bench = factory.fresh().await;
    let failing = granted(&bench.store, &claim(1, Partition::WHOLE, AN_HOUR_MS)).await;
    let reason = "the bill is cut off. ".repeat(60);
    let end_of = PartEnd::Failed { reason: reason.clone() };
    assert_eq!(bench.store.end_part(&failing, &end_of).await.unwrap(), CasOutcome::Applied);
    let failed = bench.second.batch(&channel("main"), date(1)).await.unwrap().unwrap();
    assert_eq!((failed.state, failed.tally, failed.bill), (BatchState::Failed, Tally::default(), None));
    let kept: String = reason.chars().take(PartEnd::MAX_REASON_CHARS).collect();
    assert_eq!(failed.reason, Some(kept));
    let again = granted(&bench.second, &claim(1, Partition::WHOLE, AN_HOUR_MS)).await;
    end(&bench.second, &again, 1, "a").await;
    let done = bench.store.batch(&channel("main"), date(1)).await.unwrap().unwrap();
    assert_eq!((done.state, done.reason), (BatchState::Done, None));
}

/// Afterwards it is, and what the old parts counted is no more.
pub async fn a_batch_is_not_split_otherwise_while_somebody_works_on_it(factory: &dyn ReconFactory) {
    let bench = factory.fresh().await;
    let whole = granted(&bench.store, &claim(1, Partition::WHOLE, AN_HOUR_MS)).await;
    let half = claim(1, Partition::new(0, 2).unwrap(), AN_HOUR_MS);
    let refused = bench.second.claim_part(&half).await.unwrap();
    assert_eq!(refused, PartClaimed::SplitOtherwise { parts: 1 });
    end(&bench.store, &whole, 5, "a").await;
    let first = granted(&bench.second, &half).await;
    end(&bench.second, &first, 2, "a").await;
    let halved = bench.store.batch(&channel("main"), date(1)).await.unwrap().unwrap();
    assert_eq!((halved.state, halved.parts, halved.parts_done), (BatchState::Pending, 2, 1));
    assert_eq!(halved.tally, counted(2));
}

/// Each half may be right; the whole is about no bill there is.
pub async fn parts_that_saw_different_bills_are_no_batch(factory: &dyn ReconFactory) {
    let bench = factory.fresh().await;
    for (index, digit) in [(0, "a"), (1, "b")] {
        let part = claim(1, Partition::new(index, 2).unwrap(), AN_HOUR_MS);
        let granted = granted(&bench.store, &part).await;
        end(&bench.store, &granted, 1, digit).await;
    }
    let batch = bench.store.batch(&channel("main"), date(1)).await.unwrap().unwrap();
    assert_eq!(batch.state, BatchState::Failed);
    assert!(batch.reason.unwrap().contains("different bills"));
}

/// By channel, and from a day on backwards.
pub async fn batches_are_listed_newest_day_first(factory: &dyn ReconFactory) {
    let bench = factory.fresh().await;
    for on in [2, 1, 3] {
        granted(&bench.store, &claim(on, Partition::WHOLE, AN_HOUR_MS)).await;
    }
    let elsewhere = ClaimPart { channel: channel("other"), ..claim(2, Partition::WHOLE, AN_HOUR_MS) };
    granted(&bench.store, &elsewhere).await;
    let list = async |channel, before, limit_rows| {
        let page = BatchPage { channel, before, limit_rows };
        let batches = bench.second.batches(&page).await.unwrap();
        batches.into_iter().map(|batch| (batch.channel.to_string(), batch.day)).collect::<Vec<_>>()
    };
    let of = |name: &str, on| (name.to_owned(), date(on));
    assert_eq!(list(None, None, 10).await, [of("main", 3), of("main", 2), of("other", 2), of("main", 1)]);
    assert_eq!(list(Some(channel("main")), Some(date(3)), 1).await, [of("main", 2)]);
}
