//! What is run: which story, in whose process, dies at which points. No server, no process: data alone.

use flow_core::crash::{Side, Spot};

/// The process that dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    /// `pay-api`, while it serves.
    Api,
    /// `pay-api`, while it starts.
    StartingApi,
    /// `pay-scanner`, while it sweeps.
    Scanner,
    /// `pay-scanner`, while it starts.
    StartingScanner,
}

impl Victim {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Victim::Api => "api",
            Victim::StartingApi => "api, starting",
            Victim::Scanner => "scanner",
            Victim::StartingScanner => "scanner, starting",
        }
    }
}

/// How the processes are set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setup {
    /// Whatever the request itself does not finish is the scanner's.
    NoTimer,
    /// The API's own timer comes first.
    Timer,
    /// A broker comes instead of a timer.
    Broker,
    /// One committing task, so that writes can be made to wait for each other and share a commit.
    OneCommitter,
}

/// What happens around the death. See `stories` for how each is brought about. The first eight are payments: an API
/// that is to die gets the request when the order is given, otherwise before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Story {
    /// A payment.
    Pay,
    /// By a process that has written nothing yet.
    FirstPay,
    /// Without the money for it.
    PayPoor,
    /// The debit's answer gets lost.
    LostDebit,
    /// The debit itself gets lost.
    MissingDebit,
    /// The wallet claims another amount.
    WrongAmount,
    /// The benefit is not handed over by the deadline, and the refund's answer gets lost.
    LateBusiness,
    /// The debit has not arrived by the deadline.
    LateDebit,
    /// The API died before the flow was begun.
    NotBegun,
    /// The same request once more.
    Replay,
    /// Another request for the same target.
    Join,
    /// Cancelled; the debit never arrived.
    Cancel,
    /// Cancelled; it is charged, and the answer was lost.
    CancelCharged,
    /// A cancelled flow's refund whose answer was lost.
    LostRefund,
    /// A cancelled flow's refund that never arrived.
    MissingRefund,
    /// An operator holds.
    Hold,
    /// An operator releases.
    Release,
    /// A channel tells of a charge whose answer was lost.
    Callback,
    /// It tells of it again.
    CallbackAgain,
    /// The API died before it worked on what it had kept.
    CallbackLeft,
    /// The broker delivers what is no wake-up.
    Garbage,
    /// A flow is read.
    ReadFlow,
    /// Its audit log is read.
    ReadEvents,
    /// People look for it.
    FindFlow,
    /// Readiness is asked for while a flow is under way.
    AskReady,
    /// A payment has ended, and its application is to be told.
    Told,
    /// People look for notifications.
    FindTold,
    /// People look at a notification's attempts.
    ReadAttempts,
    /// An operator has a notification sent again.
    Resend,
    /// A process starts while a flow is under way.
    Start,
    /// Several payments at one moment.
    ManyPayments,
    /// Several requests for one open target at one moment.
    ManyJoins,
    /// Several releases at one moment.
    ManyReleases,
    /// The same, and one flow is released by hand meanwhile.
    OneMovedOn,
    /// Payments, joins and releases at one moment.
    Mixed,
    /// Two payments for one target at one moment.
    SameTarget,
}

/// One line of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) setup: Setup,
    pub(crate) story: Story,
    pub(crate) victim: Victim,
    pub(crate) spot: Spot,
    pub(crate) side: Side,
    /// At which passing of the point.
    pub(crate) pass: u32,
    /// What is being written or asked there, where the point alone does not tell.
    pub(crate) note: &'static str,
}

impl Case {
    /// Whether the point lies at the entry lock, which needs a server of its own.
    pub(crate) fn is_at_entry_lock(&self) -> bool {
        matches!(self.spot, Spot::EntryEnter | Spot::EntryLeave)
    }

    pub(crate) fn point(&self) -> String {
        format!("{}.{}", self.spot.as_str(), self.side.as_str())
    }
}

