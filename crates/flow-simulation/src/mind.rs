//! Where a deliberate fault ([`flow_testkit::mutants`]) is put into the running product: into its decisions by way of
//! `flow_core::decisions` (feature `mutants`), and into what it sends and hears at its ports. Without a fault, every
//! function here hands on what it got.

use flow_core::answer::Answered;
use flow_core::decide::{Action, Evidence, Rules};
use flow_core::flow::{Flow, Trigger};
use flow_core::ports::{CasOutcome, CasWrite, Change, StoreError, WriteEvidence};
use flow_core::state::State;
use flow_testkit::mutants::{Subject, WriteHeard};
use flow_testkit::samples;

use crate::message::{Message, Reply};
use crate::plan::Plan;
use crate::site::Site;

/// A message as the subject sends it.
pub(crate) fn altered(site: &Site, message: Message, again: bool) -> Message {
    let subject = site.subject;
    match message {
        Message::Debit(order) => Message::Debit(subject.charge_order(order, again)),
        Message::Refund(order) => Message::Refund(subject.refund_order(order, again)),
        Message::Execute(execution) => Message::Execute(subject.execution(execution)),
        Message::Query(_) | Message::Close(_) | Message::QueryRefund(_) | Message::Fact(_) => message,
    }
}

/// An answer that the subject takes for granted instead of asking.
pub(crate) fn presumed(site: &Site, message: &Message) -> Option<Reply> {
    let Message::Fact(target) = message else { return None };
    if site.subject == Subject::SHIPPED {
        return None;
    }
    site.time.sync();
    let now = site.time.database.now();
    let flows = site.store.flows();
    let flow = flows.iter().find(|flow| flow.target == *target && flow.state == State::Payed)?;
    match site.subject.presumed(flow, Action::ReadFact, &rules(&site.plan), now)? {
        Evidence::Business { executed: _, fact } => Some(Reply::Fact(Answered::bare(fact))),
        Evidence::Entering
        | Evidence::Debit(_)
        | Evidence::ChargeQuery(_)
        | Evidence::Close(_)
        | Evidence::Refund(_)
        | Evidence::RefundQuery(_) => None,
    }
}

/// A reply as the subject understands it.
pub(crate) fn misread(site: &Site, reply: Reply) -> Reply {
    match reply {
        Reply::Fact(Answered { answer, request_id }) => {
            Reply::Fact(Answered { answer: site.subject.fact_answer(answer), request_id })
        }
        Reply::Charge(_) | Reply::Refund(_) | Reply::Execute(_) => reply,
    }
}

/// What the subject makes of the outcome of a compare-and-swap.
pub(crate) fn write_heard(
    site: &Site,
    heard: Result<CasOutcome, StoreError>,
) -> Result<CasOutcome, StoreError> {
    let heard = match heard {
        Ok(CasOutcome::Applied) => WriteHeard::Applied,
        Ok(CasOutcome::Lost) => WriteHeard::Lost,
        Err(StoreError::OutcomeUnknown) => WriteHeard::Unknown,
        Err(error) => return Err(error),
    };
    match site.subject.heard(heard) {
        WriteHeard::Applied => Ok(CasOutcome::Applied),
        WriteHeard::Lost => Ok(CasOutcome::Lost),
        WriteHeard::Unknown => Err(StoreError::OutcomeUnknown),
    }
}

/// A wish to cancel came too late; the subject may record it all the same.
pub(crate) fn cancel_late(site: &Site, flow: &Flow) {
    if site.subject == Subject::SHIPPED || !site.subject.may_cancel(flow) {
        return;
    }
    let Some(row) = site.store.flow(flow.id).filter(|row| site.subject.may_cancel(row)) else { return };
    let evidence = WriteEvidence::of(Trigger::Sync);
    let change = Change::RequestCancel { by: samples::actor("shop") };
    let write = CasWrite { flow_id: row.id, from: row.state, version: row.version, change, evidence };
    site.time.sync();
    drop(site.store.cas_now(&write));
    site.look_at_row(row.id);
}

/// The rules that every flow of this world is decided by.
pub(crate) fn rules(plan: &Plan) -> Rules {
    Rules {
        wallet_can_close: plan.wallet_rules.can_close,
        wallet_in_flight_grace_ms: plan.wallet_rules.in_flight_grace_ms,
        settle_margin_ms: plan.business_rules.settle_margin_ms,
        business_unreadable_hold_ms: plan.business_rules.unreadable_hold_ms,
        refund_tries_before_hold: plan.wallet_rules.refund_tries_before_hold,
    }
}

/// Whether this build can run the product with a fault in its decisions.
pub const CAN_MUTATE: bool = cfg!(feature = "mutants");

/// Puts the subject's decisions in the place of the product's on this thread, until dropped.
pub(crate) struct Installed;

#[cfg(feature = "mutants")]
mod faulty {
    use std::rc::Rc;
    use std::sync::Arc;

    use chrono::{DateTime, Utc};
    use flow_core::create::{PaymentRequest, Verdict};
    use flow_core::decide::{Action, Decision, Entry, Evidence, Rules};
    use flow_core::decisions::{Mind, install};
    use flow_core::flow::Flow;
    use flow_core::ports::Lookup;
    use flow_testkit::mutants::Subject;

    use super::Installed;
    use crate::site::Site;
    use crate::time::Time;

    struct Faulty {
        subject: Subject,
        time: Arc<Time>,
    }

    impl Mind for Faulty {
        fn next_action(&self, flow: &Flow, entry: Entry, now: DateTime<Utc>) -> Action {
            self.subject.next_action(flow, entry, now)
        }

        fn decide(&self, flow: &Flow, evidence: &Evidence, rules: &Rules, now: DateTime<Utc>) -> Decision {
            self.time.sync();
            let now = self.subject.judged_at(now, self.time.database.now());
            self.subject.decide(flow, evidence, rules, now)
        }

        fn judge<'a>(&self, request: &PaymentRequest, known: &'a Lookup, now: DateTime<Utc>) -> Verdict<'a> {
            self.subject.judge(request, known, now)
        }

        fn too_late_to_follow(&self, flow: &Flow, now: DateTime<Utc>) -> bool {
            self.subject.rechecks_before_following() && !flow.may_cause_effects(now)
        }
    }

    impl Installed {
        pub(crate) fn for_run(site: &Site) -> Installed {
            if site.subject != Subject::SHIPPED {
                install(Some(Rc::new(Faulty { subject: site.subject, time: Arc::clone(&site.time) })));
            }
            Installed
        }
    }

    impl Drop for Installed {
        fn drop(&mut self) {
            install(None);
        }
    }
}

#[cfg(not(feature = "mutants"))]
impl Installed {
    pub(crate) fn for_run(_: &Site) -> Installed {
        Installed
    }
}
