//! Looks at every change as it happens: what a row claims must agree with what really happened, at every moment; and
//! once more at the end, with everything that only an end can show.

use std::collections::BTreeSet;

use flow_core::callback::EventType;
use flow_core::create::PaymentRequest;
use flow_core::flow::Flow;
use flow_core::ids::FlowId;
use flow_core::notify::{Delivery, NotifiedChange};
use flow_core::ports::{Created, FlowEvent, FlowStore as _, InboxState, OutboxRow};
use flow_core::state::State;
use flow_testkit::ledger_check::{Invariant, OrderFacts, check_row, check_settled, check_written};
use pay_sim::ledger::{Effect, OrderLedger};

use crate::message::{Message, target_number};
use crate::onlooker::{ALL_ORDERS, Step};
use crate::site::{Site, flow_id, flow_of_number};
use crate::trace::{What, Who};

/// How the numbers of those begin who buy a benefit past us.
pub(crate) const OUTSIDER: &str = "outside-";

impl Site {
    /// What really happened under the flow's number.
    pub(crate) fn facts_of(&self, flow: &Flow) -> OrderFacts {
        let paid = self.wallet.ledger(&flow.trade_order_no);
        let granted = self.business.ledger(&flow.trade_order_no);
        merged(&paid, &granted)
    }

    /// The far side has done something with a message: note what it led to, and check it.
    pub(crate) fn look_at_books(&self, message: &Message) {
        self.show(Step::Arrived);
        match message {
            Message::Fact(target) => {
                let attempts = self.store.flows().into_iter().filter(|flow| flow.target == *target);
                attempts.for_each(|flow| self.look_at_order(flow.trade_order_no.as_str()));
            }
            Message::Debit(_)
            | Message::Query(_)
            | Message::Close(_)
            | Message::Refund(_)
            | Message::QueryRefund(_)
            | Message::Execute(_) => {
                message.trade_order_no().into_iter().for_each(|number| self.look_at_order(number));
            }
        }
    }

    fn look_at_order(&self, number: &str) {
        let flow_number = flow_of_number(number);
        let mut new_effects = Vec::new();
        for (who, books) in [(Who::Wallet, &self.wallet), (Who::Business, &self.business)] {
            let entries = books.with(|world, _| world.ledger(number).entries);
            let seen = self.effects_seen(who, number, entries.len());
            new_effects.extend(entries.into_iter().skip(seen).map(|entry| (who, entry.effect)));
        }
        for (who, what) in &new_effects {
            self.note(*who, What::Effect(named(what), flow_number));
        }
        let flow = flow_id(flow_number).and_then(|id| self.store.flow(id));
        match flow {
            Some(flow) if flow.trade_order_no.as_str() == number => {
                self.check_flow(&flow, None);
                for (_, effect) in &new_effects {
                    match effect {
                        Effect::Charge { .. } => self.tell_of(&flow, EventType::Payment),
                        Effect::Refund { .. } => self.tell_of(&flow, EventType::Refund),
                        Effect::Grant { .. } => {}
                    }
                }
            }
            Some(_) | None if new_effects.is_empty() => {}
            Some(_) | None => self.broken(format!("I1 broken: {number} is no flow's number")),
        }
    }

    /// After a write with its audit lines, after an effect without: the row may be about to follow.
    fn check_flow(&self, flow: &Flow, lines: Option<&[FlowEvent]>) {
        if self.is_overcharged(flow) {
            // The wallet broke its contract; what is ours is never to take that for the charge we asked for.
            if flow.state != State::Paying {
                self.broken(format!("flow {} is {} on a charge of another amount", flow.id, flow.state));
            }
            return;
        }
        let facts = self.facts_of(flow);
        let violations = match lines {
            Some(lines) => check_written(flow, lines, &facts),
            None => check_row(flow, &facts),
        };
        for violation in violations {
            self.broken(violation.to_string());
        }
    }

    /// A row may have been written: note it if it was, and check it.
    pub(crate) fn look_at_row(&self, flow_id: FlowId) {
        self.show(Step::Written(flow_id));
        let Some(flow) = self.store.flow(flow_id) else { return };
        let seen = self.version_seen(flow_id, flow.version.0);
        if seen == Some(flow.version.0) {
            return;
        }
        let lines = self.store.events_of(flow_id);
        let next = seen.map_or(0, |version| version + 1);
        for line in lines.iter().filter(|line| line.version.0 >= next) {
            let from = line.from.unwrap_or(line.to);
            let why = line.outcome.as_ref().unwrap_or(&line.trigger).clone();
            let what = What::Wrote(flow_id.get(), from, line.to, line.version.0, line.kind.clone(), why);
            self.note(Who::Database, what);
        }
        self.check_flow(&flow, Some(&lines));
        self.changed.notify_waiters();
    }

    /// A row may have been created.
    pub(crate) fn look_at_creation(&self, created: &Created) {
        match created {
            Created::Inserted(seen) => self.look_at_new(&seen.value),
            Created::KeyTaken | Created::TargetTaken => {}
        }
    }

    /// Rows past the first so many are new.
    pub(crate) fn look_at_rows_after(&self, rows: usize) {
        self.store.flows().iter().skip(rows).for_each(|flow| self.look_at_new(flow));
    }

    fn look_at_new(&self, flow: &Flow) {
        self.show(Step::Created(flow.id));
        self.name_flow(flow);
        if self.version_seen(flow.id, flow.version.0).is_none() {
            let target = target_number(&flow.target);
            self.note(Who::Database, What::Created(flow.id.get(), target, flow.attempt_no.0));
            self.tell_stories_of(flow);
        }
        let rivals = self.store.flows().into_iter().filter(|other| {
            other.target == flow.target && other.id != flow.id && !other.state.frees_target()
        });
        for rival in rivals {
            let (id, other) = (flow.id, rival.id);
            self.broken(format!("I8 broken: flow {id} was made while flow {other} is {}", rival.state));
        }
        self.changed.notify_waiters();
    }

