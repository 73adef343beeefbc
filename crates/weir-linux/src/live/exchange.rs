//! Packets between workers: each instance of a pipe or scheduler lives on one of them.
//!
//! A packet comes in at the worker that the kernel chose by its flow, and goes to the one that has
//! its instance: by the instance's hash, so that everybody knows without asking. Between each two
//! workers there is a bounded ring in each direction. The frame's buffer moves with the packet; an
//! empty one comes back in exchange, so that buffers do not gather on one side.
//!
//! **Invariant:** packets of a flow stay in order: they come to one worker and leave from one, and
//! a ring keeps order.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rtrb::{Consumer, Producer, RingBuffer};
use weir_core::key::FlowKey;
use weir_core::stats::DropReason;
use weir_core::{Action, Nanos};

use super::egress::{Engine, Lost};
use crate::arena::{Buffer, Frame};

/// One worker's end of all rings.
#[derive(Debug)]
pub(super) struct Exchange {
    me: usize,
    /// By the worker's number; `None` for itself.
    peers: Vec<Option<Peer>>,
    /// Whether this worker sleeps and wants to be woken.
    asleep: Arc<AtomicBool>,
}

/// The rings to and from another worker.
#[derive(Debug)]
struct Peer {
    out: Producer<Parcel>,
    inward: Consumer<Parcel>,
    give_back: Producer<Buffer>,
    given_back: Consumer<Buffer>,
    asleep: Arc<AtomicBool>,
    wake: Arc<OwnedFd>,
    /// Something was put in since it was last woken.
    waiting: bool,
}

/// A frame on its way to another worker, with what is to be done with its packets.
#[derive(Debug)]
struct Parcel {
    frame: Frame,
    key: FlowKey,
    action: Action,
    at: Nanos,
}

/// Makes the rings between workers that are woken by these descriptors.
pub(super) fn connect(wakes: &[Arc<OwnedFd>]) -> Vec<Exchange> {
    let count = wakes.len();
    let sleepers: Vec<_> = (0..count).map(|_| Arc::new(AtomicBool::new(false))).collect();
    let mut workers: Vec<Exchange> = (0..count)
        .map(|me| Exchange {
            me,
            peers: (0..count).map(|_| None).collect(),
            asleep: Arc::clone(&sleepers[me]),
        })
        .collect();
    for a in 0..count {
        for b in a + 1..count {
            let (to_b, from_a) = RingBuffer::new(PARCELS);
            let (to_a, from_b) = RingBuffer::new(PARCELS);
            let (back_to_b, back_from_a) = RingBuffer::new(PARCELS);
            let (back_to_a, back_from_b) = RingBuffer::new(PARCELS);
            let peer = |out, inward, give_back, given_back, other: usize| Peer {
                out,
                inward,
                give_back,
                given_back,
                asleep: Arc::clone(&sleepers[other]),
                wake: Arc::clone(&wakes[other]),
                waiting: false,
            };
            workers[a].peers[b] = Some(peer(to_b, from_b, back_to_b, back_from_b, b));
            workers[b].peers[a] = Some(peer(to_a, from_a, back_to_a, back_from_a, a));
        }
    }
    workers
}

impl Exchange {
    /// Whose the instance with this hash is.
    fn owner(&self, hash: u64) -> usize {
        // The upper bits: the lower ones choose the place in hash tables.
        ((u128::from(hash) * self.peers.len() as u128) >> 64) as usize
    }

    /// Says that this worker is about to sleep; `false` when something has come meanwhile.
    pub(super) fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let empty = self.peers.iter().flatten().all(|peer| peer.inward.is_empty());
        if !empty {
            self.awake();
        }
        empty
    }

    /// Says that it is awake again.
    pub(super) fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Wakes those that were sent something and sleep.
    pub(super) fn wake_peers(&mut self) {
        for peer in self.peers.iter_mut().flatten().filter(|peer| peer.waiting) {
            peer.waiting = false;
            fence(Ordering::SeqCst);
            if peer.asleep.swap(false, Ordering::SeqCst) {
                // A full counter means that it is already woken.
                let _ = rustix::io::write(&*peer.wake, &1u64.to_ne_bytes());
            }
        }
    }
}

