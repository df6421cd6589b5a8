//! What the domain's errors mean to a client: one exhaustive match each.

use flow_core::create::CreateError;
use flow_core::ports::StoreError;
use flow_core::recon::TicketRefusal;

use super::{Code, Problem};

/// Seconds after which a client should come back when the database is away.
const DATABASE_RETRY_S: u32 = 2;
/// Seconds after which a client should come back when this process is full.
pub(crate) const BUSY_RETRY_S: u32 = 1;

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        match error {
            StoreError::Unavailable { .. } => Problem::new(
                Code::DatabaseUnavailable,
                "the database is away; nothing was recorded; repeat the same request",
            )
            .retry_after(DATABASE_RETRY_S),
            // No Retry-After: that header promises that nothing was recorded.
            StoreError::OutcomeUnknown => Problem::new(
                Code::OutcomeUnknown,
                "the database was lost while the request was being recorded; it may or may not have been; repeat it \
                 with the same Idempotency-Key: it will not be carried out twice",
            ),
            error @ (StoreError::Guarded { .. } | StoreError::Corrupt { .. } | StoreError::Unexpected(_)) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the store failed in a way that waiting does not mend"
                );
                Problem::new(
                    Code::Internal,
                    "the request could not be carried out, and repeating it will not help; tell us the request_id",
                )
            }
        }
    }
}

impl From<TicketRefusal> for Problem {
    fn from(refusal: TicketRefusal) -> Problem {
        let code = match &refusal {
            TicketRefusal::Closed { .. } => Code::TicketClosed,
            TicketRefusal::NothingProposed => Code::NothingProposed,
            TicketRefusal::SamePerson { .. } => Code::SecondPersonNeeded,
        };
        Problem::new(code, refusal.to_string())
    }
}

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Problem {
        let detail = error.to_string();
        match error {
            CreateError::KeyReused { flow_id } => {
                Problem::new(Code::IdempotencyKeyReused, detail).at("Idempotency-Key").about(flow_id)
            }
            CreateError::OpenAttemptDiffers { flow_id } => {
                Problem::new(Code::OpenAttemptDiffers, detail).about(flow_id)
            }
            CreateError::TargetOfOtherCaller => Problem::new(Code::TargetOfOtherCaller, detail),
            CreateError::DeadlinePassed => Problem::new(Code::DeadlinePassed, detail).at("deadline"),
            CreateError::DeadlineTooFar { .. } => Problem::new(Code::DeadlineTooFar, detail).at("deadline"),
            CreateError::Contended => Problem::new(Code::Contended, detail).retry_after(BUSY_RETRY_S),
            CreateError::Store(error) => error.into(),
        }
    }
}
