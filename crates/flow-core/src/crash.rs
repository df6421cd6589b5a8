//! Crash points: the places around every statement and every external call at which a process of the crash matrix is
//! made to die, to prove that a payment survives it there.
//!
//! Nothing of it is in a build without the feature `crash-points`, which is off by default. With it, a process reads at
//! each point, from a file that an environment variable names, which point it is to die at. It dies by SIGKILL: no
//! destructor runs, nothing is flushed, nobody is told. It can also be made to wait at a point, so that others get ahead.
//! Knows neither statements nor calls, and decides nothing.

/// On which side of its statement or call a point lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Nothing was sent yet.
    Before,
    /// The answer has arrived, and nothing was concluded from it or told to anybody.
    After,
}

impl Side {
    /// Both.
    pub const ALL: [Side; 2] = [Side::Before, Side::After];

    /// The spelling in a point's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Side::Before => "before",
            Side::After => "after",
        }
    }
}

/// The registry: every statement and every external call has a spot of its own here, with a point on either side.
macro_rules! spots {
    ($($spot:ident = $name:literal, $what:literal;)+) => {
        /// A statement or an external call.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Spot {
            $(#[doc = $what] $spot),+
        }

        impl Spot {
            /// All of them.
            pub const ALL: &[Spot] = &[$(Spot::$spot),+];

            /// The spelling in a point's name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Spot::$spot => $name),+ }
            }
        }
    };
}

