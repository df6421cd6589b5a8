//! The manual wake-up queue passes the wake-up queue's suite.

use async_trait::async_trait;
use flow_core::ids::FlowId;
use flow_core::ports::WakeQueue;
use flow_testkit::clock::ManualClock;
use flow_testkit::conformance::wake::{WakeBench, WakeFactory};
use flow_testkit::wake::ManualWake;

struct Manual;

struct ManualBench {
    clock: ManualClock,
    queue: ManualWake,
}

#[async_trait]
impl WakeFactory for Manual {
    async fn fresh(&self, capacity: usize) -> Box<dyn WakeBench> {
        let clock = ManualClock::new();
        Box::new(ManualBench { queue: ManualWake::new(clock.clone(), capacity), clock })
    }
}

#[async_trait]
impl WakeBench for ManualBench {
    fn queue(&self) -> &dyn WakeQueue {
        &self.queue
    }

    async fn woken_within(&self, ms: u64) -> Vec<FlowId> {
        self.clock.advance_ms(ms);
        self.queue.take_due()
    }

    fn is_bounded(&self) -> bool {
        true
    }
}

flow_testkit::wake_conformance!(Manual);
