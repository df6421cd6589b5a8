//! The flow store's suite. Every case starts from an empty store of its own.

mod cas;
mod create;
mod find;
mod race;
mod scan;
mod steps;

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use flow_core::ports::FlowStore;

pub use cas::*;
pub use create::*;
pub use find::*;
pub use race::*;
pub use scan::*;

/// Makes stores to test.
#[async_trait]
pub trait StoreFactory: Send + Sync {
    /// An empty store.
    async fn fresh(&self) -> StoreBench;
}

/// An empty store under test.
pub struct StoreBench {
    /// The store.
    pub store: Arc<dyn FlowStore>,
    /// The same data, as another process sees it.
    pub second: Arc<dyn FlowStore>,
    /// Whatever must outlive the case, such as the guard that drops a schema.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// The store's suite, one test per case.
#[macro_export]
macro_rules! store_conformance {
    ($factory:expr) => {
        $crate::conformance_cases! { store; $factory;
            create_gives_the_row_its_numbers,
            create_refuses_a_used_key_and_writes_nothing,
            a_key_belongs_to_its_caller,
            only_a_failed_attempt_frees_its_target,
            an_attempt_number_is_used_once,
            identities_differ_by_case,
            extreme_values_come_back_as_they_went_in,
            look_up_knows_the_key_and_the_latest_attempt,
            a_bound_key_stands_for_its_flow,
            a_key_is_bound_once,
            every_edge_is_written_as_apply_says,
            writes_that_stay_are_written_as_apply_says,
            a_write_keeps_the_last_downstream_reference,
            a_write_with_another_version_or_state_is_lost,
            illegal_moves_are_refused_and_leave_nothing,
            terminal_rows_are_never_written,
            cancelling_is_refused_once_charged,
            every_version_has_its_event_with_the_evidence,
            events_are_paged_by_version,
            due_rows_come_in_pages_by_id,
            partitions_share_the_rows_without_overlap,
            only_due_rows_are_listed,
            terminal_and_held_rows_are_not_listed,
            due_rows_say_whom_their_next_call_is_for,
            a_lease_excludes_everybody_else,
            a_released_lease_can_be_taken,
            a_dropped_lease_can_be_taken,
            leases_on_other_partitions_are_free,
            open_rows_are_summarised_by_state,
            load_of_nothing_is_nothing,
            the_clock_never_goes_back,
            find_obeys_every_filter,
            find_pages_newest_first,
            of_64_equal_creates_one_wins,
            of_64_creates_for_one_target_one_wins,
            of_64_writes_of_one_version_one_is_applied,
            a_bad_write_among_many_fails_alone,
            a_bad_create_among_many_fails_alone,
            a_write_outlives_its_caller,
        }
    };
}
