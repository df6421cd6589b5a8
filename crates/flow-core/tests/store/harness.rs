//! Servers, schemas of one's own, and flows in any state.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use chrono::TimeDelta;
use flow_core::answer::ErrorCode;
use flow_core::cas::{CasWrite, Change, WriteEvidence};
use flow_core::decide::Transition;
use flow_core::flow::{Flow, RefundReason, Trigger};
use flow_core::ports::{CasOutcome, Created, FlowStore as _, NewFlow};
use flow_core::state::State;
use flow_core::store::{MySqlStore, StoreOptions, migrate};
use flow_testkit::samples;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection};

/// A kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavor {
    MySql,
    MariaDb,
}

impl Flavor {
    const fn variable(self) -> &'static str {
        match self {
            Flavor::MySql => "PAY_TEST_MYSQL_URL",
            Flavor::MariaDb => "PAY_TEST_MARIADB_URL",
        }
    }

    const fn slug(self) -> &'static str {
        match self {
            Flavor::MySql => "mysql",
            Flavor::MariaDb => "mariadb",
        }
    }

    /// The server's URL; `None` only where the test runner says that this flavour can't be had here.
    fn root_url(self) -> Option<String> {
        if let Ok(url) = std::env::var(self.variable()) {
            return Some(url.trim_end_matches('/').to_owned());
        }
        let missing = std::env::var("PAY_TEST_MISSING").unwrap_or_default();
        assert!(
            missing.split(',').any(|slug| slug == self.slug()),
            "{} is not set: run `cargo xtask test`, which provides the servers and sets it",
            self.variable()
        );
        eprintln!("NOT TESTED on {}: it can't be had on this machine", self.slug());
        None
    }
}

/// Makes each function a test on MySQL and a test on MariaDB.
macro_rules! on_both_servers {
    ($($test:ident),+ $(,)?) => {
        mod mysql {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    if let Some(schema) = crate::harness::Schema::fresh(crate::harness::Flavor::MySql).await {
                        super::$test(schema).await;
                    }
                }
            )+
        }
        mod mariadb {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    if let Some(schema) = crate::harness::Schema::fresh(crate::harness::Flavor::MariaDb).await {
                        super::$test(schema).await;
                    }
                }
            )+
        }
    };
}
pub(crate) use on_both_servers;

/// A schema of one's own, migrated, with a run-time account; dropped with the value.
pub(crate) struct Schema {
    pub(crate) flavor: Flavor,
    root_url: String,
    name: String,
    run_account: Option<String>,
}

const PASSWORD: &str = "run-time";

impl Schema {
    /// A migrated schema; `None` where the flavour can't be had.
    pub(crate) async fn fresh(flavor: Flavor) -> Option<Schema> {
        let schema = Schema::empty(flavor)?;
        migrate(&schema.root_schema_url(), &mut |_| {}).await.unwrap();
        Some(schema)
    }

    /// A name for a schema that does not exist yet; `None` where the flavour can't be had.
    pub(crate) fn empty(flavor: Flavor) -> Option<Schema> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("flow_core_{}_{number}", std::process::id());
        Some(Schema { flavor, root_url: flavor.root_url()?, name, run_account: None })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The superuser's URL of this schema.
    pub(crate) fn root_schema_url(&self) -> String {
        format!("{}/{}", self.root_url, self.name)
    }

    /// A connection of the superuser, in this schema.
    pub(crate) async fn root(&self) -> MySqlConnection {
        MySqlConnection::connect(&self.root_schema_url()).await.unwrap()
    }

    /// Creates the run-time account as `docs/grants.sql` says, under a name of its own, and gives its URL.
    pub(crate) async fn run_account_url(&mut self) -> String {
        let account = format!("run_{}", self.name);
        let statements = include_str!("../../../../docs/grants.sql")
            .replace("`pay`", &format!("`{}`", self.name))
            .replace("'pay_run'", &format!("'{account}'"))
            .replace("'change-me-2'", &format!("'{PASSWORD}'"));
        let mut root = self.root().await;
        for statement in statements.split(';') {
            let statement: String = statement.lines().filter(|line| !line.starts_with("--")).collect();
            if statement.contains(&format!("'{account}'")) {
                root.execute(AssertSqlSafe(statement)).await.unwrap();
            }
        }
        self.run_account = Some(account.clone());
        let (_, server) = self.root_url.rsplit_once('@').unwrap_or_else(|| {
            let (_, server) = self.root_url.split_once("://").unwrap();
            ("", server)
        });
        format!("mysql://{account}:{PASSWORD}@{server}/{}", self.name)
    }

