//! The rings between workers: they hand packets over to the worker that owns their instance.
//!
//! The flow of a packet determines which worker receives the packet from the kernel. The hash of
//! the packet's instance determines which worker queues the packet, so every worker can compute the
//! owner. A bounded ring leads from each worker to each other worker. The frame's buffer moves with
//! the packet, and the receiving worker returns an empty buffer in exchange, so that buffers do not
//! accumulate on one worker.
//!
//! **Invariant:** packets of a flow stay in order, because one worker receives them, one worker
//! sends them, and a ring keeps the order.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rtrb::{Consumer, Producer, RingBuffer};
use weir_core::key::FlowKey;
use weir_core::{Action, Nanos};

use crate::arena::{Buffer, BufferPool, Frame};

/// One worker's ends of all rings.
#[derive(Debug)]
pub(super) struct Exchange {
    /// This worker's number.
    me: usize,
    /// The rings to and from each worker, by its number; `None` at this worker's own number.
    peers: Vec<Option<Peer>>,
    /// Whether this worker sleeps and must be woken.
    asleep: Arc<AtomicBool>,
}

/// The rings to and from another worker.
#[derive(Debug)]
struct Peer {
    /// Parcels to the other worker.
    out: Producer<Parcel>,
    /// Parcels from the other worker.
    inward: Consumer<Parcel>,
    /// Empty buffers in exchange for parcels from the other worker.
    give_back: Producer<Buffer>,
    /// Empty buffers in exchange for parcels to the other worker.
    given_back: Consumer<Buffer>,
    /// Whether the other worker sleeps and must be woken.
    asleep: Arc<AtomicBool>,
    /// The descriptor that wakes the other worker.
    wake: Arc<OwnedFd>,
    /// Whether a parcel was sent since the last call of [`Exchange::wake_peers`].
    waiting: bool,
}

/// A frame that moves to another worker, with the action for its packets.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) frame: Frame,
    pub(super) key: FlowKey,
    pub(super) action: Action,
    /// The time at which the engine receives the packets.
    pub(super) at: Nanos,
}

/// Creates the rings between workers. `wakes` has the descriptor that wakes each worker.
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
    /// The worker that owns the instance with this hash; `None` if this worker owns the instance.
    pub(super) fn other_owner(&self, hash: u64) -> Option<usize> {
        // The upper bits of the hash choose the worker, because hash tables use the lower bits.
        let owner = ((u128::from(hash) * self.peers.len() as u128) >> 64) as usize;
        (owner != self.me).then_some(owner)
    }

    /// Sends a parcel to another worker. Returns the parcel if the ring is full.
    pub(super) fn post(&mut self, owner: usize, parcel: Parcel) -> Option<Parcel> {
        let Some(peer) = self.peers[owner].as_mut() else {
            debug_assert!(false, "a worker sends itself a parcel");
            return Some(parcel);
        };
        peer.waiting = true;
        peer.out.push(parcel).err().map(|rtrb::PushError::Full(parcel)| parcel)
    }

    /// The number of workers, including this one.
    pub(super) fn workers(&self) -> usize {
        self.peers.len()
    }

    /// Takes a parcel from worker `from`, if there is a parcel, and sends that worker a free buffer
    /// in exchange.
    pub(super) fn take(&mut self, from: usize, pool: &mut BufferPool) -> Option<Parcel> {
        let peer = self.peers[from].as_mut()?;
        while let Ok(buffer) = peer.given_back.pop() {
            pool.give(buffer);
        }
        let parcel = peer.inward.pop().ok()?;
        if let Some(buffer) = pool.take_used(parcel.frame.buffer.bytes().len()) {
            // If the ring is full, the buffer is freed.
            let _ = peer.give_back.push(buffer);
        }
        Some(parcel)
    }

    /// Announces that this worker is about to sleep. Returns `false` if a parcel has already
    /// arrived, so that the worker must stay awake.
    pub(super) fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let empty = self.peers.iter().flatten().all(|peer| peer.inward.is_empty());
        if !empty {
            self.awake();
        }
        empty
    }

    /// Announces that this worker is awake again.
    pub(super) fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Wakes the sleeping workers to which this one has sent parcels.
    pub(super) fn wake_peers(&mut self) {
        for peer in self.peers.iter_mut().flatten().filter(|peer| peer.waiting) {
            peer.waiting = false;
            fence(Ordering::SeqCst);
            if peer.asleep.swap(false, Ordering::SeqCst) {
                // This fails only if the counter is full, and a full counter wakes the worker, too.
                let _ = rustix::io::write(&*peer.wake, &1u64.to_ne_bytes());
            }
        }
    }
}

/// Maximum number of frames in a ring.
pub(super) const PARCELS: usize = 2048;

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};
    use weir_wire::VnetHeader;

    use super::*;

    fn parcel(pool: &mut BufferPool) -> Parcel {
        let frame = Frame {
            buffer: pool.take(64),
            start: 0,
            len: 64,
            vnet: VnetHeader::default(),
            parsed: None,
            train: None,
            lane: 0,
            weight: 1,
            wire_len: 50,
            journeys: Vec::new(),
        };
        Parcel { frame, key: FlowKey::default(), action: Action::Pipe(1), at: Nanos::ZERO }
    }

    #[test]
    fn a_worker_does_not_fall_asleep_while_a_parcel_waits() {
        let wakes: Vec<_> =
            (0..2).map(|_| Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap())).collect();
        let mut ends = connect(&wakes);
        let mut pool = BufferPool::default();
        assert!(ends[1].fall_asleep());
        assert!(ends[0].post(1, parcel(&mut pool)).is_none());
        ends[0].wake_peers();
        assert!(!ends[1].asleep.load(Ordering::SeqCst), "waking a worker clears its flag");
        assert_eq!(rustix::io::read(&*wakes[1], &mut [0; 8]), Ok(8));
        assert!(!ends[1].fall_asleep(), "there is something to do");
        assert!(ends[1].take(0, &mut pool).is_some() && ends[1].fall_asleep());
    }
}
