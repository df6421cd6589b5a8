//! Wallet and business: what they do with a request, and what they say. They keep their contract, which is weaker than
//! what a good one does: this wallet ignores a debit's deadline and how much was paid back under other numbers.

use crate::answers::{Charge, Execute, Refund};
use crate::model::PaymentModel;
use crate::state::{Attempt, Call, ChargeRecord, Message, Owner, RefundRecord, Snapshot};
use crate::world::{Closing, Fault};

/// How a request is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Course {
    /// By the contract, at once.
    Normal,
    /// Accepted now, carried out later.
    Deferred,
    /// Refused now, though another time it would not be.
    Refused,
    /// The balance does not cover it: refused for ever.
    NoFunds,
    /// Over another amount.
    WrongAmount,
}

impl Course {
    /// Whether it costs no fault of its own.
    pub(crate) const fn is_plain(self) -> bool {
        match self {
            Course::Normal | Course::NoFunds => true,
            Course::Deferred | Course::Refused | Course::WrongAmount => false,
        }
    }
}

/// What sets out on the way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// To a debit.
    Debit(Charge),
    /// To a close.
    Close(Charge),
    /// To an execution.
    Execute(Execute),
    /// To a refund.
    Refund(Refund),
}

impl PaymentModel {
    /// How this request may be carried out now.
    pub(crate) fn courses(&self, state: &Snapshot, message: Message) -> Vec<Course> {
        let mut courses = vec![Course::Normal];
        let mut may = |fault, course| {
            if self.world.may(state, fault) {
                courses.push(course);
            }
        };
        let books = state.books[message.attempt.index()];
        let number = usize::from(message.invented);
        match message.call {
            Call::Debit if books.charge[number] == ChargeRecord::None => {
                may(Fault::Deferred, Course::Deferred);
                may(Fault::Lie, Course::WrongAmount);
                if self.world.poor {
                    courses.push(Course::NoFunds);
                }
            }
            Call::Execute(_) if self.grants(state, message) => {
                may(Fault::Deferred, Course::Deferred);
                may(Fault::Refused, Course::Refused);
            }
            Call::Refund if self.can_pay_back(state, message) => {
                may(Fault::Deferred, Course::Deferred);
                may(Fault::Refused, Course::Refused);
            }
            Call::Debit | Call::Execute(_) | Call::Refund | Call::Close => {}
        }
        courses
    }

    /// Whether an execution would hand over the benefit now.
    fn grants(&self, state: &Snapshot, message: Message) -> bool {
        let Call::Execute(not_after) = message.call else { return false };
        let in_time = not_after.is_none_or(|deadline| state.business_passed < Some(deadline));
        state.owner == Owner::Nobody && in_time && !self.world.failing
    }

    fn can_pay_back(&self, state: &Snapshot, message: Message) -> bool {
        let books = state.books[message.attempt.index()];
        let charged = books.charge.iter().any(|record| matches!(record, ChargeRecord::Charged { .. }));
        let record = books.refund[usize::from(message.invented)];
        charged && matches!(record, RefundRecord::None | RefundRecord::Failed)
    }

    pub(crate) fn arrive(&self, state: &mut Snapshot, message: usize, course: Course, twice: bool) {
        let message = if twice {
            state.faults_left -= 1;
            state.network[message]
        } else {
            state.network.remove(message)
        };
        // Nobody hears the answer.
        let _ = self.carry_out(state, message, course);
    }

