//! What goes wrong with a call or a statement: every kind that the simulator `pay-sim` knows, and a few of the process
//! and the database besides.
#![allow(clippy::wildcard_enum_match_arm, reason = "a question that a fault does not concern goes through")]

use flow_core::answer::{UnavailableCause, UnknownCause};
use flow_testkit::fakes::{Fault, Lie};
use pay_sim::ledger::Deferral;

use crate::dice::{Draw, Topic};
use crate::message::Message;
use crate::plan::{Bias, UpheavalKind};
use crate::site::Site;
use crate::trace::{What, Who};

/// What goes wrong with a call of the far side.
#[derive(Debug, Clone)]
pub(crate) enum FarTrouble {
    /// The process dies before it has sent anything.
    DiesBefore { down_ms: u64 },
    /// The process dies when the call took effect and nobody has heard the answer.
    DiesAfter { down_ms: u64 },
    /// The request never arrives.
    RequestLost(UnknownCause),
    /// It took effect, and the answer never arrives.
    AnswerLost(UnknownCause),
    /// The caller gives up; the request arrives so much later.
    Late { after_ms: u64 },
    /// It takes effect, and a copy of the request arrives so much later.
    Twice { after_ms: u64 },
    /// Surely not carried out, and the caller can tell.
    Refused { cause: UnavailableCause, retry_after_ms: Option<u64> },
    /// It arrives, and the far side does this with it.
    Served(Fault),
    /// It takes so much longer.
    Slow { more_ms: u64 },
    /// The process stands still before it hears the answer.
    HeardLate { after_ms: u64 },
    /// The wallet really takes another amount than it was asked for.
    Overcharged,
}

impl FarTrouble {
    const fn name(&self) -> &'static str {
        match self {
            FarTrouble::DiesBefore { .. } => "process dies before the call",
            FarTrouble::DiesAfter { .. } => "process dies after the call's effect",
            FarTrouble::RequestLost(_) => "request lost",
            FarTrouble::AnswerLost(_) => "answer lost",
            FarTrouble::Late { .. } => "request arrives late",
            FarTrouble::Twice { .. } => "request arrives twice",
            FarTrouble::Refused { .. } => "call refused before anything was done",
            FarTrouble::Served(Fault::Defer(_)) => "accepted, carried out later",
            FarTrouble::Served(Fault::Refuse(_)) => "refused for good",
            FarTrouble::Served(Fault::Lie(Lie::Processing)) => "answers that it does not know yet",
            FarTrouble::Served(Fault::Lie(Lie::Contradiction)) => "answers with a contradiction",
            FarTrouble::Served(Fault::Lie(_)) => "answers about another amount, user or currency",
            FarTrouble::Served(_) => "served otherwise",
            FarTrouble::Slow { .. } => "slow",
            FarTrouble::HeardLate { .. } => "answer heard late",
            FarTrouble::Overcharged => "the wallet takes another amount",
        }
    }

    fn size_ms(&self) -> u64 {
        match self {
            FarTrouble::DiesBefore { down_ms } | FarTrouble::DiesAfter { down_ms } => *down_ms,
            FarTrouble::Late { after_ms } | FarTrouble::Twice { after_ms } => *after_ms,
            FarTrouble::Slow { more_ms } => *more_ms,
            FarTrouble::HeardLate { after_ms } => *after_ms,
            FarTrouble::RequestLost(_)
            | FarTrouble::AnswerLost(_)
            | FarTrouble::Refused { .. }
            | FarTrouble::Overcharged
            | FarTrouble::Served(_) => 0,
        }
    }
}

/// What goes wrong with a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreTrouble {
    /// The process dies before it has sent anything.
    DiesBefore { down_ms: u64 },
    /// The process dies when the statement is committed and it has not heard of it.
    DiesAfter { down_ms: u64 },
    /// Surely nothing was written.
    Unavailable,
    /// The connection breaks under it, and it was not carried out.
    LostBefore,
    /// The connection breaks under it, and it was carried out.
    LostAfter,
    /// The connection breaks under it, and the server carries it out so much later.
    LostLate { after_ms: u64 },
    /// Another entrance writes the row right before it.
    Overtaken,
    /// It takes so much longer.
    Slow { more_ms: u64 },
}

