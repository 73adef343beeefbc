//! Selects the lane of a frame by its destination address, where a port feeds several lanes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The lanes of each port, by destination address.
#[derive(Clone, Debug, Default)]
pub struct Forwarding {
    lanes: BTreeMap<(usize, IpAddr), u16>,
}

impl Forwarding {
    /// Selects `lane` for frames that arrive at `port` with the destination `address`. Returns the
    /// previous lane of these frames.
    pub fn insert(&mut self, port: usize, address: IpAddr, lane: u16) -> Option<u16> {
        self.lanes.insert((port, address), lane)
    }

    /// Every entry: port, address, lane.
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, IpAddr, u16)> {
        self.lanes.iter().map(|(&(port, address), &lane)| (port, address, lane))
    }

    /// The lane of a frame that arrived at `port`.
    pub(super) fn lane(&self, port: usize, frame: &[u8]) -> Option<u16> {
        self.lanes.get(&(port, destination(frame)?)).copied()
    }
}

/// Counters of frames that match no lane, and of their bytes from the network-layer header on. A
/// host sends such a frame when it resolves an unknown address, or to all its neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strays {
    /// Number of frames.
    pub frames: u64,
    /// Number of their bytes.
    pub bytes: u64,
}

/// The destination address of an untagged Ethernet frame, if it has one.
fn destination(frame: &[u8]) -> Option<IpAddr> {
    let at = |from: usize, len: usize| frame.get(from..from + len);
    match at(12, 2)? {
        [0x08, 0x00] => Some(Ipv4Addr::from(<[u8; 4]>::try_from(at(30, 4)?).ok()?).into()),
        [0x86, 0xdd] => Some(Ipv6Addr::from(<[u8; 16]>::try_from(at(38, 16)?).ok()?).into()),
        _ => None,
    }
}

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
    fn truncated_frames_and_unknown_destinations_have_no_lane() {
        let mut forwarding = Forwarding::default();
        let _ = forwarding.insert(0, IpAddr::from([0, 0, 0, 0]), 1);
        assert_eq!(forwarding.lane(0, &frame([8, 0], 33)), None);
        assert_eq!(forwarding.lane(0, &frame([8, 6], 60)), None);
        assert_eq!(forwarding.lane(0, &[0; 13]), None);
        assert_eq!(forwarding.lane(0, &frame([8, 0], 34)), Some(1));
    }
}
