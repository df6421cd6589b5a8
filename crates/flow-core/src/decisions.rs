//! Where the shells ([`crate::advance`], [`crate::create`]) get their decisions from: [`crate::decide`] and
//! [`crate::create::judge`], as they are.
//!
//! With the feature `mutants`, which no product is built with, a simulation may put a faulty mind in their place on
//! its own thread, to show that the fault would be noticed.

#[cfg(not(feature = "mutants"))]
pub(crate) use crate::{
    create::judge,
    decide::{decide, next_action},
};

#[cfg(feature = "mutants")]
pub use faulty::{Mind, install};
#[cfg(feature = "mutants")]
pub(crate) use faulty::{decide, judge, next_action, too_late_to_follow};

#[cfg(not(feature = "mutants"))]
pub(crate) use sound::too_late_to_follow;

#[cfg(not(feature = "mutants"))]
mod sound {
    use chrono::{DateTime, Utc};

    use crate::flow::Flow;

    /// Whether a debit that a query calls for comes too late, now that the answer was heard.
    pub(crate) fn too_late_to_follow(flow: &Flow, now: DateTime<Utc>) -> bool {
        !flow.may_cause_effects(now)
    }
}

#[cfg(feature = "mutants")]
mod faulty {
    use std::cell::RefCell;
    use std::rc::Rc;

    use chrono::{DateTime, Utc};

    use crate::create::{PaymentRequest, Verdict};
    use crate::decide::{Action, Decision, Entry, Evidence, Rules};
    use crate::flow::Flow;
    use crate::ports::Lookup;

    /// What decides instead of the product.
    pub trait Mind {
        /// Instead of [`crate::decide::next_action`].
        fn next_action(&self, flow: &Flow, entry: Entry, now: DateTime<Utc>) -> Action;
        /// Instead of [`crate::decide::decide`].
        fn decide(&self, flow: &Flow, evidence: &Evidence, rules: &Rules, now: DateTime<Utc>) -> Decision;
        /// Instead of [`crate::create::judge`].
        fn judge<'a>(&self, request: &PaymentRequest, known: &'a Lookup, now: DateTime<Utc>) -> Verdict<'a>;
        /// Whether a debit that a query calls for comes too late, now that the answer was heard.
        fn too_late_to_follow(&self, flow: &Flow, now: DateTime<Utc>) -> bool;
    }

    thread_local! {
        static MIND: RefCell<Option<Rc<dyn Mind>>> = const { RefCell::new(None) };
    }

    /// Puts this mind in the place of the product's decisions on this thread, or the product's back.
    pub fn install(mind: Option<Rc<dyn Mind>>) {
        MIND.set(mind);
    }

    fn mind() -> Option<Rc<dyn Mind>> {
        MIND.with_borrow(Clone::clone)
    }

    pub(crate) fn next_action(flow: &Flow, entry: Entry, now: DateTime<Utc>) -> Action {
        match mind() {
            Some(mind) => mind.next_action(flow, entry, now),
            None => crate::decide::next_action(flow, entry, now),
        }
    }

    pub(crate) fn decide(flow: &Flow, evidence: &Evidence, rules: &Rules, now: DateTime<Utc>) -> Decision {
        match mind() {
            Some(mind) => mind.decide(flow, evidence, rules, now),
            None => crate::decide::decide(flow, evidence, rules, now),
        }
    }

    pub(crate) fn judge<'a>(request: &PaymentRequest, known: &'a Lookup, now: DateTime<Utc>) -> Verdict<'a> {
        match mind() {
            Some(mind) => mind.judge(request, known, now),
            None => crate::create::judge(request, known, now),
        }
    }

    pub(crate) fn too_late_to_follow(flow: &Flow, now: DateTime<Utc>) -> bool {
        match mind() {
            Some(mind) => mind.too_late_to_follow(flow, now),
            None => !flow.may_cause_effects(now),
        }
    }
}