    /// Does what is asked for, and says so.
    pub(crate) fn carry_out(&self, state: &mut Snapshot, message: Message, course: Course) -> Answer {
        state.faults_left -= u8::from(!course.is_plain());
        let number = usize::from(message.invented);
        let index = message.attempt.index();
        match message.call {
            Call::Debit => {
                let record = &mut state.books[index].charge[number];
                if *record == ChargeRecord::None {
                    *record = match course {
                        Course::Normal | Course::Refused => ChargeRecord::Charged { wrong: false },
                        Course::WrongAmount => ChargeRecord::Charged { wrong: true },
                        Course::Deferred => ChargeRecord::Pending,
                        Course::NoFunds => ChargeRecord::Failed,
                    };
                }
                Answer::Debit(charge_state(*record))
            }
            Call::Close => Answer::Close(self.close(state, message.attempt)),
            Call::Execute(_) => Answer::Execute(self.execute(state, message, course)),
            Call::Refund => {
                let possible = self.can_pay_back(state, message);
                let record = &mut state.books[index].refund[number];
                match (possible, course) {
                    (true, Course::Deferred) => *record = RefundRecord::Pending,
                    (true, Course::Refused) => *record = RefundRecord::Failed,
                    (true, Course::Normal | Course::NoFunds | Course::WrongAmount) => {
                        *record = RefundRecord::Paid;
                    }
                    (false, _) => {}
                }
                Answer::Refund(match *record {
                    // Nothing to pay back: not even recorded.
                    RefundRecord::None => Refund::Rejected,
                    RefundRecord::Pending | RefundRecord::Paid | RefundRecord::Failed => {
                        refund_state(*record)
                    }
                })
            }
        }
    }

    fn close(&self, state: &mut Snapshot, attempt: Attempt) -> Charge {
        match self.world.closing {
            Closing::NotOffered | Closing::PromisedOnly => Charge::Unsupported,
            Closing::Offered => {
                let record = &mut state.books[attempt.index()].charge[0];
                if *record == ChargeRecord::None {
                    *record = ChargeRecord::Closed;
                }
                charge_state(*record)
            }
        }
    }

    fn execute(&self, state: &mut Snapshot, message: Message, course: Course) -> Execute {
        if state.owner == Owner::Attempt(message.attempt) {
            return Execute::Done;
        }
        if !self.grants(state, message) {
            return Execute::Rejected;
        }
        match course {
            Course::Deferred => {
                // Carried out later by the same conditional write: as if it arrived then.
                state.network.push(message);
                Execute::Processing
            }
            Course::Refused => Execute::Rejected,
            Course::Normal | Course::NoFunds | Course::WrongAmount => {
                state.owner = Owner::Attempt(message.attempt);
                Execute::Done
            }
        }
    }

    pub(crate) fn query(&self, state: &Snapshot, attempt: Attempt) -> Charge {
        charge_state(state.books[attempt.index()].charge[0])
    }

    pub(crate) fn query_refund(&self, state: &Snapshot, attempt: Attempt) -> Refund {
        refund_state(state.books[attempt.index()].refund[0])
    }

    pub(crate) fn settle_charge(&self, state: &mut Snapshot, attempt: Attempt, charged: bool) {
        let pending = |record: &&mut ChargeRecord| **record == ChargeRecord::Pending;
        for record in state.books[attempt.index()].charge.iter_mut().filter(pending) {
            *record = if charged { ChargeRecord::Charged { wrong: false } } else { ChargeRecord::Failed };
        }
    }

    pub(crate) fn settle_refund(&self, state: &mut Snapshot, attempt: Attempt, paid: bool) {
        let pending = |record: &&mut RefundRecord| **record == RefundRecord::Pending;
        for record in state.books[attempt.index()].refund.iter_mut().filter(pending) {
            *record = if paid { RefundRecord::Paid } else { RefundRecord::Failed };
        }
    }

    pub(crate) fn rival(&self, state: &mut Snapshot) {
        state.faults_left -= 1;
        if state.owner == Owner::Nobody {
            state.owner = Owner::Rival;
        }
    }
}

fn charge_state(record: ChargeRecord) -> Charge {
    match record {
        ChargeRecord::None => Charge::NotFound,
        ChargeRecord::Pending => Charge::Processing,
        ChargeRecord::Charged { wrong } => Charge::Success { wrong },
        ChargeRecord::Failed => Charge::Rejected,
        ChargeRecord::Closed => Charge::Closed,
    }
}

fn refund_state(record: RefundRecord) -> Refund {
    match record {
        RefundRecord::None => Refund::NotFound,
        RefundRecord::Pending => Refund::Processing,
        RefundRecord::Paid => Refund::Success,
        RefundRecord::Failed => Refund::Rejected,
    }
}
