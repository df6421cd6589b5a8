//! A process that advances flows, step by step as `flow_core::advance` does it: load, choose one action, perform it,
//! decide with the time before the question was asked, write one compare-and-swap.
//!
//! What the real shell does without anybody else noticing is one step here: reading a row and choosing the action;
//! hearing an answer, deciding and writing. A read is asked and answered in one step, because asking earlier than the
//! answer is given only makes the judgement more cautious; its answer may be heard much later.

use flow_core::cas::{CasWrite, Change, WriteEvidence};
use flow_core::decide::{Action, Decision, Entry, Evidence, Pace};
use flow_core::flow::{Flow, Trigger};
use flow_core::ports::{ChargeOrder, RefundOrder};
use flow_testkit::mutants::WriteHeard;
use flow_testkit::samples;

use crate::answers::{Charge, Execute, Fact, Heard, Refund, Silence};
use crate::far_side::Answer;
use crate::model::{PaymentModel, Step};
use crate::row::{CURRENT, OUTDATED};
use crate::state::{Attempt, Call, LateWrite, Message, Process, Seat, Snapshot};
use crate::time::{Deadline, Moment};
use crate::world::Fault;

/// How asking goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Asking {
    /// Well.
    Well,
    /// The answer to a read is lost.
    Lost,
    /// Refused before anything was done.
    Refused,
    /// The business contradicts itself.
    Contradicts,
}

/// How a write goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Writing {
    /// Its outcome is heard.
    Well,
    /// Written, but the outcome is not heard.
    UnknownWritten,
    /// Not written, and the outcome is not heard.
    UnknownLost,
    /// The outcome is not heard, and the database carries the statement out later.
    UnknownLater,
}

/// What an answer leads to.
pub(crate) enum Concluded {
    /// A write.
    Write(Box<CasWrite>),
    /// One more action.
    Act(Action),
    /// A new beginning.
    Nothing,
}

impl PaymentModel {
    /// What this process may do now.
    pub(crate) fn process_steps(&self, state: &Snapshot, who: usize, steps: &mut Vec<Step>) {
        let may = |fault| self.world.may(state, fault);
        match &state.processes[who] {
            Process::Idle => {
                let open = |attempt: &Attempt| state.rows[attempt.index()].is_some_and(|row| !row.rests());
                steps
                    .extend(Attempt::ALL.into_iter().filter(open).map(|attempt| Step::Load { who, attempt }));
                return;
            }
            Process::Acting { action, .. } => {
                steps.push(Step::Act { who, asking: Asking::Well });
                if is_read(*action) && may(Fault::ReadLost) {
                    steps.push(Step::Act { who, asking: Asking::Lost });
                }
                if may(Fault::Unavailable) {
                    steps.push(Step::Act { who, asking: Asking::Refused });
                }
                if *action == Action::ReadFact && may(Fault::Lie) {
                    steps.push(Step::Act { who, asking: Asking::Contradicts });
                }
            }
            Process::Waiting { message, .. } => {
                for course in self.courses(state, *message) {
                    steps.push(Step::Serve { who, course, twice: false });
                    if course.is_plain() && may(Fault::Twice) {
                        steps.push(Step::Serve { who, course, twice: true });
                    }
                }
                if may(Fault::TimedOut) {
                    steps.push(Step::GiveUp { who });
                }
            }
            Process::Answered { .. } => {
                steps.push(Step::Hear { who, writing: Writing::Well });
                if may(Fault::WriteUnknown) {
                    steps.push(Step::Hear { who, writing: Writing::UnknownWritten });
                    steps.push(Step::Hear { who, writing: Writing::UnknownLost });
                    steps.push(Step::Hear { who, writing: Writing::UnknownLater });
                }
            }
        }
        if may(Fault::Crash) {
            steps.push(Step::Crash { who });
        }
    }

