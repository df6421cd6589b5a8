//! The world as a stateright model: which steps are possible, and where each leads.

use std::sync::atomic::{AtomicU64, Ordering};

use flow_core::create::PaymentRequest;
use flow_core::decide::{Action, Rules};
use flow_core::flow::Flow;
use flow_core::ids::{AttemptNo, OrderRef, RefundOrderNo, TradeOrderNo};
use flow_core::state::{Edge, State};
use flow_testkit::mutants::Subject;
use flow_testkit::samples;
use stateright::{Model, Property};

use crate::calm::Memo;
use crate::far_side::Course;
use crate::process::{Asking, Writing};
use crate::promises::Watch;
use crate::row::{CURRENT, OUTDATED, Row};
use crate::state::{Attempt, ChargeRecord, Client, Process, RefundRecord, Seat, Snapshot};
use crate::time::{Deadline, Moment};
use crate::world::{Closing, Fault, World};

/// One thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// A process reads a row and sees what to do next.
    Load {
        /// Which process.
        who: usize,
        /// Which row.
        attempt: Attempt,
    },
    /// It does it: asks and is answered, or sends a request.
    Act {
        /// Which process.
        who: usize,
        /// How that goes.
        asking: Asking,
    },
    /// Its request arrives, and the answer sets out.
    Serve {
        /// Which process.
        who: usize,
        /// How it is carried out.
        course: Course,
        /// It will arrive again.
        twice: bool,
    },
    /// It does not wait for the answer any longer.
    GiveUp {
        /// Which process.
        who: usize,
    },
    /// It hears the answer, decides and writes.
    Hear {
        /// Which process.
        who: usize,
        /// How the write goes.
        writing: Writing,
    },
    /// It dies; another takes its place.
    Crash {
        /// Which process.
        who: usize,
    },
    /// A request arrives that nobody waits for.
    Arrive {
        /// Which of the network's.
        message: usize,
        /// How it is carried out.
        course: Course,
        /// It will arrive again.
        twice: bool,
    },
    /// Such a request is lost.
    Vanish {
        /// Which of the network's.
        message: usize,
    },
    /// A write is carried out that nobody waits for.
    LateWrite {
        /// Which of those under way.
        write: usize,
    },
    /// The wallet decides on a charge that it had accepted.
    SettleCharge {
        /// Whose.
        attempt: Attempt,
        /// How.
        charged: bool,
    },
    /// The wallet decides on a refund that it had accepted.
    SettleRefund {
        /// Whose.
        attempt: Attempt,
        /// How.
        paid: bool,
    },
    /// A client asks for a payment: looks, and is judged.
    Ask {
        /// Which client.
        who: usize,
    },
    /// Its new attempt is inserted, or refused by a unique key.
    Insert {
        /// Which client.
        who: usize,
    },
    /// Somebody cancels.
    Cancel {
        /// Which attempt.
        attempt: Attempt,
    },
    /// An operator holds.
    Hold {
        /// Which attempt.
        attempt: Attempt,
    },
    /// An operator releases.
    Release {
        /// Which attempt.
        attempt: Attempt,
    },
    /// Another order takes the benefit.
    Rival,
    /// The database's clock moves on.
    Clock,
    /// The business's clock passes a deadline.
    BusinessClock,
}

/// A world, and what is proved about it.
#[derive(Debug)]
pub struct PaymentModel {
    /// The configuration.
    pub world: World,
    /// Shipped, or with a fault.
    pub subject: Subject,
    /// What decisions go by.
    pub rules: Rules,
    /// What is looked for.
    pub watch: Watch,
    /// Whether processes that are in each other's place are one state. Off where a story is told.
    pub interchangeable: bool,
    pub(crate) memo: Memo,
    base: [Flow; 2],
    requests: [PaymentRequest; 2],
    coverage: AtomicU64,
}

impl PaymentModel {
    /// The model of a world.
    pub fn new(world: World, subject: Subject, watch: Watch, interchangeable: bool) -> PaymentModel {
        let rules = world.rules();
        let base = Attempt::ALL.map(|attempt| base_flow(&world, attempt));
        let requests = Attempt::ALL.map(|attempt| samples::request(1, world.deadline(attempt).moment().at()));
        let memo = Memo::default();
        PaymentModel {
            world,
            subject,
            rules,
            watch,
            interchangeable,
            memo,
            base,
            requests,
            coverage: AtomicU64::new(0),
        }
    }

    pub(crate) fn base(&self, attempt: Attempt) -> &Flow {
        &self.base[attempt.index()]
    }

