//! What people may do to a flow: ask to cancel it, hold it, release it. None of it changes the state; each is a
//! compare-and-swap that the audit log keeps with the person's name.

use super::{AdvanceError, Advancer, Call, Seat};
use crate::cas::{CasWrite, Change, WriteEvidence};
use crate::create::Doubt;
use crate::flow::{Flow, HoldReason};
use crate::ids::{Actor, FlowId};
use crate::ports::{CasOutcome, StoreError};
use crate::state::State;

/// What became of the wish to cancel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cancelled {
    /// Recorded: no debit and no execution is started any more. The caller advances the flow.
    Recorded(Flow),
    /// Somebody had recorded it before.
    Already(Flow),
    /// The charge was confirmed, or the flow has ended: what was done is not undone by cancelling.
    TooLate(Flow),
}

/// What became of a hold or a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handled {
    /// Written.
    Done(Flow),
    /// It was so already.
    Already(Flow),
    /// The flow has ended: there is nothing to hold or to release.
    Ended(Flow),
}

/// Writes that lose against other entrances are tried again this often.
const MAX_TRIES: u32 = 8;

enum Wanted<T> {
    Write(Change),
    Answer(T),
}

impl Advancer {
    /// Records the wish to cancel, as long as nothing was executed.
    ///
    /// # Errors
    /// [`AdvanceError`]; after [`StoreError::OutcomeUnknown`] it is looked up again first.
    pub async fn request_cancel(
        &self,
        flow_id: FlowId,
        by: &Actor,
        call: &Call,
    ) -> Result<Cancelled, AdvanceError> {
        let decide = |flow: &Flow| match flow.state {
            State::WaitPay | State::Paying if flow.cancel.is_some() => {
                Wanted::Answer(Cancelled::Already(flow.clone()))
            }
            State::WaitPay | State::Paying => Wanted::Write(Change::RequestCancel { by: by.clone() }),
            State::PayFail if flow.cancel.is_some() => Wanted::Answer(Cancelled::Already(flow.clone())),
            State::PayFail | State::Payed | State::BizSuccess | State::Refunding | State::Refunded => {
                Wanted::Answer(Cancelled::TooLate(flow.clone()))
            }
        };
        self.by_hand(flow_id, by, call, decide, Cancelled::Recorded).await
    }

    /// Freezes a flow in its state until it is released.
    ///
    /// # Errors
    /// [`AdvanceError`].
    pub async fn hold(&self, flow_id: FlowId, by: &Actor, call: &Call) -> Result<Handled, AdvanceError> {
        let decide = |flow: &Flow| match (flow.state.is_terminal(), flow.hold.is_some()) {
            (true, true | false) => Wanted::Answer(Handled::Ended(flow.clone())),
            (false, true) => Wanted::Answer(Handled::Already(flow.clone())),
            (false, false) => Wanted::Write(Change::Hold { reason: HoldReason::Operator, by: by.clone() }),
        };
        self.by_hand(flow_id, by, call, decide, Handled::Done).await
    }

    /// Lifts a freeze; the flow is due at once.
    ///
    /// # Errors
    /// [`AdvanceError`].
    pub async fn release(&self, flow_id: FlowId, by: &Actor, call: &Call) -> Result<Handled, AdvanceError> {
        let decide = |flow: &Flow| match (flow.state.is_terminal(), flow.hold.is_some()) {
            (true, true | false) => Wanted::Answer(Handled::Ended(flow.clone())),
            (false, false) => Wanted::Answer(Handled::Already(flow.clone())),
            (false, true) => Wanted::Write(Change::Release),
        };
        self.by_hand(flow_id, by, call, decide, Handled::Done).await
    }

    async fn by_hand<T>(
        &self,
        flow_id: FlowId,
        by: &Actor,
        call: &Call,
        decide: impl Fn(&Flow) -> Wanted<T>,
        written: impl Fn(Flow) -> T,
    ) -> Result<T, AdvanceError> {
        let mut doubt = Doubt::default();
        for _ in 0..MAX_TRIES {
            let seat = self.load(flow_id).await.map_err(|error| match error {
                AdvanceError::Store(error) => AdvanceError::Store(doubt.colour(error)),
                AdvanceError::NotFound { .. } => error,
            })?;
            let change = match decide(&seat.flow) {
                Wanted::Answer(answer) => return Ok(answer),
                Wanted::Write(_) if doubt.is_enough() => return Err(StoreError::OutcomeUnknown.into()),
                Wanted::Write(change) => change,
            };
            let write = write_of(&seat, change, by, call);
            let next = write.apply(&seat.flow, seat.now(&*self.clock));
            match self.store.cas(write).await {
                Ok(CasOutcome::Applied) => {
                    tracing::info!(
                        flow_id = %next.id, state = %next.state, version = next.version.0, actor = %by,
                        held = next.hold.is_some(), cancelled = next.cancel.is_some(), "flow changed by hand",
                    );
                    return Ok(written(next));
                }
                Ok(CasOutcome::Lost) => {}
                Err(StoreError::OutcomeUnknown) => doubt.raise(),
                Err(error) => return Err(doubt.colour(error).into()),
            }
        }
        Err(doubt.colour(StoreError::Unavailable { reason: "the row kept changing" }).into())
    }
}

fn write_of(seat: &Seat, change: Change, by: &Actor, call: &Call) -> CasWrite {
    let evidence = WriteEvidence {
        trace_id: call.trace_id.clone(),
        actor: Some(by.clone()),
        ..WriteEvidence::of(call.trigger)
    };
    CasWrite { flow_id: seat.flow.id, from: seat.flow.state, version: seat.flow.version, change, evidence }
}
