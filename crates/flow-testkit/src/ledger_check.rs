//! The invariants of the product, as one function over every row, the whole audit log and the far side's ledger.
//!
//! It looks at what is, never at how it came about: the same function judges a unit test over fakes and a run of real
//! processes that were killed at random.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use flow_core::cas::HELD_UNTIL;
use flow_core::flow::Flow;
use flow_core::ids::{FlowId, Target};
use flow_core::ports::FlowEvent;
use flow_core::state::{Edge, State};
use pay_sim::ledger::{Effect, OrderLedger};
use serde_json::Value;

/// A promise, by its number in the design; see there for the wording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// At most one effective charge per charge number, and of the flow's amount.
    I1,
    /// At most one effective refund per refund number, under the flow's own number alone.
    I2,
    /// `BIZ_SUCCESS` was charged, is owned by the attempt, and is never refunded.
    I3,
    /// `REFUNDED` was charged, refunded in full, and is not owned by the attempt; no refund beside a grant at all.
    I4,
    /// A charge never ends in `PAY_FAIL`.
    I5,
    /// A terminal row never changes state again.
    I6,
    /// A row that is not terminal is due some day.
    I7,
    /// One open or successful attempt per target; attempts are numbered without gaps.
    I8,
    /// Every write left its audit line, and the lines tell the row's whole story.
    I9,
    /// Nothing is left to be done: every row is terminal or held. Asked for by [`check_settled`] alone.
    Settled,
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// For which flow.
    pub flow_id: FlowId,
    /// What was seen.
    pub seen: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} broken by flow {}: {}", self.invariant, self.flow_id, self.seen)
    }
}

/// What the far side really did under one charge number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OrderFacts {
    /// Effective charges: amount and currency of each.
    pub charges: Vec<(i64, String)>,
    /// Effective refunds: refund number, amount and currency of each.
    pub refunds: Vec<(String, i64, String)>,
    /// Effective grants.
    pub grants: usize,
    /// Who owns the target that the order tried.
    pub owner_of_target: Option<String>,
}

impl From<&OrderLedger> for OrderFacts {
    fn from(ledger: &OrderLedger) -> OrderFacts {
        let mut facts =
            OrderFacts { owner_of_target: ledger.owner_of_target.clone(), ..OrderFacts::default() };
        for entry in &ledger.entries {
            match &entry.effect {
                Effect::Charge { money, .. } => facts.charges.push((money.amount, money.currency.clone())),
                Effect::Refund { refund_order_no, money, .. } => {
                    facts.refunds.push((refund_order_no.clone(), money.amount, money.currency.clone()));
                }
                Effect::Grant { .. } => facts.grants += 1,
            }
        }
        facts
    }
}

impl OrderFacts {
    /// Reads the simulator's `GET /ledger/{trade_order_no}`; `None` if it is not of that form.
    pub fn from_json(ledger: &Value) -> Option<OrderFacts> {
        let owner_of_target = ledger.get("owner_of_target").and_then(Value::as_str).map(str::to_owned);
        let mut facts = OrderFacts { owner_of_target, ..OrderFacts::default() };
        for entry in ledger.get("entries")?.as_array()? {
            let money = || {
                let money = entry.get("money")?;
                Some((money.get("amount")?.as_i64()?, money.get("currency")?.as_str()?.to_owned()))
            };
            match entry.get("effect")?.as_str()? {
                "charge" => facts.charges.push(money()?),
                "refund" => {
                    let (amount, currency) = money()?;
                    facts.refunds.push((
                        entry.get("refund_order_no")?.as_str()?.to_owned(),
                        amount,
                        currency,
                    ));
                }
                "grant" => facts.grants += 1,
                _ => return None,
            }
        }
        Some(facts)
    }

    fn refunded(&self) -> i64 {
        self.refunds.iter().map(|(_, amount, _)| amount).sum()
    }
}