    pub(crate) fn request(&self, attempt: Attempt) -> &PaymentRequest {
        &self.requests[attempt.index()]
    }

    /// The copy of a row as the decisions take it.
    pub(crate) fn flow_of(&self, seat: &Seat) -> Flow {
        let version = if seat.current { CURRENT } else { OUTDATED };
        seat.row.to_flow(self.base(seat.attempt), version)
    }

    /// The row in the table as the decisions take it.
    pub(crate) fn row_flow(&self, state: &Snapshot, attempt: Attempt) -> Option<Flow> {
        state.rows[attempt.index()].map(|row| row.to_flow(self.base(attempt), CURRENT))
    }

    pub(crate) fn keep(&self, flow: &Flow, attempt: Attempt) -> Row {
        Row::of(flow, &self.rules, self.world.deadline(attempt).settled().at())
    }

    pub(crate) fn order_ref(&self, attempt: Attempt) -> OrderRef {
        OrderRef::new(self.base(attempt).trade_order_no.as_str()).expect("a charge number is a reference")
    }

    pub(crate) fn cover_action(&self, action: Action) {
        self.coverage.fetch_or(1 << (action as u64), Ordering::Relaxed);
    }

    pub(crate) fn cover_edge(&self, edge: Edge) {
        self.coverage.fetch_or(1 << (16 + edge as u64), Ordering::Relaxed);
    }

    /// Which edges were taken so far.
    pub fn edges_seen(&self) -> Vec<Edge> {
        let seen = self.coverage.load(Ordering::Relaxed);
        Edge::ALL.into_iter().filter(|edge| seen & (1 << (16 + *edge as u64)) != 0).collect()
    }

    /// Which actions were performed so far.
    pub fn actions_seen(&self) -> Vec<Action> {
        const ALL: [Action; 8] = [
            Action::EnterPaying,
            Action::Debit,
            Action::QueryCharge,
            Action::CloseCharge,
            Action::ExecuteThenReadFact,
            Action::ReadFact,
            Action::Refund,
            Action::QueryRefund,
        ];
        let seen = self.coverage.load(Ordering::Relaxed);
        ALL.into_iter().filter(|action| seen & (1 << (*action as u64)) != 0).collect()
    }

    /// Takes a step that is possible.
    pub(crate) fn take(&self, state: &mut Snapshot, step: Step) {
        match step {
            Step::Load { who, attempt } => self.load(state, who, attempt),
            Step::Act { who, asking } => self.act(state, who, asking),
            Step::Serve { who, course, twice } => self.serve(state, who, course, twice),
            Step::GiveUp { who } => self.give_up(state, who),
            Step::Hear { who, writing } => self.hear(state, who, writing),
            Step::Crash { who } => self.crash(state, who),
            Step::Arrive { message, course, twice } => self.arrive(state, message, course, twice),
            Step::Vanish { message } => drop(state.network.remove(message)),
            Step::LateWrite { write } => self.late_write(state, write),
            Step::SettleCharge { attempt, charged } => self.settle_charge(state, attempt, charged),
            Step::SettleRefund { attempt, paid } => self.settle_refund(state, attempt, paid),
            Step::Ask { who } => self.ask(state, who),
            Step::Insert { who } => self.insert(state, who),
            Step::Cancel { attempt } => self.cancel(state, attempt),
            Step::Hold { attempt } => self.hold(state, attempt),
            Step::Release { attempt } => self.release(state, attempt),
            Step::Rival => self.rival(state),
            Step::Clock => state.now = self.next_moment(state).unwrap_or(state.now),
            Step::BusinessClock => {
                state.business_passed = self.next_business_deadline(state).or(state.business_passed);
            }
        }
    }

    /// When the database's clock may move on, and where to.
    pub(crate) fn next_moment(&self, state: &Snapshot) -> Option<Moment> {
        let next = state.now.next().filter(|next| *next <= self.world.last)?;
        for deadline in [Deadline::First, Deadline::Second] {
            // The settle margin covers the difference between the clocks.
            if next == deadline.settled() && state.business_passed < Some(deadline) {
                return None;
            }
            // The grace covers the longest time that a debit can be under way.
            if next == deadline.late() && self.debit_under_way(state, deadline) {
                return None;
            }
        }
        Some(next)
    }

    fn debit_under_way(&self, state: &Snapshot, deadline: Deadline) -> bool {
        let bounded = match self.world.closing {
            Closing::Offered => false,
            Closing::NotOffered | Closing::PromisedOnly => true,
        };
        bounded && self.debits(state).any(|attempt| self.world.deadline(attempt) == deadline)
    }

