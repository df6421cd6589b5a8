//! Liveness as a property of every state: if from here on nothing goes wrong any more, everything ends well.
//!
//! In the calm, requests under way arrive, processes finish what they began, the wallet decides, a scanner advances
//! every open row, and when that changes nothing, time goes on. It must bring every row to a terminal state or to
//! people within a bounded number of rounds, and then wallet and business must agree with the rows. The calm's steps are
//! steps of the model, so a promise that breaks on its way is found there.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use crate::far_side::Course;
use crate::model::{PaymentModel, Step};
use crate::process::{Asking, Writing};
use crate::promises::{Broken, Promise};
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

/// The steps that the calm took, with the states they were taken in.
type Told = Vec<(Snapshot, Option<Step>)>;

impl PaymentModel {
    pub(crate) fn broken_in_the_calm(&self, from: &Snapshot) -> Option<Broken> {
        let mut state = without_faults(from);
        if let Some(broken) = self.finish_what_began(&mut state, None) {
            return Some(broken);
        }
        state.normalise(true);
        if let Some(known) = self.memo.lock().get(&state) {
            return *known;
        }
        let found = self.bring_to_rest(&mut state.clone(), None);
        self.memo.lock().insert(state, found);
        found
    }

    /// What happens in the calm after this state, for a story: until a promise breaks or everything rests.
    pub(crate) fn calm_after(&self, from: &Snapshot) -> Told {
        let mut told = Vec::new();
        let mut state = without_faults(from);
        if self.finish_what_began(&mut state, Some(&mut told)).is_none() {
            let _ = self.bring_to_rest(&mut state, Some(&mut told));
        }
        told.push((state, None));
        let broken = told.iter().position(|(state, _)| self.broken_now(state).is_some());
        told.truncate(broken.map_or(told.len(), |index| index + 1));
        told
    }

    fn bring_to_rest(&self, state: &mut Snapshot, mut told: Option<&mut Told>) -> Option<Broken> {
        for _ in 0..MAX_ROUNDS {
            let open = |attempt: &Attempt| state.rows[attempt.index()].is_some_and(|row| !row.rests());
            let open: Vec<Attempt> = Attempt::ALL.into_iter().filter(open).collect();
            if open.is_empty() {
                return self.broken_at_rest(state);
            }
            let before = state.clone();
            for attempt in open {
                self.tell(state, Step::Load { who: 0, attempt }, told.as_deref_mut());
                if let Some(broken) = self.finish_what_began(state, told.as_deref_mut()) {
                    return Some(broken);
                }
            }
            if *state == before {
                let Some(step) = self.passing_of_time(state) else {
                    return rest_is_broken(
                        "nothing goes wrong any more, and a row is neither terminal nor held",
                    );
                };
                self.tell(state, step, told.as_deref_mut());
            }
        }
        rest_is_broken("a row goes round in circles")
    }

    fn passing_of_time(&self, state: &Snapshot) -> Option<Step> {
        let business = self.next_business_deadline(state).map(|_| Step::BusinessClock);
        business.or_else(|| self.next_moment(state).map(|_| Step::Clock))
    }

    /// Until every process knows nothing and nothing is under way.
    fn finish_what_began(&self, state: &mut Snapshot, mut told: Option<&mut Told>) -> Option<Broken> {
        for _ in 0..MAX_STEPS {
            let step = self.finishing_step(state)?;
            self.tell(state, step, told.as_deref_mut());
        }
        rest_is_broken("what was begun never ends")
    }

    fn finishing_step(&self, state: &Snapshot) -> Option<Step> {
        if !state.network.is_empty() {
            return Some(Step::Arrive { message: 0, course: Course::Normal, twice: false });
        }
        if !state.writes.is_empty() {
            return Some(Step::LateWrite { write: 0 });
        }
        if let Some(who) = state.processes.iter().position(|process| *process != Process::Idle) {
            return match state.processes[who] {
                Process::Idle => None,
                Process::Acting { .. } => Some(Step::Act { who, asking: Asking::Well }),
                Process::Waiting { .. } => Some(Step::Serve { who, course: Course::Normal, twice: false }),
                Process::Answered { .. } => Some(Step::Hear { who, writing: Writing::Well }),
            };
        }
        if let Some(who) = state.clients.iter().position(|client| *client != Client::Idle) {
            return Some(Step::Insert { who });
        }
        Attempt::ALL.into_iter().find_map(|attempt| {
            let books = state.books[attempt.index()];
            if books.charge.contains(&ChargeRecord::Pending) {
                Some(Step::SettleCharge { attempt, charged: true })
            } else if books.refund.contains(&RefundRecord::Pending) {
                Some(Step::SettleRefund { attempt, paid: true })
            } else {
                None
            }
        })
    }

    fn tell(&self, state: &mut Snapshot, step: Step, told: Option<&mut Told>) {
        if let Some(told) = told {
            told.push((state.clone(), Some(step)));
        }
        self.take(state, step);
    }
}

fn without_faults(state: &Snapshot) -> Snapshot {
    Snapshot { faults_left: 0, requests_left: 0, cancel_left: false, ..state.clone() }
}

fn rest_is_broken(seen: &'static str) -> Option<Broken> {
    Some(Broken { promise: Promise::Rest, seen })
}
