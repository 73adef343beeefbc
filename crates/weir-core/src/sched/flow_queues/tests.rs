//! Tests of credits, rounds and drops, with a policy that passes every packet.

use proptest::prelude::*;

use super::*;
use crate::packet::{Packet, Pool};

struct Nothing;

impl FlowPolicy for Nothing {
    type State = ();
    fn leave(
        &mut self,
        _state: &mut (),
        _now: Nanos,
        _packet: &Seen,
        _context: &Context,
    ) -> Verdict {
        Verdict::Pass
    }
}

struct Rig {
    pool: Pool,
    queues: FlowQueues<()>,
    refused: Refused,
}

impl Rig {
    fn new(queues: u32, quantum: u32) -> Self {
        Self {
            pool: Pool::new(10_000),
            queues: FlowQueues::new(queues, quantum),
            refused: Refused::new(),
        }
    }

    fn send(&mut self, index: u32, len: u32) {
        let packet = self.pool.insert(Packet { len, flow: index, ..Packet::default() }).unwrap();
        self.queues.enqueue(
            Nanos::ZERO,
            &mut self.pool,
            index,
            packet,
            &mut Nothing,
            &mut self.refused,
        );
    }

    fn take(&mut self) -> Option<u32> {
        let packet =
            self.queues.dequeue(Nanos::ZERO, &mut self.pool, &mut Nothing, &mut self.refused)?;
        Some(self.pool.remove(packet).flow)
    }

    /// Drops packets for lack of room and returns their flows.
    fn overflow(&mut self, most: u32) -> Vec<u32> {
        self.queues.drop_from_longest(
            Nanos::ZERO,
            &mut self.pool,
            most,
            &mut Nothing,
            &mut self.refused,
        );
        let pool = &mut self.pool;
        self.refused.drain(..).map(|(packet, _)| pool.remove(packet).flow).collect()
    }

    fn credits(&self) -> (i32, i32) {
        (self.queues.queues[0].credit, self.queues.queues[1].credit)
    }

    fn indices(&self, ring: Ring) -> Vec<u32> {
        let next = |&index: &u32| {
            self.queues
                .queues
                .get(index as usize)
                .map(|queue| queue.next)
                .filter(|&next| next != END)
        };
        core::iter::successors(Some(ring.head).filter(|&head| head != END), next).collect()
    }
}

#[test]
fn credits_are_as_published_for_a_quantum_shorter_than_a_packet() {
    let mut rig = Rig::new(2, 90);
    rig.send(0, 120);
    assert_eq!((rig.credits().0, rig.indices(rig.queues.fresh)), (90, [0].into()));
    assert_eq!((rig.take(), rig.credits().0), (Some(0), -30));
    for index in [0, 0, 1, 1] {
        rig.send(index, 120);
    }
    assert_eq!((rig.credits(), rig.indices(rig.queues.fresh)), ((-30, 90), [0, 1].into()));
    for (flow, credits) in [(1, (60, -30)), (0, (-60, 60)), (1, (30, -60)), (0, (-90, 30))] {
        assert_eq!((rig.take(), rig.credits()), (Some(flow), credits));
    }
    assert_eq!((rig.take(), rig.credits()), (None, (90, 30)));
    assert!(rig.queues.queues.iter().all(|queue| queue.next == IDLE));
}

#[test]
fn a_new_queue_is_served_first_but_only_once() {
    let mut rig = Rig::new(3, 1500);
    (0..4).for_each(|_| rig.send(0, 1500));
    assert_eq!(rig.take(), Some(0));
    rig.send(1, 100);
    // The first queue has used its credit; the second is in the new list.
    assert_eq!(rig.take(), Some(1));
    assert_eq!(
        (rig.indices(rig.queues.fresh), rig.indices(rig.queues.old)),
        ([1].into(), [0].into())
    );
    assert_eq!(rig.take(), Some(0));
    rig.send(1, 100);
    assert_eq!(
        (rig.indices(rig.queues.fresh), rig.indices(rig.queues.old)),
        ([].into(), [0, 1].into())
    );
}

#[test]
fn a_single_queue_gets_its_rounds_in_one_step() {
    let mut rig = Rig::new(2, 100);
    rig.send(0, 4_000_000);
    rig.send(0, 60);
    assert_eq!((rig.take(), rig.credits().0), (Some(0), -3_999_900));
    assert_eq!((rig.take(), rig.credits().0), (Some(0), 40));
}

#[test]
fn an_overflow_drops_half_of_the_longest_queue_but_at_most_a_batch() {
    let mut rig = Rig::new(64, 1500);
    (0..3).for_each(|_| rig.send(7, 120));
    (0..2).for_each(|_| rig.send(40, 120));
    assert_eq!(rig.overflow(64), [7, 7]);
    assert_eq!((rig.queues.packets(), rig.queues.bytes()), (3, 360));
    (0..200).for_each(|_| rig.send(9, 100));
    assert_eq!(rig.overflow(64).len(), 64);
    assert_eq!(rig.overflow(64), [9; 64]);
    assert_eq!(rig.overflow(1), [9]);
}

proptest! {
    #[test]
    fn the_longest_queue_is_the_first_among_equals(
        queues in 1u32..200,
        operations in proptest::collection::vec((0u32..200, 0u32..1500, 0u32..4), 1..300),
    ) {
        let mut rig = Rig::new(queues, 300);
        for (index, len, kind) in operations {
            match kind {
                0 | 1 => rig.send(index % queues, len),
                2 => {
                    rig.take();
                }
                _ => {
                    let most = rig.queues.queues.iter().map(|queue| queue.bytes).max().unwrap();
                    let full = |queue: &Queue<()>| queue.packets > 0 && queue.bytes == most;
                    let first = rig.queues.queues.iter().position(full).map(|index| index as u32);
                    prop_assert_eq!(rig.overflow(3).first().copied(), first);
                }
            }
        }
    }

    /// Queues that always have packets send the same number of bytes, to within two quanta and two
    /// packets, which is one packet more than the guaranteed bound.
    #[test]
    fn queues_send_equal_bytes(
        lens in proptest::collection::vec(40u32..1500, 2..8),
        quantum in 64u32..4000,
    ) {
        let mut rig = Rig::new(8, quantum);
        let mut bytes = [0i64; 8];
        for (&len, index) in lens.iter().zip(0..) {
            (0..2).for_each(|_| rig.send(index, len));
        }
        for _ in 0..2000 {
            let index = rig.take().unwrap();
            bytes[index as usize] += i64::from(lens[index as usize]);
            rig.send(index, lens[index as usize]);
            let (least, most) = (
                bytes[..lens.len()].iter().min().unwrap(),
                bytes[..lens.len()].iter().max().unwrap(),
            );
            prop_assert!(most - least <= 2 * i64::from(quantum) + 2 * 1500, "{:?}", bytes);
        }
    }
}
