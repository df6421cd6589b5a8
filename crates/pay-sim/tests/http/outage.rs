//! Outages: 503, cut connections, and ports that refuse.

use reqwest::StatusCode;
use serde_json::json;

use crate::rig::{Client, Rig, in_an_hour};

#[tokio::test]
async fn an_outage_of_one_system_leaves_the_other_alone() {
    let rig = Rig::start().await;
    let wallet = json!(["debit", "query", "close", "refund", "query_refund"]);
    let id = rig.fault(json!({"calls": wallet, "fault": {"kind": "unavailable"}})).await;
    for answer in [rig.client.debit("a").await, rig.client.query("a").await, rig.client.close("a").await] {
        assert_eq!(answer.unwrap().0, StatusCode::SERVICE_UNAVAILABLE);
    }
    assert_eq!(rig.client.execute("a", in_an_hour()).await.unwrap().0, StatusCode::OK);
    assert_eq!(rig.client.counts("a").await, (0, 0, 1), "nothing was charged");
    let (_, faults) = rig.client.get("/faults").await.unwrap();
    assert_eq!((&faults["faults"][0]["id"], &faults["faults"][0]["hits"]), (&json!(id), &json!(3)));
    rig.client.send(reqwest::Method::DELETE, "/faults", None).await.unwrap();
    assert_eq!(rig.client.debit("a").await.unwrap().0, StatusCode::OK);
}

#[tokio::test]
async fn a_refusing_outage_closes_the_systems_own_port_until_it_is_over() {
    let rig = Rig::start().await;
    let wallet = Client::new(rig.running.wallet_addr.unwrap());
    let business = Client::new(rig.running.business_addr.unwrap());
    assert_eq!(wallet.debit("a").await.unwrap().0, StatusCode::OK);
    assert_eq!(wallet.fact("a").await.unwrap().0, StatusCode::NOT_FOUND, "not its own contract");
    assert_eq!(business.query("a").await.unwrap().0, StatusCode::NOT_FOUND);

    let calls = json!(["debit", "query", "close", "refund", "query_refund"]);
    let refused = json!({"kind": "unavailable", "mode": "refused"});
    let id = rig.fault(json!({"calls": calls, "fault": refused})).await;
    // The kept connection is cut at some moment; every connection made after that is refused.
    let mut error = wallet.query("a").await.unwrap_err();
    while !error.is_connect() {
        error = wallet.query("a").await.unwrap_err();
    }
    assert_eq!(business.fact("a").await.unwrap().0, StatusCode::OK);
    assert!(
        !rig.client.query("a").await.unwrap_err().is_connect(),
        "the shared port stays, its calls are cut"
    );
    assert_eq!(rig.client.counts("a").await, (1, 0, 0), "the ledger can be read meanwhile");

    rig.client.send(reqwest::Method::DELETE, &format!("/faults/{id}"), None).await.unwrap();
    assert_eq!(query_until_answered(&wallet).await, StatusCode::OK);
}

#[tokio::test]
async fn a_timed_outage_ends_by_itself() {
    let rig = Rig::start().await;
    let wallet = Client::new(rig.running.wallet_addr.unwrap());
    let refused = json!({"kind": "unavailable", "mode": "refused"});
    rig.fault(json!({"for_ms": 800, "fault": refused})).await;
    wallet.debit("a").await.unwrap_err();
    assert_eq!(query_until_answered(&wallet).await, StatusCode::NOT_FOUND);
    let (_, faults) = rig.client.get("/faults").await.unwrap();
    assert_eq!(faults["faults"][0]["active"], false);
}

async fn query_until_answered(client: &Client) -> StatusCode {
    let answered = async {
        loop {
            if let Ok((status, _)) = client.query("a").await {
                return status;
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), answered).await.unwrap()
}
