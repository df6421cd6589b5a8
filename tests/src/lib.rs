//! What the end-to-end suites in `tests/` share: a schema on a private server, the product's processes over it, a load of
//! stubborn clients, and raw sockets for rude ones.
//!
//! Everything is looked at from outside: HTTP, SQL, the simulator's own books. Run by `cargo xtask test`, which provides
//! the servers and builds the binaries.

mod database;
mod load;
mod polite;
mod site;
mod socket;
mod turn;

pub use database::Database;
pub use load::{Bought, Shop};
pub use polite::pay_politely;
pub use site::Site;
pub use socket::{Socket, raise_file_limit, request_head};
pub use turn::run;
pub use xtask::db::Flavor;

/// Makes a test of each suite on each server: `mysql::NAME` and `mariadb::NAME`. A suite is an
/// `async fn(Flavor) -> anyhow::Result<()>`; it fails when it takes longer than its limit, in seconds.
#[macro_export]
macro_rules! on_both_servers {
    ($($suite:ident within $limit_s:literal s;)+) => {
        mod mysql {
            $(#[test] fn $suite() { $crate::run($crate::Flavor::MySql, stringify!($suite), $limit_s, super::$suite); })+
        }
        mod mariadb {
            $(#[test] fn $suite() { $crate::run($crate::Flavor::MariaDb, stringify!($suite), $limit_s, super::$suite); })+
        }
    };
}
