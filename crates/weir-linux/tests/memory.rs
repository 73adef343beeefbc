//! The memory of the process stays below about twice the budget of its frames, whatever lengths
//! arrive. The memory beyond the budget consists of free pieces between frames, which are too small
//! for the next frames.
//!
//! The test measures its own process, so this program contains no other test.

use weir_linux::arena::{Arena, Frame};
use weir_wire::VnetHeader;

#[test]
fn bursts_of_mixed_lengths_take_at_most_about_twice_the_budget() {
    let mut arena = Arena::new(BUDGET);
    let before = resident();
    let mut most = 0;
    let mut kept: Vec<u32> = Vec::new();
    for lengths in
        [&[100][..], &[9_000], &[60_000], &[100, 60_000], &[9_000, 100, 1_500], &[60_000]]
    {
        let mut stored = Vec::new();
        let mut next = lengths.iter().cycle();
        while let Some(slot) = store(&mut arena, *next.next().expect("a cycle has no end")) {
            stored.push(slot);
        }
        most = most.max(resident() - before);
        // Release the frames that remain from the previous burst. One in `SCATTERED` frames of this
        // burst stays; these frames are scattered over the memory of the burst.
        kept.drain(..).for_each(|slot| arena.release(slot, 1));
        for (number, slot) in stored.into_iter().enumerate() {
            if number % SCATTERED == 0 {
                kept.push(slot);
            } else {
                arena.release(slot, 1);
            }
        }
    }
    eprintln!("at most {} MiB for a budget of {} MiB", most >> 20, BUDGET >> 20);
    assert!(most <= BUDGET * 9 / 4, "{most} bytes for a budget of {BUDGET}");
}

/// Stores a frame and writes its memory, as when a frame is received. `None` if the arena is full.
fn store(arena: &mut Arena, len: usize) -> Option<u32> {
    let mut buffer = arena.pool.take(len);
    buffer.bytes_mut()[..len].fill(1);
    let frame = Frame {
        buffer,
        start: 0,
        len,
        vnet: VnetHeader::default(),
        parsed: None,
        train: None,
        lane: 0,
        weight: 1,
        wire_len: 0,
        journeys: Vec::new(),
    };
    arena.store(frame, 1).ok()
}

/// Bytes of physical memory that this process uses.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").expect("proc is mounted");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

/// The budget, in bytes.
const BUDGET: usize = 32 << 20;
/// One of this many frames of a burst stays inside during the next burst.
const SCATTERED: usize = 32;
