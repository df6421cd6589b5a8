//! What an application is told of its flow, and what follows from its answer.
//!
//! Pure: [`judge`] is a total function from an answer to the next step. A notification is thin (ids, state, version): who
//! wants more asks the API. Its id and its bytes follow from the flow and the version alone, so that every attempt says
//! the same, and a receiver can tell a repetition by the id and an old one by the version.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;

use crate::answer::{Classified, NoAnswer, UnavailableCause, UnknownCause};
use crate::ids::{BizKey, CallerId, FlowId, Scene, TradeOrderNo, UserId, Version};
use crate::retry::{JitterPermille, Schedule, ScheduleError};
use crate::state::{ClientState, State};

/// Identity of a notification: the version of the flow that it tells of. Spelled `evt_{flow_id}_{version}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    /// The flow.
    pub flow_id: FlowId,
    /// The version that the change produced.
    pub version: Version,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "evt_{}_{}", self.flow_id, self.version.0)
    }
}

/// A text that is no event id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("event_id is not of the form evt_FLOW_VERSION")]
pub struct NoEventId;

impl FromStr for EventId {
    type Err = NoEventId;

    /// Takes exactly what [`EventId`] is spelled as: no sign, no leading zero.
    fn from_str(text: &str) -> Result<EventId, NoEventId> {
        let (flow_id, version) =
            text.strip_prefix("evt_").and_then(|rest| rest.split_once('_')).ok_or(NoEventId)?;
        let id = EventId {
            flow_id: flow_id.parse().map_err(|_| NoEventId)?,
            version: Version(version.parse().map_err(|_| NoEventId)?),
        };
        // The database counts versions in 63 bits.
        let fits = i64::try_from(id.version.0).is_ok();
        if fits && id.to_string() == text { Ok(id) } else { Err(NoEventId) }
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant),+
        }

        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$variant),+];

            /// The spelling in the database.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }

            /// Reads the spelling.
            pub fn parse(text: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|word| word.as_str() == text)
            }
        }
    };
}

words! {
    /// What happened to the flow.
    NotifiedChange {
        /// It entered a terminal state.
        Ended = "ENDED",
        /// It was frozen for people to look at.
        Held = "HELD",
        /// It was freed again.
        Released = "RELEASED",
    }
}

impl NotifiedChange {
    /// The event's `type`, as receivers see it.
    pub const fn event_type(self) -> &'static str {
        match self {
            NotifiedChange::Ended => "payment_flow.ended",
            NotifiedChange::Held => "payment_flow.held",
            NotifiedChange::Released => "payment_flow.released",
        }
    }
}

words! {
    /// How far a notification has come.
    Delivery {
        /// Still to be delivered.
        Pending = "PENDING",
        /// Its receiver has said so.
        Delivered = "DELIVERED",
        /// Given up after the last try of the schedule; people may ask for it again.
        Dead = "DEAD",
    }
}

/// One thing to tell an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// Which.
    pub id: EventId,
    /// The application.
    pub caller: CallerId,
    /// What happened.
    pub change: NotifiedChange,
    /// The flow's state after it.
    pub state: State,
    /// When.
    pub at: DateTime<Utc>,
    /// Whose flow it is.
    pub user_id: UserId,
    /// The kind of purchase.
    pub scene: Scene,
    /// The business goal.
    pub biz_key: BizKey,
    /// The charge number.
    pub trade_order_no: TradeOrderNo,
}

#[derive(Serialize)]
struct Envelope<'a> {
    #[serde(rename = "type")]
    event_type: &'static str,
    timestamp: String,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    event_id: String,
    flow_id: String,
    version: u64,
    status: &'static str,
    state: &'static str,
    user_id: String,
    scene: &'a str,
    biz_key: &'a str,
    trade_order_no: &'a str,
}

impl Notification {
    /// What the API shows as the flow's `status` after the change.
    pub fn client_state(&self) -> ClientState {
        ClientState::of(self.state, self.change == NotifiedChange::Held)
    }

    /// The bytes that are signed and sent: the same at every attempt.
    ///
    /// # Errors
    /// Never in practice: texts and numbers alone are written.
    pub fn body(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&Envelope {
            event_type: self.change.event_type(),
            timestamp: self.at.to_rfc3339_opts(SecondsFormat::Millis, true),
            data: Data {
                event_id: self.id.to_string(),
                flow_id: self.id.flow_id.to_string(),
                version: self.id.version.0,
                status: self.client_state().as_str(),
                state: self.state.as_str(),
                user_id: self.user_id.to_string(),
                scene: self.scene.as_str(),
                biz_key: self.biz_key.as_str(),
                trade_order_no: self.trade_order_no.as_str(),
            },
        })
    }
}

/// What became of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryAnswer {
    /// The receiver answered.
    Status {
        /// The HTTP status.
        code: u16,
        /// How long it asks us to wait, in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// No answer in time; perhaps received.
    TimedOut,
    /// The connection broke, or what came was no HTTP; perhaps received.
    ConnectionLost,
    /// No connection came about, or the name has no address.
    NotConnected,
    /// The address is one that may not be called (private network); nothing was sent.
    ForbiddenTarget,
    /// Our own gate let nothing out: no attempt.
    NotSent {
        /// When the gate may let it out, in milliseconds.
        wait_ms: u64,
    },
}

