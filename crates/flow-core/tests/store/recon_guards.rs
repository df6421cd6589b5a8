//! What the database itself refuses about reconciliation, whoever writes: here the superuser, by hand.

use flow_core::ids::{ChannelName, OrderRef};
use flow_core::ports::{NewTicket, Opened, ReconStore as _, TicketRecords};
use flow_core::recon::{Finding, FindingKind, Stake};
use flow_testkit::samples;
use sqlx::{AssertSqlSafe, Executor as _, MySqlConnection, Row as _};

use crate::harness::{Schema, on_both_servers};

on_both_servers!(a_ticket_is_guarded_and_audited_by_hand_too, a_batch_stays_what_it_is_about);

async fn refusal(root: &mut MySqlConnection, statement: &str) -> String {
    match root.execute(AssertSqlSafe(statement.to_owned())).await {
        Ok(done) => panic!("{statement} was taken: {done:?}"),
        Err(error) => error.to_string(),
    }
}

async fn a_ticket_is_guarded_and_audited_by_hand_too(schema: Schema) {
    let store = schema.store().await;
    let stake = Stake { amount_minor: 5, currency: "CNY".to_owned() };
    let finding = Finding {
        day: chrono::NaiveDate::from_ymd_opt(2026, 1, 2).unwrap(),
        kind: FindingKind::AmountDiffers,
        detail: "as seen".to_owned(),
        stake,
    };
    let new = NewTicket {
        channel: ChannelName::new("main").unwrap(),
        order_no: OrderRef::new("h2r_1_1").unwrap(),
        flow_id: Some(samples::flow_id(1)),
        findings: vec![finding],
        records: TicketRecords::default(),
        actor: samples::actor("pay-recon"),
    };
    assert_eq!(store.open_ticket(&new).await.unwrap(), Opened::Opened);
    let mut root = schema.root().await;
    for (statement, word) in [
        ("UPDATE recon_ticket SET order_no = 'x'", "are frozen"),
        ("UPDATE recon_ticket SET order_no = 'h2r_1_1 '", "are frozen"),
        ("UPDATE recon_ticket SET flow_id = 2", "are frozen"),
        ("UPDATE recon_ticket SET version = 7", "does not follow"),
        ("UPDATE recon_ticket SET state = 'RESOLVED', closed_at = NOW(3)", "two people"),
        (
            "UPDATE recon_ticket SET state = 'RESOLVED', closed_at = NOW(3), proposed_state = 'RESOLVED', \
               proposed_by = 'ann', proposed_reason = 'x', confirmed_by = 'bob'",
            "two people",
        ),
        ("DELETE FROM recon_ticket", "never deleted"),
        ("UPDATE recon_ticket_trail SET actor = 'x'", "never changed"),
        ("DELETE FROM recon_ticket_trail", "never deleted"),
    ] {
        let refused = refusal(&mut root, statement).await;
        assert!(refused.contains(word), "{statement}: {refused}");
    }
    for statement in [
        "UPDATE recon_ticket SET state = 'SOLVED'",
        "UPDATE recon_ticket SET state = 'AUTO_FIXED', closed_at = NOW(3)",
        "UPDATE recon_ticket SET finding_count = 0",
        "UPDATE recon_ticket SET proposed_by = 'ann'",
        "UPDATE recon_ticket SET proposed_state = 'RESOLVED', proposed_by = 'ann', proposed_reason = 'x', confirmed_by = 'ann'",
    ] {
        refusal(&mut root, statement).await;
    }
    root.execute("UPDATE recon_ticket SET state = 'ASSIGNED', assigned_to = 'ann'").await.unwrap();
    let lines = sqlx::query(
        "SELECT CONCAT_WS(' ', version, kind, to_state) FROM recon_ticket_trail ORDER BY version",
    )
    .fetch_all(&mut root)
    .await
    .unwrap();
    let lines: Vec<String> = lines.iter().map(|line| line.get(0)).collect();
    assert_eq!(lines, ["0 OPENED OPEN", "1 BY_HAND ASSIGNED"]);
}

async fn a_batch_stays_what_it_is_about(schema: Schema) {
    let mut root = schema.root().await;
    root.execute(
        "INSERT INTO recon_batch (channel, business_day, state, parts, created_at) \
         VALUES ('main', '2026-01-02', 'PENDING', 1, NOW(3))",
    )
    .await
    .unwrap();
    for statement in
        ["UPDATE recon_batch SET business_day = '2026-01-03'", "UPDATE recon_batch SET channel = 'other'"]
    {
        assert!(refusal(&mut root, statement).await.contains("are frozen"), "{statement}");
    }
    assert!(refusal(&mut root, "DELETE FROM recon_batch").await.contains("never deleted"));
    root.execute("UPDATE recon_batch SET state = 'FAILED', reason = 'by hand'").await.unwrap();
}
