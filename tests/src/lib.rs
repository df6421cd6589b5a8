//! What the end-to-end suites in `tests/` share: a schema on a private server, the product's processes over it, a load of
//! stubborn clients, raw sockets for rude ones, and a network that goes wrong on command.
//!
//! Everything is looked at from outside: HTTP, SQL, the simulator's own books. Run by `cargo xtask test`, which provides
//! the servers and builds the binaries.

mod broker;
mod crowd;
mod database;
pub mod fault_proxy;
mod load;
mod paths;
mod polite;
mod site;
mod socket;
mod turn;

pub use broker::{Broker, Metrics, metric_becomes, services};
pub use crowd::{Accounts, Crowd, Manners, Tally};
pub use database::Database;
pub use load::{Bought, Shop};
pub use paths::{Paths, local};
pub use polite::pay_politely;
pub use site::Site;
pub use socket::{Socket, raise_file_limit, request_head};
pub use turn::run;
pub use xtask::db::Flavor;
pub use xtask::programs::is_missing;
pub use xtask::stack::{Heard, Manner, Receiver};

/// Makes a test of each suite on each server: `mysql::NAME` and `mariadb::NAME`. A suite is an
/// `async fn(Flavor) -> anyhow::Result<()>`; it fails when it takes longer than its limit, in seconds. Attributes such as
/// `#[ignore]` go to both tests.
#[macro_export]
macro_rules! on_both_servers {
    ($($(#[$attribute:meta])* $suite:ident within $limit_s:literal s;)+) => {
        mod mysql {
            $($(#[$attribute])* #[test] fn $suite() { $crate::run($crate::Flavor::MySql, stringify!($suite), $limit_s, super::$suite); })+
        }
        mod mariadb {
            $($(#[$attribute])* #[test] fn $suite() { $crate::run($crate::Flavor::MariaDb, stringify!($suite), $limit_s, super::$suite); })+
        }
    };
}

/// The same on MySQL alone, as `mysql_only::NAME`: for what only it has, or what takes long and is no different on the
/// other server.
#[macro_export]
macro_rules! on_mysql {
    ($($(#[$attribute:meta])* $suite:ident within $limit_s:literal s;)+) => {
        mod mysql_only {
            $($(#[$attribute])* #[test] fn $suite() { $crate::run($crate::Flavor::MySql, stringify!($suite), $limit_s, super::$suite); })+
        }
    };
}