impl StoreTrouble {
    const fn name(self) -> &'static str {
        match self {
            StoreTrouble::DiesBefore { .. } => "process dies before the statement",
            StoreTrouble::DiesAfter { .. } => "process dies after the commit",
            StoreTrouble::Unavailable => "database unavailable",
            StoreTrouble::LostBefore => "connection lost, nothing written",
            StoreTrouble::LostAfter => "connection lost after the commit",
            StoreTrouble::LostLate { .. } => "connection lost, the write happens later",
            StoreTrouble::Overtaken => "somebody else writes the row first",
            StoreTrouble::Slow { .. } => "slow statement",
        }
    }

    const fn size_ms(self) -> u64 {
        match self {
            StoreTrouble::DiesBefore { down_ms } | StoreTrouble::DiesAfter { down_ms } => down_ms,
            StoreTrouble::LostLate { after_ms } => after_ms,
            StoreTrouble::Slow { more_ms } => more_ms,
            StoreTrouble::Unavailable
            | StoreTrouble::LostBefore
            | StoreTrouble::LostAfter
            | StoreTrouble::Overtaken => 0,
        }
    }
}

/// Longest time that an answer stays unheard.
const MAX_HEARD_LATE_MS: u64 = 900_000;

/// What goes wrong with this call, if anything does.
pub(crate) fn of_call(site: &Site, who: Who, message: &Message, draw: &mut Draw) -> Option<FarTrouble> {
    // Drawn whether it may happen or not: what else is drawn here must not depend on it.
    let strikes = draw.chance(site.plan.far_trouble);
    let kind = draw.between(0, 99);
    let dies = draw.chance(site.plan.crashes);
    let (down_ms, dies_first) = (draw.spread(0, 60_000), draw.chance(300));
    let (is_biased, coin) = (draw.chance(600), draw.chance(500));
    let kind = if is_biased { biased(site, message, coin).unwrap_or(kind) } else { kind };
    let drawn = far_trouble(site, message, kind, draw);
    let trouble = if dies && dies_first {
        Some(FarTrouble::DiesBefore { down_ms })
    } else if dies {
        Some(FarTrouble::DiesAfter { down_ms })
    } else if strikes {
        drawn
    } else {
        None
    };
    if let Some(trouble) = trouble.filter(|_| site.allows(draw)) {
        site.note(who, What::Fault(draw.point, trouble.name(), trouble.size_ms()));
        return Some(trouble);
    }
    outage(site, who, message).or_else(|| doubled(site, who, message, draw))
}

/// A second copy is under way, in a run in which everything arrives twice, to its end.
fn doubled(site: &Site, who: Who, message: &Message, draw: &mut Draw) -> Option<FarTrouble> {
    if !site.doubled || message.is_read() || draw.left_out {
        return None;
    }
    let trouble = FarTrouble::Twice { after_ms: lateness_ms(site, message, draw) };
    site.note(who, What::Fault(draw.point, trouble.name(), trouble.size_ms()));
    Some(trouble)
}

fn outage(site: &Site, who: Who, message: &Message) -> Option<FarTrouble> {
    let (refuses, silent) = if message.is_for_business() {
        (UpheavalKind::BusinessRefuses, UpheavalKind::BusinessSilent)
    } else {
        (UpheavalKind::WalletRefuses, UpheavalKind::WalletSilent)
    };
    let (kind, draw) = site.outage(&[refuses, silent])?;
    let trouble = if kind == refuses {
        FarTrouble::Refused { cause: UnavailableCause::NotConnected, retry_after_ms: None }
    } else {
        FarTrouble::RequestLost(UnknownCause::TimedOut)
    };
    site.note(who, What::Fault(draw.point, "outage", 0));
    Some(trouble)
}

/// Kinds of trouble that a world may be prone to, as [`far_trouble`] numbers them.
const LATE: u64 = 38;
const HEARD_LATE: u64 = 74;
const REFUSED: u64 = 86;

