//! The addresses of a link's ends, chosen to avoid the machine's routes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Neighbours;
use crate::netlink::{Link, Mac, Route};

/// The addresses of one link. Side 0 is the left or program's side, and side 1 is the right or
/// machine's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    slot: u16,
}

impl Range {
    /// The first range with a free interface name and free addresses.
    pub(super) fn choose(links: &[Link], routes: &[Route]) -> Option<Range> {
        Self::free(routes).find(|range| !links.iter().any(|link| link.name == range.interface()))
    }

    /// The ranges for an ordinary user's link, and for the connection of its router to pasta. Both
    /// exist only in Weir's namespaces. If this process is itself behind a link, neither is the
    /// range of that outer link, so that the outer link's other end stays reachable.
    pub(super) fn choose_two(routes: &[Route]) -> [Range; 2] {
        let mut free = Self::free(routes);
        match (free.next(), free.next()) {
            (Some(link), Some(uplink)) => [link, uplink],
            // The machine has routes to all ranges, so the link hides some of their destinations.
            _ => [Range { slot: 0 }, Range { slot: 1 }],
        }
    }

    fn free(routes: &[Route]) -> impl Iterator<Item = Range> {
        (0..SLOTS)
            .map(|slot| Range { slot })
            .filter(|range| !routes.iter().any(|route| range.collides(route)))
    }

    /// The range of a link between two namespaces of Weir that lead nowhere else, so that the range
    /// cannot collide with a route.
    pub(super) fn private() -> Range {
        Range { slot: 0 }
    }

    /// Name of the interface on the machine's side.
    pub(super) fn interface(self) -> String {
        format!("weir{}", self.slot)
    }

    /// Address of side 0 or 1 and the length of its prefix.
    pub(super) fn ipv4(self, side: usize) -> (Ipv4Addr, u8) {
        let host = if side == 0 { 2 } else { 1 };
        (Ipv4Addr::from_bits(IPV4.to_bits() + u32::from(self.slot) * IPV4_STEP + host), 30)
    }

    /// Address of side 0 or 1 and the length of its prefix.
    pub(super) fn ipv6(self, side: usize) -> (Ipv6Addr, u8) {
        let host = if side == 0 { 2 } else { 1 };
        (Ipv6Addr::from_bits(IPV6.to_bits() + (u128::from(self.slot) << 64) + host), 64)
    }

    /// The addresses of a side, as [`super::place::Attachment`] takes them: IPv4, and IPv6 if
    /// wanted.
    pub(super) fn addresses(self, side: usize, ipv6: bool) -> Vec<(IpAddr, u8)> {
        let (v4, v4_prefix) = self.ipv4(side);
        let (v6, v6_prefix) = self.ipv6(side);
        let mut addresses = vec![(v4.into(), v4_prefix)];
        if ipv6 {
            addresses.push((v6.into(), v6_prefix));
        }
        addresses
    }

    /// The entries for the other side's addresses, as [`super::place::Attachment`] takes them; none
    /// if the ends resolve addresses over the link.
    pub(super) fn neighbours(self, side: usize, ipv6: bool, how: Neighbours) -> Vec<(IpAddr, Mac)> {
        let entries = self.addresses(1 - side, ipv6).into_iter();
        match how {
            Neighbours::Static => entries.map(|(address, _)| (address, mac(1 - side))).collect(),
            Neighbours::Emulated => Vec::new(),
        }
    }

    fn collides(self, route: &Route) -> bool {
        match route.to {
            // A default route reserves no address.
            None => false,
            Some(IpAddr::V4(to)) => {
                let shortest = route.prefix.min(30);
                shortest > 0
                    && same_prefix(
                        to.to_bits().into(),
                        self.ipv4(0).0.to_bits().into(),
                        shortest,
                        32,
                    )
            }
            Some(IpAddr::V6(to)) => {
                let shortest = route.prefix.min(64);
                shortest > 0 && same_prefix(to.to_bits(), self.ipv6(0).0.to_bits(), shortest, 128)
            }
        }
    }
}

fn same_prefix(a: u128, b: u128, prefix: u8, width: u32) -> bool {
    (a ^ b) >> (width - u32::from(prefix)) == 0
}

/// A locally administered Ethernet address for side 0 or 1 of a link. It is the same in every run,
/// so that captures can be compared.
pub(super) fn mac(side: usize) -> Mac {
    [0x02, b'w', b'e', b'i', b'r', if side == 0 { 2 } else { 1 }]
}

/// A locally administered Ethernet address for host `number` of a network of several hosts.
pub(super) fn host_mac(number: u16) -> Mac {
    let [high, low] = number.to_be_bytes();
    [0x02, b'w', b'e', b'i', high, low]
}

/// A range reserved for benchmarking network devices (RFC 2544), so no real network uses it.
const IPV4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
/// The number of addresses of one link, which has a /30.
const IPV4_STEP: u32 = 4;
/// Unique local addresses (RFC 4193) with a global identifier drawn once for this project.
const IPV6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0x6569, 0x7248, 0, 0, 0, 0, 0);
/// Maximum number of links on one machine at a time.
const SLOTS: u16 = 4096;
/// The ranges that [`Range::choose`] tries, for messages.
pub(super) const RANGES: &str = "198.18.0.0/18 and fd77:6569:7248::/52";

#[cfg(test)]
mod tests {
    use super::*;

    fn to(text: &str, prefix: u8) -> Route {
        Route {
            to: Some(text.parse().unwrap()),
            prefix,
            ipv6: text.contains(':'),
            interface: None,
            unicast: true,
        }
    }

    #[test]
    fn the_first_range_is_chosen_when_it_is_free() {
        let default = Route { to: None, ..to("0.0.0.0", 0) };
        let range = Range::choose(&[], &[default, to("10.0.0.0", 8)]).unwrap();
        assert_eq!(range.ipv4(0), ("198.18.0.2".parse().unwrap(), 30));
        assert_eq!(range.ipv6(1), ("fd77:6569:7248::1".parse().unwrap(), 64));
    }

    #[test]
    fn an_ordinary_users_ranges_differ_from_those_of_an_outer_link() {
        let slots = |routes: &[Route]| Range::choose_two(routes).map(|range| range.slot);
        assert_eq!(slots(&[]), [0, 1]);
        assert_eq!(slots(&[to("198.18.0.0", 30)]), [1, 2]);
        assert_eq!(slots(&[to("198.18.0.4", 30)]), [0, 2]);
        assert_eq!(slots(&[to("198.18.0.0", 15)]), [0, 1]);
    }

    #[test]
    fn routed_and_named_ranges_are_avoided() {
        let range = Range::choose(
            &[],
            &[to("198.18.0.0", 24), to("198.18.1.1", 32), to("fd77:6569:7248:41::", 64)],
        )
        .unwrap();
        assert_eq!(range.ipv4(1).0, Ipv4Addr::new(198, 18, 1, 9));
        let name = range.interface();
        let link = Link {
            index: 9,
            name,
            mtu: 1500,
            mac: None,
            up: true,
            running: true,
            loopback: false,
            master: None,
            base: None,
            alias: None,
        };
        assert_ne!(
            Range::choose(std::slice::from_ref(&link), &[]).map(Range::interface),
            Some(link.name)
        );
        assert_eq!(Range::choose(&[], &[to("198.18.0.0", 15)]), None);
    }
}