impl Engine {
    /// Hands packets to the worker that has the instance with `hash`; `false` when that is this
    /// one.
    pub(super) fn hand_over(
        &mut self,
        hash: u64,
        slot: u32,
        run: &Range<u16>,
        key: &FlowKey,
        action: Action,
        at: Nanos,
    ) -> bool {
        let Some(exchange) = &self.exchange else { return false };
        let owner = exchange.owner(hash);
        if owner == exchange.me {
            return false;
        }
        if self.arena.references(slot) == run.len() as u32 {
            match self.arena.take(slot) {
                Some(frame) => self.post(owner, Parcel { frame, key: *key, action, at }),
                None => debug_assert!(false, "packets without a frame were handed over"),
            }
            return true;
        }
        // Others share the frame and stay: these leave in frames of their own.
        for segment in run.clone() {
            let journey = self
                .arena
                .get(slot)
                .and_then(|frame| frame.journeys.get(usize::from(segment)).cloned());
            let frame = self.move_out(slot, segment).and_then(|copy| self.arena.take(copy));
            match frame {
                Some(mut frame) => {
                    frame.journeys.extend(journey);
                    self.post(owner, Parcel { frame, key: *key, action, at });
                }
                None => self.lost(
                    slot,
                    segment,
                    Lost { reason: DropReason::NoMemory, at, due: at, arrived: at, dequeued: at },
                ),
            }
        }
        true
    }

    fn post(&mut self, owner: usize, parcel: Parcel) {
        let Some(peer) = self.exchange.as_mut().and_then(|exchange| exchange.peers[owner].as_mut())
        else {
            return;
        };
        peer.waiting = true;
        let Err(rtrb::PushError::Full(parcel)) = peer.out.push(parcel) else { return };
        let Parcel { frame, at, .. } = parcel;
        let packets = packets_of(&frame);
        // The frame was this worker's until now: it is lost here.
        match self.arena.store(frame, u32::from(packets)) {
            Ok(slot) => {
                for segment in 0..packets {
                    self.lost(
                        slot,
                        segment,
                        Lost {
                            reason: DropReason::HandOver,
                            at,
                            due: at,
                            arrived: at,
                            dequeued: at,
                        },
                    );
                }
            }
            Err(_) => debug_assert!(false, "there was room for it a moment ago"),
        }
    }

    /// Takes what other workers sent, up to a bound; says whether there was anything.
    pub(super) fn collect(&mut self) -> bool {
        let mut any = false;
        let count = self.exchange.as_ref().map_or(0, |exchange| exchange.peers.len());
        for number in 0..count {
            for _ in 0..BATCH {
                let Some(peer) =
                    self.exchange.as_mut().and_then(|exchange| exchange.peers[number].as_mut())
                else {
                    break;
                };
                while let Ok(buffer) = peer.given_back.pop() {
                    self.arena.pool.give(buffer);
                }
                let Ok(parcel) = peer.inward.pop() else { break };
                if let Some(buffer) = self.arena.pool.take_used(parcel.frame.buffer.bytes().len()) {
                    // One that does not fit in goes back to the system.
                    let _ = peer.give_back.push(buffer);
                }
                any = true;
                self.unpack_parcel(parcel);
            }
        }
        any
    }

    fn unpack_parcel(&mut self, parcel: Parcel) {
        let Parcel { frame, key, action, at } = parcel;
        let packets = packets_of(&frame);
        let (lane, wire_packets) = (usize::from(frame.lane), frame.weight * packets);
        let bytes = (0..packets).map(|segment| frame.packet_bytes(segment)).sum();
        let marked = frame.journeys.first().is_some_and(|journey| journey.mark.is_some());
        match self.arena.store(frame, u32::from(packets)) {
            // The configuration may have changed on the way: then it goes on to another.
            Ok(slot) => self.enter(slot, 0..packets, marked, &key, action, at),
            Err(_) => self.lanes[lane].dropped(DropReason::NoMemory, wire_packets, bytes),
        }
    }
}

/// References that a frame has with all its packets.
fn packets_of(frame: &Frame) -> u16 {
    frame.train.as_ref().map_or(1, |train| train.segments())
}

/// Frames that a ring holds: some milliseconds of small packets.
const PARCELS: usize = 2048;
/// Frames taken from one worker before others, and what is due, have their turn.
const BATCH: usize = 64;

#[cfg(test)]
mod tests {
    use weir_core::config::{FlowsetConfig, LinkConfig, PipeConfig};
    use weir_core::key::FlowMask;
    use weir_core::stats::LinkCounters;
    use weir_core::{Emulator, Limits};
    use weir_wire::builder::PacketBuilder;

    use super::*;
    use crate::arena::{Arena, HEADROOM};
    use crate::live::lane::Lane;
    use crate::live::{Gso, LaneConfig};
    use crate::port::Ingress;

