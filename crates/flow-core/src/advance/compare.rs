//! What reconciliation asks of a flow's downstream systems: to compare, never to decide. Writes nothing.

use super::Advancer;
use crate::answer::FactAnswer;
use crate::crash::Spot;
use crate::downstream::Turn;
use crate::ids::{DownstreamName, Target};

impl Advancer {
    /// Reads the business record of a target through the system's gate, waiting for a turn behind what is urgent.
    pub async fn fact_to_compare(&self, business: &DownstreamName, target: &Target) -> FactAnswer {
        let target = target.clone();
        let call = self
            .downstreams
            .call_business(business, Spot::ReconFact, "RECON_FACT", Turn::Patient, |business| async move {
                business.fact(&target).await
            })
            .await;
        match call {
            Ok((answered, _)) => answered.answer,
            Err(refused) => FactAnswer::None(refused),
        }
    }
}
