//! The worlds that are explored, and which of them is the home of which mutant.

use flow_testkit::mutants::Mutant;

use crate::time::{Deadline, Moment};
use crate::world::{Closing, Fault, World};

const NETWORK: &[Fault] = &[Fault::TimedOut, Fault::Twice, Fault::Crash];
const EVERYTHING: &[Fault] = &[
    Fault::TimedOut,
    Fault::Twice,
    Fault::Crash,
    Fault::ReadLost,
    Fault::Unavailable,
    Fault::Deferred,
    Fault::Refused,
    Fault::WriteUnknown,
];

/// Nothing goes wrong, but the clocks run and two processes meet.
const CALM: World = World::CALM;

const NETWORK_ONCE: World = World {
    name: "network",
    about: "two processes; requests late, lost or doubled, answers lost, a process dies: one of these",
    faults: 1,
    kinds: NETWORK,
    ..CALM
};

const ALONE: World = World {
    name: "alone",
    about: "one process; every fault of network, wallet, business and database: two of these",
    processes: 1,
    faults: 2,
    kinds: EVERYTHING,
    ..CALM
};

const CANCEL: World =
    World { name: "cancel", about: "two processes; a cancellation at any time", cancel: true, ..CALM };

const NO_CLOSE: World = World {
    name: "no-close",
    about: "two processes and a wallet that cannot close; one fault of the network",
    closing: Closing::NotOffered,
    last: Moment::Late,
    faults: 1,
    kinds: NETWORK,
    ..CALM
};

const POOR: World = World {
    name: "poor",
    about: "two processes; the balance may not cover it; a second attempt",
    poor: true,
    requests: 1,
    clients: 1,
    ..CALM
};

const DEFERRED: World = World {
    name: "deferred",
    about: "two processes; wallet and business accept now and carry out later, or refuse for now: one of these",
    faults: 1,
    kinds: &[Fault::Deferred, Fault::Refused],
    ..CALM
};

const OUTAGE: World = World {
    name: "outage",
    about: "two processes; questions without an answer, calls refused for load: one of these",
    last: Moment::Late,
    faults: 1,
    kinds: &[Fault::ReadLost, Fault::Unavailable],
    ..CALM
};

const LIES: World = World {
    name: "lies",
    about: "two processes; the wallet charges another amount, the business contradicts itself: one of these",
    faults: 1,
    kinds: &[Fault::Lie],
    ..CALM
};

const RIVAL: World = World {
    name: "rival",
    about: "two processes; another order takes the benefit at any time",
    faults: 1,
    kinds: &[Fault::Rival],
    ..CALM
};

const WRITES: World = World {
    name: "writes",
    about: "two processes; a connection breaks during a write; a cancellation at any time",
    cancel: true,
    faults: 1,
    kinds: &[Fault::WriteUnknown],
    ..CALM
};

const PEOPLE: World = World {
    name: "people",
    about: "two processes; an operator holds and releases; a cancellation at any time",
    cancel: true,
    faults: 1,
    kinds: &[Fault::Hold],
    ..CALM
};

const CLIENTS: World = World {
    name: "clients",
    about: "two clients ask three times for one target; one process; the balance may not cover it",
    processes: 1,
    clients: 2,
    requests: 3,
    first_exists: false,
    poor: true,
    cancel: true,
    ..CALM
};

const SECOND_CHANCE: World = World {
    name: "second-chance",
    about: "one process; a second attempt with a later deadline, after the first was paid back",
    processes: 1,
    clients: 1,
    requests: 1,
    second: Deadline::Second,
    last: Moment::SecondSettled,
    faults: 1,
    kinds: NETWORK,
    ..CALM
};

/// Small enough for every test run.
pub fn quick() -> Vec<World> {
    vec![
        CALM,
        NETWORK_ONCE,
        ALONE,
        CANCEL,
        NO_CLOSE,
        POOR,
        DEFERRED,
        OUTAGE,
        LIES,
        RIVAL,
        WRITES,
        PEOPLE,
        CLIENTS,
        SECOND_CHANCE,
    ]
}

/// All of them.
pub fn all() -> Vec<World> {
    let mut worlds = quick();
    worlds.extend(with_more_faults());
    worlds.extend(with_other_troubles());
    worlds.extend(with_more_people());
    worlds
}