/// Checks I1 to I9. `facts` answers for every flow's charge number; `events` may hold the lines of other flows too.
pub fn check(flows: &[Flow], events: &[FlowEvent], facts: impl Fn(&Flow) -> OrderFacts) -> Vec<Violation> {
    let mut found = Findings::default();
    let mut lines: HashMap<FlowId, Vec<&FlowEvent>> = HashMap::new();
    for event in events {
        lines.entry(event.flow_id).or_default().push(event);
    }
    for flow in flows {
        let facts = facts(flow);
        found.0.extend(check_row(flow, &facts));
        check_story(flow, lines.get(&flow.id).map_or(&[], Vec::as_slice), &mut found);
    }
    check_targets(flows, &mut found);
    found.0
}

/// What of [`check`] can be said of one row alone, at any moment: everything but its story and its rivals.
pub fn check_row(flow: &Flow, facts: &OrderFacts) -> Vec<Violation> {
    let mut found = Findings::default();
    check_money(flow, facts, &mut found);
    check_ends(flow, facts, &mut found);
    check_due(flow, &mut found);
    found.0
}

/// [`check`], and nothing may be left to be done.
pub fn check_settled(
    flows: &[Flow],
    events: &[FlowEvent],
    facts: impl Fn(&Flow) -> OrderFacts,
) -> Vec<Violation> {
    let mut violations = check(flows, events, facts);
    for flow in flows.iter().filter(|flow| !flow.state.is_terminal() && flow.hold.is_none()) {
        let seen = format!("still in {} with {} tries", flow.state, flow.retry_count);
        violations.push(Violation { invariant: Invariant::Settled, flow_id: flow.id, seen });
    }
    violations
}

/// Fails the test with every violation on a line of its own.
///
/// # Panics
/// If there is one.
pub fn assert_none(violations: &[Violation]) {
    let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} broken promises:\n{}", lines.len(), lines.join("\n"));
}

#[derive(Default)]
struct Findings(Vec<Violation>);

impl Findings {
    fn require(&mut self, holds: bool, invariant: Invariant, flow: &Flow, seen: impl FnOnce() -> String) {
        if !holds {
            self.0.push(Violation { invariant, flow_id: flow.id, seen: seen() });
        }
    }
}

/// I1, I2 and what of I4 holds in every state.
fn check_money(flow: &Flow, facts: &OrderFacts, found: &mut Findings) {
    found.require(facts.charges.len() <= 1, Invariant::I1, flow, || {
        format!("{} charges", facts.charges.len())
    });
    let ours = |amount: i64, currency: &str| {
        (amount, currency) == (flow.money.amount(), flow.money.currency().as_str())
    };
    for (amount, currency) in &facts.charges {
        let seen = || format!("charged {amount} {currency} instead of {}", flow.money);
        found.require(ours(*amount, currency), Invariant::I1, flow, seen);
    }
    let mut by_number: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, amount, currency) in &facts.refunds {
        *by_number.entry(number).or_default() += 1;
        let seen = || format!("refunded {amount} {currency} instead of {}", flow.money);
        found.require(ours(*amount, currency), Invariant::I2, flow, seen);
    }
    for (number, times) in by_number {
        let seen = || format!("{times} refunds under {number}");
        found.require(times <= 1 && number == flow.refund_order_no.as_str(), Invariant::I2, flow, seen);
    }
    found.require(facts.grants == 0 || facts.refunds.is_empty(), Invariant::I4, flow, || {
        format!("{} grants beside {} refunds", facts.grants, facts.refunds.len())
    });
}

