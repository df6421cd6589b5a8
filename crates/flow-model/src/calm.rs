//! Liveness as a property of every state: if from here on nothing goes wrong any more, everything ends well.
//!
//! In the calm, requests under way arrive, processes finish what they began, the wallet decides, a scanner advances
//! every open row, and when that changes nothing, time goes on. It must bring every row to a terminal state or to
//! people within a bounded number of rounds, and then wallet and business must agree with the rows. The calm's steps are
//! steps of the model, so a promise that breaks on its way is found there.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use flow_testkit::ledger_check::Invariant;

use crate::far_side::Course;
use crate::model::PaymentModel;
use crate::process::{Asking, Writing};
use crate::promises::Broken;
use crate::state::{Attempt, ChargeRecord, Client, Process, RefundRecord, Snapshot};

/// Rounds of the scanner, over all moments, that must be enough.
const MAX_ROUNDS: usize = 48;
/// Steps that must be enough for everything under way to be finished.
const MAX_STEPS: usize = 400;

/// How quiet states end, worked out once each: a great many states calm down to few.
#[derive(Debug, Default)]
pub(crate) struct Memo(Mutex<HashMap<Snapshot, Option<Broken>>>);

impl Memo {
    fn lock(&self) -> MutexGuard<'_, HashMap<Snapshot, Option<Broken>>> {
        self.0.lock().expect("no holder of this lock panics")
    }
}

impl PaymentModel {
    pub(crate) fn broken_in_the_calm(&self, from: &Snapshot) -> Option<Broken> {
        let mut state = from.clone();
        state.faults_left = 0;
        state.requests_left = 0;
        state.cancel_left = false;
        if !self.finish_what_began(&mut state) {
            return Some(Broken { invariant: Invariant::Settled, seen: "what was begun never ends" });
        }
        state.normalise(true);
        if let Some(known) = self.memo.lock().get(&state) {
            return *known;
        }
        let found = self.bring_to_rest(state.clone());
        self.memo.lock().insert(state, found);
        found
    }

    fn bring_to_rest(&self, mut state: Snapshot) -> Option<Broken> {
        for _ in 0..MAX_ROUNDS {
            let open = |attempt: &Attempt| state.rows[attempt.index()].is_some_and(|row| !row.rests());
            let open: Vec<Attempt> = Attempt::ALL.into_iter().filter(open).collect();
            if open.is_empty() {
                return self.broken_at_rest(&state);
            }
            let before = state.clone();
            for attempt in open {
                self.load(&mut state, 0, attempt);
                if !self.finish_what_began(&mut state) {
                    return Some(Broken { invariant: Invariant::Settled, seen: "a call never ends" });
                }
            }
            if state == before && !self.let_time_pass(&mut state) {
                return Some(Broken {
                    invariant: Invariant::Settled,
                    seen: "nothing goes wrong any more, and a row is neither terminal nor held in the end",
                });
            }
        }
        Some(Broken { invariant: Invariant::Settled, seen: "a row goes round in circles" })
    }

    fn let_time_pass(&self, state: &mut Snapshot) -> bool {
        if let Some(deadline) = self.next_business_deadline(state) {
            state.business_passed = Some(deadline);
            return true;
        }
        match self.next_moment(state) {
            Some(moment) => {
                state.now = moment;
                true
            }
            None => false,
        }
    }

    /// Until every process knows nothing and nothing is under way; whether it came to that.
    fn finish_what_began(&self, state: &mut Snapshot) -> bool {
        for _ in 0..MAX_STEPS {
            if !state.network.is_empty() {
                self.arrive(state, 0, Course::Normal, false);
            } else if let Some(who) = state.processes.iter().position(|process| *process != Process::Idle) {
                match state.processes[who] {
                    Process::Idle => {}
                    Process::Acting { .. } => self.act(state, who, Asking::Well),
                    Process::Waiting { .. } => self.serve(state, who, Course::Normal, false),
                    Process::Answered { .. } => self.hear(state, who, Writing::Well),
                }
            } else if let Some(who) = state.clients.iter().position(|client| *client != Client::Idle) {
                self.insert(state, who);
            } else if !self.let_the_wallet_decide(state) {
                return true;
            }
        }
        false
    }

    fn let_the_wallet_decide(&self, state: &mut Snapshot) -> bool {
        let pending = |attempt: &Attempt| {
            let books = state.books[attempt.index()];
            books.charge.contains(&ChargeRecord::Pending) || books.refund.contains(&RefundRecord::Pending)
        };
        let Some(attempt) = Attempt::ALL.into_iter().find(pending) else { return false };
        self.settle_charge(state, attempt, true);
        self.settle_refund(state, attempt, true);
        true
    }
}
