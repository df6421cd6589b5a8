//! The shape of one world, drawn from its seed: who takes part, how patient they are, how rough it gets.

use flow_core::advance::AdvanceSettings;
use flow_core::downstream::{BusinessRules, WalletRules};
use flow_core::retry::Schedule;

use crate::dice::{Dice, Draw, Point, Topic};

/// Processes that take requests.
pub(crate) const APIS: u8 = 2;

/// The shape of one world. Times in virtual milliseconds.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Processes that sweep.
    pub(crate) scanners: u8,
    pub(crate) partitions: u32,
    pub(crate) page_rows: u32,
    pub(crate) round_interval_ms: u64,
    pub(crate) settings: AdvanceSettings,
    pub(crate) wallet_rules: WalletRules,
    pub(crate) business_rules: BusinessRules,
    /// Whether the wallet can bar an order, whatever the rules say.
    pub(crate) wallet_closes: bool,
    /// Whether the wallet itself refuses a debit after the deadline. One that does not must be able to close, or be
    /// given a grace that covers everything that can hold a debit up.
    pub(crate) wallet_honours_not_after: bool,
    pub(crate) wallet_skew_ms: i64,
    pub(crate) business_skew_ms: i64,
    /// Calls of the far side that go wrong, of 1000.
    pub(crate) far_trouble: u32,
    /// What goes wrong more often than anything else.
    pub(crate) bias: Option<Bias>,
    /// Statements that go wrong, of 1000.
    pub(crate) store_trouble: u32,
    /// Calls and statements at which the process dies, of 1000.
    pub(crate) crashes: u32,
    pub(crate) longest_latency_ms: u64,
    /// How long a message may be under way at most.
    pub(crate) longest_late_ms: u64,
    /// How long a process may stand still at most.
    pub(crate) longest_stall_ms: u64,
    /// How long things go wrong.
    pub(crate) storm_ms: u64,
    pub(crate) first_due_in_ms: u64,
    pub(crate) call_budget_ms: u64,
    pub(crate) timer_bound_ms: u64,
    /// Wake-ups go through a broker, to whichever scanner is there, instead of through each API's timer.
    pub(crate) by_broker: bool,
    /// How far ahead deadlines lie at most.
    pub(crate) longest_deadline_ms: u64,
    pub(crate) clients: Vec<ClientPlan>,
    pub(crate) upheavals: Vec<Upheaval>,
    pub(crate) acts: Vec<Act>,
    /// Whether people release what the system held, once all is calm.
    pub(crate) people_release: bool,
}

/// What a world is prone to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bias {
    /// Messages that arrive late.
    Late,
    /// Answers that are old when they are heard.
    OldAnswers,
    /// Refusals, and messages that arrive late.
    Refusals,
}

/// A client: one user application's thread of requests for one target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientPlan {
    pub(crate) point: Point,
    /// From 1.
    pub(crate) number: u8,
    pub(crate) target: i64,
    pub(crate) start_ms: u64,
}

/// Something that befalls a whole system.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Upheaval {
    pub(crate) point: Point,
    pub(crate) at_ms: u64,
    pub(crate) for_ms: u64,
    pub(crate) kind: UpheavalKind,
}

/// What befalls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpheavalKind {
    /// Connections to the wallet are refused.
    WalletRefuses,
    /// The wallet takes calls and does not answer in time.
    WalletSilent,
    /// Connections to the business system are refused.
    BusinessRefuses,
    /// The business system takes calls and does not answer in time.
    BusinessSilent,
    /// The database is away.
    DatabaseAway,
    /// The process, by its place among all, dies and is started again after the time.
    Kill(u8),
    /// The process is told to stop, drains, and is started again after the time.
    Deploy(u8),
    /// The process stands still for the time, then goes on as if nothing had been.
    Stall(u8),
    /// Every connection that holds a lease breaks.
    LeasesBreak,
    /// Somebody else buys the benefit of this target, past us.
    Outsider(i64),
}