fn with_more_faults() -> [World; 6] {
    [
        World {
            name: "alone-4",
            about: "one process; a cancellation; four faults of any kind",
            faults: 4,
            cancel: true,
            ..ALONE
        },
        World {
            name: "network-2",
            about: "two processes; a cancellation; two faults of the network",
            faults: 2,
            cancel: true,
            ..NETWORK_ONCE
        },
        World {
            name: "storm-2",
            about: "two processes; a cancellation; two faults of any kind",
            faults: 2,
            cancel: true,
            kinds: EVERYTHING,
            ..NETWORK_ONCE
        },
        World {
            name: "no-close-2",
            about: "two processes and a wallet that cannot close; a cancellation; two faults of the network",
            faults: 2,
            cancel: true,
            ..NO_CLOSE
        },
        World {
            name: "promised-only",
            about: "the same, though the configuration says that it can; one fault of the network",
            closing: Closing::PromisedOnly,
            cancel: true,
            ..NO_CLOSE
        },
        World {
            name: "failing",
            about: "two processes and a business that refuses everything; two faults of any kind",
            failing: true,
            faults: 2,
            kinds: EVERYTHING,
            ..CALM
        },
    ]
}

fn with_other_troubles() -> [World; 5] {
    [
        World {
            name: "deferred-2",
            about: "two processes; wallet and business carry out later or refuse for now, twice",
            faults: 2,
            ..DEFERRED
        },
        World {
            name: "outage-2",
            about: "two processes; a cancellation; two questions without an answer or calls refused for load",
            faults: 2,
            cancel: true,
            ..OUTAGE
        },
        World {
            name: "lies-network",
            about: "two processes; a wrong amount, a contradiction, or a fault of the network: two of these",
            faults: 2,
            kinds: &[Fault::Lie, Fault::TimedOut, Fault::Twice, Fault::Crash],
            ..LIES
        },
        World {
            name: "rival-network",
            about: "two processes; another order takes the benefit, and a fault of the network",
            faults: 2,
            kinds: &[Fault::Rival, Fault::TimedOut, Fault::Twice, Fault::Crash],
            ..RIVAL
        },
        World {
            name: "writes-2",
            about: "two processes; a cancellation; connections break during writes, a process dies: two of these",
            faults: 2,
            kinds: &[Fault::WriteUnknown, Fault::Crash],
            ..WRITES
        },
    ]
}

fn with_more_people() -> [World; 8] {
    [
        World { name: "three", about: "three processes; a cancellation", processes: 3, ..CANCEL },
        World {
            name: "three-network",
            about: "three processes; one fault of the network",
            processes: 3,
            ..NETWORK_ONCE
        },
        World {
            name: "three-no-close",
            about: "three processes and a wallet that cannot close; one fault of the network",
            processes: 3,
            ..NO_CLOSE
        },
        World {
            name: "people-2",
            about: "two processes; a cancellation; an operator holds and releases, twice",
            faults: 2,
            ..PEOPLE
        },
        World {
            name: "poor-network",
            about: "two processes; the balance may not cover it; a second attempt; a cancellation; one fault of the network",
            faults: 1,
            kinds: NETWORK,
            cancel: true,
            ..POOR
        },
        World {
            name: "clients-network",
            about: "two clients ask three times; two processes; a cancellation; one fault of the network",
            processes: 2,
            faults: 1,
            kinds: NETWORK,
            ..CLIENTS
        },
        World {
            name: "second-storm",
            about: "one process; a second attempt with a later deadline; a cancellation; two faults of any kind",
            faults: 2,
            kinds: EVERYTHING,
            cancel: true,
            ..SECOND_CHANCE
        },
        World {
            name: "second-2",
            about: "two processes; a second attempt with a later deadline; a cancellation; one fault of the network",
            processes: 2,
            cancel: true,
            ..SECOND_CHANCE
        },
    ]
}

/// The world of this name.
pub fn named(name: &str) -> Option<World> {
    all().into_iter().find(|world| world.name == name)
}

/// The world that a mutant is looked for in.
pub fn home_of(mutant: Mutant) -> World {
    match mutant {
        Mutant::DebitBeforePaying
        | Mutant::NoNotAfter
        | Mutant::NoSettleMargin
        | Mutant::RefundUnread
        | Mutant::HearingClock
        | Mutant::RefundNotFoundIsRefunded
        | Mutant::RefundForgotten
        | Mutant::SuccessRefunded
        | Mutant::CasById => CALM,
        Mutant::TimeoutIsFailure
        | Mutant::NotFoundIsFailure
        | Mutant::NewTradeNumber
        | Mutant::NewRefundNumber
        | Mutant::CloseUnconfirmed => NETWORK_ONCE,
        Mutant::SkipQuery | Mutant::NoGrace | Mutant::LateFollow => NO_CLOSE,
        Mutant::ProcessingIsCharged | Mutant::RefundProcessingIsRefunded | Mutant::RefundOnRejection => {
            DEFERRED
        }
        Mutant::ReceiptUnchecked => LIES,
        Mutant::UnavailableIsNotDone => OUTAGE,
        Mutant::OwnerIgnored => RIVAL,
        Mutant::LateCancel | Mutant::CancelIgnored | Mutant::CasWithoutVersion | Mutant::LostIsWon => CANCEL,
        Mutant::UnknownIsWritten => WRITES,
        Mutant::SecondWhileOpen | Mutant::SecondAfterSuccess => POOR,
    }
}
