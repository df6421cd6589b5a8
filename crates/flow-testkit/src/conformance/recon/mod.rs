//! The suite of what reconciliation keeps. Every case starts from nothing kept and no flow.

mod batches;
mod carries;
mod flows;
mod lists;
mod tickets;

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::NaiveDate;
use flow_core::ids::ChannelName;
use flow_core::ports::{FlowStore, ReconStore};

pub use batches::*;
pub use carries::*;
pub use flows::*;
pub use lists::*;
pub use tickets::*;

/// Makes stores to test.
#[async_trait]
pub trait ReconFactory: Send + Sync {
    /// Nothing kept, no flow.
    async fn fresh(&self) -> ReconBench;
}

/// A store under test.
pub struct ReconBench {
    /// The store.
    pub store: Arc<dyn ReconStore>,
    /// The same data, as another process sees it.
    pub second: Arc<dyn ReconStore>,
    /// The flows.
    pub flows: Arc<dyn FlowStore>,
    /// Whatever must outlive the case, such as the guard that drops a schema.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// The suite, one test per case.
#[macro_export]
macro_rules! recon_conformance {
    ($factory:expr) => {
        $crate::conformance_cases! { recon; $factory;
            a_day_has_one_batch_however_often_it_is_run,
            a_claimed_part_is_nobody_elses_and_one_that_ran_out_is,
            of_32_claims_one_is_granted_the_batch,
            a_batch_is_done_when_all_its_parts_are,
            a_failed_part_makes_a_failed_batch_and_can_be_run_again,
            a_batch_is_not_split_otherwise_while_somebody_works_on_it,
            parts_that_saw_different_bills_are_no_batch,
            batches_are_listed_newest_day_first,
            flows_of_a_day_are_found_by_charge_and_by_end,
            ended_flows_come_in_pages_and_none_twice,
            flows_are_found_by_number_and_by_target,
            an_order_has_one_ticket,
            a_ticket_comes_back_as_it_went_in,
            only_the_right_version_writes_a_ticket,
            every_write_leaves_a_line_of_the_trail,
            what_moves_money_is_not_ended_by_one_person,
            tickets_are_found_by_every_filter_in_pages,
            current_tickets_are_listed_by_number,
            open_tickets_add_up,
            an_entry_waits_until_it_is_taken_out,
            waiting_entries_come_in_pages,
        }
    };
}

/// A claim that outlives its case, in milliseconds.
const AN_HOUR_MS: u64 = 3_600_000;

fn channel(name: &str) -> ChannelName {
    ChannelName::new(name).unwrap()
}

fn date(number: u32) -> NaiveDate {
    NaiveDate::from_ymd_opt(2026, 3, number).unwrap()
}
