//! How each story is brought about: what has happened before the order is given, which requests are under way when the
//! process dies, and how it must all end.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::Broker;
use serde_json::{Value, json};
use xtask::stack::{Channel, Payment, Reply, wait_until};

use super::cases::{Case, Story, Victim};
use super::lane::Lane;

/// Longest wait for a flow to come to where a story begins.
const PREPARED: Duration = Duration::from_secs(10);
/// Deadline of the stories in which it passes, in milliseconds.
const NEAR_MS: i64 = 1_500;
const FAR_MS: i64 = 3_600_000;
/// How long a client waits that is there when the process dies, in seconds.
pub(crate) const WAITING_S: u32 = 5;
/// How many of a kind happen at one moment.
const MANY: usize = 3;

/// A request that a client or an operator makes, and makes again where it got no answer.
#[derive(Debug, Clone)]
pub(crate) enum Request {
    Pay { key: String, body: Value },
    Cancel { flow_id: String },
    Hold { flow_id: String },
    Release { flow_id: String },
    Resend { event_id: String },
    Look { path: String },
    Tell { id: String, event: Value },
}

/// How every flow of a story ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) status: &'static str,
    /// Charges, refunds, grants.
    pub(crate) books: (u32, u32, u32),
}

pub(crate) const SUCCESS: Ending = Ending { status: "BIZ_SUCCESS", books: (1, 0, 1) };
const REFUNDED: Ending = Ending { status: "REFUNDED", books: (1, 1, 0) };
const NOT_PAID: Ending = Ending { status: "PAY_FAIL", books: (0, 0, 0) };

/// A story, ready to be played.
#[derive(Debug, Clone)]
pub(crate) struct Play {
    /// One flow each, in the end.
    pub(crate) users: Vec<u64>,
    /// Under way when the process dies, where it is the API; made again afterwards.
    pub(crate) requests: Vec<Request>,
    /// The first request's write is made to wait, so that the others' queue up behind it.
    pub(crate) queued: bool,
    /// A flow that is released by hand while the others wait.
    pub(crate) by_hand: Option<String>,
    /// The flows come to be held first, and end once they are released.
    pub(crate) held: bool,
    /// The faults stay until the flows have ended.
    pub(crate) keeps_faults: bool,
    /// Events that channels have told of, all of which are done with in the end.
    pub(crate) events: i64,
    pub(crate) ending: Ending,
}

impl Play {
    fn of(user: u64, ending: Ending) -> Play {
        Play {
            users: vec![user],
            requests: Vec::new(),
            queued: false,
            by_hand: None,
            held: false,
            keeps_faults: false,
            events: 0,
            ending,
        }
    }

    fn with(self, request: Request) -> Play {
        Play { requests: vec![request], ..self }
    }
}

/// Brings a story to the moment before the order. The scanner is paused.
pub(crate) async fn prepare(lane: &mut Lane, case: &Case) -> anyhow::Result<Play> {
    let user = lane.new_user();
    let drop_once = |call, stage| fault(user, &[call], stage, Some(1), json!({ "kind": "drop" }));
    match case.story {
        Story::Pay => payment(lane, case, user, Course::ending(SUCCESS)).await,
        Story::FirstPay => {
            lane.restart_api().await?;
            payment(lane, case, user, Course::ending(SUCCESS)).await
        }
        Story::PayPoor => {
            lane.site.sim().balance(user, "CNY", 1).await?;
            payment(lane, case, user, Course::ending(NOT_PAID)).await
        }
        Story::LostDebit => payment(lane, case, user, Course::ending(SUCCESS).with(lost_debit(user))).await,
        Story::MissingDebit => {
            payment(lane, case, user, Course::ending(SUCCESS).with(drop_once("debit", "before"))).await
        }
        Story::WrongAmount => {
            let lies = fault(user, &["debit", "query"], "before", None, json!({ "kind": "wrong_amount" }));
            let play = payment(lane, case, user, Course::ending(SUCCESS).with(lies)).await?;
            Ok(Play { held: true, ..play })
        }
        Story::LateBusiness => {
            let fails = fault(user, &["execute"], "before", None, json!({ "kind": "status", "status": 500 }));
            let course = Course::ending(REFUNDED).with(fails).with(drop_once("refund", "after"));
            payment(lane, case, user, course.late()).await
        }
        Story::LateDebit => {
            payment(lane, case, user, Course::ending(NOT_PAID).with(missing_debit(user)).late()).await
        }
        Story::NotBegun => not_begun(lane, user).await,
        Story::Replay => {
            let Stuck { request, .. } = stuck(lane, user, lost_debit(user)).await?;
            Ok(Play::of(user, SUCCESS).with(request))
        }
        Story::Join => {
            stuck(lane, user, lost_debit(user)).await?;
            Ok(Play::of(user, SUCCESS).with(pay(user, "second", FAR_MS)))
        }
        Story::Cancel => cancelled(lane, case, user, missing_debit(user), NOT_PAID).await,
        Story::CancelCharged => cancelled(lane, case, user, lost_debit(user), REFUNDED).await,
        Story::LostRefund => refunding(lane, user, drop_once("refund", "after")).await,
        Story::MissingRefund => refunding(lane, user, drop_once("refund", "before")).await,
        Story::Hold => to_be_held(lane, user).await,
        Story::Release => {
            let flow_id = held(lane, user).await?;
            Ok(Play::of(user, SUCCESS).with(Request::Release { flow_id }))
        }
        Story::Callback | Story::CallbackAgain | Story::CallbackLeft => told_of(lane, case.story, user).await,
        Story::Garbage => garbage(lane, user).await,
        Story::ReadFlow | Story::ReadEvents | Story::FindFlow | Story::AskReady => {
            looked_at(lane, case.story, user).await
        }
        Story::Told | Story::FindTold | Story::ReadAttempts | Story::Resend => {
            notified(lane, case.story, user).await
        }
        Story::Start => {
            stuck(lane, user, lost_debit(user)).await?;
            Ok(Play::of(user, SUCCESS))
        }
        Story::ManyPayments
        | Story::ManyJoins
        | Story::ManyReleases
        | Story::OneMovedOn
        | Story::Mixed
        | Story::SameTarget => wave(lane, case.story, user).await,
    }
}

