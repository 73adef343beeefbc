//! Tests of the groups of a QFQ scheduler: their starts, and the weights that leave them.

use super::*;

/// A member that consists of timestamps only.
#[derive(Debug)]
#[repr(align(64))]
struct Member(Stamps);

impl Stamped for Member {
    fn stamps(&self) -> &Stamps {
        &self.0
    }

    fn stamps_mut(&mut self) -> &mut Stamps {
        &mut self.0
    }
}

/// The changed bits of virtual time show exactly the groups `i` for which it passes a multiple of
/// `σ_i`, for every wrap and carry.
#[test]
fn changed_bits_show_the_groups_that_time_passes() {
    for bit in MIN_SHIFT..64 {
        for offset in 0..6u64 {
            for step in 1..6u64 {
                let unit = 1u64 << (bit - 2);
                let from = 0u64
                    .wrapping_sub(3 * unit)
                    .wrapping_add(offset * unit)
                    .wrapping_sub(offset % 2);
                let to = from.wrapping_add(step * unit);
                let mut groups = Groups::new(from);
                groups.ineligible_ready = u32::MAX;
                groups.pass(to);
                for i in 0..GROUPS as u8 {
                    assert_eq!(
                        groups.eligible_ready >> i & 1 == 1,
                        floor(from, i) != floor(to, i),
                        "{from:x} {to:x} {i}"
                    );
                }
                let next = (0..GROUPS as u8)
                    .filter(|&i| groups.ineligible_ready >> i & 1 == 1)
                    .map(|i| floor(to, i).wrapping_add(width(i)));
                assert!(
                    next.into_iter().all(|at| !after(groups.due, at)),
                    "nothing becomes eligible before {:x}",
                    groups.due
                );
            }
        }
    }
}

/// The members of a group move through all its slots, and the group's start follows the first
/// member, even when virtual time wraps around.
#[test]
fn a_groups_start_follows_its_first_member_through_all_slots() {
    for i in [0u8, 5, 31] {
        for members in 1..=3u64 {
            let begin = 0u64.wrapping_sub(40 * width(i)) & !(width(i) - 1);
            let mut groups = Groups::new(begin);
            let mut all = Lines::default();
            for n in 0..members {
                let stamps = Stamps {
                    start: begin.wrapping_add(n * 10 * width(i)),
                    ..Stamps::new(width(i) / 1500, i)
                };
                let id = all.insert(Member(stamps));
                groups.join(FORGOTTEN, 0, 1, i);
                groups.insert(&mut all, id);
            }
            for _ in 0..300 {
                let place = groups.first().expect("members have packets");
                let least = (0..members as u32)
                    .map(|id| floor(all.at(id).0.start, i).wrapping_sub(begin))
                    .min();
                assert_eq!(Some(groups.groups.start[usize::from(i)].wrapping_sub(begin)), least);
                let changed = all.at_mut(place.id).0.charge(1500);
                groups.transmit(1500);
                if place.leaves_slot(changed) {
                    groups.relocate(&mut all, place);
                }
            }
        }
    }
}

/// Each weight leaves once, when the fluid has finished the flow, regardless of the steps of
/// `V`. A flow that returns is counted once.
#[test]
fn weights_leave_at_the_multiple_after_their_finish() {
    for i in [0u8, 7, 31] {
        for finish in 1..=8u64 {
            for step in 1..=12u64 {
                let unit = width(i) / 4;
                let begin = 0u64.wrapping_sub(2 * width(i));
                let mut groups = Groups::new(begin);
                groups.join(FORGOTTEN, 0, 7, i);
                groups.join(FORGOTTEN, 0, 2, i);
                let finish = begin.wrapping_add(finish.min(7) * unit);
                let era = groups.leave(finish, 7, i);
                groups.pass(begin.wrapping_add(step * unit));
                let counts = after(floor(finish, i).wrapping_add(width(i)), groups.virtual_time);
                assert_eq!(groups.weights, if counts { 9 } else { 2 });
                let start = groups.join(era, finish, 7, i);
                assert_eq!(groups.weights, 9);
                assert_eq!(
                    start,
                    if after(finish, groups.virtual_time) { finish } else { groups.virtual_time }
                );
                assert_eq!(groups.groups.leaving[usize::from(i)], [0; 2]);
            }
        }
    }
}
