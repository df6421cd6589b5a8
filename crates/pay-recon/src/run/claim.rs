//! The claim on a part of a batch, kept alive until it is ended.

use std::sync::Arc;
use std::time::Duration;

use flow_core::ids::BatchId;
use flow_core::ports::{BatchClaim, CasOutcome, PartEnd, ReconStore, StoreError};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::RunError;

/// How often a claim is kept within its time.
const KEEPS_PER_CLAIM: u64 = 3;
/// How often the end of a part is tried to be written.
const MAX_TRIES: u32 = 5;

/// A claim that is kept. Dropped, it is let run out.
pub(super) struct Claim {
    claim: BatchClaim,
    lost: CancellationToken,
    _keeping: DropGuard,
}

impl Claim {
    pub(super) fn keep(store: Arc<dyn ReconStore>, claim: BatchClaim, claim_ms: u64) -> Claim {
        let (lost, done) = (CancellationToken::new(), CancellationToken::new());
        let (mine, loses, ends) = (claim.clone(), lost.clone(), done.clone());
        tokio::spawn(async move {
            let pause = Duration::from_millis((claim_ms / KEEPS_PER_CLAIM).max(1));
            while ends.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
                match store.keep_part(&mine, claim_ms).await {
                    Ok(CasOutcome::Applied) => {}
                    Ok(CasOutcome::Lost) => {
                        tracing::warn!(batch = %mine.batch, partition = %mine.partition, "the claim on a batch was lost");
                        loses.cancel();
                        return;
                    }
                    Err(error) => {
                        tracing::warn!(%error, batch = %mine.batch, "the claim on a batch was not kept")
                    }
                }
            }
        });
        Claim { claim, lost, _keeping: done.drop_guard() }
    }

    /// Fires when somebody else has the part.
    pub(super) fn lost(&self) -> CancellationToken {
        self.lost.clone()
    }

    /// Writes what the part came to.
    pub(super) async fn end(self, store: &dyn ReconStore, end: &PartEnd) -> Result<BatchId, RunError> {
        let mut tries = 1;
        let mut may_be_written = false;
        loop {
            match store.end_part(&self.claim, end).await {
                Ok(CasOutcome::Applied) => return Ok(self.claim.batch),
                // An earlier try may have been the one.
                Ok(CasOutcome::Lost) if may_be_written => return Ok(self.claim.batch),
                Ok(CasOutcome::Lost) => return Err(RunError::ClaimLost),
                Err(error) if error.retryable() && tries < MAX_TRIES => {
                    may_be_written |= matches!(error, StoreError::OutcomeUnknown);
                    tries += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