fn pay(user: u64, key: &str, deadline_in_ms: i64) -> Request {
    let payment = Payment { deadline_in_ms, ..Payment::new(user, "crash") };
    Request::Pay { key: format!("{user}-{key}"), body: payment.body() }
}

fn fault(user: u64, calls: &[&str], stage: &str, times: Option<u32>, fault: Value) -> Value {
    let mut rule = json!({ "calls": calls, "user_id": user.to_string(), "stage": stage, "fault": fault });
    if let Some(times) = times {
        rule["times"] = times.into();
    }
    rule
}

fn lost_debit(user: u64) -> Value {
    fault(user, &["debit"], "after", Some(1), json!({ "kind": "drop" }))
}

fn missing_debit(user: u64) -> Value {
    fault(user, &["debit"], "before", None, json!({ "kind": "drop" }))
}

/// How a payment goes wrong, and ends.
struct Course {
    faults: Vec<Value>,
    /// The deadline passes on the way, and the faults stay until then.
    late: bool,
    ending: Ending,
}

impl Course {
    fn ending(ending: Ending) -> Course {
        Course { faults: Vec::new(), late: false, ending }
    }

    fn with(mut self, fault: Value) -> Course {
        self.faults.push(fault);
        self
    }

    fn late(self) -> Course {
        Course { late: true, ..self }
    }
}

/// A payment: under way when an API dies; left in `PAYING` where another process does.
async fn payment(lane: &Lane, case: &Case, user: u64, course: Course) -> anyhow::Result<Play> {
    for rule in course.faults {
        lane.site.sim().fault(rule).await?;
    }
    let request = pay(user, "first", if course.late { NEAR_MS } else { FAR_MS });
    let play = Play { keeps_faults: course.late, ..Play::of(user, course.ending) };
    if case.victim == Victim::Api {
        return Ok(play.with(request));
    }
    send(lane, &request, 0).await?;
    at_version(lane, user, 2).await?;
    Ok(play)
}

/// A payment that has ended while nobody delivers; the id of its notification.
async fn ended(lane: &Lane, user: u64) -> anyhow::Result<String> {
    let reply = send(lane, &pay(user, "first", FAR_MS), WAITING_S).await?;
    ensure!(reply.status_word() == SUCCESS.status, "not ended: {}", reply.body);
    Ok(format!("evt_{}_{}", reply.flow_id(), reply.body["version"]))
}

/// A payment that has ended and is to be told of: delivered by a scanner, looked at by people, or sent again.
async fn notified(lane: &Lane, story: Story, user: u64) -> anyhow::Result<Play> {
    let event_id = ended(lane, user).await?;
    let play = Play::of(user, SUCCESS);
    let look = |path: String| Request::Look { path };
    Ok(if story == Story::FindTold {
        play.with(look("/notifications?delivery=PENDING".to_owned()))
    } else if story == Story::ReadAttempts {
        play.with(look(format!("/notifications/{event_id}/attempts")))
    } else if story == Story::Resend {
        play.with(Request::Resend { event_id })
    } else {
        play
    })
}