    /// Options of the superuser; one committer, so that a test can tell what shares a commit.
    pub(crate) fn options(&self) -> StoreOptions {
        let mut options = StoreOptions::new(self.root_schema_url());
        options.committers = 1;
        options
    }

    /// A store with these options.
    pub(crate) async fn store(&self) -> Arc<MySqlStore> {
        Arc::new(MySqlStore::connect(self.options()).await.unwrap())
    }
}

impl Drop for Schema {
    /// In a thread and a runtime of its own, since a test's runtime may be the one that drops it.
    fn drop(&mut self) {
        let (url, name, account) = (self.root_url.clone(), self.name.clone(), self.run_account.take());
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut root = MySqlConnection::connect(&url).await.unwrap();
                root.execute(AssertSqlSafe(format!("DROP DATABASE IF EXISTS `{name}`"))).await.unwrap();
                if let Some(account) = account {
                    root.execute(AssertSqlSafe(format!("DROP USER IF EXISTS '{account}'@'%'")))
                        .await
                        .unwrap();
                }
            });
        });
        if dropping.join().is_err() {
            eprintln!("schema {} could not be dropped", self.name);
        }
    }
}

/// The first attempt of this number, with its deadline ten minutes ahead.
pub(crate) async fn new_flow(store: &MySqlStore, number: i64) -> NewFlow {
    samples::new_flow(number, store.now().await.unwrap() + TimeDelta::minutes(10))
}

/// The row of this number, in `WAIT_PAY`, as it is stored: with the database's own times.
pub(crate) async fn created(store: &MySqlStore, number: i64) -> Flow {
    match store.create(new_flow(store, number).await).await.unwrap() {
        Created::Inserted(seen) => loaded(store, &seen.value).await,
        other @ (Created::KeyTaken | Created::TargetTaken) => panic!("{other:?}"),
    }
}

/// The row of this number, brought to a state over legal edges.
pub(crate) async fn created_in(store: &MySqlStore, number: i64, state: State) -> Flow {
    let mut flow = created(store, number).await;
    for transition in path_to(&flow, state) {
        let write = moving(&flow, transition);
        assert_eq!(store.cas(write).await.unwrap(), CasOutcome::Applied);
        flow = loaded(store, &flow).await;
    }
    assert_eq!(flow.state, state);
    flow
}

/// The row as it is now.
pub(crate) async fn loaded(store: &MySqlStore, flow: &Flow) -> Flow {
    store.load(flow.id).await.unwrap().value.unwrap()
}

/// The edges that lead to a state.
pub(crate) fn path_to(flow: &Flow, state: State) -> Vec<Transition> {
    let receipt = samples::receipt_for(flow);
    let enter = Transition::EnterPaying;
    let fail = Transition::FailPayment(ErrorCode::clean("INSUFFICIENT_FUNDS"));
    let paid = Transition::ConfirmPayment(receipt.clone());
    let refund = Transition::DecideRefund(RefundReason::DeadlinePassed);
    match state {
        State::WaitPay => vec![],
        State::Paying => vec![enter],
        State::PayFail => vec![enter, fail],
        State::Payed => vec![enter, paid],
        State::BizSuccess => vec![enter, paid, Transition::ConfirmBusiness],
        State::Refunding => vec![enter, paid, refund],
        State::Refunded => vec![enter, paid, refund, Transition::ConfirmRefund(receipt)],
    }
}

/// The write that takes an edge.
pub(crate) fn moving(flow: &Flow, transition: Transition) -> CasWrite {
    writing(flow, Change::Move { transition, next_in_ms: 1_000 })
}

/// The write that makes a change.
pub(crate) fn writing(flow: &Flow, change: Change) -> CasWrite {
    CasWrite {
        flow_id: flow.id,
        from: flow.state,
        version: flow.version,
        change,
        evidence: WriteEvidence::of(Trigger::Sync),
    }
}

/// The write that makes a row due later.
pub(crate) fn rescheduling(flow: &Flow) -> CasWrite {
    let code = ErrorCode::clean("UNKNOWN.TIMED_OUT");
    writing(flow, Change::Reschedule { next_in_ms: 5_000, retry_count: flow.retry_count + 1, code })
}

/// Waits until a condition holds, asking again every few milliseconds; for what another process's server does, of
/// which nobody sends a signal.
pub(crate) async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    for _ in 0..2_000 {
        if condition().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("never came to pass: {what}");
}
