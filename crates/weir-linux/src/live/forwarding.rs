//! Selects the lane of a frame by its destination address, where a port feeds several lanes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The lanes of each port, by destination address.
#[derive(Clone, Debug, Default)]
pub struct Forwarding {
    lanes: BTreeMap<(usize, IpAddr), u16>,
    /// Whether frames that resolve addresses have lanes, too. See [`Forwarding::with_resolution`].
    resolves: bool,
}

impl Forwarding {
    /// Selects `lane` for frames that arrive at `port` with the destination `address`. Returns the
    /// previous lane of these frames.
    pub fn insert(&mut self, port: usize, address: IpAddr, lane: u16) -> Option<u16> {
        self.lanes.insert((port, address), lane)
    }

    /// Also selects lanes for frames that resolve addresses: ARP and neighbour solicitations. Their
    /// destination is then the address that they resolve.
    #[must_use]
    pub fn with_resolution(self) -> Self {
        Self { resolves: true, ..self }
    }

    /// Every entry: port, address, lane.
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, IpAddr, u16)> {
        self.lanes.iter().map(|(&(port, address), &lane)| (port, address, lane))
    }

    /// The lane of a frame that arrived at `port`.
    pub(super) fn lane(&self, port: usize, frame: &[u8]) -> Option<u16> {
        let to = destination(frame, self.resolves)?;
        self.lanes.get(&(port, to)).copied()
    }
}

/// Counters of frames that match no lane, such as multicasts and requests for unknown addresses.
/// Bytes count from the network-layer header on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strays {
    /// Number of frames.
    pub frames: u64,
    /// Number of bytes of these frames.
    pub bytes: u64,
}

/// The destination address of an untagged Ethernet frame, if it has one. If `resolves`, the address
/// that an ARP frame or neighbour solicitation resolves counts as its destination.
fn destination(frame: &[u8], resolves: bool) -> Option<IpAddr> {
    let at = |from: usize, len: usize| frame.get(from..from + len);
    let v4 = |from| Some(Ipv4Addr::from(<[u8; 4]>::try_from(at(from, 4)?).ok()?).into());
    let v6 = |from| Some(Ipv6Addr::from(<[u8; 16]>::try_from(at(from, 16)?).ok()?).into());
    match at(12, 2)? {
        [0x08, 0x00] => v4(30),
        [0x08, 0x06] if resolves && at(14, 6)? == ARP_FOR_IPV4 => v4(38),
        [0x86, 0xdd] if resolves && is_solicitation(frame) => v6(62),
        [0x86, 0xdd] => v6(38),
        _ => None,
    }
}

/// Whether an IPv6 frame is a neighbour solicitation to a group. A host sends one while it does not
/// know the neighbour's Ethernet address.
fn is_solicitation(frame: &[u8]) -> bool {
    let byte = |at: usize| frame.get(at).copied();
    (byte(20), byte(38), byte(54)) == (Some(ICMPV6), Some(MULTICAST), Some(SOLICITATION))
}

/// The first bytes of ARP for IPv4 addresses on Ethernet.
const ARP_FOR_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ICMPV6: u8 = 58;
const MULTICAST: u8 = 0xff;
/// The type of a neighbour solicitation (RFC 4861, section 4.3).
const SOLICITATION: u8 = 135;

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: [u8; 2], len: usize) -> Vec<u8> {
        let mut frame = vec![0; len];
        frame[12..14].copy_from_slice(&kind);
        frame
    }

    #[test]
    fn frames_take_the_lane_of_their_destination() {
        let mut forwarding = Forwarding::default();
        let (four, six) = (
            IpAddr::from([10, 0, 0, 7]),
            IpAddr::from([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]),
        );
        assert_eq!(forwarding.insert(0, four, 3), None);
        assert_eq!(forwarding.insert(0, six, 4), None);
        assert_eq!(forwarding.insert(1, four, 5), None);
        let mut v4 = frame([8, 0], 34);
        v4[30..34].copy_from_slice(&[10, 0, 0, 7]);
        assert_eq!([0, 1, 2].map(|port| forwarding.lane(port, &v4)), [Some(3), Some(5), None]);
        let mut v6 = frame([0x86, 0xdd], 54);
        (v6[38], v6[53]) = (0xfd, 7);
        assert_eq!(forwarding.lane(0, &v6), Some(4));
    }

    #[test]
    fn address_resolution_takes_the_lane_of_its_target_if_requested() {
        let mut forwarding = Forwarding::default();
        let six = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 9);
        let _ = forwarding.insert(0, IpAddr::from([10, 0, 0, 7]), 3);
        let _ = forwarding.insert(0, six.into(), 4);
        let mut arp = frame([8, 6], 42);
        arp[14..20].copy_from_slice(&ARP_FOR_IPV4);
        arp[38..42].copy_from_slice(&[10, 0, 0, 7]);
        let mut solicitation = frame([0x86, 0xdd], 78);
        (solicitation[20], solicitation[38], solicitation[54]) = (58, 0xff, 135);
        solicitation[62..78].copy_from_slice(&six.octets());
        let lanes =
            |forwarding: &Forwarding| [&arp, &solicitation].map(|frame| forwarding.lane(0, frame));
        assert_eq!(lanes(&forwarding), [None, None]);
        let resolving = forwarding.with_resolution();
        assert_eq!(lanes(&resolving), [Some(3), Some(4)]);
        for short in [41, 20, 14] {
            assert_eq!(resolving.lane(0, &arp[..short]), None);
        }
        for short in [77, 55, 54, 38, 20] {
            assert_eq!(resolving.lane(0, &solicitation[..short]), None, "{short}");
        }
        arp[17] = 6;
        assert_eq!(resolving.lane(0, &arp), None, "not about IPv4");
    }

    #[test]
    fn truncated_frames_and_unknown_destinations_have_no_lane() {
        let mut forwarding = Forwarding::default();
        let _ = forwarding.insert(0, IpAddr::from([0, 0, 0, 0]), 1);
        assert_eq!(forwarding.lane(0, &frame([8, 0], 33)), None);
        assert_eq!(forwarding.lane(0, &frame([8, 6], 60)), None);
        assert_eq!(forwarding.lane(0, &[0; 13]), None);
        assert_eq!(forwarding.lane(0, &frame([8, 0], 34)), Some(1));
    }
}