/// A flow under way while somebody looks.
async fn looked_at(lane: &Lane, story: Story, user: u64) -> anyhow::Result<Play> {
    let Stuck { flow_id, .. } = stuck(lane, user, lost_debit(user)).await?;
    let path = if story == Story::ReadFlow {
        format!("/payment-flows/{flow_id}")
    } else if story == Story::ReadEvents {
        format!("/payment-flows/{flow_id}/events")
    } else if story == Story::FindFlow {
        format!("/payment-flows?user_id={user}")
    } else {
        "/readyz".to_owned()
    };
    Ok(Play::of(user, SUCCESS).with(Request::Look { path }))
}

/// An API that died before it wrote `PAYING`.
async fn not_begun(lane: &mut Lane, user: u64) -> anyhow::Result<Play> {
    lane.order("write.cas_one.before", 1)?;
    let request = pay(user, "first", FAR_MS);
    let unanswered = send(lane, &request, WAITING_S).await;
    ensure!(unanswered.is_err(), "a dying API answered: {unanswered:?}");
    lane.await_death(Victim::Api).await?;
    lane.revive(Victim::Api).await?;
    Ok(Play::of(user, SUCCESS).with(request))
}

/// A broker that delivers what is no wake-up.
async fn garbage(lane: &Lane, user: u64) -> anyhow::Result<Play> {
    let Stuck { flow_id, .. } = stuck(lane, user, lost_debit(user)).await?;
    let jetstream = lane.broker.as_ref().context("the story needs a broker")?.jetstream().await?;
    Broker::put(&jetstream, &format!("due.{flow_id}-garbage"), b"garbage".to_vec()).await?;
    Ok(Play::of(user, SUCCESS))
}

/// A flow that an operator is about to hold.
async fn to_be_held(lane: &Lane, user: u64) -> anyhow::Result<Play> {
    let Stuck { flow_id, .. } = stuck(lane, user, lost_debit(user)).await?;
    Ok(Play { held: true, ..Play::of(user, SUCCESS).with(Request::Hold { flow_id }) })
}

/// A channel that tells of a charge whose answer was lost: for the first time, again, or to an API that died of it.
async fn told_of(lane: &mut Lane, story: Story, user: u64) -> anyhow::Result<Play> {
    if story == Story::CallbackLeft {
        return callback_left(lane, user).await;
    }
    let Stuck { trade_order_no, .. } = stuck(lane, user, lost_debit(user)).await?;
    let request = told(user, &trade_order_no);
    if story == Story::CallbackAgain {
        send(lane, &request, 0).await?;
        inbox_settled(lane, &trade_order_no).await?;
    }
    Ok(Play { events: 1, ..Play::of(user, SUCCESS).with(request) })
}

fn told(user: u64, trade_order_no: &str) -> Request {
    Request::Tell { id: format!("crash-{user}"), event: Channel::payment(trade_order_no, "SUCCESS") }
}

/// An API that died between keeping an event and working on it. The flow is one that nobody else would look at for long.
async fn callback_left(lane: &mut Lane, user: u64) -> anyhow::Result<Play> {
    let Stuck { trade_order_no, .. } = stuck(lane, user, lost_debit(user)).await?;
    let request = told(user, &trade_order_no);
    lane.order("inbox.record.after", 1)?;
    let unanswered = send(lane, &request, WAITING_S).await;
    ensure!(unanswered.is_err(), "a dying API answered: {unanswered:?}");
    lane.await_death(Victim::Api).await?;
    lane.revive(Victim::Api).await?;
    Ok(Play { events: 1, ..Play::of(user, SUCCESS) })
}

/// Waits until the order's event is done with.
async fn inbox_settled(lane: &Lane, trade_order_no: &str) -> anyhow::Result<()> {
    let sql =
        format!("SELECT COUNT(*) FROM pay_inbox WHERE order_no = '{trade_order_no}' AND state = 'PROCESSED'");
    let there = || async { Ok((lane.site.database.number(&sql).await? == 1).then_some(())) };
    wait_until("the event to be worked on", PREPARED, there).await
}

/// A flow left in `PAYING`, rescheduled.
struct Stuck {
    flow_id: String,
    trade_order_no: String,
    /// What made it.
    request: Request,
}

/// Leaves a flow in `PAYING` by the way its debit goes wrong.
async fn stuck(lane: &Lane, user: u64, debit: Value) -> anyhow::Result<Stuck> {
    lane.site.sim().fault(debit).await?;
    let request = pay(user, "first", FAR_MS);
    let reply = send(lane, &request, 0).await?;
    at_version(lane, user, 2).await?;
    let (flow_id, trade_order_no) = (reply.flow_id().to_owned(), reply.text("trade_order_no").to_owned());
    Ok(Stuck { flow_id, trade_order_no, request })
}

async fn held(lane: &Lane, user: u64) -> anyhow::Result<String> {
    let Stuck { flow_id, .. } = stuck(lane, user, lost_debit(user)).await?;
    send(lane, &Request::Hold { flow_id: flow_id.clone() }, 0).await?;
    Ok(flow_id)
}