/// The kind of trouble that the world is prone to.
fn biased(site: &Site, message: &Message, coin: bool) -> Option<u64> {
    match site.plan.bias? {
        Bias::Late => Some(LATE),
        Bias::OldAnswers if message.is_read() => Some(HEARD_LATE),
        Bias::OldAnswers => Some(LATE),
        Bias::Refusals => Some(if coin { REFUSED } else { LATE }),
    }
}

fn far_trouble(site: &Site, message: &Message, kind: u64, draw: &mut Draw) -> Option<FarTrouble> {
    let after_ms = lateness_ms(site, message, draw);
    let cause = draw.pick(&[
        UnknownCause::TimedOut,
        UnknownCause::ConnectionLost,
        UnknownCause::ServerError,
        UnknownCause::Unparsable,
    ]);
    let retry_after_ms = draw.chance(500).then(|| draw.spread(1, 30_000));
    let refused = draw.pick(&[UnavailableCause::NotConnected, UnavailableCause::Throttled]);
    match kind {
        0..15 => Some(FarTrouble::RequestLost(cause)),
        15..38 => Some(FarTrouble::AnswerLost(cause)),
        LATE..55 => Some(FarTrouble::Late { after_ms }),
        55..63 => Some(FarTrouble::Twice { after_ms }),
        63..70 => Some(FarTrouble::Refused { cause: refused, retry_after_ms }),
        70..74 => Some(FarTrouble::Slow { more_ms: after_ms.min(3_000) }),
        HEARD_LATE..80 => heard_late(site, message, draw),
        80..86 => deferred(site, message, draw),
        REFUSED..94 => refusal(message, draw),
        94.. => lie(message, draw),
    }
}

/// How late a message arrives: any time, or, as often, at the last moment at which the far side may still take it.
fn lateness_ms(site: &Site, message: &Message, draw: &mut Draw) -> u64 {
    let longest_ms = site.plan.longest_late_ms;
    let any_ms = draw.spread(1, longest_ms);
    let (aimed, before_ms) = (draw.chance(500), draw.spread(1, 3_000));
    site.time.sync();
    let last_ms = match message {
        Message::Debit(order) => Some(order.not_after.timestamp_millis() - site.wallet.clock().now_ms()),
        Message::Execute(order) => Some(order.not_after.timestamp_millis() - site.business.clock().now_ms()),
        Message::Query(_)
        | Message::Close(_)
        | Message::Refund(_)
        | Message::QueryRefund(_)
        | Message::Fact(_) => None,
    };
    let last_ms = last_ms.and_then(|ms| u64::try_from(ms).ok()).filter(|_| aimed);
    last_ms
        .and_then(|ms| ms.checked_sub(before_ms))
        .filter(|ms| (1..=longest_ms).contains(ms))
        .unwrap_or(any_ms)
}

/// The process stands still right before it hears what it has read. What it reads then is old; what it goes on to do
/// must not be. (Calls that change something are held up on their way, within what the world's wallet can bear.) Any
/// time, or, as often, just until the time when something becomes final.
fn heard_late(site: &Site, message: &Message, draw: &mut Draw) -> Option<FarTrouble> {
    let any_ms = draw.spread(100, MAX_HEARD_LATE_MS);
    let (aimed, past_ms) = (draw.chance(500), draw.spread(1, 10_000));
    let (flow, wait_ms) = match message {
        Message::Query(number) => (
            site.store.flows().into_iter().find(|flow| flow.trade_order_no == *number),
            site.plan.wallet_rules.in_flight_grace_ms,
        ),
        Message::Fact(target) => (
            site.store.flows().into_iter().rfind(|flow| flow.target == *target),
            site.plan.business_rules.settle_margin_ms,
        ),
        Message::QueryRefund(_) => (None, 0),
        Message::Debit(_) | Message::Close(_) | Message::Refund(_) | Message::Execute(_) => return None,
    };
    site.time.sync();
    let final_ms = flow.filter(|_| aimed).and_then(|flow| {
        let deadline_in_ms = (flow.deadline - site.time.database.now()).num_milliseconds();
        deadline_in_ms.checked_add_unsigned(wait_ms + past_ms).and_then(|ms| u64::try_from(ms).ok())
    });
    let after_ms = final_ms.filter(|ms| *ms <= MAX_HEARD_LATE_MS).unwrap_or(any_ms);
    Some(FarTrouble::HeardLate { after_ms })
}

