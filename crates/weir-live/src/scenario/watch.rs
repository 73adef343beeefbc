//! An observer of the live loop that counts the packets of flows. It counts all packets of the
//! kernel's TCP and of programs, because no generator counts these packets. Of datagrams, which
//! generators count, only the drops are needed.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::sync::{Arc, Mutex, PoisonError};

use weir_core::stats::{DropReason, Reasons};
use weir_linux::live::{ArrivalEvent, DepartureEvent, Observer, Outcome};
use weir_sim::measure::Tally;

/// The counters of watched flows, in the order in which [`Watch::new`] got the flows.
pub(super) type Counts = Arc<Mutex<Vec<Count>>>;

/// The counters of a flow at the live loop. Arrivals count as sent, and deliveries as received.
#[derive(Clone, Debug, Default)]
pub(super) struct Count {
    pub(super) sent: u64,
    pub(super) sent_bytes: u64,
    pub(super) received: u64,
    pub(super) received_bytes: u64,
    pub(super) payload_bytes: u64,
    pub(super) duplicated: u64,
    pub(super) marked: u64,
    /// Drops by reason since the last call of [`Self::zero`].
    pub(super) reasons: Reasons,
    /// Drops before the last call of [`Self::zero`].
    pub(super) early_drops: u64,
    pub(super) delay_ns: Tally,
    /// Sum of the absolute delay differences between successive packets, in ns.
    pub(super) variation_ns: u64,
    /// The last delay, in ns.
    pub(super) last_ns: Option<u64>,
}

/// How the packets of a watched flow are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// By the addresses and port numbers of both ends.
    Ends(SocketAddrV4, SocketAddrV4),
    /// By their lane: all packets from one host to another that belong to no other watched flow.
    Lane(u16),
}

#[derive(Debug)]
pub(super) struct Watch {
    /// The index in `counts` of the flow with these ends.
    ends: BTreeMap<(SocketAddrV4, SocketAddrV4), usize>,
    /// The index in `counts` of the flow with this lane.
    lanes: BTreeMap<u16, usize>,
    counts: Counts,
    drops_only: bool,
}

impl Watch {
    /// An observer of these flows, and the counters that it updates. With `drops_only` it counts
    /// only the drops, which costs less.
    pub(super) fn new(signs: &[Sign], drops_only: bool) -> (Self, Counts) {
        let counts = Counts::new(Mutex::new(vec![Count::default(); signs.len()]));
        let mut watch = Self {
            ends: BTreeMap::new(),
            lanes: BTreeMap::new(),
            counts: Arc::clone(&counts),
            drops_only,
        };
        for (index, sign) in signs.iter().enumerate() {
            match *sign {
                Sign::Ends(from, to) => drop(watch.ends.insert((from, to), index)),
                // The packets of several programs between the same hosts all count for the first
                // program.
                Sign::Lane(lane) => drop(watch.lanes.entry(lane).or_insert(index)),
            }
        }
        (watch, counts)
    }

    /// Calls `work` with the counters of the flow to which a frame belongs.
    fn count(&self, lane: u16, frame: &[u8], work: impl FnOnce(&mut Count, &Packet)) {
        let Some(packet) = Packet::read(frame) else { return };
        let index =
            packet.ends.and_then(|ends| self.ends.get(&ends)).or_else(|| self.lanes.get(&lane));
        if let Some(&index) = index {
            work(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner)[index], &packet);
        }
    }
}

impl Observer for Watch {
    fn wants_frames(&self) -> bool {
        true
    }

    fn wants_drops_only(&self) -> bool {
        self.drops_only
    }

    fn on_arrival(&mut self, event: &ArrivalEvent<'_>) {
        self.count(event.lane, event.frame, |count, packet| {
            count.sent += u64::from(event.segments);
            count.sent_bytes += packet.train_len(event.segments);
        });
    }

    fn on_departure(&mut self, event: &DepartureEvent<'_>) {
        self.count(event.lane, event.frame, |count, packet| match event.outcome {
            Outcome::Delivered { marked, duplicate, .. } => {
                count.received += 1;
                count.received_bytes += u64::from(packet.len);
                count.payload_bytes += u64::from(packet.payload);
                count.duplicated += u64::from(duplicate);
                count.marked += u64::from(marked);
                let delay = event.at.since(event.arrived).0;
                count.variation_ns +=
                    count.last_ns.replace(delay).map_or(0, |last| last.abs_diff(delay));
                count.delay_ns.record(delay);
            }
            Outcome::Dropped(reason) => count.lose(reason),
        });
    }
}

