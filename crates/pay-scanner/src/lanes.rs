//! The lines in which due rows wait for their downstream systems, so that a slow or closed one holds up its own rows only.
//!
//! A round begins rows by age. Each lane has so many seats; a row that finds none waits for one, but not for long: then
//! the rest of that lane is left to the next round, which begins at its oldest row again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use flow_core::flow::Lane;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The lanes of one round; cheap to clone.
#[derive(Clone)]
pub(crate) struct Lanes {
    seats_per_lane: usize,
    by_lane: Arc<Mutex<HashMap<Lane, LaneLine>>>,
}

#[derive(Clone)]
struct LaneLine {
    seats: Arc<Semaphore>,
    closed: bool,
}

/// The right to work on one row; given back when dropped.
pub(crate) struct Seat {
    lanes: Lanes,
    lane: Lane,
    _permit: OwnedSemaphorePermit,
}

impl Seat {
    /// The downstream's gate let nothing out: this round begins no further row of the lane.
    pub(crate) fn close_lane(&self) {
        self.lanes.close(&self.lane);
    }
}

impl Lanes {
    /// `seats_per_lane`: most rows worked on at once for one downstream, at least 1.
    pub(crate) fn new(seats_per_lane: usize) -> Lanes {
        Lanes { seats_per_lane, by_lane: Arc::default() }
    }

    /// A seat in a lane, as soon as one is free; `None` if the lane is closed, before or meanwhile.
    pub(crate) async fn enter(&self, lane: &Lane) -> Option<Seat> {
        let line = self.with(lane, |line| line.clone());
        if line.closed {
            return None;
        }
        // Never closed, so a permit always comes in the end.
        let permit = line.seats.acquire_owned().await.ok()?;
        let closed_meanwhile = self.with(lane, |line| line.closed);
        (!closed_meanwhile).then(|| Seat { lanes: self.clone(), lane: lane.clone(), _permit: permit })
    }

    /// Begins no further row of this lane.
    pub(crate) fn close(&self, lane: &Lane) {
        self.with(lane, |line| line.closed = true);
    }

    fn with<T>(&self, lane: &Lane, act: impl FnOnce(&mut LaneLine) -> T) -> T {
        // Nothing panics while holding it.
        let mut by_lane = self.by_lane.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || LaneLine { seats: Arc::new(Semaphore::new(self.seats_per_lane)), closed: false };
        act(by_lane.entry(lane.clone()).or_insert_with(new))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flow_core::flow::Side;
    use flow_testkit::samples;
    use tokio::time::timeout;

    use super::*;

    fn lane(side: Side) -> Lane {
        Lane { side, name: samples::wallet_name() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_lane_holds_up_no_other_and_a_seat_given_back_is_free() {
        let (lanes, wallet) = (Lanes::new(1), lane(Side::Wallet));
        let first = lanes.enter(&wallet).await.expect("open");
        assert!(lanes.enter(&lane(Side::Business)).await.is_some());
        let mut second = Box::pin(lanes.enter(&wallet));
        assert!(timeout(Duration::from_millis(1), &mut second).await.is_err());
        drop(first);
        assert!(second.await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_lane_lets_nobody_in_not_even_who_waits() {
        let (lanes, wallet) = (Lanes::new(1), lane(Side::Wallet));
        let first = lanes.enter(&wallet).await.expect("open");
        let mut second = Box::pin(lanes.enter(&wallet));
        assert!(timeout(Duration::from_millis(1), &mut second).await.is_err());
        first.close_lane();
        drop(first);
        assert!(second.await.is_none());
        assert!(lanes.enter(&wallet).await.is_none());
        assert!(lanes.enter(&lane(Side::Business)).await.is_some());
    }
}
