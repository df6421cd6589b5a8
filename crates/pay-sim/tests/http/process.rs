//! The binary itself: it says where it listens, survives SIGKILL with every answer it gave, and stops on SIGTERM.

use std::path::Path;
use std::process::Stdio;

use pay_sim::http::Options;
use pay_sim::sim::Durability;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::rig::{Client, Rig, in_an_hour, options};

async fn spawn(arguments: &[&str]) -> (Child, Client) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pay-sim"))
        .args(["--listen", "127.0.0.1:0"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    let addr = line["listening"].as_str().unwrap().parse().unwrap();
    (child, Client::new(addr))
}

async fn spawn_with_journal(path: &Path) -> (Child, Client) {
    spawn(&["--journal", path.to_str().unwrap()]).await
}

#[tokio::test]
async fn every_answer_given_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let (mut child, client) = spawn_with_journal(&path).await;
    client.post("/accounts/7", &json!({"currency": "CNY", "amount": 1_000_000})).await.unwrap();
    client.post("/mutants", &json!({"close_unsupported": true})).await.unwrap();
    let hour = in_an_hour();
    let rule = json!({"calls": ["refund"], "stage": "after", "fault": {"kind": "drop"}});
    client.post("/faults", &rule).await.unwrap();
    // Killed in the middle of traffic: what was answered, and what was committed with its answer lost, must be there.
    let mut answered = Vec::new();
    for n in 0..40 {
        let no = format!("o{n}");
        client.debit(&no).await.unwrap();
        client.refund(&no).await.unwrap_err();
        client.execute(&no, hour).await.unwrap();
        answered.push((client.query(&no).await.unwrap(), client.fact(&no).await.unwrap(), no));
    }
    let traffic = client.clone();
    let more = tokio::spawn(async move { while traffic.debit("racing").await.is_ok() {} });
    client.wait("call=debit&trade_order_no=racing&count=20").await;
    child.kill().await.unwrap();
    more.await.unwrap();

    let (mut child, client) = spawn_with_journal(&path).await;
    for (order, fact, no) in answered {
        assert_eq!(client.query(&no).await.unwrap(), order);
        assert_eq!(client.fact(&no).await.unwrap(), fact);
        assert_eq!(client.refund(&no).await.unwrap().1["status"], "SUCCESS");
        assert_eq!(client.counts(&no).await, (1, 1, 1));
    }
    assert_eq!(client.counts("racing").await, (1, 0, 0));
    assert_eq!(client.get("/mutants").await.unwrap().1["close_unsupported"], true);
    child.kill().await.unwrap();
}

#[tokio::test]
async fn a_deferred_debit_survives_a_restart_and_is_carried_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let durability = Durability::File { path, fsync: true };
    let rig = Rig::with(Options { durability: durability.clone(), ..options() }).await;
    rig.fault(json!({"trade_order_no": "on_query", "fault": {"kind": "processing"}})).await;
    rig.fault(json!({"trade_order_no": "timed", "calls": ["debit"], "fault": {"kind": "processing", "after_ms": 50}})).await;
    for no in ["on_query", "timed"] {
        assert_eq!(rig.client.debit(no).await.unwrap().1["status"], "PROCESSING");
    }
    rig.running.stop().await;
    let rig = Rig::with(Options { durability: durability.clone(), ..options() }).await;
    assert_eq!(rig.client.query("on_query").await.unwrap().1["status"], "SUCCESS");
    while rig.client.counts("timed").await != (1, 0, 0) {
        tokio::task::yield_now().await;
    }
    rig.client.send(reqwest::Method::POST, "/reset", None).await.unwrap();
    rig.running.stop().await;
    let rig = Rig::with(Options { durability, ..options() }).await;
    assert_eq!(
        rig.client.query("on_query").await.unwrap().0,
        StatusCode::NOT_FOUND,
        "a reset is durable too"
    );
}

#[tokio::test]
async fn it_stops_on_sigterm_and_memory_writes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, client) = spawn(&["--memory", "--latency-ms", "1"]).await;
    assert_eq!(client.debit("a").await.unwrap().1["status"], "SUCCESS");
    assert_eq!(client.get("/healthz").await.unwrap().0, StatusCode::OK);
    let pid = child.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().await.unwrap().success());
    assert!(child.wait().await.unwrap().success());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_taken_port_and_a_broken_journal_stop_the_start() {
    let rig = Rig::start().await;
    let taken = pay_sim::http::start(Options { listen: rig.running.addr, ..options() }).await;
    assert!(taken.unwrap_err().to_string().contains("can not listen"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    std::fs::write(&path, "no command\n").unwrap();
    let durability = Durability::File { path, fsync: false };
    let broken = pay_sim::http::start(Options { durability, ..options() }).await;
    assert!(broken.unwrap_err().to_string().contains("line 1"));
}
