//! The entry lock's suite: what makes it worth having. That payments are right without it is the end-to-end suites' matter.

use std::sync::Arc;

use async_trait::async_trait;
use flow_core::ids::Target;
use flow_core::ports::{Entered, EntryLock, EntryTicket};

use crate::samples;

/// Longer than any case takes, in milliseconds.
const LONG_MS: u64 = 10_000;

/// Makes entry locks to test.
#[async_trait]
pub trait EntryFactory: Send + Sync {
    /// Two processes' locks over one empty server; a place is free again after `ttl_ms`. They wait for up to ten seconds
    /// if they are asked to.
    async fn pair(&self, ttl_ms: u64) -> [Arc<dyn EntryLock>; 2];
}

/// The entry lock's suite, one test per case.
#[macro_export]
macro_rules! entry_conformance {
    ($factory:expr) => {
        $crate::conformance_cases! { entry; $factory;
            the_first_one_is_told_so,
            others_wait_until_it_is_out,
            nobody_waits_longer_than_it_wants,
            targets_do_not_wait_for_each_other,
            a_place_whose_holder_died_is_free_again,
            an_expired_ticket_takes_nothing_from_the_next_holder,
        }
    };
}

fn target(number: i64) -> Target {
    samples::target(number, &format!("R:{number}"))
}

async fn first(lock: &dyn EntryLock, target: &Target) -> EntryTicket {
    match lock.enter(target, 0).await {
        Entered::First(ticket) => ticket,
        other @ (Entered::Followed | Entered::Unguarded) => panic!("not the first: {other:?}"),
    }
}

/// And again after it was out.
pub async fn the_first_one_is_told_so(factory: &dyn EntryFactory) {
    let [one, two] = factory.pair(LONG_MS).await;
    let ticket = first(&*one, &target(1)).await;
    one.leave(ticket.clone()).await;
    let next = first(&*two, &target(1)).await;
    assert_ne!(ticket, next, "a ticket was given out twice");
}

/// In the same process and in another one.
pub async fn others_wait_until_it_is_out(factory: &dyn EntryFactory) {
    let [one, two] = factory.pair(LONG_MS).await;
    let ticket = first(&*one, &target(1)).await;
    let waiting: Vec<_> = [Arc::clone(&one), two]
        .into_iter()
        .map(|lock| tokio::spawn(async move { lock.enter(&target(1), LONG_MS).await }))
        .collect();
    // A second look at the same place proves that it is still taken while they wait.
    assert_eq!(one.enter(&target(1), 0).await, Entered::Unguarded);
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    one.leave(ticket).await;
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap(), Entered::Followed);
    }
}

/// It comes in all the same.
pub async fn nobody_waits_longer_than_it_wants(factory: &dyn EntryFactory) {
    let [one, two] = factory.pair(LONG_MS).await;
    let ticket = first(&*one, &target(1)).await;
    assert_eq!(two.enter(&target(1), 0).await, Entered::Unguarded);
    assert_eq!(two.enter(&target(1), 30).await, Entered::Unguarded);
    one.leave(ticket).await;
    first(&*two, &target(1)).await;
}

/// A user, a scene or a goal more or less is another target.
pub async fn targets_do_not_wait_for_each_other(factory: &dyn EntryFactory) {
    let [one, two] = factory.pair(LONG_MS).await;
    first(&*one, &samples::target(1, "R:1")).await;
    first(&*two, &samples::target(2, "R:1")).await;
    first(&*two, &samples::target(1, "r:1")).await;
    first(&*two, &samples::target(1, "R:11")).await;
}

/// Nobody has to clear up after a process that was killed.
pub async fn a_place_whose_holder_died_is_free_again(factory: &dyn EntryFactory) {
    let [one, two] = factory.pair(150).await;
    first(&*one, &target(1)).await;
    assert_eq!(two.enter(&target(1), LONG_MS).await, Entered::Followed);
    first(&*two, &target(1)).await;
}

/// The lock was lost in the middle.
pub async fn an_expired_ticket_takes_nothing_from_the_next_holder(factory: &dyn EntryFactory) {
    let [one, two] = factory.pair(150).await;
    let lost = first(&*one, &target(1)).await;
    assert_eq!(two.enter(&target(1), LONG_MS).await, Entered::Followed);
    let held = first(&*two, &target(1)).await;
    one.leave(lost).await;
    assert_eq!(
        one.enter(&target(1), 0).await,
        Entered::Unguarded,
        "the next holder's place was taken from it"
    );
    two.leave(held).await;
    first(&*one, &target(1)).await;
}