/// What a person on call does at a time, to whatever flow there is then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Act {
    pub(crate) point: Point,
    pub(crate) at_ms: u64,
    pub(crate) kind: ActKind,
    /// Chooses the flow.
    pub(crate) which: u64,
}

/// What a person can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActKind {
    Hold,
    Release,
    Push,
    Cancel,
}

impl Plan {
    /// The world of these dice.
    pub(crate) fn draw(dice: &Dice) -> Plan {
        let draw = &mut dice.draw(Topic::World, 0);
        let scanners = 1 + u8::from(draw.chance(600));
        let storm_ms = draw.spread(5_000, 600_000);
        let bias = draw.pick(&[None, None, Some(Bias::Late), Some(Bias::OldAnswers), Some(Bias::Refusals)]);
        let (unbiased, biased) = (draw.pick(&[0, 20, 100, 200, 350]), draw.pick(&[200, 400, 600]));
        let far_trouble = if bias.is_some() { biased } else { unbiased };
        let store_trouble = draw.pick(&[0, 10, 30, 80]);
        let crashes = draw.pick(&[0, 0, 3, 10, 25]);
        let (can_close, wallet_honours_not_after) =
            draw.pick(&[(true, true), (true, true), (true, false), (false, true), (false, false)]);
        let promised = can_close || wallet_honours_not_after;
        // Now and then the configuration is wrong about the wallet.
        let is_misjudged = draw.chance(100);
        let longest_late_ms = draw.spread(200, if promised { 900_000 } else { 20_000 });
        let longest_stall_ms = draw.spread(1_000, if promised { 300_000 } else { 15_000 });
        let longest_latency_ms = draw.pick(&[2, 20, 200, 2_000]);
        let in_flight_grace_ms = if promised { draw.between(2_000, 300_000) } else { 120_000 };
        let settle_margin_ms = draw.between(1_000, 10_000);
        let mut plan = Plan {
            scanners,
            partitions: draw.pick(&[1, 2, 3]),
            page_rows: draw.pick(&[1, 2, 500]),
            round_interval_ms: draw.pick(&[500, 1_000, 5_000, 30_000]),
            settings: settings(draw),
            wallet_closes: can_close,
            wallet_rules: WalletRules {
                can_close: can_close != (is_misjudged && (!can_close || wallet_honours_not_after)),
                in_flight_grace_ms,
                refund_tries_before_hold: draw.pick(&[2, 20]),
            },
            business_rules: BusinessRules {
                settle_margin_ms,
                unreadable_hold_ms: draw.pick(&[10_000, 3_600_000, 86_400_000]),
            },
            wallet_honours_not_after,
            wallet_skew_ms: skew(draw, in_flight_grace_ms.min(5_000) - 500),
            business_skew_ms: skew(draw, settle_margin_ms - 500),
            far_trouble,
            bias,
            store_trouble,
            crashes,
            longest_latency_ms,
            longest_late_ms,
            longest_stall_ms,
            storm_ms,
            first_due_in_ms: draw.pick(&[0, 1_000, 15_000]),
            call_budget_ms: draw.pick(&[0, 1_000, 10_000]),
            timer_bound_ms: draw.pick(&[0, 10_000, 600_000]),
            // From dice of its own, so that every world is otherwise what it was without brokers.
            by_broker: dice.draw(Topic::Broker, 0).chance(400),
            longest_deadline_ms: draw.pick(&[500, 3_000, 10_000, 60_000, 600_000]),
            clients: Vec::new(),
            upheavals: Vec::new(),
            acts: Vec::new(),
            people_release: draw.chance(850),
        };
        plan.clients = clients(dice, draw, storm_ms);
        plan.upheavals = upheavals(dice, draw, &plan);
        plan.acts = acts(dice, draw, storm_ms);
        plan
    }
}

