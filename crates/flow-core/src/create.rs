//! Taking a payment request: replay, join, refuse or create.
//!
//! [`judge`] is pure; [`create`] drives it over the store. The database's unique keys settle every race, and a lost
//! race is looked up again, never guessed at.

use chrono::{DateTime, Utc};

use crate::decisions;
use crate::flow::Flow;
use crate::ids::{AttemptNo, CallerId, DownstreamName, Fingerprint, FlowId, IdempotencyKey, Target, TraceId};
use crate::money::Money;
use crate::ports::{Bound, Created, FlowStore, KeyBinding, Lookup, NewFlow, Seen, StoreError};

/// A request to pay, checked against its scene.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentRequest {
    /// Who asks.
    pub caller: CallerId,
    /// Under which key.
    pub key: IdempotencyKey,
    /// What exactly is asked for.
    pub fingerprint: Fingerprint,
    /// For what.
    pub target: Target,
    /// How much.
    pub money: Money,
    /// Until when.
    pub deadline: DateTime<Utc>,
    /// Longest accepted time between now and the deadline, in milliseconds: from the scene.
    pub deadline_horizon_ms: u64,
    /// The scene's wallet.
    pub wallet: DownstreamName,
    /// The scene's business system.
    pub business: DownstreamName,
    /// Opaque text for the business system.
    pub context: Option<String>,
    /// Correlates with logs.
    pub trace_id: Option<TraceId>,
    /// See [`NewFlow::first_due_in_ms`].
    pub first_due_in_ms: u64,
}

/// How a request was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// A new attempt was created; the caller of [`create`] advances it.
    Created(Seen<Flow>),
    /// The key was used before for the same thing: its own flow, whatever happened since.
    Replayed(Seen<Flow>),
    /// The target has an open or successful attempt already; the key stands for it from now on.
    Joined(Seen<Flow>),
}

/// Why a request was refused. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The key stands for something else.
    #[error(
        "this Idempotency-Key was used before with other parameters; flow {flow_id} keeps it; use a new key"
    )]
    KeyReused {
        /// The flow the key stands for.
        flow_id: FlowId,
    },
    /// The target has an open attempt for another amount, currency or deadline.
    #[error(
        "flow {flow_id} for the same target is open with another amount or currency; wait until it has ended"
    )]
    OpenAttemptDiffers {
        /// The open flow.
        flow_id: FlowId,
    },
    /// The target has an open or successful attempt of another application.
    #[error("the target is being paid, or was paid, through another application; nothing was recorded")]
    TargetOfOtherCaller,
    /// Nothing may be started any more.
    #[error("the deadline has passed; nothing was recorded")]
    DeadlinePassed,
    /// The deadline lies further ahead than the scene allows.
    #[error(
        "the deadline lies more than {horizon_ms} ms ahead, the most this scene allows; nothing was recorded"
    )]
    DeadlineTooFar {
        /// The scene's limit.
        horizon_ms: u64,
    },
    /// Others kept winning; nothing of ours was written.
    #[error("too many requests for one target at once; nothing was recorded for this one; try again")]
    Contended,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What to do with a request, given what is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// Return the key's own flow.
    Replay(&'a Flow),
    /// Bind the key to the target's latest attempt and return it.
    Join(&'a Flow),
    /// Create this attempt.
    Insert(AttemptNo),
    /// Refuse: the key stands for another request, which made this flow.
    KeyReused(FlowId),
    /// Refuse: this open attempt differs.
    OpenAttemptDiffers(FlowId),
    /// Refuse: another application's.
    TargetOfOtherCaller,
    /// Refuse: too late.
    DeadlinePassed,
    /// Refuse: too far ahead.
    DeadlineTooFar,
}

/// Decides on a request. A key's own flow comes first, whatever happened since; then the target's latest attempt;
/// only a target without one, or with one that definitely failed, gets a new attempt, and only before the deadline.
pub fn judge<'a>(request: &PaymentRequest, known: &'a Lookup, now: DateTime<Utc>) -> Verdict<'a> {
    if let Some(record) = &known.request {
        return if record.fingerprint == request.fingerprint {
            Verdict::Replay(&record.flow)
        } else {
            Verdict::KeyReused(record.flow.id)
        };
    }
    let attempt_no = match &known.latest {
        None => AttemptNo::FIRST,
        Some(latest) if latest.state.frees_target() => latest.attempt_no.next(),
        Some(latest) if latest.caller != request.caller => return Verdict::TargetOfOtherCaller,
        Some(latest) if latest.state.is_terminal() || latest.money == request.money => {
            return Verdict::Join(latest);
        }
        Some(latest) => return Verdict::OpenAttemptDiffers(latest.id),
    };
    let ahead_ms = (request.deadline - now).num_milliseconds();
    match u64::try_from(ahead_ms) {
        Err(_) | Ok(0) => Verdict::DeadlinePassed,
        Ok(ahead_ms) if ahead_ms > request.deadline_horizon_ms => Verdict::DeadlineTooFar,
        Ok(_) => Verdict::Insert(attempt_no),
    }
}

