//! One case from beginning to end: prepare, order, die, look, revive, repeat, converge, check.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use futures_util::future::join_all;
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection};
use xtask::stack::{Patience, wait_until};

use super::cases::{Case, Setup, Victim};
use super::lane::Lane;
use super::observe::{self, Remains};
use super::stories::{self, Play, Request, WAITING_S};

/// Longest time from the death to the end of every flow.
const CONVERGED: Duration = Duration::from_secs(20);
/// Longest wait for writes to queue up.
const QUEUED: Duration = Duration::from_secs(5);

/// What a case came to.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) case: Case,
    pub(crate) left: String,
    pub(crate) found: String,
    pub(crate) end: String,
    pub(crate) took: Duration,
}

/// Why there is no line.
#[derive(Debug)]
pub(crate) enum NoLine {
    /// The process did not come to the point, or not alone: nothing is proven and nothing refuted.
    NotReached(anyhow::Error),
    /// It died as ordered, and what came after it must not happen.
    Broken(anyhow::Error),
}

/// Plays a case once.
pub(crate) async fn play(lane: &mut Lane, case: &Case) -> Result<Line, NoLine> {
    let play = bring_to_death(lane, case).await.map_err(NoLine::NotReached)?;
    let patience = Patience::of(CONVERGED);
    converge(lane, case, &play, patience).await.map_err(NoLine::Broken)
}

async fn bring_to_death(lane: &mut Lane, case: &Case) -> anyhow::Result<Play> {
    lane.pause_scanner().await?;
    let play = stories::prepare(lane, case).await.context("the story did not begin")?;
    lane.order_case(case)?;
    lane.let_run(case.victim).await?;
    let requests = if case.victim == Victim::Api { play.requests.as_slice() } else { &[] };
    // A client that waits looks into the database, too, and would pass the timer's points.
    let wait_s = if lane.setup == Setup::Timer { 0 } else { WAITING_S };
    let unanswered = match (&play.queued_behind, requests) {
        (Some(flow_id), [first, rest @ ..]) => {
            queue_up(lane, flow_id, first, rest, play.by_hand.as_deref()).await
        }
        (Some(_), []) => bail!("a wave without requests"),
        (None, requests) => {
            // Most get no answer, which is what a client of a dead process gets.
            join_all(requests.iter().map(|request| stories::send(lane, request, wait_s))).await;
            Ok(())
        }
    };
    unanswered?;
    lane.await_death(case.victim).await?;
    Ok(play)
}

/// Has the first request's write wait for a lock, and the others' behind it; then lets go.
async fn queue_up(
    lane: &Lane,
    flow_id: &str,
    first: &Request,
    rest: &[Request],
    by_hand: Option<&str>,
) -> anyhow::Result<()> {
    let mut locker = lane.site.database.connect().await?;
    let lock = format!("BEGIN; SELECT id FROM internal_pay_flow WHERE id = {flow_id} FOR UPDATE");
    sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut locker).await?;
    let all_sent = async {
        let first = stories::send(lane, first, WAITING_S);
        let others = async {
            wait_for_lock(lane).await?;
            let others = join_all(rest.iter().map(|request| stories::send(lane, request, WAITING_S)));
            let unlocked = async {
                wait_for_queue(lane, rest.len()).await?;
                if let Some(flow_id) = by_hand {
                    release_by_hand(lane, flow_id).await?;
                }
                sqlx::raw_sql("ROLLBACK").execute(&mut locker).await?;
                anyhow::Ok(())
            };
            tokio::join!(others, unlocked).1
        };
        tokio::join!(first, others).1
    };
    let queued = all_sent.await;
    locker.close().await?;
    queued
}

async fn wait_for_lock(lane: &Lane) -> anyhow::Result<()> {
    let sql = "SELECT COUNT(*) FROM information_schema.innodb_trx
               WHERE trx_state = 'LOCK WAIT' AND trx_query LIKE 'UPDATE internal_pay_flow SET%'";
    let waits = || async { Ok((lane.site.database.number(sql).await? > 0).then_some(())) };
    wait_until("a write to wait for the lock", QUEUED, waits).await
}

