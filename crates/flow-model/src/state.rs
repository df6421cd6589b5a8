//! A world's state: rows, the far side's books, the network, and where every process stands.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use flow_core::decide::Action;
use flow_core::ids::AttemptNo;

use crate::answers::{Execute, Heard};
use crate::row::Row;
use crate::time::{Deadline, Moment};

/// First or second attempt at the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attempt {
    /// The first.
    First,
    /// The second.
    Second,
}

impl Attempt {
    /// Both.
    pub const ALL: [Attempt; 2] = [Attempt::First, Attempt::Second];

    /// Where its things lie.
    pub const fn index(self) -> usize {
        match self {
            Attempt::First => 0,
            Attempt::Second => 1,
        }
    }

    /// The attempt of this number, if the model goes that far.
    pub fn numbered(number: AttemptNo) -> Option<Attempt> {
        Attempt::ALL.into_iter().find(|attempt| attempt.index() + 1 == number.0 as usize)
    }
}

/// Who has the benefit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Nobody.
    Nobody,
    /// An attempt of ours.
    Attempt(Attempt),
    /// An order that is none of ours.
    Rival,
}

/// The wallet's record of one charge number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChargeRecord {
    /// None.
    None,
    /// Accepted, not decided.
    Pending,
    /// Charged, over another amount if `wrong`.
    Charged {
        /// Over another amount.
        wrong: bool,
    },
    /// Refused for ever.
    Failed,
    /// Barred.
    Closed,
}

/// The wallet's record of one refund number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefundRecord {
    /// None.
    None,
    /// Accepted, not paid.
    Pending,
    /// Paid.
    Paid,
    /// Refused; may be tried again.
    Failed,
}

/// What the wallet holds of one attempt: under its own number, and under one that a mutant invented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Books {
    /// Charges.
    pub charge: [ChargeRecord; 2],
    /// Refunds.
    pub refund: [RefundRecord; 2],
}

impl Books {
    const EMPTY: Books = Books { charge: [ChargeRecord::None; 2], refund: [RefundRecord::None; 2] };
}

/// A call that may change something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    /// Charge.
    Debit,
    /// Bar.
    Close,
    /// Hand over, until this deadline; without one only by a mutant.
    Execute(Option<Deadline>),
    /// Pay back.
    Refund,
}

/// A request on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Message {
    /// What is asked for.
    pub call: Call,
    /// For whom.
    pub attempt: Attempt,
    /// Under a number that is not the row's.
    pub invented: bool,
}

/// A copy of a row in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seat {
    /// Of which attempt.
    pub attempt: Attempt,
    /// As it was.
    pub row: Row,
    /// Whether it still is.
    pub current: bool,
}

/// Where a process that advances flows stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Process {
    /// Nowhere: it knows nothing.
    Idle,
    /// It knows what to do next.
    Acting {
        /// For this row.
        seat: Seat,
        /// This.
        action: Action,
        /// When the query was asked whose answer called for it, if it follows one.
        after: Option<Moment>,
        /// What the execution answered, when the fact is read after one.
        executed: Option<Execute>,
    },
    /// It has sent a request.
    Waiting {
        /// For this row.
        seat: Seat,
        /// This one.
        message: Message,
        /// When it was sent.
        asked: Moment,
    },
    /// The answer is on its way back.
    Answered {
        /// For this row.
        seat: Seat,
        /// This one.
        heard: Heard,
        /// When the question was asked.
        asked: Moment,
    },
}

impl Process {
    /// The copy of a row that it goes by.
    pub fn seat_mut(&mut self) -> Option<&mut Seat> {
        match self {
            Process::Idle => None,
            Process::Acting { seat, .. } | Process::Waiting { seat, .. } | Process::Answered { seat, .. } => {
                Some(seat)
            }
        }
    }
}

/// A statement that the database has and has not carried out, given up by its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LateWrite {
    /// For this row.
    pub seat: Seat,
    /// After this answer.
    pub heard: Heard,
    /// Asked for at this time.
    pub asked: Moment,
}

/// Where a client that asks for payments stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Client {
    /// Nowhere.
    Idle,
    /// It looked, and is about to insert this attempt.
    Inserting(Attempt),
}

/// A promise that was broken by a step rather than by what is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Misstep {
    /// A terminal row changed its state.
    TerminalMoved,
    /// The decisions asked for a write that is none.
    IllegalWrite,
    /// A write that did not add exactly one version.
    VersionSkipped,
    /// A write without its evidence.
    NoEvidence,
    /// A row that is neither terminal nor held is never due again.
    NeverDue,
    /// Two processes had evidence for opposite things.
    Contradicted,
}

/// Everything there is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Snapshot {
    /// The database's clock.
    pub now: Moment,
    /// The last deadline that the business's clock has passed.
    pub business_passed: Option<Deadline>,
    /// The table.
    pub rows: [Option<Row>; 2],
    /// The wallet.
    pub books: [Books; 2],
    /// The business.
    pub owner: Owner,
    /// The processes.
    pub processes: Vec<Process>,
    /// Requests under way whose sender does not listen any more.
    pub network: Vec<Message>,
    /// Writes under way whose sender does not listen any more.
    pub writes: Vec<LateWrite>,
    /// The clients.
    pub clients: Vec<Client>,
    /// How many faults may still strike.
    pub faults_left: u8,
    /// How often clients may still ask for a payment.
    pub requests_left: u8,
    /// Whether somebody may still cancel.
    pub cancel_left: bool,
    /// What went wrong on the way.
    pub misstep: Option<Misstep>,
}

impl Snapshot {
    /// A quiet world with so many processes and clients.
    pub fn quiet(processes: usize, clients: usize) -> Snapshot {
        Snapshot {
            now: Moment::Start,
            business_passed: None,
            rows: [None; 2],
            books: [Books::EMPTY; 2],
            owner: Owner::Nobody,
            processes: vec![Process::Idle; processes],
            network: Vec::new(),
            writes: Vec::new(),
            clients: vec![Client::Idle; clients],
            faults_left: 0,
            requests_left: 0,
            cancel_left: false,
            misstep: None,
        }
    }

    /// Puts what has no order into one, so that equal states are equal. Processes only if told so: a story wants to
    /// tell them apart.
    pub fn normalise(&mut self, processes_too: bool) {
        sort(&mut self.network);
        sort(&mut self.writes);
        if processes_too {
            sort(&mut self.processes);
            sort(&mut self.clients);
        }
    }
}

fn sort<T: std::hash::Hash>(items: &mut [T]) {
    if items.len() > 1 {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        items.sort_by_cached_key(|item| hasher.hash_one(item));
    }
}
