//! Clients that ask for payments and cancel them, and operators (`flow_core::create`, `flow_core::advance::people`).
//!
//! Their writes are one step each: one that happens was made against an unchanged row, so nobody acted in between.

use flow_core::cas::{CasWrite, Change, WriteEvidence};
use flow_core::create::Verdict;
use flow_core::flow::{HoldReason, Trigger};
use flow_core::ports::Lookup;
use flow_testkit::samples;

use crate::model::PaymentModel;
use crate::row::Row;
use crate::state::{Attempt, Client, Snapshot};

impl PaymentModel {
    pub(crate) fn ask(&self, state: &mut Snapshot, who: usize) {
        state.requests_left -= 1;
        let last = Attempt::ALL.into_iter().rev().find_map(|attempt| self.row_flow(state, attempt));
        // A client knows how long it wants to wait from now on.
        let request = match &last {
            None => self.request(Attempt::First),
            Some(_) => self.request(Attempt::Second),
        };
        let known = Lookup { request: None, latest: last };
        state.clients[who] = match self.subject.judge(request, &known, state.now.at()) {
            Verdict::Insert(number) => Attempt::numbered(number).map_or(Client::Idle, Client::Inserting),
            Verdict::Replay(_)
            | Verdict::Join(_)
            | Verdict::KeyReused(_)
            | Verdict::OpenAttemptDiffers(_)
            | Verdict::TargetOfOtherCaller
            | Verdict::DeadlinePassed
            | Verdict::DeadlineTooFar => Client::Idle,
        };
    }

    pub(crate) fn insert(&self, state: &mut Snapshot, who: usize) {
        let Client::Inserting(attempt) = state.clients[who] else { return };
        state.clients[who] = Client::Idle;
        let rows = Attempt::ALL.into_iter().filter_map(|attempt| self.row_flow(state, attempt));
        let held = rows.into_iter().any(|row| self.subject.holds_target(&row));
        let row = &mut state.rows[attempt.index()];
        if row.is_none() && !held {
            *row = Some(Row::FRESH);
        }
    }

    pub(crate) fn cancel(&self, state: &mut Snapshot, attempt: Attempt) {
        state.cancel_left = false;
        let Some(flow) = self.row_flow(state, attempt) else { return };
        if self.subject.may_cancel(&flow) {
            self.by_hand(state, attempt, Change::RequestCancel { by: samples::actor("client") });
        }
    }

    pub(crate) fn hold(&self, state: &mut Snapshot, attempt: Attempt) {
        state.faults_left -= 1;
        let (reason, by) = (HoldReason::Operator, samples::actor("operator"));
        self.by_hand(state, attempt, Change::Hold { reason, by });
    }

    pub(crate) fn release(&self, state: &mut Snapshot, attempt: Attempt) {
        self.by_hand(state, attempt, Change::Release);
    }

    fn by_hand(&self, state: &mut Snapshot, attempt: Attempt, change: Change) {
        let Some(flow) = self.row_flow(state, attempt) else { return };
        let evidence =
            WriteEvidence { actor: Some(samples::actor("person")), ..WriteEvidence::of(Trigger::Operator) };
        let write = CasWrite { flow_id: flow.id, from: flow.state, version: flow.version, change, evidence };
        let now = state.now;
        self.compare_and_swap(state, attempt, &write, now);
    }
}
