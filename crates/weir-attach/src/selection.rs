//! The packets of a target that are shaped.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Which packets of an interface are shaped. The default selects all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Remote addresses; empty for all.
    pub to: Vec<Prefix>,
    /// Local or remote ports; on the loopback interface, only remote ports. Empty for all.
    pub ports: Vec<PortRange>,
    /// The owner of the sockets; `None` for any.
    pub owner: Option<Owner>,
}

impl Selection {
    /// Whether every packet is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        *self == Selection::default()
    }
}

/// The owner of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A control group and those below it.
    Cgroup {
        /// The group's ID: the inode number of its directory.
        id: u64,
        /// The group's depth below the root of all groups; `None` if Weir is in a control group
        /// namespace that hides the depth.
        level: Option<u64>,
    },
    /// A user, by user ID.
    User(u32),
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Prefix {
    /// The length of the prefix and its address, with IPv4 mapped into IPv6.
    #[cfg_attr(
        not(feature = "bpf"),
        expect(dead_code, reason = "only the programs compare addresses")
    )]
    pub(crate) fn mapped(&self) -> (u32, [u8; 16]) {
        match self.address {
            IpAddr::V4(v4) => (96 + u32::from(self.length), v4.to_ipv6_mapped().octets()),
            IpAddr::V6(v6) => (u32::from(self.length), v6.octets()),
        }
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let wrong = || {
            format!("'{text}' is no range of addresses; examples: 10.0.0.0/8, 192.0.2.1, fd00::/8")
        };
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = length.unwrap_or(most);
        if length > most {
            return Err(wrong());
        }
        Ok(Prefix { address, length })
    }
}

/// A port, or a range of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortRange(pub(crate) RangeInclusive<u16>);

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<PortRange, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(PortRange(first..=last)),
            _ => Err(format!("'{text}' is no port; examples: 443, 8000-8080")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_addresses_are_mapped_into_ipv6() {
        let mapped = |text: &str| text.parse::<Prefix>().unwrap().mapped();
        assert_eq!(mapped("0.0.0.0/0").0, 96);
        assert_eq!(mapped("10.1.0.0/16").0, 112);
        assert_eq!(mapped("10.1.2.3").1[12..], [10, 1, 2, 3]);
        assert_eq!((mapped("::/0").0, mapped("fd00::1").0), (0, 128));
        for wrong in ["", "10.0.0.0/33", "10/8", "fd00::/129", "host", "10.0.0.0/-1"] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn ports_are_numbers_and_ranges() {
        assert_eq!("443".parse(), Ok(PortRange(443..=443)));
        assert_eq!("1-65535".parse(), Ok(PortRange(1..=65535)));
        for wrong in ["", "0", "65536", "9-8", "http", "1-", "-1"] {
            assert!(wrong.parse::<PortRange>().is_err(), "{wrong}");
        }
    }
}
