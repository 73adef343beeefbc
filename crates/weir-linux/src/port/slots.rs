//! Receive buffers that wait to be filled.
//!
//! The length of the next frame is unknown. Each slot therefore offers a small buffer followed by a
//! large buffer. An ordinary frame fits into the small buffer and causes no copy. A longer frame
//! continues in the large buffer. Its beginning is then copied from the small buffer into the large
//! buffer, in front of the other bytes. If a longer frame fits into a medium buffer, it is copied
//! there as a whole.

use crate::arena::{Buffer, BufferPool, HEADROOM, SMALL};
use crate::port::Ingress;
use crate::sys::mmsg::{Received, Target};

/// One slot for each frame that a single call may receive.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<(Buffer, Buffer)>,
}

impl Slots {
    pub(super) fn new(count: usize) -> Self {
        let mut pool = BufferPool::default();
        Self { slots: (0..count).map(|_| (pool.take(SMALL), pool.take(usize::MAX))).collect() }
    }

    /// The memory into which the first `count` frames of a batch are received.
    pub(super) fn targets(&mut self, count: usize) -> impl Iterator<Item = Target<'_>> {
        self.slots.iter_mut().take(count).map(|(small, large)| Target {
            first: &mut small.bytes_mut()[HEADROOM..],
            rest: &mut large.bytes_mut()[SMALL..],
        })
    }

    /// Takes frame `index` out of its slot, and puts new buffers into the slot.
    pub(super) fn take(
        &mut self,
        index: usize,
        received: &Received,
        pool: &mut BufferPool,
    ) -> Ingress {
        let (small, large) = &mut self.slots[index];
        let end = HEADROOM + received.len;
        let buffer = if end <= SMALL {
            std::mem::replace(small, pool.take(SMALL))
        } else {
            let mut whole = pool.take(end);
            if whole.bytes().len() == large.bytes().len() {
                std::mem::swap(large, &mut whole);
            } else {
                whole.bytes_mut()[SMALL..end].copy_from_slice(&large.bytes()[SMALL..end]);
            }
            whole.bytes_mut()[HEADROOM..SMALL].copy_from_slice(&small.bytes()[HEADROOM..]);
            whole
        };
        Ingress {
            buffer,
            start: HEADROOM,
            len: received.len,
            vnet: received.vnet,
            truncated: received.truncated,
            arrived: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_every_size_keep_their_bytes() {
        let mut slots = Slots::new(1);
        let mut pool = BufferPool::default();
        for len in [1, 1514, 2032, 2033, 9014, 10_224, 10_225, 65_549] {
            let sent: Vec<u8> = (0..len).map(|i| (i * 7 % 251) as u8).collect();
            let target = slots.targets(1).next().unwrap();
            let cut = target.first.len().min(len);
            target.first[..cut].copy_from_slice(&sent[..cut]);
            target.rest[..len - cut].copy_from_slice(&sent[cut..]);
            let frame = slots.take(0, &Received { len, ..Received::default() }, &mut pool);
            assert_eq!(&frame.buffer.bytes()[frame.start..frame.start + frame.len], sent, "{len}");
            pool.give(frame.buffer);
        }
    }
}