impl DeliveryAnswer {
    /// The class, as kept in the log of attempts and in metrics.
    pub const fn class(self) -> &'static str {
        match self {
            DeliveryAnswer::Status { code: 200..=299, .. } => "ACCEPTED",
            DeliveryAnswer::Status { code: 300..=399, .. } => "REDIRECTED",
            DeliveryAnswer::Status { code: 429, .. } => "THROTTLED",
            DeliveryAnswer::Status { code: 400..=499, .. } => "REJECTED",
            DeliveryAnswer::Status { code: _, .. } => "FAILED",
            DeliveryAnswer::TimedOut => "TIMED_OUT",
            DeliveryAnswer::ConnectionLost => "CONNECTION_LOST",
            DeliveryAnswer::NotConnected => "NOT_CONNECTED",
            DeliveryAnswer::ForbiddenTarget => "FORBIDDEN_TARGET",
            DeliveryAnswer::NotSent { .. } => "NOT_SENT",
        }
    }

    /// The HTTP status, where there was one.
    pub const fn http_status(self) -> Option<u16> {
        match self {
            DeliveryAnswer::Status { code, .. } => Some(code),
            DeliveryAnswer::TimedOut
            | DeliveryAnswer::ConnectionLost
            | DeliveryAnswer::NotConnected
            | DeliveryAnswer::ForbiddenTarget
            | DeliveryAnswer::NotSent { .. } => None,
        }
    }
}

impl Classified for DeliveryAnswer {
    fn label(&self) -> &'static str {
        self.class()
    }

    /// For the breaker: a receiver that answers anything but that it failed is alive.
    fn no_answer(&self) -> Option<NoAnswer> {
        match self {
            DeliveryAnswer::Status { code: 500.., .. } => Some(NoAnswer::Unknown(UnknownCause::ServerError)),
            DeliveryAnswer::Status { code: _, .. } => None,
            DeliveryAnswer::TimedOut => Some(NoAnswer::Unknown(UnknownCause::TimedOut)),
            DeliveryAnswer::ConnectionLost => Some(NoAnswer::Unknown(UnknownCause::ConnectionLost)),
            DeliveryAnswer::NotConnected
            | DeliveryAnswer::ForbiddenTarget
            | DeliveryAnswer::NotSent { .. } => {
                Some(NoAnswer::Unavailable { cause: UnavailableCause::NotConnected, retry_after_ms: None })
            }
        }
    }
}

/// When a delivery that failed is tried again, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPlan {
    schedule: Schedule,
    max_tries: u32,
    longest_retry_after_ms: u64,
}

impl RetryPlan {
    /// 1 m, 5 m, 30 m, 2 h, 6 h, 24 h after the first attempt, which is made at once.
    pub const DEFAULT_MS: [u64; 6] = [60_000, 300_000, 1_800_000, 7_200_000, 21_600_000, 86_400_000];

    /// The delays after each failed try but the last; a receiver's own wish is obeyed up to `longest_retry_after_ms`.
    ///
    /// # Errors
    /// [`ScheduleError`] naming the delay that is wrong.
    pub fn new(delays_ms: Vec<u64>, longest_retry_after_ms: u64) -> Result<RetryPlan, ScheduleError> {
        // At most 64 delays.
        let max_tries = u32::try_from(delays_ms.len()).unwrap_or(u32::MAX).saturating_add(1);
        Ok(RetryPlan { schedule: Schedule::new(delays_ms)?, max_tries, longest_retry_after_ms })
    }

    /// How many tries a notification gets before people are needed.
    pub const fn max_tries(&self) -> u32 {
        self.max_tries
    }
}

/// What follows from an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// Done.
    Delivered,
    /// To be tried again.
    Retry {
        /// In so many milliseconds.
        in_ms: u64,
    },
    /// That was the last try.
    Dead,
    /// It was no attempt: the same again, uncounted.
    Postponed {
        /// In so many milliseconds.
        in_ms: u64,
    },
}

/// Decides what follows from the answer to one try, of which there were `tries_before` in this series. Only 2xx counts as
/// delivered. The schedule's delay gets up to a quarter more; a receiver that asks for more time gets it.
pub fn judge(
    answer: DeliveryAnswer,
    tries_before: u32,
    plan: &RetryPlan,
    jitter: JitterPermille,
) -> NextStep {
    let asked_ms = match answer {
        DeliveryAnswer::Status { code: 200..=299, .. } => return NextStep::Delivered,
        DeliveryAnswer::NotSent { wait_ms } => {
            return NextStep::Postponed { in_ms: wait_ms.saturating_add(jitter.of(1_000)) };
        }
        DeliveryAnswer::Status { code: _, retry_after_ms } => retry_after_ms.unwrap_or(0),
        DeliveryAnswer::TimedOut
        | DeliveryAnswer::ConnectionLost
        | DeliveryAnswer::NotConnected
        | DeliveryAnswer::ForbiddenTarget => 0,
    };
    if tries_before.saturating_add(1) >= plan.max_tries {
        return NextStep::Dead;
    }
    let planned_ms = plan.schedule.delay_ms(tries_before, jitter);
    NextStep::Retry { in_ms: planned_ms.max(asked_ms.min(plan.longest_retry_after_ms)) }
}