    /// The attempts for which a debit is under way or about to be sent.
    pub(crate) fn debits<'a>(&self, state: &'a Snapshot) -> impl Iterator<Item = Attempt> + 'a {
        let held = state.processes.iter().filter_map(|process| match process {
            Process::Acting { seat, action: Action::Debit, .. } => Some(seat.attempt),
            Process::Waiting { message: Message { call: Call::Debit, attempt, .. }, .. } => Some(*attempt),
            Process::Idle | Process::Acting { .. } | Process::Waiting { .. } | Process::Answered { .. } => {
                None
            }
        });
        let sent = state.network.iter().filter(|message| message.call == Call::Debit);
        held.chain(sent.map(|message| message.attempt))
    }

    pub(crate) fn load(&self, state: &mut Snapshot, who: usize, attempt: Attempt) {
        let Some(row) = state.rows[attempt.index()] else { return };
        let seat = Seat { attempt, row, current: true };
        let flow = self.flow_of(&seat);
        state.processes[who] = self.begin(seat, &flow, Entry::Found, state.now);
    }

    /// What to do next with a row that this process just read or wrote.
    fn begin(&self, seat: Seat, flow: &Flow, entry: Entry, now: Moment) -> Process {
        let action = self.subject.next_action(flow, entry, now.at());
        match action {
            Action::RestTerminal | Action::RestHeld => Process::Idle,
            // Calls nobody: the write itself is the action.
            Action::EnterPaying => {
                self.cover_action(action);
                Process::Answered { seat, heard: Heard::Entering, asked: now }
            }
            Action::Debit
            | Action::QueryCharge
            | Action::CloseCharge
            | Action::ExecuteThenReadFact
            | Action::ReadFact
            | Action::Refund
            | Action::QueryRefund => Process::Acting { seat, action, after: None, executed: None },
        }
    }

    pub(crate) fn act(&self, state: &mut Snapshot, who: usize, asking: Asking) {
        let Process::Acting { seat, action, after, executed } = state.processes[who] else { return };
        self.cover_action(action);
        let flow = self.flow_of(&seat);
        // A step's answers are judged by the time before its first question.
        let asked = after.unwrap_or(state.now);
        let silence = match asking {
            Asking::Well | Asking::Contradicts => None,
            Asking::Lost => Some(Silence::Unknown),
            Asking::Refused => Some(Silence::Unavailable),
        };
        if asking != Asking::Well {
            state.faults_left -= 1;
        }
        if self.subject.presumed(&flow, action, &self.rules, state.now.at()).is_some() {
            let heard = Heard::Business { executed, fact: Fact::Is(crate::state::Owner::Nobody) };
            state.processes[who] = Process::Answered { seat, heard, asked };
            return;
        }
        let send = |call| {
            let invented = self.is_invented(&flow, call, after.is_some());
            Process::Waiting { seat, message: Message { call, attempt: seat.attempt, invented }, asked }
        };
        let answered = |heard| Process::Answered { seat, heard, asked };
        state.processes[who] = match (action, silence) {
            (Action::Debit, None) => send(Call::Debit),
            (Action::Debit, Some(silence)) => answered(Heard::Debit(Charge::None(silence))),
            (Action::CloseCharge, None) => send(Call::Close),
            (Action::CloseCharge, Some(silence)) => answered(Heard::Close(Charge::None(silence))),
            (Action::Refund, None) => send(Call::Refund),
            (Action::Refund, Some(silence)) => answered(Heard::Refund(Refund::None(silence))),
            (Action::ExecuteThenReadFact, None) => send(Call::Execute(self.not_after(&flow, seat.attempt))),
            (Action::ExecuteThenReadFact, Some(silence)) => {
                let executed = Some(Execute::None(silence));
                Process::Acting { seat, action: Action::ReadFact, after, executed }
            }
            (Action::QueryCharge, None) => answered(Heard::ChargeQuery(self.query(state, seat.attempt))),
            (Action::QueryCharge, Some(silence)) => answered(Heard::ChargeQuery(Charge::None(silence))),
            (Action::QueryRefund, None) => {
                answered(Heard::RefundQuery(self.query_refund(state, seat.attempt)))
            }
            (Action::QueryRefund, Some(silence)) => answered(Heard::RefundQuery(Refund::None(silence))),
            (Action::ReadFact, None) if asking == Asking::Contradicts => {
                answered(Heard::Business { executed, fact: Fact::Contradiction })
            }
            (Action::ReadFact, None) => answered(Heard::Business { executed, fact: Fact::Is(state.owner) }),
            (Action::ReadFact, Some(silence)) => {
                answered(Heard::Business { executed, fact: Fact::None(silence) })
            }
            (Action::RestTerminal | Action::RestHeld | Action::EnterPaying, _) => Process::Idle,
        };
    }

    /// Whether the number that is sent is another than the row's.
    fn is_invented(&self, flow: &Flow, call: Call, follows: bool) -> bool {
        match call {
            Call::Debit => {
                let order = ChargeOrder { ..samples::charge_order(flow) };
                self.subject.charge_order(order, follows).trade_order_no != flow.trade_order_no
            }
            Call::Refund => {
                let order = RefundOrder { ..samples::refund_order(flow) };
                self.subject.refund_order(order, follows).refund_order_no != flow.refund_order_no
            }
            Call::Close | Call::Execute(_) => false,
        }
    }

    fn not_after(&self, flow: &Flow, attempt: Attempt) -> Option<Deadline> {
        let sent = self.subject.execution(samples::execution(flow)).not_after;
        (sent == flow.deadline).then_some(self.world.deadline(attempt))
    }

    pub(crate) fn serve(
        &self,
        state: &mut Snapshot,
        who: usize,
        course: crate::far_side::Course,
        twice: bool,
    ) {
        let Process::Waiting { seat, message, asked } = state.processes[who] else { return };
        if twice {
            state.network.push(message);
            state.faults_left -= 1;
        }
        let answer = self.carry_out(state, message, course);
        state.processes[who] = back(seat, answer, asked);
    }

    pub(crate) fn give_up(&self, state: &mut Snapshot, who: usize) {
        let Process::Waiting { seat, message, asked } = state.processes[who] else { return };
        state.network.push(message);
        state.faults_left -= 1;
        let answer = match message.call {
            Call::Debit => Answer::Debit(Charge::None(Silence::Unknown)),
            Call::Close => Answer::Close(Charge::None(Silence::Unknown)),
            Call::Execute(_) => Answer::Execute(Execute::None(Silence::Unknown)),
            Call::Refund => Answer::Refund(Refund::None(Silence::Unknown)),
        };
        state.processes[who] = back(seat, answer, asked);
    }

    pub(crate) fn crash(&self, state: &mut Snapshot, who: usize) {
        match state.processes[who] {
            Process::Waiting { message, .. } => state.network.push(message),
            Process::Idle | Process::Acting { .. } | Process::Answered { .. } => {}
        }
        state.faults_left -= 1;
        state.processes[who] = Process::Idle;
    }

    pub(crate) fn hear(&self, state: &mut Snapshot, who: usize, writing: Writing) {
        let Process::Answered { seat, heard, asked } = state.processes[who] else { return };
        let flow = self.flow_of(&seat);
        let concluded = match self.conclude(&flow, heard, asked, state.now) {
            Concluded::Write(write) => {
                self.write(state, who, &flow, &write, writing);
                return;
            }
            Concluded::Act(action) => Process::Acting { seat, action, after: Some(asked), executed: None },
            Concluded::Nothing => Process::Idle,
        };
        // A write of unknown outcome is possible only where there is one.
        if writing == Writing::Well {
            state.processes[who] = concluded;
        }
    }

    /// What an answer leads to.
    pub(crate) fn conclude(&self, flow: &Flow, heard: Heard, asked: Moment, now: Moment) -> Concluded {
        let mut evidence = heard.to_core(flow, |attempt| self.order_ref(attempt));
        if let Evidence::Business { executed, fact } = evidence {
            evidence = Evidence::Business { executed, fact: self.subject.fact_answer(fact) };
        }
        let judged_at = self.subject.judged_at(asked.at(), now.at());
        let change = match self.subject.decide(flow, &evidence, &self.rules, judged_at) {
            Decision::Follow(Action::Debit)
                if self.subject.rechecks_before_following() && !flow.may_cause_effects(now.at()) =>
            {
                return Concluded::Nothing;
            }
            Decision::Follow(action) => return Concluded::Act(action),
            Decision::Leave { .. } | Decision::Reload => return Concluded::Nothing,
            Decision::Move(transition) => Change::Move { transition, next_in_ms: 1 },
            Decision::Stay { pace, code, wake_by: _ } => {
                let counts = match pace {
                    Pace::Counted => 1,
                    Pace::Postponed { .. } => 0,
                };
                Change::Reschedule { next_in_ms: 1, retry_count: flow.retry_count + counts, code }
            }
            Decision::Hold(reason) => Change::Hold { reason, by: samples::actor("system") },
        };
        let evidence = WriteEvidence {
            action: Some(action_of(heard)),
            outcome: Some(evidence.label()),
            ..WriteEvidence::of(Trigger::Scanner)
        };
        let write = CasWrite { flow_id: flow.id, from: flow.state, version: flow.version, change, evidence };
        Concluded::Write(Box::new(write))
    }

    fn write(&self, state: &mut Snapshot, who: usize, flow: &Flow, write: &CasWrite, writing: Writing) {
        let Process::Answered { seat, heard, asked } = state.processes[who] else { return };
        let now = state.now;
        let (outcome, heard) = match writing {
            Writing::Well => {
                let outcome = self.compare_and_swap(state, seat.attempt, write, now);
                (outcome, outcome)
            }
            Writing::UnknownWritten => {
                (self.compare_and_swap(state, seat.attempt, write, now), WriteHeard::Unknown)
            }
            Writing::UnknownLost => (WriteHeard::Unknown, WriteHeard::Unknown),
            Writing::UnknownLater => {
                state.writes.push(LateWrite { seat, heard, asked });
                (WriteHeard::Unknown, WriteHeard::Unknown)
            }
        };
        state.faults_left -= u8::from(writing != Writing::Well);
        if heard == WriteHeard::Lost {
            self.note_contradiction(state, seat.attempt, write);
        }
        state.processes[who] = match self.subject.heard(heard) {
            WriteHeard::Applied => {
                let next = write.apply(flow, now.at());
                // Our copy is the row if it was it before; whoever believes in a write that lost has an old copy.
                let current = seat.current && outcome == WriteHeard::Applied;
                let version = if current { CURRENT } else { OUTDATED };
                let next = Flow { version, ..next };
                let seat = Seat { row: self.keep(&next, seat.attempt), current, ..seat };
                match &write.change {
                    Change::Move { .. } => self.begin(seat, &next, Entry::JustEntered, now),
                    Change::Reschedule { .. }
                    | Change::Hold { .. }
                    | Change::Release
                    | Change::RequestCancel { .. } => Process::Idle,
                }
            }
            // Reload and begin again, or leave it to whoever was quicker: either way nothing is remembered.
            WriteHeard::Lost | WriteHeard::Unknown => Process::Idle,
        };
    }
}