/// Cancelled when an API dies; before, and not looked at yet, where a scanner does.
async fn cancelled(
    lane: &Lane,
    case: &Case,
    user: u64,
    debit: Value,
    ending: Ending,
) -> anyhow::Result<Play> {
    let Stuck { flow_id, trade_order_no, .. } = stuck(lane, user, debit).await?;
    let request = Request::Cancel { flow_id };
    let play = Play::of(user, ending);
    if case.victim == Victim::Api {
        return Ok(play.with(request));
    }
    let sim = lane.site.sim();
    // By the order: a wallet that never heard of it does not know whose it is.
    sim.fault(json!({ "calls": ["query"], "trade_order_no": trade_order_no, "fault": { "kind": "drop" } }))
        .await?;
    send(lane, &request, 0).await?;
    at_version(lane, user, 4).await?;
    sim.clear_faults().await?;
    Ok(play)
}

/// Cancelled, charged, and left in `REFUNDING` after one refund that got lost on its way or on its way back.
async fn refunding(lane: &Lane, user: u64, refund: Value) -> anyhow::Result<Play> {
    let Stuck { flow_id, .. } = stuck(lane, user, lost_debit(user)).await?;
    lane.site.sim().fault(refund).await?;
    send(lane, &Request::Cancel { flow_id }, 0).await?;
    at_version(lane, user, 6).await?;
    Ok(Play::of(user, REFUNDED))
}

/// Writes that queue up behind one that waits.
async fn wave(lane: &mut Lane, story: Story, user: u64) -> anyhow::Result<Play> {
    let first = held(lane, user).await?;
    let mut users = vec![user];
    let mut requests = vec![Request::Release { flow_id: first }];
    let mut by_hand = None;
    if matches!(story, Story::ManyReleases | Story::OneMovedOn | Story::Mixed) {
        for _ in 0..MANY {
            let user = lane.new_user();
            let flow_id = held(lane, user).await?;
            by_hand = (story == Story::OneMovedOn).then(|| flow_id.clone());
            users.push(user);
            requests.push(Request::Release { flow_id });
        }
    }
    if matches!(story, Story::ManyPayments | Story::Mixed) {
        for _ in 0..MANY {
            let user = lane.new_user();
            users.push(user);
            requests.push(pay(user, "first", FAR_MS));
        }
    }
    if matches!(story, Story::ManyJoins | Story::Mixed) {
        let user = lane.new_user();
        stuck(lane, user, lost_debit(user)).await?;
        users.push(user);
        requests.extend((0..MANY).map(|n| pay(user, &format!("join-{n}"), FAR_MS)));
    }
    if story == Story::SameTarget {
        let user = lane.new_user();
        users.push(user);
        requests.extend(["one", "two"].map(|key| pay(user, key, FAR_MS)));
    }
    Ok(Play { users, requests, queued: true, by_hand, ..Play::of(user, SUCCESS) })
}

/// Makes a request once; a payment waits so long for its end.
///
/// # Errors
/// No answer, or one that does not say that it was done.
pub(crate) async fn send(lane: &Lane, request: &Request, wait_s: u32) -> anyhow::Result<Reply> {
    let (client, operator) = (lane.site.client(), lane.site.operator());
    let reply = match request {
        Request::Pay { key, body } => client.pay(key, body, Some(wait_s)).await?,
        Request::Cancel { flow_id } => client.post(&format!("/payment-flows/{flow_id}/cancel")).await?,
        Request::Hold { flow_id } => operator.post(&format!("/payment-flows/{flow_id}/hold")).await?,
        Request::Release { flow_id } => operator.post(&format!("/payment-flows/{flow_id}/release")).await?,
        Request::Resend { event_id } => operator.post(&format!("/notifications/{event_id}/resend")).await?,
        Request::Look { path } => lane.site.on_call().get(path).await?,
        Request::Tell { id, event } => Channel::new().tell(client.url(), id, event).await?,
    };
    // An operator who was not answered and asks again may find that all is over.
    let over = matches!(request, Request::Release { .. }) && reply.text("code") == "flow_ended";
    ensure!(matches!(reply.status, 200..=202) || over, "{request:?}: HTTP {} {}", reply.status, reply.body);
    Ok(reply)
}

/// Waits until the user's flow has been written so often.
async fn at_version(lane: &Lane, user: u64, version: i64) -> anyhow::Result<()> {
    let sql = format!(
        "SELECT COALESCE(MAX(CAST(version AS SIGNED)), -1) FROM internal_pay_flow WHERE user_id = {user}"
    );
    let there = || async { Ok((lane.site.database.number(&sql).await? >= version).then_some(())) };
    wait_until("the story to begin", PREPARED, there).await.with_context(|| format!("flow of user {user}"))
}
