//! One case from beginning to end: prepare, order, die, look, revive, repeat, converge, check.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use futures_util::future::join_all;
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection};
use xtask::stack::{Patience, wait_until};

use super::cases::{Case, Setup, Victim};
use super::lane::Lane;
use super::observe::{self, Found};
use super::stories::{self, Play, Request, WAITING_S};

/// Longest time from the death to the end of every flow.
const CONVERGED: Duration = Duration::from_secs(20);
/// Between two looks at flows that are on their way. The database tells nobody of a change.
const LOOK_EVERY: Duration = Duration::from_millis(20);
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
    converge(lane, case, &play).await.map_err(NoLine::Broken)
}

async fn bring_to_death(lane: &mut Lane, case: &Case) -> anyhow::Result<Play> {
    lane.pause_scanner().await?;
    let play = stories::prepare(lane, case).await.context("the story did not begin")?;
    lane.order_case(case)?;
    lane.let_run(case.victim).await?;
    let requests = if case.victim == Victim::Api { play.requests.as_slice() } else { &[] };
    // A client that waits looks into the database, too, and would pass the timer's points.
    let wait_s = if lane.setup == Setup::Timer { 0 } else { WAITING_S };
    match requests {
        [first, rest @ ..] if play.queued => queue_up(lane, first, rest, play.by_hand.as_deref()).await?,
        requests => {
            // Most get no answer, which is what a client of a dead process gets.
            join_all(requests.iter().map(|request| stories::send(lane, request, wait_s))).await;
        }
    }
    lane.await_death(case.victim).await?;
    Ok(play)
}

/// Has the first request's write wait in the only committer's hands, and the others' queue up behind it; then lets go.
async fn queue_up(
    lane: &Lane,
    first: &Request,
    rest: &[Request],
    by_hand: Option<&str>,
) -> anyhow::Result<()> {
    lane.pause_at("write.cas_one.before")?;
    let first = stories::send(lane, first, WAITING_S);
    let others = async {
        lane.await_pause().await?;
        let others = join_all(rest.iter().map(|request| stories::send(lane, request, WAITING_S)));
        let released = async {
            let queued = wait_for_queue(lane, rest.len()).await;
            if let Some(flow_id) = by_hand {
                release_by_hand(lane, flow_id).await?;
            }
            lane.end_pause()?;
            queued
        };
        tokio::join!(others, released).1
    };
    // No request is answered: that is what a client of a dead process gets.
    tokio::join!(first, others).1
}

/// The queue's own gauge says how many writes wait behind the one that the committer has in its hands.
async fn wait_for_queue(lane: &Lane, writes: usize) -> anyhow::Result<()> {
    let (client, wanted) = (lane.site.client(), format!("store_queue_rows {writes}"));
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
async fn converge(lane: &mut Lane, case: &Case, play: &Play) -> anyhow::Result<Line> {
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
    let mut flows = rest(&mut root, play).await?;
    if play.held {
        ensure!(flows.iter().all(|flow| flow.held), "not held: {flows:?}");
        lane.site.sim().clear_faults().await?;
        for flow in &flows {
            let flow_id = flow.id.to_string();
            stories::send(lane, &Request::Release { flow_id }, 0).await.context("the release at the end")?;
        }
        flows = rest(&mut root, play).await?;
    }
    ensure!(flows.iter().all(|flow| flow.status == play.ending.status), "ended otherwise: {flows:?}");
    lane.site.sim().clear_faults().await?;
    check(lane, &mut root, play).await?;
    told(lane, &mut root, play).await?;
    let found = observe::found(&mut root, &left, &flows).await?;
    let took = observe::took(&mut root, &left, &flows).await?;
    root.close().await?;
    let (charges, refunds, grants) = play.ending.books;
    let end = format!("{} {charges}/{refunds}/{grants}", play.ending.status);
    Ok(Line { case: *case, left: left.text, found, end, took })
}

/// Waits until every flow of the play has ended or is held.
async fn rest(root: &mut MySqlConnection, play: &Play) -> anyhow::Result<Vec<Found>> {
    let patience = Patience::of(CONVERGED);
    loop {
        let flows = observe::flows(root, &play.users).await?;
        ensure!(flows.len() <= play.users.len(), "doubled: {flows:?}");
        if flows.len() == play.users.len() && flows.iter().all(|flow| flow.held || flow.ended) {
            return Ok(flows);
        }
        ensure!(!patience.is_over(), "not at rest after {CONVERGED:?}: {flows:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Every end has its notification, and the application accepts it, once by its id. What a dead scanner had claimed is
/// sent when the claim has run out.
async fn told(lane: &Lane, root: &mut MySqlConnection, play: &Play) -> anyhow::Result<()> {
    let users = play.users.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let events = format!(
        "SELECT CONCAT('evt_', f.id, '_', f.version), COALESCE(o.delivery, 'MISSING') FROM internal_pay_flow f
         LEFT JOIN pay_outbox o ON o.flow_id = f.id AND o.version = f.version WHERE f.user_id IN ({users})"
    );
    let patience = Patience::of(CONVERGED);
    loop {
        let rows: Vec<(String, String)> =
            sqlx::query_as(AssertSqlSafe(events.as_str())).fetch_all(&mut *root).await?;
        ensure!(
            rows.iter().all(|(_, delivery)| delivery != "MISSING"),
            "an end without its notification: {rows:?}"
        );
        if rows.iter().all(|(_, delivery)| delivery == "DELIVERED") {
            let accepted = lane.receiver.accepted();
            ensure!(rows.iter().all(|(id, _)| accepted.contains_key(id)), "delivered to nobody: {rows:?}");
            return Ok(());
        }
        ensure!(!patience.is_over(), "not told after {CONVERGED:?}: {rows:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
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
            | Request::Resend { .. }
            | Request::Look { .. }
            | Request::Tell { .. } => None,
        })
        .collect();
    observe::check_keys(root, &keys).await?;
    observe::check_events(root, &play.users, play.events).await?;
    let beyond = "SELECT COUNT(*) FROM internal_pay_flow f JOIN flow_id_block b WHERE f.id >= b.next_id";
    let beyond: i64 = sqlx::query_scalar(beyond).fetch_one(root).await?;
    ensure!(beyond == 0, "{beyond} flows have ids that were never handed out");
    Ok(())
}
