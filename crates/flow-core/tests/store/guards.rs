//! The guards of the database, met by writers that go around the program.

use flow_core::flow::RefundReason;
use flow_core::ports::FlowStore as _;
use flow_core::state::{Edge, State};
use flow_core::store::MySqlStore;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{AssertSqlSafe, Executor as _, MySqlConnection};

use crate::harness::{Schema, created, created_in, loaded, on_both_servers};

on_both_servers!(
    of_49_raw_updates_six_are_accepted,
    a_write_by_hand_is_audited_under_its_author,
    copied_evidence_does_not_pass_for_ones_own,
    a_terminal_row_is_never_written_again,
    what_is_frozen_stays,
    a_version_follows_the_one_before,
    a_row_is_born_in_wait_pay_with_its_numbers,
    refund_terms_and_cancel_are_kept,
    keys_events_and_flows_are_never_deleted_or_rewritten,
    id_blocks_only_grow,
);

/// The server's number and message, where it refused.
async fn refusal(connection: &mut MySqlConnection, statement: &str) -> Option<(u16, String)> {
    match connection.execute(AssertSqlSafe(statement.to_owned())).await {
        Ok(_) => None,
        Err(error) => {
            let error = error.into_database_error().expect("an answer of the server");
            let error = error.downcast_ref::<MySqlDatabaseError>();
            Some((error.number(), error.message().to_owned()))
        }
    }
}

/// Refused by a trigger (1644) or a check (3819 on MySQL, 4025 on MariaDB).
async fn assert_refused(connection: &mut MySqlConnection, statement: &str) -> String {
    match refusal(connection, statement).await {
        Some((1644 | 3819 | 4025, message)) => message,
        other => panic!("{statement}: {other:?}"),
    }
}

async fn of_49_raw_updates_six_are_accepted(schema: Schema) {
    let store = schema.store().await;
    let mut root = schema.root().await;
    let (mut accepted, mut refused, mut number) = (0, 0, 0);
    for from in State::ALL {
        for to in State::ALL {
            number += 1;
            let before = created_in(&store, number, from).await;
            let update = format!("UPDATE internal_pay_flow SET status = '{to}' WHERE id = {}", before.id);
            let answer = refusal(&mut root, &update).await;
            let after = loaded(&store, &before).await;
            if Edge::between(from, to).is_some() {
                accepted += 1;
                assert_eq!(answer, None, "{from} -> {to}");
                assert_eq!((after.state, after.version), (to, before.version.next()), "{from} -> {to}");
                let events = store.events(before.id, Some(before.version), 10).await.unwrap();
                assert_eq!(events.len(), 1);
                assert_eq!(
                    (events[0].from, events[0].to, events[0].kind.as_str()),
                    (Some(from), to, "STATE")
                );
                assert_eq!(events[0].trigger, "BY_HAND");
                assert_eq!(after.finished_at.is_some(), to.is_terminal());
                if to == State::Refunding {
                    let terms = after.refund.expect("a refund has terms, decided by hand or not");
                    assert_eq!((terms.amount, terms.reason), (after.money.amount(), RefundReason::ByHand));
                }
            } else {
                refused += 1;
                let (number, message) = answer.unwrap_or_else(|| panic!("{from} -> {to} was accepted"));
                assert_eq!(number, 1644, "{from} -> {to}: {message}");
                assert!(message.contains(&before.id.to_string()), "{message}");
                assert_eq!(after, before, "{from} -> {to}");
            }
        }
    }
    assert_eq!((accepted, refused), (6, 43));
}

async fn a_write_by_hand_is_audited_under_its_author(schema: Schema) {
    let store = schema.store().await;
    let flow = created(&store, 1).await;
    let mut root = schema.root().await;
    root.execute("SET time_zone = '+08:00'").await.unwrap();
    let update = "UPDATE internal_pay_flow SET hold_reason = 'OPERATOR', hold_since = UTC_TIMESTAMP(3), hold_by = 'ops'";
    assert_eq!(refusal(&mut root, update).await, None);
    assert_eq!(refusal(&mut root, "UPDATE internal_pay_flow SET retry_count = 7").await, None);
    let update = "UPDATE internal_pay_flow SET hold_reason = NULL, hold_since = NULL, hold_by = NULL";
    assert_eq!(refusal(&mut root, update).await, None);
    let update =
        "UPDATE internal_pay_flow SET cancel_requested_at = UTC_TIMESTAMP(3), cancel_requested_by = 'ops'";
    assert_eq!(refusal(&mut root, update).await, None);
    let events = store.events(flow.id, None, 10).await.unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["CREATED", "HOLD", "RESCHEDULE", "RELEASE", "CANCEL"]);
    let now = store.now().await.unwrap();
    for event in &events[1..] {
        assert_eq!(event.trigger, "BY_HAND");
        assert!(event.actor.as_deref().is_some_and(|actor| actor.contains('@')), "{event:?}");
        assert!((now - event.at).num_minutes() < 5, "in UTC, whatever the session's time zone: {event:?}");
    }
}