spots! {
    Debit = "call.debit", "Charges.";
    Query = "call.query", "Asks the wallet about a charge.";
    Close = "call.close", "Bars a charge.";
    Execute = "call.execute", "Hands the benefit over.";
    Fact = "call.fact", "Reads the business record.";
    Refund = "call.refund", "Pays back.";
    QueryRefund = "call.query_refund", "Asks the wallet about a refund.";
    EntryEnter = "call.entry_enter", "Comes in through the entry lock.";
    EntryLeave = "call.entry_leave", "Gives the entry lock back.";
    Notify = "call.notify", "Tells an application of its flow.";

    BrokerSetUp = "broker.set_up", "Looks at the streams, and makes them.";
    BrokerConsumer = "broker.consumer", "Looks at the consumer, and makes it.";
    BrokerLook = "broker.look", "Counts dead letters.";
    BrokerPublish = "broker.publish", "Asks for a wake-up.";
    BrokerSettle = "broker.settle", "Says what a wake-up came to.";
    BrokerDead = "broker.dead", "Puts a wake-up aside that could not be worked on.";

    TakeBlock = "write.take_block", "Takes a block of flow ids.";
    BlockStart = "write.block_start", "Reads where the block begins.";
    CreateOne = "write.create_one", "Inserts a flow with its key.";
    BindOne = "write.bind_one", "Binds a further key.";
    CasOne = "write.cas_one", "Compares and swaps.";
    Begin = "write.begin", "Begins a commit of many writes.";
    CasMany = "write.cas_many", "Compares and swaps many flows.";
    CreateMany = "write.create_many", "Inserts many flows with their keys.";
    BindMany = "write.bind_many", "Binds many keys.";
    Commit = "write.commit", "Commits many writes.";
    Rollback = "write.rollback", "Undoes many writes.";
    MovedOn = "write.moved_on", "Looks which flows of an undone commit have moved on.";

    Now = "read.now", "Reads the clock.";
    Load = "read.load", "Reads one flow.";
    LookUp = "read.look_up", "Reads what a creation must know.";
    ListDue = "read.list_due", "Lists what is due.";
    Summarise = "read.summarise", "Counts what is open.";
    Events = "read.events", "Reads the audit log.";
    Find = "read.find", "Finds flows for people.";
    Ready = "read.ready", "Looks whether the database can be used.";

    InboxRecord = "inbox.record", "Keeps an event.";
    InboxKnown = "inbox.known", "Reads what became of an event that comes again.";
    InboxList = "inbox.list", "Lists events that are due.";
    InboxClaim = "inbox.claim", "Claims an event.";
    InboxSettle = "inbox.settle", "Writes what an event came to.";
    InboxSummarise = "inbox.summarise", "Counts events.";

    OutboxCallers = "outbox.callers", "Says who is told of flows.";
    OutboxDue = "outbox.due", "Lists what is due for a receiver.";
    OutboxClaim = "outbox.claim", "Claims it.";
    OutboxClaimed = "outbox.claimed", "Reads what was claimed.";
    OutboxSettle = "outbox.settle", "Writes what became of a notification.";
    OutboxResend = "outbox.resend", "Makes a notification due again.";
    OutboxFind = "outbox.find", "Finds notifications for people.";
    OutboxAttempts = "outbox.attempts", "Reads the log of attempts.";
    OutboxSummary = "outbox.summary", "Counts what is owed.";

    ReconBatchOpen = "recon.batch_open", "Makes the batch of a day.";
    ReconBatchFind = "recon.batch_find", "Reads batches.";
    ReconBatchParts = "recon.batch_parts", "Says into how many parts a batch is split.";
    ReconPartOpen = "recon.part_open", "Makes a part of a batch.";
    ReconPartClaim = "recon.part_claim", "Claims a part of a batch.";
    ReconPartRead = "recon.part_read", "Reads the parts of a batch.";
    ReconPartKeep = "recon.part_keep", "Keeps the claim of a part.";
    ReconPartEnd = "recon.part_end", "Writes what a part came to.";
    ReconBatchSettle = "recon.batch_settle", "Makes a batch what its parts are.";
    ReconOpenFlows = "recon.open_flows", "Reads flows that are charged and not ended.";
    ReconEndedFlows = "recon.ended_flows", "Reads flows that ended.";
    ReconFlowsByNumber = "recon.flows_by_number", "Reads flows by their order numbers.";
    ReconTargetFlows = "recon.target_flows", "Reads every attempt at a target.";
    ReconTicketOpen = "recon.ticket_open", "Opens a ticket.";
    ReconTicketWrite = "recon.ticket_write", "Writes a ticket.";
    ReconTicketLoad = "recon.ticket_load", "Reads the ticket of an order.";
    ReconTicketFind = "recon.ticket_find", "Finds tickets for people.";
    ReconTicketCurrent = "recon.ticket_current", "Lists what a channel's tickets are about.";
    ReconTrail = "recon.trail", "Reads the trail of a ticket.";
    ReconSummary = "recon.summary", "Counts open tickets.";
    ReconCarryPut = "recon.carry_put", "Lets an entry wait for a neighbouring day.";
    ReconCarryTake = "recon.carry_take", "Takes an entry out that waited.";
    ReconCarryFor = "recon.carry_for", "Lists what waits for a day.";
    ReconCarryOf = "recon.carry_of", "Lists what a day lets wait.";
    ReconFact = "recon.fact", "Reads a business record to compare it.";

    LeaseSchema = "lease.schema", "Reads the name that the sweep's lock is made of.";
    LeaseTake = "lease.take", "Takes the sweep's lock.";
    LeaseConfirm = "lease.confirm", "Confirms the sweep's lock.";
    LeaseRelease = "lease.release", "Gives the sweep's lock back.";

    StartSchema = "start.schema", "Reads the schema's version.";
    StartSettings = "start.settings", "Reads the server's settings.";
    StartGalera = "start.galera", "Reads whether there are several writers.";
    StartGuards = "start.guards", "Reads the guard triggers.";
    Session = "start.session", "Sets a connection up.";
    PoolSession = "start.pool_session", "Sets a connection of the read pool up.";
}