    /// When the business's clock may pass a deadline, and which: it is never early by the settle margin or more.
    pub(crate) fn next_business_deadline(&self, state: &Snapshot) -> Option<Deadline> {
        let (next, not_before) = match state.business_passed {
            None => (Deadline::First, Moment::Start),
            Some(Deadline::First) => (Deadline::Second, Deadline::First.late()),
            Some(Deadline::Second) => return None,
        };
        let wanted = next == Deadline::First || self.world.last >= Deadline::Second.moment();
        (wanted && state.now >= not_before).then_some(next)
    }

    fn far_side_steps(&self, state: &Snapshot, steps: &mut Vec<Step>) {
        for message in 0..state.network.len() {
            // Equal messages are one.
            if message > 0 && state.network[message] == state.network[message - 1] {
                continue;
            }
            for course in self.courses(state, state.network[message]) {
                steps.push(Step::Arrive { message, course, twice: false });
                if course.is_plain() && self.world.may(state, Fault::Twice) {
                    steps.push(Step::Arrive { message, course, twice: true });
                }
            }
            steps.push(Step::Vanish { message });
        }
        steps.extend((0..state.writes.len()).map(|write| Step::LateWrite { write }));
        for attempt in Attempt::ALL {
            let books = state.books[attempt.index()];
            if books.charge.contains(&ChargeRecord::Pending) {
                steps.push(Step::SettleCharge { attempt, charged: true });
                steps.push(Step::SettleCharge { attempt, charged: false });
            }
            if books.refund.contains(&RefundRecord::Pending) {
                steps.push(Step::SettleRefund { attempt, paid: true });
                steps.push(Step::SettleRefund { attempt, paid: false });
            }
        }
    }

    fn people_steps(&self, state: &Snapshot, steps: &mut Vec<Step>) {
        for (who, client) in state.clients.iter().enumerate() {
            match client {
                Client::Idle if state.requests_left > 0 => steps.push(Step::Ask { who }),
                Client::Idle => {}
                Client::Inserting(_) => steps.push(Step::Insert { who }),
            }
        }
        for attempt in Attempt::ALL {
            let Some(row) = state.rows[attempt.index()] else { continue };
            if state.cancel_left && !row.cancelled && row.state != State::PayFail {
                steps.push(Step::Cancel { attempt });
            }
            if row.state.is_terminal() {
                continue;
            }
            if row.hold.is_some() && self.world.kinds.contains(&Fault::Hold) {
                steps.push(Step::Release { attempt });
            } else if row.hold.is_none() && self.world.may(state, Fault::Hold) {
                steps.push(Step::Hold { attempt });
            }
        }
    }
}

fn base_flow(world: &World, attempt: Attempt) -> Flow {
    let number = i64::try_from(attempt.index() + 1).expect("one or two");
    let mut flow = samples::flow(1, State::WaitPay, Moment::Start.at());
    flow.id = samples::flow_id(number);
    flow.attempt_no = AttemptNo(u32::try_from(number).expect("one or two"));
    flow.trade_order_no = TradeOrderNo::derive(flow.target.user_id, flow.id);
    flow.refund_order_no = RefundOrderNo::derive(&flow.trade_order_no);
    flow.deadline = world.deadline(attempt).moment().at();
    flow.version = CURRENT;
    flow
}

impl Model for PaymentModel {
    type State = Snapshot;
    type Action = Step;

    fn init_states(&self) -> Vec<Snapshot> {
        vec![self.world.start()]
    }

    fn actions(&self, state: &Snapshot, steps: &mut Vec<Step>) {
        let mut idle_seen = false;
        for (who, process) in state.processes.iter().enumerate() {
            // Those that know nothing are in each other's place.
            if *process == Process::Idle && std::mem::replace(&mut idle_seen, true) {
                continue;
            }
            self.process_steps(state, who, steps);
        }
        self.far_side_steps(state, steps);
        self.people_steps(state, steps);
        if self.world.may(state, Fault::Rival) {
            steps.push(Step::Rival);
        }
        steps.extend(self.next_moment(state).map(|_| Step::Clock));
        steps.extend(self.next_business_deadline(state).map(|_| Step::BusinessClock));
    }

    fn next_state(&self, before: &Snapshot, step: Step) -> Option<Snapshot> {
        let mut state = before.clone();
        self.take(&mut state, step);
        state.normalise(self.interchangeable);
        (&state != before).then_some(state)
    }

    /// One property alone: only so does the breadth-first search end with the shortest story.
    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("every promise is kept", |model: &PaymentModel, state| {
            model.broken_promise(state).is_none()
        })]
    }
}
