//! Which addresses may be called. A receiver's URL is somebody's wish; it must not become a way into our own network.
//!
//! The address that is connected to counts, not the name: names are resolved here, and what they resolve to is what the
//! connection is made to. A URL with an address in it never reaches a resolver, so it is looked at before the call.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// What may be called beside public addresses.
#[derive(Debug, Clone, Default)]
pub struct TargetPolicy {
    /// Everything.
    pub allow_private: bool,
    /// These networks.
    pub allowed: Vec<IpNet>,
}

impl TargetPolicy {
    /// Whether a connection to this address may be made.
    pub fn permits(&self, address: IpAddr) -> bool {
        let plain = address.to_canonical();
        self.allow_private || is_public(plain) || self.allowed.iter().any(|network| network.contains(&plain))
    }

    /// Whether a URL may be tried: its name is looked up later, an address in it is judged at once.
    pub(super) fn permits_url(&self, url: &Url) -> bool {
        match url.host() {
            Some(Host::Ipv4(address)) => self.permits(address.into()),
            Some(Host::Ipv6(address)) => self.permits(address.into()),
            Some(Host::Domain(_)) => true,
            None => false,
        }
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Networks that the public internet does not route, of IANA's registry of special purposes.
const SPECIAL_V4: [(Ipv4Addr, u8); 15] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Link-local, and the metadata services of clouds.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // Multicast; reserved, and broadcast.
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    !SPECIAL_V4.iter().any(|(network, prefix)| bits >> (32 - prefix) == network.to_bits() >> (32 - prefix))
}

/// Global unicast is 2000::/3 alone; of it, what is special or wraps an address of version 4 that is judged as such. The
/// well-known translation prefix lies outside of it, and wraps one, too.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let wrapped =
        |high: u16, low: u16| is_public_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match (a, b) {
        (0x64, 0xff9b) => (c, d, e, f) == (0, 0, 0, 0) && wrapped(g, h),
        // Teredo, benchmarking, ORCHID and other protocol assignments.
        (0x2001, 0..=0x1ff) => false,
        // Documentation.
        (0x2001, 0x0db8) | (0x3fff, 0..=0x0fff) => false,
        // 6to4.
        (0x2002, _) => wrapped(b, c),
        (0x2000..=0x3fff, _) => true,
        (_, _) => false,
    }
}

/// A name has addresses, and none of them may be called. Carries none of them: logs are read by many.
#[derive(Debug)]
pub(super) struct Forbidden;

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name resolves to addresses of private networks alone, which may not be called")
    }
}

impl std::error::Error for Forbidden {}

/// Resolves by the operating system, and leaves out what may not be called.
#[derive(Debug, Clone)]
pub(super) struct GuardedResolver(pub(super) Arc<TargetPolicy>);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = Arc::clone(&self.0);
        Box::pin(async move {
            // The port is put in by the client.
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let permitted = permitted(&policy, found)?;
            Ok(Box::new(permitted.into_iter()) as Addrs)
        })
    }
}

fn permitted(
    policy: &TargetPolicy,
    found: impl Iterator<Item = SocketAddr>,
) -> Result<Vec<SocketAddr>, Forbidden> {
    let permitted: Vec<SocketAddr> = found.filter(|address| policy.permits(address.ip())).collect();
    if permitted.is_empty() { Err(Forbidden) } else { Ok(permitted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORBIDDEN: &[&str] = &[
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.8.8.8",
        "169.254.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.168.0.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.9",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::1",
        "2002:a00:1::",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "ff02::1",
    ];

    const PERMITTED: &[&str] = &[
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.1",
        "100.63.255.255",
        "100.128.0.0",
        "128.0.0.1",
        "169.253.1.1",
        "172.15.255.255",
        "172.32.0.1",
        "192.0.1.1",
        "192.167.1.1",
        "198.17.1.1",
        "198.20.0.1",
        "223.255.255.255",
        "::ffff:1.1.1.1",
        "64:ff9b::101:101",
        "2002:101:101::1",
        "2606:4700::1111",
        "2a00:1450::1",
        "2001:4860::8888",
    ];

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap_or_else(|_| panic!("{text} is no address"))
    }

    #[test]
    fn only_public_addresses_are_permitted() {
        let policy = TargetPolicy::default();
        for text in FORBIDDEN {
            assert!(!policy.permits(ip(text)), "{text} is permitted");
        }
        for text in PERMITTED {
            assert!(policy.permits(ip(text)), "{text} is forbidden");
        }
        let open = TargetPolicy { allow_private: true, allowed: vec![] };
        assert!(FORBIDDEN.iter().all(|text| open.permits(ip(text))));
    }

    #[test]
    fn a_network_can_be_allowed_and_opens_no_other() {
        let allowed = ["10.1.0.0/16", "fd12::/32"].map(|network| network.parse().expect("a network")).into();
        let policy = TargetPolicy { allow_private: false, allowed };
        for text in ["10.1.2.3", "::ffff:10.1.2.3", "fd12::9"] {
            assert!(policy.permits(ip(text)), "{text}");
        }
        for text in ["10.2.0.1", "127.0.0.1", "fd13::9", "::1"] {
            assert!(!policy.permits(ip(text)), "{text}");
        }
    }

    #[test]
    fn an_address_in_a_url_is_judged_in_every_spelling() {
        let policy = TargetPolicy::default();
        let permits = |url: &str| policy.permits_url(&Url::parse(url).expect("a URL"));
        for url in [
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://127.1/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://169.254.169.254/latest",
            "http://[fd00::1]:81/",
        ] {
            assert!(!permits(url), "{url}");
        }
        assert!(permits("https://1.1.1.1/hook") && permits("https://shop.example/hook"));
    }

    #[test]
    fn a_name_is_called_at_its_permitted_addresses_alone() {
        let policy = TargetPolicy::default();
        let found = ["127.0.0.1:0", "1.1.1.1:0", "[::1]:0"].map(|text| text.parse().expect("an address"));
        assert_eq!(permitted(&policy, found.into_iter()).expect("one is left"), [found[1]]);
        assert!(permitted(&policy, [found[0], found[2]].into_iter()).is_err());
    }
}
