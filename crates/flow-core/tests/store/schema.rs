//! Migrating, telling schemas apart, and refusing a database without its guards.

use flow_core::store::{
    ConnectError, MigrationError, MigrationStep, MySqlStore, SchemaMismatch, Setting, migrate,
    schema_is_current,
};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection, Row as _};

use crate::harness::{Flavor, Schema, created, on_both_servers};

on_both_servers!(
    migrating_twice_changes_nothing,
    another_schema_is_told_apart,
    a_missing_or_altered_guard_is_refused_by_name,
    a_sweep_page_is_a_range_over_its_index,
);

#[tokio::test]
async fn migrating_creates_the_schema_and_tells_each_step() {
    let Some(schema) = Schema::empty(Flavor::MySql) else { return };
    let mut steps = Vec::new();
    migrate(&schema.root_schema_url(), &mut |step| steps.push(step)).await.unwrap();
    assert_eq!(steps[0], MigrationStep::SchemaCreated);
    let applied = steps.iter().filter(|step| matches!(step, MigrationStep::Applied { .. })).count();
    assert_eq!(steps.len(), 1 + 2 * applied, "{steps:?}");
}

#[tokio::test]
async fn an_account_that_may_not_create_triggers_is_told_so_before_anything_is_applied() {
    let Some(schema) = Schema::empty(Flavor::MySql) else { return };
    let (account, name) = (format!("m_{}", schema.name()), schema.name().to_owned());
    let root_url = schema.root_schema_url();
    let mut root = MySqlConnection::connect(root_url.rsplit_once('/').unwrap().0).await.unwrap();
    for statement in [
        format!("CREATE USER '{account}'@'%' IDENTIFIED BY 'x'"),
        format!("CREATE DATABASE `{name}`"),
        format!("GRANT ALL ON `{name}`.* TO '{account}'@'%'"),
    ] {
        root.execute(AssertSqlSafe(statement)).await.unwrap();
    }
    let (_, server) = root_url.split_once('@').unwrap();
    let url = format!("mysql://{account}:x@{server}");
    let trusted: i64 = sqlx::query_scalar("SELECT CAST(@@log_bin_trust_function_creators AS SIGNED)")
        .fetch_one(&mut root)
        .await
        .unwrap();
    let migrated = migrate(&url, &mut |_| {}).await;
    root.execute(AssertSqlSafe(format!("DROP USER '{account}'@'%'"))).await.unwrap();
    if trusted == 0 {
        let error = migrated.unwrap_err();
        assert!(matches!(error, MigrationError::NoTriggerRight), "{error:?}");
        assert!(error.to_string().contains("log_bin_trust_function_creators"), "{error}");
        let tables: i64 =
            sqlx::query_scalar("SELECT COUNT(*) FROM information_schema.tables WHERE table_name LIKE 'internal%' AND table_schema = ?")
                .bind(&name)
                .fetch_one(&mut root)
                .await
                .unwrap();
        assert_eq!(tables, 0);
    }
}

async fn migrating_twice_changes_nothing(schema: Schema) {
    let mut steps = Vec::new();
    migrate(&schema.root_schema_url(), &mut |step| steps.push(step)).await.unwrap();
    assert_eq!(steps, [MigrationStep::UpToDate]);
}

