//! Private MySQL and MariaDB servers: found or fetched without touching the machine's own, started on a free port of
//! 127.0.0.1 over their own data directory, and gone when their owner is gone.
//!
//! ```no_run
//! # async fn example() -> Result<(), xtask::db::ServerError> {
//! use xtask::db::{Flavor, Server, ServerOptions};
//! let mut server = Server::start(ServerOptions::new(Flavor::MySql)).await?;
//! let url = server.create_schema("shop").await?;
//! server.kill().await?; // SIGKILL, as a crash would
//! server.restart().await?; // same port, same data
//! # drop(url);
//! # Ok(())
//! # }
//! ```
//!
//! Nothing here knows the product's tables.

mod apt;
mod apt_sources;
mod cache;
mod command;
mod container;
mod error;
mod guard;
mod installed;
pub(crate) mod packages;
mod ports;
mod process;
mod provide;
mod run_dir;
mod schemas;
mod server;
mod settings;
mod template;

use std::fmt;

pub use error::{Attempt, ProvideError, ServerError, SourceError};
pub use installed::{Installed, Origin};
pub use provide::{Provided, provide, provide_reference};
pub use server::Server;
pub use settings::ServerOptions;

/// Which of the two supported servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Flavor {
    /// MySQL, the reference.
    #[value(name = "mysql")]
    MySql,
    /// MariaDB.
    #[value(name = "mariadb")]
    MariaDb,
}

impl Flavor {
    /// Both, the reference first.
    pub const ALL: [Self; 2] = [Self::MySql, Self::MariaDb];

    /// The name used in folders, arguments and messages: `mysql` or `mariadb`.
    pub fn slug(self) -> &'static str {
        match self {
            Self::MySql => "mysql",
            Self::MariaDb => "mariadb",
        }
    }

    /// The server program's file name.
    fn daemon(self) -> &'static str {
        match self {
            Self::MySql => "mysqld",
            Self::MariaDb => "mariadbd",
        }
    }

    /// The environment variable that names a server binary to use instead of looking for one.
    pub fn override_variable(self) -> &'static str {
        match self {
            Self::MySql => "PAY_MYSQLD",
            Self::MariaDb => "PAY_MARIADBD",
        }
    }

    /// The environment variable through which `cargo xtask test` hands the server's root URL to the suites.
    pub fn test_url_variable(self) -> &'static str {
        match self {
            Self::MySql => "PAY_TEST_MYSQL_URL",
            Self::MariaDb => "PAY_TEST_MARIADB_URL",
        }
    }

    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::MySql => Self::MariaDb,
            Self::MariaDb => Self::MySql,
        }
    }
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MySql => "MySQL",
            Self::MariaDb => "MariaDB",
        })
    }
}