/// PROCESSING. A read only claims not to know.
fn deferred(site: &Site, message: &Message, draw: &mut Draw) -> Option<FarTrouble> {
    let far_clock = if message.is_for_business() { &site.business } else { &site.wallet };
    site.time.sync();
    let due = i64::try_from(draw.spread(1, site.plan.longest_late_ms)).unwrap_or(1);
    let deferral = if draw.chance(700) {
        Deferral::UntilMs(far_clock.clock().now_ms() + due)
    } else {
        Deferral::NextQuery
    };
    match message {
        Message::Debit(_) | Message::Refund(_) | Message::Execute(_) => {
            Some(FarTrouble::Served(Fault::Defer(deferral)))
        }
        Message::Query(_) | Message::Close(_) | Message::QueryRefund(_) => {
            Some(FarTrouble::Served(Fault::Lie(Lie::Processing)))
        }
        Message::Fact(_) => None,
    }
}

fn refusal(message: &Message, draw: &mut Draw) -> Option<FarTrouble> {
    let code = draw.pick(&["INSUFFICIENT_FUNDS", "ACCOUNT_FROZEN", "NOT_NOW"]);
    match message {
        Message::Debit(_) | Message::Refund(_) | Message::Execute(_) => {
            Some(FarTrouble::Served(Fault::Refuse(code.to_owned())))
        }
        Message::Query(_) | Message::Close(_) | Message::QueryRefund(_) | Message::Fact(_) => None,
    }
}

fn lie(message: &Message, draw: &mut Draw) -> Option<FarTrouble> {
    let about_money = draw.pick(&[Lie::WrongAmount, Lie::WrongUser, Lie::WrongCurrency]);
    let is_true = draw.chance(400);
    match message {
        Message::Debit(_) if is_true => Some(FarTrouble::Overcharged),
        Message::Debit(_)
        | Message::Query(_)
        | Message::Close(_)
        | Message::Refund(_)
        | Message::QueryRefund(_) => Some(FarTrouble::Served(Fault::Lie(about_money))),
        Message::Fact(_) => Some(FarTrouble::Served(Fault::Lie(Lie::Contradiction))),
        Message::Execute(_) => None,
    }
}

/// What goes wrong with this statement, if anything does.
pub(crate) fn of_statement(site: &Site, who: Who, topic: Topic, draw: &mut Draw) -> Option<StoreTrouble> {
    let is_write =
        matches!(topic, Topic::Create | Topic::BindKey | Topic::Cas | Topic::InboxWrite | Topic::OutboxWrite);
    let strikes = draw.chance(site.plan.store_trouble);
    let dies = draw.chance(if is_write { site.plan.crashes * 2 } else { site.plan.crashes / 3 });
    let (down_ms, dies_first) = (draw.spread(0, 60_000), draw.chance(300));
    let after_ms = draw.spread(1, 20_000);
    let kind = draw.between(0, 99);
    let trouble = if dies && dies_first {
        Some(StoreTrouble::DiesBefore { down_ms })
    } else if dies {
        Some(StoreTrouble::DiesAfter { down_ms })
    } else if !strikes {
        None
    } else {
        match (kind, is_write) {
            (0..20, true | false) => Some(StoreTrouble::Unavailable),
            (20..35, true | false) => Some(StoreTrouble::Slow { more_ms: after_ms.min(5_000) }),
            (35..50, true) => Some(StoreTrouble::LostBefore),
            (50..70, true) => Some(StoreTrouble::LostAfter),
            (70..82, true) => Some(StoreTrouble::LostLate { after_ms }),
            (_, true) if topic == Topic::Cas => Some(StoreTrouble::Overtaken),
            (_, true | false) => None,
        }
    };
    if let Some(trouble) = trouble.filter(|_| site.allows(draw)) {
        site.note(who, What::Fault(draw.point, trouble.name(), trouble.size_ms()));
        return Some(trouble);
    }
    let (_, draw) = site.outage(&[UpheavalKind::DatabaseAway])?;
    site.note(who, What::Fault(draw.point, "outage of the database", 0));
    Some(StoreTrouble::Unavailable)
}