/// Whoever copies the program's own UPDATE, version and all, has not copied its evidence.
async fn copied_evidence_does_not_pass_for_ones_own(schema: Schema) {
    let store = schema.store().await;
    let flow = created_in(&store, 1, State::Paying).await;
    let mut root = schema.root().await;
    let update = "UPDATE internal_pay_flow SET status = 'PAY_FAIL', version = version + 1 WHERE version = 1";
    assert_eq!(refusal(&mut root, update).await, None);
    let events = store.events(flow.id, Some(flow.version), 10).await.unwrap();
    assert_eq!((events[0].trigger.as_str(), events[0].version), ("BY_HAND", flow.version.next()));
}

async fn a_terminal_row_is_never_written_again(schema: Schema) {
    let store = schema.store().await;
    let mut root = schema.root().await;
    for (number, state) in (1..).zip([State::PayFail, State::BizSuccess, State::Refunded]) {
        let flow = created_in(&store, number, state).await;
        for assignment in [
            "next_retry_time = '2000-01-01'",
            "hold_reason = 'OPERATOR', hold_since = NOW(3), hold_by = 'ops'",
            "status = 'REFUNDING', version = version + 1, ev_version = version",
            "amount = amount + 1",
            "wallet_refund_txn = 'x'",
        ] {
            let update = format!("UPDATE internal_pay_flow SET {assignment} WHERE id = {}", flow.id);
            let message = assert_refused(&mut root, &update).await;
            assert!(message.contains("is terminal"), "{message}");
        }
        assert_eq!(loaded(&store, &flow).await, flow);
    }
}

async fn what_is_frozen_stays(schema: Schema) {
    let store = schema.store().await;
    let flow = created_in(&store, 1, State::Paying).await;
    let mut root = schema.root().await;
    for assignment in [
        "id = id + 1",
        "user_id = user_id + 1",
        "scene = 'other'",
        "biz_key = 'other'",
        "biz_key = UPPER(CONCAT(biz_key, 'x'))",
        "biz_key = CONCAT(biz_key, ' ')",
        "attempt_no = attempt_no + 1",
        "trade_order_no = 'h2r_9_9'",
        "refund_order_no = 'r_h2r_9_9'",
        "amount = amount - 1",
        "currency = 'USD'",
        "biz_deadline_time = biz_deadline_time + INTERVAL 1 DAY",
        "wallet_name = 'other'",
        "business_name = 'other'",
        "biz_context = NULL",
        "biz_context = CONCAT(biz_context, ' ')",
        "caller_id = 'other'",
        "idempotency_key = 'other'",
        "request_fingerprint = REPEAT('0', 64)",
        "created_at = created_at - INTERVAL 1 SECOND",
    ] {
        for version in ["", ", version = version + 1", ", version = version + 1, ev_version = version"] {
            let update = format!("UPDATE internal_pay_flow SET {assignment}{version}");
            assert_refused(&mut root, &update).await;
        }
    }
    assert_eq!(loaded(&store, &flow).await, flow);
}

async fn a_version_follows_the_one_before(schema: Schema) {
    let store = schema.store().await;
    let flow = created_in(&store, 1, State::Paying).await;
    let mut root = schema.root().await;
    // Without a strict mode, NULL would be stored as 0.
    root.execute("SET sql_mode = ''").await.unwrap();
    for version in ["version + 2", "version - 1", "0", "9223372036854775807", "NULL"] {
        let update = format!("UPDATE internal_pay_flow SET retry_count = 3, version = {version}");
        assert!(assert_refused(&mut root, &update).await.contains("does not follow"));
    }
    assert_eq!(loaded(&store, &flow).await, flow);
}

/// Copies the row of flow 1 with these columns changed.
async fn insert_like(connection: &mut MySqlConnection, changes: &[(&str, &str)]) -> Option<(u16, String)> {
    let columns = [
        ("id", "35"),
        ("user_id", "36"),
        ("scene", "scene"),
        ("biz_key", "'other'"),
        ("attempt_no", "1"),
        ("trade_order_no", "'h2r_10_z'"),
        ("refund_order_no", "'r_h2r_10_z'"),
        ("status", "'WAIT_PAY'"),
        ("version", "0"),
        ("amount", "1"),
        ("currency", "currency"),
        ("biz_deadline_time", "biz_deadline_time"),
        ("wallet_name", "wallet_name"),
        ("business_name", "business_name"),
        ("biz_context", "biz_context"),
        ("caller_id", "caller_id"),
        ("idempotency_key", "'other'"),
        ("request_fingerprint", "request_fingerprint"),
        ("next_retry_time", "next_retry_time"),
        ("retry_count", "0"),
        ("hold_reason", "NULL"),
        ("hold_since", "NULL"),
        ("hold_by", "NULL"),
        ("finished_at", "NULL"),
        ("state_entered_at", "state_entered_at"),
        ("created_at", "created_at"),
        ("update_time", "update_time"),
        ("ev_trigger", "'SYNC'"),
    ];
    let names = columns.map(|(name, _)| name).join(", ");
    let values = columns
        .map(|(name, value)| {
            changes.iter().find(|(changed, _)| *changed == name).map_or(value, |(_, value)| value)
        })
        .join(", ");
    let insert = format!(
        "INSERT INTO internal_pay_flow ({names}) SELECT {values} FROM internal_pay_flow WHERE id = 1"
    );
    refusal(connection, &insert).await
}

