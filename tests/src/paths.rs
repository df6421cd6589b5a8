//! The product with a fault proxy on each of its three ways out: to its database, to the wallet, to the business system.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context as _;
use xtask::stack::Tuning;

use crate::database::Database;
use crate::fault_proxy::{FaultProxy, Protocol};
use crate::site::Site;

/// The three ways out. Dropped, they are closed: keep them for as long as the site.
#[derive(Debug)]
pub struct Paths {
    /// To the database.
    pub database: FaultProxy,
    /// To the wallet.
    pub wallet: FaultProxy,
    /// To the business system.
    pub business: FaultProxy,
}

impl Paths {
    /// Starts simulator and proxies, then so many APIs and scanners that know the proxies alone, with further settings
    /// as `PAY__SECTION__KEY`. Suites and audit go past the proxies.
    ///
    /// # Errors
    /// A process that does not get ready.
    pub async fn open(
        database: Database,
        tuning: Tuning,
        (apis, scanners): (usize, usize),
        settings: &[(&str, &str)],
    ) -> anyhow::Result<(Site, Paths)> {
        let server = database.address()?;
        let mut site = Site::open(database, tuning, 0, 0).await?;
        let sim = address_of(site.sim().url())?;
        let paths = Paths {
            database: FaultProxy::start(server, Protocol::MySql).await?,
            wallet: FaultProxy::start(sim, Protocol::Bytes).await?,
            business: FaultProxy::start(sim, Protocol::Bytes).await?,
        };
        let url = site.database.app_url_at(paths.database.address())?;
        let wallet = format!("http://{}", paths.wallet.address());
        let business = format!("http://{}", paths.business.address());
        let mut env = vec![
            ("PAY__DATABASE__URL", url.as_str()),
            ("PAY__WALLETS__MAIN__BASE_URL", wallet.as_str()),
            ("PAY__BUSINESSES__MAIN__BASE_URL", business.as_str()),
        ];
        env.extend_from_slice(settings);
        site.stack.set_env(&env);
        for _ in 0..apis {
            site.stack.start_api().await?;
        }
        for _ in 0..scanners {
            site.stack.start_scanner().await?;
        }
        Ok((site, paths))
    }
}

/// The address in `http://ADDRESS`.
fn address_of(url: &str) -> anyhow::Result<SocketAddr> {
    let text = url.strip_prefix("http://").context("no http:// address")?;
    text.parse().with_context(|| format!("no address: {text}"))
}

/// An address of this machine.
pub fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