/// A spot at one passing, with its note. Both sides of it are cases.
type At = (Spot, u32, &'static str);

const fn at(spot: Spot) -> At {
    (spot, 1, "")
}

const CAS_PAYING: &str = "-> PAYING";
const CAS_PAYED: &str = "-> PAYED";
const CAS_PAY_FAIL: &str = "-> PAY_FAIL";
const CAS_SUCCESS: &str = "-> BIZ_SUCCESS";
const CAS_REFUNDING: &str = "-> REFUNDING";
const CAS_REFUNDED: &str = "-> REFUNDED";

const START: &[At] = &[
    at(Spot::Session),
    at(Spot::StartSchema),
    at(Spot::StartSettings),
    at(Spot::StartGalera),
    at(Spot::StartGuards),
    at(Spot::PoolSession),
    at(Spot::Now),
    at(Spot::OutboxCallers),
];

/// The whole matrix.
#[rustfmt::skip]
const ROWS: &[(Setup, Story, Victim, &[At])] = &[
    (Setup::NoTimer, Story::Pay, Victim::Api, &[
        at(Spot::EntryEnter), at(Spot::LookUp), at(Spot::CreateOne), (Spot::CasOne, 1, CAS_PAYING), at(Spot::Debit), (Spot::CasOne, 2, CAS_PAYED),
        at(Spot::Execute), at(Spot::Fact), (Spot::CasOne, 3, CAS_SUCCESS),
        at(Spot::EntryLeave),
    ]),
    (Setup::NoTimer, Story::FirstPay, Victim::Api, &[
        (Spot::Session, 1, "committer"), at(Spot::TakeBlock), at(Spot::BlockStart),
    ]),
    (Setup::NoTimer, Story::PayPoor, Victim::Api, &[(Spot::CasOne, 2, CAS_PAY_FAIL)]),
    (Setup::NoTimer, Story::LostDebit, Victim::Api, &[at(Spot::Debit), (Spot::CasOne, 2, "reschedule")]),
    (Setup::NoTimer, Story::WrongAmount, Victim::Api, &[(Spot::CasOne, 2, "hold by the system")]),
    (Setup::NoTimer, Story::Replay, Victim::Api, &[at(Spot::LookUp)]),
    (Setup::NoTimer, Story::Join, Victim::Api, &[at(Spot::LookUp), at(Spot::BindOne)]),
    (Setup::NoTimer, Story::Cancel, Victim::Api, &[
        (Spot::Load, 1, "whose is it"), (Spot::Load, 2, "may it be cancelled"), (Spot::CasOne, 1, "cancel"),
        (Spot::Load, 3, "advance"), at(Spot::Query), at(Spot::Close), (Spot::CasOne, 2, CAS_PAY_FAIL),
    ]),
    (Setup::NoTimer, Story::CancelCharged, Victim::Api, &[
        (Spot::CasOne, 1, "cancel"), at(Spot::Query), (Spot::CasOne, 2, CAS_PAYED), at(Spot::Fact),
        (Spot::CasOne, 3, CAS_REFUNDING), at(Spot::Refund), (Spot::CasOne, 4, CAS_REFUNDED),
    ]),
    (Setup::NoTimer, Story::Hold, Victim::Api, &[at(Spot::Load), (Spot::CasOne, 1, "hold")]),
    (Setup::NoTimer, Story::Release, Victim::Api, &[
        at(Spot::Load), (Spot::CasOne, 1, "release"), at(Spot::Query), (Spot::CasOne, 2, CAS_PAYED),
    ]),
    (Setup::NoTimer, Story::Callback, Victim::Api, &[
        at(Spot::InboxRecord), (Spot::Load, 1, "of the event"), (Spot::Query, 1, "for the event"),
        (Spot::CasOne, 1, CAS_PAYED), at(Spot::InboxSettle),
    ]),
    (Setup::NoTimer, Story::CallbackAgain, Victim::Api, &[at(Spot::InboxKnown)]),
    (Setup::NoTimer, Story::ReadFlow, Victim::Api, &[at(Spot::Load)]),
    (Setup::NoTimer, Story::ReadEvents, Victim::Api, &[at(Spot::Events)]),
    (Setup::NoTimer, Story::FindFlow, Victim::Api, &[at(Spot::Find)]),
    (Setup::NoTimer, Story::AskReady, Victim::Api, &[at(Spot::Ready)]),
    (Setup::NoTimer, Story::FindTold, Victim::Api, &[at(Spot::OutboxFind)]),
    (Setup::NoTimer, Story::ReadAttempts, Victim::Api, &[at(Spot::OutboxAttempts)]),
    (Setup::NoTimer, Story::Resend, Victim::Api, &[at(Spot::OutboxResend)]),
    (Setup::NoTimer, Story::Start, Victim::StartingApi, START),

    (Setup::NoTimer, Story::Start, Victim::StartingScanner, START),
    (Setup::NoTimer, Story::NotBegun, Victim::Scanner, &[(Spot::CasOne, 1, CAS_PAYING), at(Spot::Debit)]),
    (Setup::NoTimer, Story::LostDebit, Victim::Scanner, &[
        at(Spot::Now), at(Spot::LeaseSchema), at(Spot::LeaseTake), at(Spot::ListDue),
        at(Spot::LeaseConfirm), at(Spot::Load), at(Spot::Query), (Spot::CasOne, 1, CAS_PAYED), at(Spot::Execute),
        at(Spot::Fact), (Spot::CasOne, 2, CAS_SUCCESS), at(Spot::LeaseRelease), at(Spot::Summarise),
    ]),
    (Setup::NoTimer, Story::CallbackLeft, Victim::Scanner, &[
        at(Spot::InboxList), at(Spot::InboxClaim), at(Spot::InboxSettle), at(Spot::InboxSummarise),
    ]),
    (Setup::NoTimer, Story::MissingDebit, Victim::Scanner, &[at(Spot::Query), at(Spot::Debit), (Spot::CasOne, 1, CAS_PAYED)]),
    (Setup::NoTimer, Story::Cancel, Victim::Scanner, &[at(Spot::Query), at(Spot::Close), (Spot::CasOne, 1, CAS_PAY_FAIL)]),
    (Setup::NoTimer, Story::CancelCharged, Victim::Scanner, &[
        (Spot::CasOne, 1, CAS_PAYED), at(Spot::Fact), (Spot::CasOne, 2, CAS_REFUNDING), at(Spot::Refund),
        (Spot::CasOne, 3, CAS_REFUNDED),
    ]),
    (Setup::NoTimer, Story::LostRefund, Victim::Scanner, &[at(Spot::QueryRefund), (Spot::CasOne, 1, CAS_REFUNDED)]),
    (Setup::NoTimer, Story::MissingRefund, Victim::Scanner, &[
        at(Spot::QueryRefund), at(Spot::Refund), (Spot::CasOne, 1, CAS_REFUNDED),
    ]),
    (Setup::NoTimer, Story::LateBusiness, Victim::Scanner, &[at(Spot::Refund)]),
    (Setup::NoTimer, Story::LateDebit, Victim::Scanner, &[at(Spot::Close)]),
    (Setup::NoTimer, Story::Told, Victim::Scanner, &[
        at(Spot::OutboxDue), at(Spot::OutboxClaim), at(Spot::OutboxClaimed), at(Spot::Notify), at(Spot::OutboxSettle),
        at(Spot::OutboxSummary),
    ]),

    (Setup::Timer, Story::LostDebit, Victim::Api, &[
        (Spot::Load, 1, "timer"), (Spot::Query, 1, "timer"), (Spot::CasOne, 3, "timer -> PAYED"),
    ]),
    (Setup::Timer, Story::MissingDebit, Victim::Api, &[(Spot::Query, 1, "timer"), (Spot::Debit, 2, "timer")]),
    (Setup::Timer, Story::LateBusiness, Victim::Api, &[(Spot::Refund, 1, "timer"), (Spot::QueryRefund, 1, "timer")]),
    (Setup::Timer, Story::LateDebit, Victim::Api, &[(Spot::Close, 1, "timer")]),

    (Setup::Broker, Story::Start, Victim::StartingApi, &[at(Spot::BrokerSetUp), at(Spot::BrokerLook)]),
    (Setup::Broker, Story::Start, Victim::StartingScanner, &[at(Spot::BrokerConsumer)]),
    (Setup::Broker, Story::LostDebit, Victim::Api, &[at(Spot::BrokerPublish)]),
    (Setup::Broker, Story::LostDebit, Victim::Scanner, &[at(Spot::BrokerSettle)]),
    (Setup::Broker, Story::Garbage, Victim::Scanner, &[at(Spot::BrokerDead)]),

    (Setup::OneCommitter, Story::ManyPayments, Victim::Api, &[at(Spot::CreateMany)]),
    (Setup::OneCommitter, Story::ManyJoins, Victim::Api, &[at(Spot::BindMany)]),
    (Setup::OneCommitter, Story::ManyReleases, Victim::Api, &[at(Spot::Begin), at(Spot::CasMany), at(Spot::Commit)]),
    (Setup::OneCommitter, Story::OneMovedOn, Victim::Api, &[
        at(Spot::Rollback), at(Spot::MovedOn), (Spot::CasMany, 2, "without the lost one"),
        (Spot::Commit, 1, "without the lost one"),
    ]),
    (Setup::OneCommitter, Story::Mixed, Victim::Api, &[
        at(Spot::Begin), at(Spot::CasMany), at(Spot::CreateMany), at(Spot::BindMany), at(Spot::Commit),
    ]),
    (Setup::OneCommitter, Story::SameTarget, Victim::Api, &[
        at(Spot::CreateMany), (Spot::CreateOne, 1, "the first, alone"), (Spot::CreateOne, 2, "the second, alone"),
    ]),
];

/// Every case, in the order of the printed matrix.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for &(setup, story, victim, spots) in ROWS {
        for &(spot, pass, note) in spots {
            for side in Side::ALL {
                cases.push(Case { setup, story, victim, spot, side, pass, note });
            }
        }
    }
    cases
}

#[test]
fn every_point_is_in_the_matrix() {
    let cases = all();
    let missing: Vec<String> = Spot::ALL
        .iter()
        // Reconciliation writes no payment; its own suite (`recon`) dies at these.
        .filter(|spot| !spot.as_str().starts_with("recon."))
        .filter(|spot| {
            !Side::ALL.iter().all(|side| cases.iter().any(|case| (case.spot, case.side) == (**spot, *side)))
        })
        .map(|spot| spot.as_str().to_owned())
        .collect();
    assert!(missing.is_empty(), "no case dies at {missing:?}: add them to a story that passes them");
}
