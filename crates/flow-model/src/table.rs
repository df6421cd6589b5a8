//! The table of flows: one guarded write at a time (`flow_core::cas`), with everything that must be true of it.

use flow_core::cas::{CasWrite, Change, HELD_UNTIL};
use flow_core::state::State;
use flow_testkit::mutants::{Subject, WriteHeard};

use crate::model::PaymentModel;
use crate::process::Concluded;
use crate::state::{Attempt, Misstep, Process, Snapshot};
use crate::time::Moment;

impl PaymentModel {
    /// The store: one guarded write, with everything that must be true of it.
    pub(crate) fn compare_and_swap(
        &self,
        state: &mut Snapshot,
        attempt: Attempt,
        write: &CasWrite,
        now: Moment,
    ) -> WriteHeard {
        let Some(row) = self.row_flow(state, attempt) else { return WriteHeard::Lost };
        if !self.subject.is_legal(write) {
            state.misstep = Some(Misstep::IllegalWrite);
            return WriteHeard::Lost;
        }
        if !self.subject.matches(write, &row) {
            return WriteHeard::Lost;
        }
        let next = write.apply(&row, now.at());
        if row.state.is_terminal() && next.state != row.state {
            state.misstep = Some(Misstep::TerminalMoved);
        }
        if next.version != row.version.next() {
            state.misstep = Some(Misstep::VersionSkipped);
        }
        let by_machine = write.evidence.action.is_some() && write.evidence.outcome.is_some();
        if !by_machine && write.evidence.actor.is_none() {
            state.misstep = Some(Misstep::NoEvidence);
        }
        if !next.state.is_terminal() && next.hold.is_none() && next.next_retry_time >= HELD_UNTIL {
            state.misstep = Some(Misstep::NeverDue);
        }
        match &write.change {
            Change::Move { transition, .. } => self.cover_edge(transition.edge()),
            Change::Reschedule { .. }
            | Change::Hold { .. }
            | Change::Release
            | Change::RequestCancel { .. } => {}
        }
        state.rows[attempt.index()] = Some(self.keep(&next, attempt));
        let seats = state.processes.iter_mut().filter_map(Process::seat_mut);
        for seat in seats.chain(state.writes.iter_mut().map(|write| &mut write.seat)) {
            seat.current &= seat.attempt != attempt;
        }
        if self.subject == Subject::SHIPPED {
            // They can never be carried out any more.
            state.writes.retain(|write| write.seat.current);
        }
        WriteHeard::Applied
    }

    /// A lost write must have been lost to the same or more, never to the opposite (`advance`'s alert).
    pub(crate) fn note_contradiction(&self, state: &mut Snapshot, attempt: Attempt, write: &CasWrite) {
        let found = state.rows[attempt.index()].map_or(State::WaitPay, |row| row.state);
        let (from, wanted) = (write.from, write.to());
        let agrees = wanted == from || found == from || found.is_at_or_after(wanted);
        if !agrees && state.misstep.is_none() {
            state.misstep = Some(Misstep::Contradicted);
        }
    }

    /// A statement whose sender has given it up is carried out.
    pub(crate) fn late_write(&self, state: &mut Snapshot, index: usize) {
        let late = state.writes.remove(index);
        let now = state.now;
        match self.conclude(&self.flow_of(&late.seat), late.heard, late.asked, now) {
            Concluded::Write(write) => {
                self.compare_and_swap(state, late.seat.attempt, &write, now);
            }
            Concluded::Act(_) | Concluded::Nothing => {}
        }
    }
}
