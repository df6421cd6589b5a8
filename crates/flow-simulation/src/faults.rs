//! What goes wrong with a call or a statement: every kind that the simulator `pay-sim` knows, and a few of the process
//! and the database besides.

use flow_core::answer::{UnavailableCause, UnknownCause};
use flow_testkit::fakes::{Fault, Lie};
use pay_sim::ledger::Deferral;

use crate::dice::{Draw, Topic};
use crate::plan::UpheavalKind;
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
            FarTrouble::Served(Fault::Lie(_)) => "answers with a contradiction",
            FarTrouble::Served(_) => "served otherwise",
            FarTrouble::Slow { .. } => "slow",
        }
    }

    fn size_ms(&self) -> u64 {
        match self {
            FarTrouble::DiesBefore { down_ms } | FarTrouble::DiesAfter { down_ms } => *down_ms,
            FarTrouble::Late { after_ms } | FarTrouble::Twice { after_ms } => *after_ms,
            FarTrouble::Slow { more_ms } => *more_ms,
            FarTrouble::RequestLost(_)
            | FarTrouble::AnswerLost(_)
            | FarTrouble::Refused { .. }
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

/// What goes wrong with this call, if anything does.
pub(crate) fn of_call(site: &Site, who: Who, topic: Topic, draw: &mut Draw) -> Option<FarTrouble> {
    // Drawn whether it may happen or not: what else is drawn here must not depend on it.
    let strikes = draw.chance(site.plan.far_trouble);
    let kind = draw.between(0, 99);
    let dies = draw.chance(site.plan.crashes);
    let (down_ms, dies_first) = (draw.spread(0, 60_000), draw.chance(300));
    let drawn = far_trouble(site, topic, kind, draw);
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
    outage(site, who, topic)
}

fn outage(site: &Site, who: Who, topic: Topic) -> Option<FarTrouble> {
    let (refuses, silent) = match topic {
        Topic::Execute | Topic::Fact => (UpheavalKind::BusinessRefuses, UpheavalKind::BusinessSilent),
        _ => (UpheavalKind::WalletRefuses, UpheavalKind::WalletSilent),
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

fn far_trouble(site: &Site, topic: Topic, kind: u64, draw: &mut Draw) -> Option<FarTrouble> {
    let after_ms = draw.spread(1, site.plan.longest_late_ms);
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
        38..55 => Some(FarTrouble::Late { after_ms }),
        55..63 => Some(FarTrouble::Twice { after_ms }),
        63..70 => Some(FarTrouble::Refused { cause: refused, retry_after_ms }),
        70..75 => Some(FarTrouble::Slow { more_ms: after_ms.min(3_000) }),
        75..84 => deferred(site, topic, draw),
        84..92 => refusal(topic, draw),
        _ => lie(topic, draw),
    }
}

/// PROCESSING. A read only claims not to know.
fn deferred(site: &Site, topic: Topic, draw: &mut Draw) -> Option<FarTrouble> {
    let far_clock = if topic == Topic::Execute { &site.business } else { &site.wallet };
    site.time.sync();
    let due = i64::try_from(draw.spread(1, site.plan.longest_late_ms)).unwrap_or(1);
    let deferral = if draw.chance(700) {
        Deferral::UntilMs(far_clock.clock().now_ms() + due)
    } else {
        Deferral::NextQuery
    };
    match topic {
        Topic::Debit | Topic::Refund | Topic::Execute => Some(FarTrouble::Served(Fault::Defer(deferral))),
        Topic::Query | Topic::Close | Topic::QueryRefund => {
            Some(FarTrouble::Served(Fault::Lie(Lie::Processing)))
        }
        _ => None,
    }
}

fn refusal(topic: Topic, draw: &mut Draw) -> Option<FarTrouble> {
    let code = draw.pick(&["INSUFFICIENT_FUNDS", "ACCOUNT_FROZEN", "NOT_NOW"]);
    match topic {
        Topic::Debit | Topic::Refund | Topic::Execute => {
            Some(FarTrouble::Served(Fault::Refuse(code.to_owned())))
        }
        _ => None,
    }
}

fn lie(topic: Topic, draw: &mut Draw) -> Option<FarTrouble> {
    let about_money = draw.pick(&[Lie::WrongAmount, Lie::WrongUser, Lie::WrongCurrency]);
    match topic {
        Topic::Debit | Topic::Query | Topic::Close | Topic::Refund | Topic::QueryRefund => {
            Some(FarTrouble::Served(Fault::Lie(about_money)))
        }
        Topic::Fact => Some(FarTrouble::Served(Fault::Lie(Lie::Contradiction))),
        _ => None,
    }
}

/// What goes wrong with this statement, if anything does.
pub(crate) fn of_statement(site: &Site, who: Who, topic: Topic, draw: &mut Draw) -> Option<StoreTrouble> {
    let is_write = matches!(topic, Topic::Create | Topic::BindKey | Topic::Cas);
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
