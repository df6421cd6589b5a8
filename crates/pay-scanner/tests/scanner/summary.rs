//! The gauges that dashboards and alerts read.

use crate::rig::{Rig, settings};
use flow_core::ports::Change;
use flow_testkit::mem_store::{StoreFault, StoreOp};
use metrics_exporter_prometheus::PrometheusBuilder;
use pay_scanner::summary;

#[tokio::test]
async fn every_open_state_has_its_gauges_and_a_failure_leaves_them() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _local = metrics::set_default_local_recorder(&recorder);
    let rig = Rig::with_flows(5, settings(1, 5, 1));
    rig.finish(1);
    rig.change(2, Change::Hold { reason: crate::rig::SOME_HOLD, by: crate::rig::somebody() });
    rig.reschedule_in(3, 60_000);
    rig.store.clock().advance_ms(7_000);

    summary::export(&rig.store, 1).await.unwrap();
    rig.store.fail_next(StoreOp::SummariseOpen, StoreFault::Unavailable);
    assert!(summary::export(&rig.store, 1).await.is_err());

    let text = recorder.handle().render();
    for line in [
        "flow_open{state=\"WAIT_PAY\"} 4",
        "flow_held{state=\"WAIT_PAY\"} 1",
        "flow_attention{state=\"WAIT_PAY\"} 1",
        "flow_oldest_age_ms{state=\"WAIT_PAY\"} 7000",
        "flow_open{state=\"REFUNDING\"} 0",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    assert!(!text.contains("PAY_FAIL"), "terminal rows are not counted");
}