/// The queue's own gauge says how many writes wait behind the one that the committer has in its hands.
async fn wait_for_queue(lane: &Lane, writes: usize) -> anyhow::Result<()> {
    let client = lane.site.client();
    let wanted = format!("store_queue_rows {writes}");
    let queued = || async {
        let text = client.get_text("/metrics").await?;
        Ok(text.lines().any(|line| line == wanted).then_some(()))
    };
    wait_until("the writes to queue up", QUEUED, queued).await
}

/// As an administrator would who has nothing but SQL.
async fn release_by_hand(lane: &Lane, flow_id: &str) -> anyhow::Result<()> {
    let sql = format!(
        "UPDATE internal_pay_flow SET hold_reason = NULL, hold_since = NULL, hold_by = NULL,
           next_retry_time = UTC_TIMESTAMP(3) WHERE id = {flow_id}"
    );
    lane.site.database.execute(&sql).await
}

/// From the death to the end.
async fn converge(lane: &mut Lane, case: &Case, play: &Play, patience: Patience) -> anyhow::Result<Line> {
    let mut root = lane.site.database.connect().await?;
    let left = observe::remains(&mut root, &lane.site.sim(), &play.users).await?;
    lane.revive(case.victim).await?;
    for request in &play.requests {
        stories::send(lane, request, 0).await.context("a repeated request")?;
    }
    if !play.held && !play.keeps_faults {
        lane.site.sim().clear_faults().await?;
    }
    lane.resume_scanner().await?;
    let flows = observe::flow_ids(&mut root, &play.users).await?;
    ensure!(flows.len() == play.users.len(), "flows {flows:?} for the targets of users {:?}", play.users);
    if play.held {
        for flow_id in &flows {
            let end = lane.site.client().wait_for_end(flow_id, CONVERGED).await?;
            ensure!(end.status_word() == "MANUAL_REVIEW", "flow {flow_id} is not held: {}", end.body);
        }
        lane.site.sim().clear_faults().await?;
        for flow_id in &flows {
            stories::send(lane, &Request::Release { flow_id: flow_id.clone() }, 0).await?;
        }
    }
    for flow_id in &flows {
        let end = lane.site.client().wait_for_end(flow_id, CONVERGED).await?;
        ensure!(end.text("state") == play.ending.status, "flow {flow_id} ended otherwise: {}", end.body);
    }
    let took = patience.elapsed();
    lane.site.sim().clear_faults().await?;
    check(lane, &mut root, play).await?;
    let found = observe::found(&mut root, &left, &flows).await?;
    root.close().await?;
    let Remains { text, .. } = left;
    let (charges, refunds, grants) = play.ending.books;
    let end = format!("{} {charges}/{refunds}/{grants}", play.ending.status);
    Ok(Line { case: *case, left: text, found, end, took })
}

/// Nothing lost, nothing doubled: rows, audit log, keys, ids and the simulator's books.
async fn check(lane: &Lane, root: &mut MySqlConnection, play: &Play) -> anyhow::Result<()> {
    let audit = lane.site.audit().await?;
    let violations = audit.violations();
    ensure!(violations.is_empty(), "{violations:?}");
    for user in &play.users {
        let of_user = format!("{user}/");
        let flows: Vec<_> = audit.flows.iter().filter(|flow| flow.target.starts_with(&of_user)).collect();
        let [flow] = flows.as_slice() else { bail!("user {user} has {} flows: {flows:?}", flows.len()) };
        let books =
            audit.ledger(flow).map_or((0, 0, 0), |order| (order.charges, order.refunds, order.grants));
        ensure!(books == play.ending.books, "{flow:?}: charges, refunds, grants are {books:?}");
    }
    let keys: Vec<&str> = play
        .requests
        .iter()
        .filter_map(|request| match request {
            Request::Pay { key, .. } => Some(key.as_str()),
            Request::Cancel { .. }
            | Request::Hold { .. }
            | Request::Release { .. }
            | Request::Look { .. } => None,
        })
        .collect();
    observe::check_keys(root, &keys).await?;
    let beyond = "SELECT COUNT(*) FROM internal_pay_flow f JOIN flow_id_block b WHERE f.id >= b.next_id";
    let beyond: i64 = sqlx::query_scalar(beyond).fetch_one(root).await?;
    ensure!(beyond == 0, "{beyond} flows have ids that were never handed out");
    Ok(())
}