/// Most lookups of one request. A lost race is followed by a lookup that sees the winner, so that two are enough
/// unless attempts fail and are made anew as fast as we look.
const MAX_LOOKUPS: u32 = 8;
/// Most writes of one request whose outcome nobody knows. Each may have taken the store's whole patience: a server that
/// takes writes and answers none would otherwise keep a client for a multiple of it.
const MAX_UNKNOWN_WRITES: u32 = 2;

/// Takes a request.
///
/// # Errors
/// [`CreateError`]. Nothing was written, unless it is [`StoreError::OutcomeUnknown`]: that is resolved by looking again,
/// and only returned when the database could not be asked either, or answers no write.
pub async fn create(store: &dyn FlowStore, request: &PaymentRequest) -> Result<Taken, CreateError> {
    let mut doubt = Doubt::default();
    for _ in 0..MAX_LOOKUPS {
        let looked_up = store.look_up(&request.caller, &request.key, &request.target).await;
        let Seen { value: known, now } = looked_up.map_err(|error| doubt.colour(error))?;
        match decisions::judge(request, &known, now) {
            Verdict::Replay(flow) => return Ok(Taken::Replayed(Seen { value: flow.clone(), now })),
            Verdict::Join(_) | Verdict::Insert(_) if doubt.is_enough() => {
                return Err(StoreError::OutcomeUnknown.into());
            }
            Verdict::Join(latest) => match store.bind_key(request.binding(latest.id)).await {
                Ok(Bound::Bound) => return Ok(Taken::Joined(Seen { value: latest.clone(), now })),
                Ok(Bound::KeyTaken) => {}
                Err(StoreError::OutcomeUnknown) => doubt.raise(),
                Err(error) => return Err(doubt.colour(error).into()),
            },
            Verdict::Insert(attempt_no) => match store.create(request.new_flow(attempt_no)).await {
                Ok(Created::Inserted(flow)) => return Ok(Taken::Created(flow)),
                Ok(Created::KeyTaken | Created::TargetTaken) => {}
                Err(StoreError::OutcomeUnknown) => doubt.raise(),
                Err(error) => return Err(doubt.colour(error).into()),
            },
            Verdict::KeyReused(flow_id) => return Err(CreateError::KeyReused { flow_id }),
            Verdict::OpenAttemptDiffers(flow_id) => return Err(CreateError::OpenAttemptDiffers { flow_id }),
            Verdict::TargetOfOtherCaller => return Err(CreateError::TargetOfOtherCaller),
            // A write of ours may still be under way to the server.
            Verdict::DeadlinePassed if doubt.is_raised() => return Err(StoreError::OutcomeUnknown.into()),
            Verdict::DeadlinePassed => return Err(CreateError::DeadlinePassed),
            Verdict::DeadlineTooFar => {
                return Err(CreateError::DeadlineTooFar { horizon_ms: request.deadline_horizon_ms });
            }
        }
    }
    Err(if doubt.is_raised() { StoreError::OutcomeUnknown.into() } else { CreateError::Contended })
}

/// Whether an earlier write of the same call may have happened. From then on "nothing was written" is not ours to say:
/// a client that believes it may give the payment up while it is being made.
#[derive(Default)]
pub(crate) struct Doubt {
    unknown_writes: u32,
}

impl Doubt {
    /// A write's outcome is unknown.
    pub(crate) const fn raise(&mut self) {
        self.unknown_writes += 1;
    }

    const fn is_raised(&self) -> bool {
        self.unknown_writes > 0
    }

    /// Whether another write would be one too many.
    pub(crate) const fn is_enough(&self) -> bool {
        self.unknown_writes >= MAX_UNKNOWN_WRITES
    }

    /// The error as the caller must hear it.
    pub(crate) fn colour(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::Unavailable { .. } if self.is_raised() => StoreError::OutcomeUnknown,
            StoreError::Unavailable { .. }
            | StoreError::OutcomeUnknown
            | StoreError::Guarded { .. }
            | StoreError::Corrupt { .. }
            | StoreError::Unexpected(_) => error,
        }
    }
}

impl PaymentRequest {
    fn binding(&self, flow_id: FlowId) -> KeyBinding {
        KeyBinding {
            caller: self.caller.clone(),
            key: self.key.clone(),
            fingerprint: self.fingerprint,
            flow_id,
        }
    }

    fn new_flow(&self, attempt_no: AttemptNo) -> NewFlow {
        NewFlow {
            target: self.target.clone(),
            attempt_no,
            money: self.money.clone(),
            deadline: self.deadline,
            wallet: self.wallet.clone(),
            business: self.business.clone(),
            context: self.context.clone(),
            caller: self.caller.clone(),
            key: self.key.clone(),
            fingerprint: self.fingerprint,
            trace_id: self.trace_id.clone(),
            first_due_in_ms: self.first_due_in_ms,
        }
    }
}