/// Up to so far ahead or behind.
fn skew(draw: &mut Draw, most_ms: u64) -> i64 {
    let size = i64::try_from(draw.between(0, most_ms)).unwrap_or(0);
    if draw.chance(500) { size } else { -size }
}

fn settings(draw: &mut Draw) -> AdvanceSettings {
    let short = Schedule::new(vec![500, 1_000, 3_000, 10_000, 30_000]).expect("delays within the limits");
    let schedule = if draw.chance(500) { short } else { Schedule::default() };
    AdvanceSettings {
        paying: schedule.clone(),
        payed: schedule.clone(),
        refunding: schedule,
        claim_ms: draw.pick(&[200, 2_000, 15_000]),
        postpone_spread_ms: draw.pick(&[1_000, 30_000]),
        max_steps: draw.pick(&[1, 3, 12]),
    }
}

fn clients(dice: &Dice, draw: &mut Draw, storm_ms: u64) -> Vec<ClientPlan> {
    let targets = draw.between(1, 4);
    let mut clients = Vec::new();
    for target in 1..=targets {
        let begins_ms = draw.spread(0, storm_ms / 2);
        for _ in 0..draw.pick(&[1u64, 1, 2, 2, 3]) {
            let number = u8::try_from(clients.len() + 1).unwrap_or(u8::MAX);
            let point = dice.draw(Topic::Client, i64::from(number)).point;
            let start_ms = begins_ms + draw.spread(0, 5_000);
            clients.push(ClientPlan { point, number, target: i64::try_from(target).unwrap_or(1), start_ms });
        }
    }
    clients
}

fn upheavals(dice: &Dice, draw: &mut Draw, plan: &Plan) -> Vec<Upheaval> {
    let how_many = if plan.far_trouble == 0 { 0 } else { draw.between(0, 4) };
    let mut upheavals = Vec::new();
    for number in 0..how_many {
        let point = dice.draw(Topic::Upheaval, i64::try_from(number).unwrap_or(0)).point;
        let process = u8::try_from(draw.between(0, u64::from(APIS + plan.scanners) - 1)).unwrap_or(0);
        let target = i64::try_from(draw.between(1, 3)).unwrap_or(1);
        let kind = draw.pick(&[
            UpheavalKind::WalletRefuses,
            UpheavalKind::WalletSilent,
            UpheavalKind::BusinessRefuses,
            UpheavalKind::BusinessSilent,
            UpheavalKind::DatabaseAway,
            UpheavalKind::Kill(process),
            UpheavalKind::Deploy(process),
            UpheavalKind::Stall(process),
            UpheavalKind::LeasesBreak,
            UpheavalKind::Outsider(target),
        ]);
        let at_ms = draw.spread(0, plan.storm_ms);
        let longest_ms = match kind {
            UpheavalKind::Stall(_) => plan.longest_stall_ms,
            UpheavalKind::WalletRefuses
            | UpheavalKind::WalletSilent
            | UpheavalKind::BusinessRefuses
            | UpheavalKind::BusinessSilent
            | UpheavalKind::DatabaseAway
            | UpheavalKind::Kill(_)
            | UpheavalKind::Deploy(_)
            | UpheavalKind::LeasesBreak
            | UpheavalKind::Outsider(_) => 120_000,
        };
        upheavals.push(Upheaval { point, at_ms, for_ms: draw.spread(100, longest_ms), kind });
    }
    upheavals
}

fn acts(dice: &Dice, draw: &mut Draw, storm_ms: u64) -> Vec<Act> {
    let mut acts = Vec::new();
    for number in 0..draw.pick(&[0i64, 0, 1, 3, 6]) {
        let point = dice.draw(Topic::Person, number).point;
        let kind =
            draw.pick(&[ActKind::Hold, ActKind::Hold, ActKind::Release, ActKind::Push, ActKind::Cancel]);
        acts.push(Act { point, at_ms: draw.spread(0, storm_ms), kind, which: draw.between(0, 1 << 20) });
    }
    acts
}