async fn a_row_is_born_in_wait_pay_with_its_numbers(schema: Schema) {
    let store = schema.store().await;
    assert_eq!(created(&store, 1).await.id.get(), 1);
    let mut root = schema.root().await;
    let cases: [&[(&str, &str)]; 12] = [
        &[("status", "'PAYING'")],
        &[("status", "'BIZ_SUCCESS'"), ("finished_at", "NOW(3)")],
        &[("status", "'WAIT_PAY '")],
        &[("status", "'wait_pay'")],
        &[("status", "'NEW'")],
        &[("version", "1")],
        &[("hold_reason", "'OPERATOR'"), ("hold_since", "NOW(3)"), ("hold_by", "'ops'")],
        &[("amount", "0")],
        &[("amount", "-1")],
        &[("user_id", "0")],
        &[("trade_order_no", "'h2r_10_Z'")],
        &[("refund_order_no", "'r_h2r_10_y'")],
    ];
    for changes in cases {
        let answer = insert_like(&mut root, changes).await;
        assert!(matches!(answer, Some((1644 | 3819 | 4025, _))), "{changes:?}: {answer:?}");
    }
    let events: i64 =
        sqlx::query_scalar("SELECT COUNT(*) FROM pay_flow_event").fetch_one(&mut root).await.unwrap();
    let keys: i64 =
        sqlx::query_scalar("SELECT COUNT(*) FROM pay_request_key").fetch_one(&mut root).await.unwrap();
    assert_eq!((events, keys), (1, 1), "what was refused left nothing");
    assert_eq!(insert_like(&mut root, &[]).await, None, "the case they all differ from");
}

async fn refund_terms_and_cancel_are_kept(schema: Schema) {
    let store = schema.store().await;
    let mut root = schema.root().await;
    let paying = created_in(&store, 1, State::Paying).await;
    let payed = created_in(&store, 2, State::Payed).await;
    let refunding = created_in(&store, 3, State::Refunding).await;
    let cancel = "cancel_requested_at = NOW(3), cancel_requested_by = 'x'";
    for (flow, assignment) in [
        (&payed, "status = 'REFUNDING', version = version + 1, ev_version = version"),
        (&payed, "refund_amount = amount, refund_reason = 'CANCELLED', refund_source = 'SYNC'"),
        (
            &payed,
            "status = 'REFUNDING', refund_amount = amount - 1, refund_reason = 'CANCELLED', refund_source = 'SYNC'",
        ),
        (&payed, cancel),
        (&refunding, "refund_reason = 'CANCELLED'"),
        (&refunding, "refund_amount = NULL, refund_reason = NULL, refund_source = NULL"),
        (&refunding, cancel),
    ] {
        assert_refused(
            &mut root,
            &format!("UPDATE internal_pay_flow SET {assignment} WHERE id = {}", flow.id),
        )
        .await;
        assert_eq!(&loaded(&store, flow).await, flow);
    }
    let update = format!("UPDATE internal_pay_flow SET {cancel} WHERE id = {}", paying.id);
    assert_eq!(refusal(&mut root, &update).await, None);
    let update = "UPDATE internal_pay_flow SET cancel_requested_at = NULL, cancel_requested_by = NULL";
    assert_refused(&mut root, &format!("{update} WHERE id = {}", paying.id)).await;
}

async fn keys_events_and_flows_are_never_deleted_or_rewritten(schema: Schema) {
    let store = schema.store().await;
    created_in(&store, 1, State::Paying).await;
    let mut root = schema.root().await;
    for statement in [
        "DELETE FROM internal_pay_flow",
        "DELETE FROM pay_flow_event",
        "DELETE FROM pay_flow_event WHERE version = 1",
        "UPDATE pay_flow_event SET to_status = 'PAYED'",
        "UPDATE pay_flow_event SET actor = 'nobody' WHERE version = 0",
        "DELETE FROM pay_request_key",
        "UPDATE pay_request_key SET flow_id = 2",
        "REPLACE INTO pay_request_key SELECT caller_id, idempotency_key, fingerprint, 2, created_at FROM pay_request_key",
    ] {
        assert_eq!(refusal(&mut root, statement).await.map(|(number, _)| number), Some(1644), "{statement}");
    }
    assert_untouched(&store).await;
}

async fn assert_untouched(store: &MySqlStore) {
    let id = flow_testkit::samples::flow_id(1);
    assert_eq!(store.events(id, None, 10).await.unwrap().len(), 2);
    assert_eq!(store.load(id).await.unwrap().value.unwrap().state, State::Paying);
}

async fn id_blocks_only_grow(schema: Schema) {
    let mut root = schema.root().await;
    for statement in [
        "UPDATE flow_id_block SET next_id = next_id",
        "UPDATE flow_id_block SET id = 2",
        "DELETE FROM flow_id_block",
    ] {
        assert_eq!(refusal(&mut root, statement).await.map(|(number, _)| number), Some(1644), "{statement}");
    }
}