async fn another_schema_is_told_apart(schema: Schema) {
    let mut root = schema.root().await;
    let store = schema.store().await;
    assert_eq!(store.schema_is_current().await.unwrap(), Ok(()));
    let cases = [
        (
            "INSERT INTO _sqlx_migrations VALUES (9999, 'later', NOW(), TRUE, '', 1)",
            "DELETE FROM _sqlx_migrations WHERE version = 9999",
            SchemaMismatch::Ahead { unknown: vec![9999] },
        ),
        (
            "UPDATE _sqlx_migrations SET success = FALSE WHERE version = 2",
            "UPDATE _sqlx_migrations SET success = TRUE WHERE version = 2",
            SchemaMismatch::HalfApplied { version: 2 },
        ),
        (
            "UPDATE _sqlx_migrations SET checksum = CONCAT('x', checksum) WHERE version = 3",
            "UPDATE _sqlx_migrations SET checksum = SUBSTRING(checksum, 2) WHERE version = 3",
            SchemaMismatch::Altered { version: 3 },
        ),
        (
            "UPDATE _sqlx_migrations SET version = -1 WHERE version = 4",
            "UPDATE _sqlx_migrations SET version = 4 WHERE version = -1",
            SchemaMismatch::Ahead { unknown: vec![-1] },
        ),
        ("DELETE FROM _sqlx_migrations WHERE version = 4", "", SchemaMismatch::Behind { missing: vec![4] }),
        ("DELETE FROM _sqlx_migrations", "", SchemaMismatch::Empty),
        ("DROP TABLE _sqlx_migrations", "", SchemaMismatch::Empty),
    ];
    for (breaks, mends, expected) in cases {
        root.execute(breaks).await.unwrap();
        assert_eq!(store.schema_is_current().await.unwrap(), Err(expected.clone()), "{breaks}");
        let refused = MySqlStore::connect(schema.options()).await;
        assert!(
            matches!(refused, Err(ConnectError::Schema(ref mismatch)) if *mismatch == expected),
            "{refused:?}"
        );
        if !mends.is_empty() {
            root.execute(mends).await.unwrap();
            schema_is_current(&schema.options()).await.unwrap();
        }
    }
}

async fn a_missing_or_altered_guard_is_refused_by_name(schema: Schema) {
    let mut root = schema.root().await;
    root.execute("DROP TRIGGER flow_before_delete").await.unwrap();
    root.execute("DROP TRIGGER event_before_update").await.unwrap();
    root.execute(
        "CREATE TRIGGER event_before_update BEFORE UPDATE ON pay_flow_event FOR EACH ROW SET @nothing = 1",
    )
    .await
    .unwrap();
    let error = MySqlStore::connect(schema.options()).await.unwrap_err();
    let ConnectError::Refused(refused) = &error else { panic!("{error:?}") };
    assert_eq!(refused.0.len(), 1, "{refused}");
    assert_eq!(refused.0[0].setting, Setting::GuardTriggers);
    assert_eq!(refused.0[0].value, "event_before_update altered, flow_before_delete missing");
    assert!(error.to_string().contains("insist_on = [\"guard_triggers\"]"), "{error}");

    let mut options = schema.options();
    options.insist_on = vec!["guard_triggers".to_owned()];
    created(&MySqlStore::connect(options).await.unwrap(), 1).await;

    root.execute("DROP FUNCTION flow_guard_triggers").await.unwrap();
    let error = MySqlStore::connect(schema.options()).await.unwrap_err();
    assert!(error.to_string().contains("flow_guard_triggers() can't be called"), "{error}");
}

/// The page that `list_due_after` asks for, as the planner sees it.
async fn a_sweep_page_is_a_range_over_its_index(schema: Schema) {
    let store = schema.store().await;
    for number in 1..=30 {
        created(&store, number).await;
    }
    let mut root = schema.root().await;
    root.execute("ANALYZE TABLE internal_pay_flow").await.unwrap();
    // The inner query; the outer one reads the page's rows by their primary key.
    let explain = "EXPLAIN SELECT id FROM internal_pay_flow FORCE INDEX (idx_open_id_due) \
                   WHERE is_open = 1 AND id > 5 AND next_retry_time <= NOW(3) AND MOD(id, 4) = 1 ORDER BY id LIMIT 10";
    // MySQL 9 answers as a tree by default.
    if schema.flavor == Flavor::MySql {
        root.execute("SET explain_format = 'TRADITIONAL'").await.unwrap();
    }
    let plan = root.fetch_one(AssertSqlSafe(explain)).await.unwrap();
    let (access, key, extra): (String, String, String) =
        (plan.get("type"), plan.get("key"), plan.get("Extra"));
    assert_eq!((access.as_str(), key.as_str()), ("range", "idx_open_id_due"));
    assert!(extra.contains("Using index") && !extra.contains("filesort"), "{extra}");
}
