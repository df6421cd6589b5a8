//! The rules in force, and the choice of the one that strikes.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::Serialize;

use super::rule::{BadRule, Fault, Rule, Stage, Subject, System, UnavailableMode};

/// More rules than this are refused.
const MAX_RULES: usize = 1_000;

/// The rules in force.
#[derive(Debug, Default)]
pub struct FaultSet {
    rules: Vec<ActiveRule>,
    last_id: u64,
}

#[derive(Debug)]
struct ActiveRule {
    id: u64,
    rule: Rule,
    ends_at_ms: Option<i64>,
    matched: u64,
    hits: u64,
    /// How often each (call, number) was drawn for, so that a repetition is a new draw. Only rules with a probability have any.
    draws: HashMap<u64, u32>,
}

/// A rule with what it has done so far.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleReport {
    /// Names the rule for deletion.
    pub id: u64,
    /// The rule.
    pub rule: Rule,
    /// Calls that its filters matched.
    pub matched: u64,
    /// Calls it struck.
    pub hits: u64,
    /// Whether it can still strike.
    pub active: bool,
}

/// The set is full. No rule was added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are {MAX_RULES} fault rules already; delete some first")]
pub struct TooManyRules;

impl FaultSet {
    /// Adds a rule and returns its id.
    ///
    /// # Errors
    /// When the set is full. The caller has checked the rule: see [`FaultSet::check`].
    pub fn add(&mut self, rule: Rule, now_ms: i64) -> Result<u64, TooManyRules> {
        if self.rules.len() >= MAX_RULES {
            return Err(TooManyRules);
        }
        self.last_id += 1;
        let ends_at_ms = rule.for_ms.map(|ms| now_ms.saturating_add_unsigned(ms));
        let id = self.last_id;
        self.rules.push(ActiveRule { id, rule, ends_at_ms, matched: 0, hits: 0, draws: HashMap::new() });
        Ok(id)
    }

    /// Whether a rule makes sense.
    ///
    /// # Errors
    /// Names what does not.
    pub fn check(rule: &Rule) -> Result<(), BadRule> {
        rule.check()
    }

    /// Removes a rule; false when there is none of this id.
    pub fn remove(&mut self, id: u64) -> bool {
        let before = self.rules.len();
        self.rules.retain(|active| active.id != id);
        self.rules.len() < before
    }

    /// Removes every rule. Ids go on counting.
    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// No rule at all: the fast path.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The fault that strikes this call, if any, and counts it.
    pub fn strike(&mut self, subject: &Subject, now_ms: i64) -> Option<(Fault, Stage)> {
        for active in &mut self.rules {
            if !active.is_live(now_ms) || !active.rule.matches(subject) {
                continue;
            }
            active.matched += 1;
            if active.matched > u64::from(active.rule.skip) && active.draw(subject) {
                active.hits += 1;
                return Some((active.rule.fault.clone(), active.rule.stage));
            }
        }
        None
    }

    /// Whether a rule closes this system's own port now.
    #[must_use]
    pub fn refuses_connections(&self, system: System, now_ms: i64) -> bool {
        self.refusals(system).any(|active| active.is_live(now_ms))
    }

    /// When the next closed port may open again, if time alone opens it.
    #[must_use]
    pub fn next_end_ms(&self, system: System, now_ms: i64) -> Option<i64> {
        self.refusals(system).filter_map(|active| active.ends_at_ms).filter(|ends| *ends > now_ms).min()
    }

    /// Every rule with its counts.
    #[must_use]
    pub fn report(&self, now_ms: i64) -> Vec<RuleReport> {
        let report = |active: &ActiveRule| RuleReport {
            id: active.id,
            rule: active.rule.clone(),
            matched: active.matched,
            hits: active.hits,
            active: active.is_live(now_ms),
        };
        self.rules.iter().map(report).collect()
    }

    fn refusals(&self, system: System) -> impl Iterator<Item = &ActiveRule> {
        self.rules.iter().filter(move |active| {
            let refuses =
                matches!(active.rule.fault, Fault::Unavailable { mode: UnavailableMode::Refused, .. });
            refuses && active.rule.covers(system)
        })
    }
}

impl ActiveRule {
    fn is_live(&self, now_ms: i64) -> bool {
        let spent = self.rule.times.is_some_and(|times| self.hits >= u64::from(times));
        let ended = self.ends_at_ms.is_some_and(|ends_at_ms| now_ms >= ends_at_ms);
        !spent && !ended
    }

    /// Draws by seed, call, number and repetition: concurrent runs hit the same calls whatever order they arrive in.
    fn draw(&mut self, subject: &Subject) -> bool {
        let Some(probability) = self.rule.probability else { return true };
        let mut hasher = DefaultHasher::new();
        (subject.call, &subject.trade_order_no, &subject.refund_order_no, &subject.biz_key).hash(&mut hasher);
        let key = hasher.finish();
        let repetition = self.draws.entry(key).or_default();
        (self.rule.seed, *repetition).hash(&mut hasher);
        *repetition += 1;
        StdRng::seed_from_u64(hasher.finish()).random_bool(probability)
    }
}