impl Count {
    fn lose(&mut self, reason: DropReason) {
        self.reasons.count_drop(reason);
    }

    /// Starts all counts again from 0, and keeps the sum of the drops.
    pub(super) fn zero(&mut self) {
        *self = Self { early_drops: self.all_drops(), ..Self::default() };
    }

    /// Drops since the start of the run.
    pub(super) fn all_drops(&self) -> u64 {
        self.early_drops + self.reasons.total_drops()
    }
}

/// The properties of a frame that the counters need.
#[derive(Clone, Copy, Debug)]
struct Packet {
    /// Addresses and port numbers of both ends, if the packet has port numbers.
    ends: Option<(SocketAddrV4, SocketAddrV4)>,
    /// Network-layer bytes.
    len: u32,
    /// Bytes after the transport header.
    payload: u32,
}

impl Packet {
    fn read(frame: &[u8]) -> Option<Self> {
        let parsed = weir_wire::parse(frame).ok()?;
        let key = weir_wire::flow_key(frame, &parsed);
        let end = |address: u128, port: u16| {
            Some(SocketAddrV4::new(u32::try_from(address).ok()?.into(), port))
        };
        let ports = key.src_port != 0 || key.dst_port != 0;
        let ends = if ports {
            Some((end(key.src, key.src_port)?, end(key.dst, key.dst_port)?))
        } else {
            None
        };
        Some(Self {
            ends,
            len: parsed.network_len,
            payload: parsed
                .payload()
                .map_or(0, |at| parsed.network_end().saturating_sub(at) as u32),
        })
    }

    /// Network-layer bytes of all packets of a train with this many segments, computed from the
    /// train's frame. Each packet has its own headers.
    fn train_len(&self, segments: u16) -> u64 {
        let headers = self.len - self.payload;
        u64::from(self.len) + u64::from(headers) * u64::from(segments.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use weir_core::Nanos;

    use super::*;

    /// A UDP datagram from 10.0.0.1:1024 to 10.0.0.2:5000 with ten bytes of payload.
    fn frame() -> Vec<u8> {
        let mut frame = vec![0; 14 + 38];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14..24].copy_from_slice(&[0x45, 0, 0, 38, 0, 0, 0, 0, 64, 17]);
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        frame[34..42].copy_from_slice(&[4, 0, 0x13, 0x88, 0, 18, 0, 0]);
        frame
    }

    #[test]
    fn packets_are_counted_for_their_flow() {
        let ends = Sign::Ends("10.0.0.1:1024".parse().unwrap(), "10.0.0.2:5000".parse().unwrap());
        let (mut watch, counts) = Watch::new(&[Sign::Lane(2), ends], false);
        let frame = frame();
        watch.on_arrival(&ArrivalEvent { lane: 2, at: Nanos(5), frame: &frame, segments: 3 });
        let leaves = |outcome| DepartureEvent {
            lane: 2,
            at: Nanos(25),
            due: Nanos(20),
            arrived: Nanos(5),
            dequeued: Nanos(7),
            outcome,
            frame: &frame,
        };
        watch.on_departure(&leaves(Outcome::Delivered {
            marked: true,
            corrupted: None,
            duplicate: false,
        }));
        watch.on_departure(&leaves(Outcome::Dropped(DropReason::QueueFull)));
        let mut other = frame.clone();
        other[35] = 1;
        watch.on_departure(&DepartureEvent {
            frame: &other,
            ..leaves(Outcome::Delivered { marked: false, corrupted: None, duplicate: false })
        });
        let counts = counts.lock().unwrap();
        let flow = &counts[1];
        assert_eq!(
            (flow.sent, flow.sent_bytes, flow.received, flow.received_bytes, flow.payload_bytes),
            (3, 38 + 2 * 28, 1, 38, 10)
        );
        assert_eq!((flow.marked, flow.reasons.total_drops(), flow.delay_ns.max()), (1, 1, 20));
        assert_eq!(
            (counts[0].received, counts[0].sent),
            (1, 0),
            "a packet with another port number counts for the lane"
        );
    }
}
