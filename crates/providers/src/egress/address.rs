//! Decides which IP addresses may be connected to: public ones and those that the operator allows.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// IPv4 networks that are not public: network and prefix length.
const NOT_PUBLIC_V4: &[(Ipv4Addr, u32)] = &[
    // "This network".
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    // Carrier-grade NAT; Alibaba's metadata service is at 100.100.100.200.
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Azure's agent on each machine, at an address in a public range.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
    // Link-local; most clouds' metadata services are at 169.254.169.254.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    // Protocol assignments; Oracle's metadata service is at 192.0.0.192.
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    // Relays of 6to4.
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    // Benchmarking of network devices.
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // Multicast, then reserved addresses and broadcast.
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// Public IPv6 range. It excludes loopback, link-local, unique local (Amazon's metadata service at
/// `fd00:ec2::254`), multicast, NAT64 and IPv4-compatible addresses.
const PUBLIC_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Networks within [`PUBLIC_V6`] that are not public.
const NOT_PUBLIC_V6: &[(Ipv6Addr, u32)] = &[
    // Protocol assignments, with Teredo at 2001::/32.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Converts an IPv4-mapped IPv6 address to IPv4.
pub(super) fn unwrapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// Whether the address is public, by its IP range.
pub(super) fn is_public(address: IpAddr) -> bool {
    match unwrapped(address) {
        IpAddr::V4(four) => !NOT_PUBLIC_V4.iter().any(|network| in_v4(*network, four)),
        IpAddr::V6(six) => match six.segments() {
            // A 6to4 address contains the IPv4 address of its site's router.
            [0x2002, high, low, ..] => {
                let [a, b] = high.to_be_bytes();
                let [c, d] = low.to_be_bytes();
                is_public(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
            }
            _ => in_v6(PUBLIC_V6, six) && !NOT_PUBLIC_V6.iter().any(|network| in_v6(*network, six)),
        },
    }
}

fn in_v4((network, length): (Ipv4Addr, u32), address: Ipv4Addr) -> bool {
    let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
    (network.to_bits() ^ address.to_bits()) & mask == 0
}

fn in_v6((network, length): (Ipv6Addr, u32), address: Ipv6Addr) -> bool {
    let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
    (network.to_bits() ^ address.to_bits()) & mask == 0
}

/// A non-public network or port that callers' URLs may reach, such as the host of a media store.
/// The operator writes it as `10.1.2.0/24` (ports 80 and 443), `10.1.2.3:9000` or
/// `[fd00::]/8:9000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    network: IpAddr,
    length: u32,
    port: Option<u16>,
}

/// Error of a malformed rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowedError;

impl fmt::Display for AllowedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "write an IP address or a network, and optionally a port (default 80 and 443), such as \
             10.1.2.0/24, 10.1.2.3:9000 or [fd00::]/8:9000",
        )
    }
}

impl std::error::Error for AllowedError {}

impl Allowed {
    /// Parses a rule: an IP address or network, optionally with a port.
    pub fn parse(text: &str) -> Result<Self, AllowedError> {
        let (host, rest) = match text.strip_prefix('[') {
            Some(inner) => inner.split_once(']').ok_or(AllowedError)?,
            None => text.split_at(text.find(['/', ':']).unwrap_or(text.len())),
        };
        let network: IpAddr = host.parse().map_err(|_| AllowedError)?;
        let (length, port) = match rest.split_once(':') {
            Some((length, port)) => (length, Some(port.parse().map_err(|_| AllowedError)?)),
            None => (rest, None),
        };
        let bits = if network.is_ipv4() { 32 } else { 128 };
        let length = match length.strip_prefix('/') {
            Some(length) => length.parse().map_err(|_| AllowedError)?,
            None if length.is_empty() => bits,
            None => return Err(AllowedError),
        };
        if length > bits || port == Some(0) {
            return Err(AllowedError);
        }
        Ok(Self {
            network: unwrapped(network),
            length,
            port,
        })
    }

    /// Whether the rule allows this address and port.
    pub fn covers(&self, address: SocketAddr) -> bool {
        let is_port = self
            .port
            .map_or(is_web_port(address.port()), |port| port == address.port());
        is_port
            && match (self.network, unwrapped(address.ip())) {
                (IpAddr::V4(network), IpAddr::V4(address)) => in_v4((network, self.length), address),
                (IpAddr::V6(network), IpAddr::V6(address)) => in_v6((network, self.length), address),
                _ => false,
            }
    }

    /// Whether the rule contains exactly this port. False for a rule without a port.
    pub(super) fn has_port(&self, port: u16) -> bool {
        self.port == Some(port)
    }
}

/// Whether callers' URLs may have this port without a rule.
pub(super) const fn is_web_port(port: u16) -> bool {
    matches!(port, 80 | 443)
}
