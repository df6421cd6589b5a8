//! One suite per port. A suite is a list of named cases, each an async function over a factory; a macro turns the list
//! into one `#[tokio::test]` per case:
//!
//! ```text
//! flow_testkit::store_conformance!(MyStoreFactory::new());
//! flow_testkit::wallet_conformance!(MyFarSideFactory::new());
//! ```
//!
//! The calling crate needs `tokio` with `macros` and `rt-multi-thread`. Cases know their port and nothing of what is
//! behind it.

#![allow(clippy::unwrap_used, reason = "a suite is test code, though a library to the crates that run it")]

pub mod business;
pub mod entry;
pub mod far_side;
pub mod inbox;
pub mod outbox;
pub mod recon;
pub mod store;
pub mod wake;
pub mod wallet;

/// Turns a list of cases into tests. Used by the suites' own macros.
#[macro_export]
macro_rules! conformance_cases {
    ($suite:ident; $factory:expr; $($case:ident),+ $(,)?) => {
        $crate::conformance_cases! { $suite; $factory, if true; $($case),+ }
    };
    // Where what is tested cannot be had on every machine: it says so itself then.
    ($suite:ident; $factory:expr, if $can_be_had:expr; $($case:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                if $can_be_had {
                    $crate::conformance::$suite::$case(&$factory).await;
                }
            }
        )+
    };
}