    fn engine(exchange: Exchange) -> Engine {
        let mut emulator = Emulator::new(1, Limits::default());
        let mask = FlowMask { dst_ip: u32::MAX, ..FlowMask::default() };
        let link = LinkConfig { delay: Nanos::from_millis(1), ..LinkConfig::default() };
        emulator.set_pipe(
            Nanos::ZERO,
            1,
            &PipeConfig { link, queue: FlowsetConfig { mask, ..FlowsetConfig::default() } },
        );
        let lane = LaneConfig {
            name: "up".into(),
            from: 0,
            to: 0,
            pipe: 1,
            passes: Vec::new(),
            gso: Gso::Split,
        };
        Engine {
            emulator,
            arena: Arena::new(64 << 20),
            lanes: vec![Lane::new(lane)],
            observer: None,
            rules: None,
            exchange: Some(exchange),
            way_out: Vec::new(),
            refused: Vec::new(),
            watching: false,
            needs_key: true,
            sketch: Vec::new(),
        }
    }

    fn pair() -> [Engine; 2] {
        let wakes: Vec<_> = (0..2)
            .map(|_| {
                Arc::new(rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap())
            })
            .collect();
        let mut ends = connect(&wakes).into_iter();
        std::array::from_fn(|_| engine(ends.next().unwrap()))
    }

    /// A packet to customer `n` comes in at an engine.
    fn arrive(engine: &mut Engine, n: u32) {
        let bytes =
            PacketBuilder::udp([10, 0, 0, 1], std::net::Ipv4Addr::from(0x0a01_0000 + n), 1, 2)
                .frame();
        let mut buffer = engine.arena.pool.take(HEADROOM + bytes.len());
        buffer.bytes_mut()[HEADROOM..HEADROOM + bytes.len()].copy_from_slice(&bytes);
        let ingress = Ingress {
            buffer,
            start: HEADROOM,
            len: bytes.len(),
            vnet: [0; 10],
            truncated: false,
            arrived: None,
        };
        engine.accept(Nanos::ZERO, 0, ingress);
    }

    fn books(engines: &[Engine; 2]) -> LinkCounters {
        let mut sum = engines[0].lanes[0].counters.clone();
        sum.merge(&engines[1].lanes[0].counters);
        sum
    }

    #[test]
    fn each_instance_is_made_once_wherever_its_packets_come_in() {
        let mut engines = pair();
        for n in 0..1000 {
            arrive(&mut engines[0], n % 100);
            arrive(&mut engines[1], n % 100);
            engines.iter_mut().for_each(|engine| {
                engine.collect();
            });
        }
        let made = engines.each_ref().map(|engine| engine.emulator.instances());
        assert!(
            made.iter().sum::<usize>() == 100 && made.iter().all(|&n| (30..=70).contains(&n)),
            "{made:?}"
        );
        assert_eq!((books(&engines).backlog_packets, books(&engines).balanced()), (2000, true));
    }

    #[test]
    fn what_a_full_ring_does_not_take_is_a_counted_drop_and_buffers_come_back() {
        let mut engines = pair();
        let theirs = (0..).find(|&n| {
            arrive(&mut engines[0], n);
            engines[1].collect()
        });
        let came = u64::from(theirs.unwrap()) + 1;
        (0..3000).for_each(|_| arrive(&mut engines[0], theirs.unwrap()));
        let full = books(&engines);
        assert_eq!(
            (full.drops(DropReason::HandOver), full.total_drops()),
            (3000 - PARCELS as u64, 3000 - PARCELS as u64)
        );
        assert!(full.balanced() && full.packets_in == came + 3000, "{full:?}");
        let held = engines[0].arena.held();
        while engines[1].collect() {}
        assert!(engines[0].arena.held() == held && books(&engines).balanced());
        // Half of the other's free buffers have come for those that went.
        let mut out = Vec::new();
        engines[1].emulator.poll(Nanos::from_secs(1), &mut out);
        out.iter().for_each(|departure| {
            engines[1].arena.release(crate::arena::unpack(departure.frame).0, 1)
        });
        (0..100).for_each(|_| arrive(&mut engines[0], theirs.unwrap()));
        engines[1].collect();
        engines[1].collect();
        engines[0].collect();
        assert!(engines[0].arena.pool.take_used(64).is_some());
    }

    #[test]
    fn nobody_falls_asleep_over_something_that_has_come() {
        let mut engines = pair();
        assert!(engines[1].exchange.as_ref().unwrap().fall_asleep());
        (0..20).for_each(|n| arrive(&mut engines[0], n));
        let exchange = engines[0].exchange.as_mut().unwrap();
        exchange.wake_peers();
        let peer = exchange.peers[1].as_ref().unwrap();
        assert!(!peer.asleep.load(Ordering::SeqCst), "it was told");
        assert_eq!(rustix::io::read(&*peer.wake, &mut [0; 8]), Ok(8));
        assert!(!engines[1].exchange.as_ref().unwrap().fall_asleep(), "there is something to do");
    }
}