/// The result of `$work`, a statement or a call with its `.await`, between the two points of a spot. Without the feature,
/// it is `$work`.
macro_rules! around {
    ($spot:expr, $work:expr) => {{
        let spot: $crate::crash::Spot = $spot;
        #[cfg(feature = "crash-points")]
        $crate::crash::reached(spot, $crate::crash::Side::Before).await;
        let done = $work;
        #[cfg(feature = "crash-points")]
        $crate::crash::reached(spot, $crate::crash::Side::After).await;
        #[cfg(not(feature = "crash-points"))]
        let _ = spot;
        done
    }};
}
pub(crate) use around;

/// The output of a call that another crate makes, between the two points of a spot.
pub async fn between<F: Future>(spot: Spot, work: F) -> F::Output {
    around!(spot, work.await)
}

#[cfg(feature = "crash-points")]
pub(crate) use armed::reached;

#[cfg(feature = "crash-points")]
mod armed {
    //! Dying, or pausing, when told to.

    use std::fs;
    use std::path::{Path, PathBuf};
    use std::sync::{Mutex, OnceLock, PoisonError};
    use std::time::Duration;

    use super::{Side, Spot};

    /// Names the file that holds the order. Its first line is what to die of: the point's name, at which pass, and any
    /// word that tells this order from an earlier one, e.g. `call.debit.after 1 order-7`. A second line, if there is
    /// one, names a point at which to wait for as long as the line is there. No file, no order.
    const ORDER_FILE: &str = "PAY_CRASH_FILE";

    /// Between two looks at an order to pause.
    const LOOK_EVERY: Duration = Duration::from_millis(5);

    struct Passes {
        order: String,
        so_far: u32,
    }

    /// Counted from the order on.
    static PASSES: Mutex<Passes> = Mutex::new(Passes { order: String::new(), so_far: 0 });

    fn order_file() -> Option<&'static Path> {
        static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
        FILE.get_or_init(|| std::env::var_os(ORDER_FILE).map(PathBuf::from)).as_deref()
    }

    /// Waits here, then dies here, if the order says so.
    pub(crate) async fn reached(spot: Spot, side: Side) {
        let Some(file) = order_file() else { return };
        let point = format!("{}.{}", spot.as_str(), side.as_str());
        let mut sign = Some(file.with_extension("paused"));
        loop {
            let Ok(order) = fs::read_to_string(file) else { return };
            let mut lines = order.lines();
            let first = lines.next().unwrap_or_default();
            if lines.next() != Some(&point) {
                return die_if_due(file, first, &point);
            }
            if let Some(sign) = sign.take() {
                // Without the sign nobody takes it for paused, and says so.
                let _ = fs::write(sign, first);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn die_if_due(file: &Path, order: &str, point: &str) {
        let mut words = order.split(' ');
        let is_meant = words.next() == Some(point);
        let pass = words.next().and_then(|pass| pass.parse::<u32>().ok());
        let (true, Some(pass)) = (is_meant, pass) else { return };
        // Held to the end: whoever comes to the same point at the same moment waits for the end here.
        let mut passes = PASSES.lock().unwrap_or_else(PoisonError::into_inner);
        if passes.order != order {
            *passes = Passes { order: order.to_owned(), so_far: 0 };
        }
        passes.so_far += 1;
        if passes.so_far == pass {
            die(file, order);
        }
    }

    /// Leaves the order, word for word, beside its file as the sign of having died of it, and is killed.
    fn die(file: &Path, order: &str) -> ! {
        // Without the sign the matrix does not take the death for the one it ordered.
        let _ = fs::write(file.with_extension("died"), order);
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        loop {
            std::thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_spot_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = Spot::ALL.iter().map(|spot| spot.as_str()).collect();
        assert_eq!(names.len(), Spot::ALL.len());
        assert!(names.iter().all(|name| name.split('.').count() == 2), "{names:?}");
    }

    #[tokio::test]
    async fn a_result_passes_through_unchanged() {
        assert_eq!(around!(Spot::Debit, std::future::ready(2).await), 2);
        assert_eq!(between(Spot::BrokerPublish, std::future::ready(3)).await, 3);
    }
}