    /// Whether every row is terminal or waits for people.
    pub(crate) fn is_settled(&self) -> bool {
        self.store.next_due().is_none()
    }

    /// Whether everything that a channel said is done with, and every application told.
    pub(crate) fn is_said(&self) -> bool {
        let pending = |row: &OutboxRow| row.delivery == Delivery::Pending;
        self.inbox.next_due().is_none() && !self.store.outbox_rows().iter().any(pending)
    }

    /// Everything, at the end.
    pub(crate) fn check_end(&self) {
        let flows = self.store.flows();
        let events = self.store.all_events();
        let facts = |flow: &Flow| self.facts_of(flow);
        let mut violations = check_settled(&flows, &events, facts);
        let overcharged: BTreeSet<FlowId> =
            flows.iter().filter(|flow| self.is_overcharged(flow)).map(|flow| flow.id).collect();
        violations.retain(|violation| {
            !(violation.invariant == Invariant::I1 && overcharged.contains(&violation.flow_id))
        });
        violations.sort_by_key(|violation| (violation.flow_id, violation.invariant));
        for violation in violations {
            self.broken(violation.to_string());
        }
        self.check_numbers(&flows);
        self.check_debts(&flows);
        self.check_inbox();
        self.check_outbox(&flows);
    }

    /// What a channel was told is kept, is; and nothing that it said is forgotten.
    fn check_inbox(&self) {
        let events = self.inbox.events();
        for key in self.all_acknowledged() {
            if events.iter().filter(|kept| kept.event.key == key).count() != 1 {
                self.broken(format!("event {} was called kept, and is not kept once", key.event_id));
            }
        }
        for open in events.iter().filter(|kept| kept.state == InboxState::New) {
            self.broken(format!("event {} was never done with", open.event.key.event_id));
        }
    }

    /// Every end was told once, and what counts as delivered was heard.
    fn check_outbox(&self, flows: &[Flow]) {
        let rows = self.store.outbox_rows();
        for flow in flows.iter().filter(|flow| flow.state.is_terminal()) {
            let ends = rows.iter().filter(|row| {
                let told = &row.notification;
                told.id.flow_id == flow.id && told.change == NotifiedChange::Ended && told.state == flow.state
            });
            let ends = ends.count();
            if ends != 1 {
                self.broken(format!("the end of flow {} is in the outbox {ends} times", flow.id));
            }
        }
        for row in &rows {
            let id = row.notification.id;
            match row.delivery {
                Delivery::Pending => self.broken(format!("notification {id} was never sent")),
                Delivery::Delivered if !self.has_heard_of(id) => {
                    self.broken(format!("notification {id} counts as delivered, and nobody heard it"));
                }
                Delivery::Delivered | Delivery::Dead => {}
            }
        }
    }

    /// What clients were told was not recorded, was not.
    pub(crate) async fn check_refusals(&self, refused: &[PaymentRequest]) {
        for request in refused {
            // Past the network: this is the judge's look, not a client's.
            let found = self.store.look_up(&request.caller, &request.key, &request.target).await;
            let record = found.ok().and_then(|seen| seen.value.request);
            if let Some(record) = record.filter(|record| record.fingerprint == request.fingerprint) {
                let id = record.flow.id;
                self.broken(format!("told that nothing was recorded, and flow {id} was"));
            }
        }
    }

    /// Nothing happened under a number that no flow has.
    fn check_numbers(&self, flows: &[Flow]) {
        let stranger = |number: &str| number.starts_with(OUTSIDER);
        let ours: BTreeSet<&str> = flows.iter().map(|flow| flow.trade_order_no.as_str()).collect();
        for books in [&self.wallet, &self.business] {
            let orders = books.with(|world, _| world.ledgers_after(None, ALL_ORDERS));
            for order in orders.iter().filter(|order| !ours.contains(order.trade_order_no.as_str())) {
                if !order.entries.is_empty() && !stranger(&order.trade_order_no) {
                    self.broken(format!("I1 broken: {} is no flow's number", order.trade_order_no));
                }
            }
        }
    }

    /// A charge has its benefit or its refund, or people are looking at it.
    fn check_debts(&self, flows: &[Flow]) {
        for flow in flows.iter().filter(|flow| flow.hold.is_none()) {
            let facts = self.facts_of(flow);
            let owed = facts.charges.len() > facts.refunds.len() + facts.grants;
            if owed {
                self.broken(format!("I5 broken: flow {} is {} and owes its charge", flow.id, flow.state));
            }
        }
    }
}

fn merged(paid: &OrderLedger, granted: &OrderLedger) -> OrderFacts {
    let business = OrderFacts::from(granted);
    OrderFacts {
        grants: business.grants,
        owner_of_target: business.owner_of_target,
        ..OrderFacts::from(paid)
    }
}

fn named(effect: &Effect) -> &'static str {
    match effect {
        Effect::Charge { .. } => "CHARGED",
        Effect::Refund { .. } => "PAID BACK",
        Effect::Grant { .. } => "BENEFIT HANDED OVER",
    }
}

/// How runs end, for the summary.
pub(crate) fn end_of(flow: &Flow) -> &'static str {
    match (flow.state, &flow.hold) {
        (State::PayFail, _) => "PAY_FAIL",
        (State::BizSuccess, _) => "BIZ_SUCCESS",
        (State::Refunded, _) => "REFUNDED",
        (State::WaitPay | State::Paying | State::Payed | State::Refunding, Some(_)) => "held",
        (State::WaitPay | State::Paying | State::Payed | State::Refunding, None) => "open",
    }
}