fn is_read(action: Action) -> bool {
    match action {
        Action::QueryCharge | Action::ReadFact | Action::QueryRefund => true,
        Action::RestTerminal
        | Action::RestHeld
        | Action::EnterPaying
        | Action::Debit
        | Action::CloseCharge
        | Action::ExecuteThenReadFact
        | Action::Refund => false,
    }
}

fn action_of(heard: Heard) -> Action {
    match heard {
        Heard::Entering => Action::EnterPaying,
        Heard::Debit(_) => Action::Debit,
        Heard::ChargeQuery(_) => Action::QueryCharge,
        Heard::Close(_) => Action::CloseCharge,
        Heard::Business { executed: Some(_), .. } => Action::ExecuteThenReadFact,
        Heard::Business { executed: None, .. } => Action::ReadFact,
        Heard::Refund(_) => Action::Refund,
        Heard::RefundQuery(_) => Action::QueryRefund,
    }
}

/// An answer comes back: the process decides upon it, or, after an execution, reads the fact, whatever it was.
fn back(seat: Seat, answer: Answer, asked: Moment) -> Process {
    let answered = |heard| Process::Answered { seat, heard, asked };
    match answer {
        Answer::Debit(answer) => answered(Heard::Debit(answer)),
        Answer::Close(answer) => answered(Heard::Close(answer)),
        Answer::Refund(answer) => answered(Heard::Refund(answer)),
        Answer::Execute(answer) => {
            Process::Acting { seat, action: Action::ReadFact, after: None, executed: Some(answer) }
        }
    }
}