/// I3, I4, I5: what a state claims agrees with what really happened.
fn check_ends(flow: &Flow, facts: &OrderFacts, found: &mut Findings) {
    let charged = facts.charges.len() == 1;
    let owned = facts.grants > 0 || facts.owner_of_target.as_deref() == Some(flow.trade_order_no.as_str());
    match flow.state {
        State::BizSuccess => {
            found.require(facts.refunds.is_empty(), Invariant::I3, flow, || {
                format!("BIZ_SUCCESS with {} refunds", facts.refunds.len())
            });
            found.require(charged && facts.grants == 1 && owned, Invariant::I3, flow, || {
                format!("BIZ_SUCCESS with {} charges and {} grants", facts.charges.len(), facts.grants)
            });
        }
        State::Refunded => {
            let in_full = charged && facts.refunds.len() == 1 && facts.refunded() == flow.money.amount();
            found.require(in_full && !owned, Invariant::I4, flow, || {
                let (charges, refunded) = (facts.charges.len(), facts.refunded());
                format!("REFUNDED with {charges} charges, {refunded} refunded, {} grants", facts.grants)
            });
        }
        State::Refunding => {
            let seen = || format!("REFUNDING with {} charges, {} grants", facts.charges.len(), facts.grants);
            found.require(charged && !owned, Invariant::I4, flow, seen);
            found
                .require(flow.refund.is_some(), Invariant::I4, flow, || "REFUNDING without terms".to_owned());
        }
        State::PayFail => {
            let nothing = facts.charges.is_empty() && facts.grants == 0;
            found.require(nothing, Invariant::I5, flow, || {
                format!("PAY_FAIL with {} charges and {} grants", facts.charges.len(), facts.grants)
            });
        }
        State::Payed => {
            found.require(charged, Invariant::I1, flow, || "PAYED without a charge".to_owned());
            found.require(facts.refunds.is_empty(), Invariant::I4, flow, || "PAYED with a refund".to_owned());
        }
        State::WaitPay => {
            let nothing = facts == &OrderFacts::default();
            found.require(nothing, Invariant::I1, flow, || {
                "WAIT_PAY, and the far side has heard of it".to_owned()
            });
        }
        State::Paying => {
            let nothing_more = facts.refunds.is_empty() && facts.grants == 0;
            found.require(nothing_more, Invariant::I4, flow, || "PAYING with a refund or a grant".to_owned());
        }
    }
}

/// I7: the database alone finds the row again.
fn check_due(flow: &Flow, found: &mut Findings) {
    let waits_for_people = flow.hold.is_some();
    let due = flow.state.is_terminal() || waits_for_people || flow.next_retry_time < HELD_UNTIL;
    found.require(due, Invariant::I7, flow, || format!("{} is never due and not held", flow.state));
}

/// I6 and I9: the audit log tells the row's whole story, and no story goes on after its end.
fn check_story(flow: &Flow, lines: &[&FlowEvent], found: &mut Findings) {
    let mut lines = lines.to_vec();
    lines.sort_by_key(|line| line.version);
    let versions: Vec<u64> = lines.iter().map(|line| line.version.0).collect();
    let complete = versions.iter().copied().eq(0..=flow.version.0);
    found.require(complete, Invariant::I9, flow, || {
        format!("version {} but audit lines for {versions:?}", flow.version.0)
    });
    let mut state = None;
    for line in &lines {
        let step = || format!("version {}: {:?} -> {}, after {state:?}", line.version.0, line.from, line.to);
        found.require(line.from == state, Invariant::I9, flow, step);
        match line.from {
            None => found.require(line.to == State::WaitPay, Invariant::I9, flow, step),
            Some(from) if from == line.to => {}
            Some(from) => {
                found.require(!from.is_terminal(), Invariant::I6, flow, step);
                found.require(Edge::between(from, line.to).is_some(), Invariant::I9, flow, step);
            }
        }
        state = Some(line.to);
    }
    let seen = || format!("row in {}, audit log ends in {state:?}", flow.state);
    found.require(state == Some(flow.state), Invariant::I9, flow, seen);
}

/// I8: at most one attempt holds a target, and attempts are numbered 1, 2, 3 …
fn check_targets(flows: &[Flow], found: &mut Findings) {
    let mut by_target: HashMap<&Target, Vec<&Flow>> = HashMap::new();
    for flow in flows {
        by_target.entry(&flow.target).or_default().push(flow);
    }
    for attempts in by_target.into_values() {
        let holding: Vec<FlowId> =
            attempts.iter().filter(|flow| !flow.state.frees_target()).map(|flow| flow.id).collect();
        let first = attempts[0];
        found.require(holding.len() <= 1, Invariant::I8, first, || {
            format!("attempts {holding:?} hold one target")
        });
        let numbers: BTreeSet<u32> = attempts.iter().map(|flow| flow.attempt_no.0).collect();
        let gapless =
            numbers.len() == attempts.len() && numbers.iter().copied().eq((1..).take(attempts.len()));
        found.require(gapless, Invariant::I8, first, || format!("attempt numbers {numbers:?}"));
    }
}
