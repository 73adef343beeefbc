//! Tests of each rank against its definition.

use super::*;

fn flow(weight: u32, priority: u32, deadline: u64) -> Standing {
    Standing::new(&FlowSpec { weight, priority, deadline: Nanos(deadline), ..FlowSpec::default() })
}

fn packet(now: u64, len: u32, label: u64, of: &Standing) -> Facts {
    Facts { packet: PacketId(0), now, len, label, deadline: of.deadline }
}

/// The ranks of packets that arrive one after another and stay. Each packet has an arrival
/// time, a length and a label.
fn ranks(ranking: Ranking, mut flow: Standing, packets: &[(u64, u32, u64)]) -> Vec<u64> {
    let mut ranker = Ranker::new(ranking, 0);
    let take = |&(now, len, label): &(u64, u32, u64)| {
        let rank = ranker.rank(&flow, &packet(now, len, label, &flow));
        ranker.accept(&mut flow, rank, len);
        rank
    };
    packets.iter().map(take).collect()
}

use alloc::vec::Vec;

const ONE: u64 = 1 << FRACTION;

#[test]
fn names_are_in_the_order_of_the_ranks() {
    assert_eq!(Ranking::ALL.map(|r| r as usize), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(Ranking::NAMES[Ranking::FifoPlus as usize], "fifo+");
}

#[test]
fn stfq_starts_at_the_last_finish_and_not_before_virtual_time() {
    assert_eq!(
        ranks(Ranking::Stfq, flow(2, 0, 0), &[(0, 1000, 0), (0, 500, 0), (9, 1, 0)]),
        [0, 500 * ONE, 750 * ONE]
    );
    let (mut ranker, mut busy, mut late) =
        (Ranker::new(Ranking::Stfq, 0), flow(1, 0, 0), flow(1, 0, 0));
    ranker.accept(&mut busy, 0, 1500);
    ranker.accept(&mut busy, 1500 * ONE, 100);
    ranker.serve(&mut busy, 0, 1500);
    ranker.serve(&mut busy, 1500 * ONE, 100);
    // The packet served last started at 1500, so that a flow that arrives now also starts at 1500.
    assert_eq!(ranker.rank(&late, &packet(0, 40, 0, &late)), 1500 * ONE);
    // After a rest, every flow starts at the latest finish.
    ranker.rest();
    assert_eq!(ranker.rank(&late, &packet(0, 40, 0, &late)), 1600 * ONE);
    ranker.accept(&mut late, 1600 * ONE, 40);
    assert_eq!(ranker.rank(&busy, &packet(0, 40, 0, &busy)), 1600 * ONE);
}

#[test]
fn stfq_carries_the_remainder_of_the_division() {
    // Three packets of 100 bytes at weight 3 take exactly 100 bytes per unit of weight.
    let starts =
        ranks(Ranking::Stfq, flow(3, 0, 0), &[(0, 100, 0), (0, 100, 0), (0, 100, 0), (0, 1, 0)]);
    assert_eq!(starts[3], 100 * ONE);
    // And 65,535 packets of one byte at weight 65,535 take one byte per unit.
    let mut all: Vec<_> = core::iter::repeat_n((0, 1, 0), 65_535).collect();
    all.push((0, 1, 0));
    assert_eq!(ranks(Ranking::Stfq, flow(65_535, 0, 0), &all).last(), Some(&ONE));
}

#[test]
fn a_withdrawn_packet_does_not_change_shares() {
    let (mut ranker, mut one) = (Ranker::new(Ranking::Stfq, 0), flow(1, 0, 0));
    ranker.accept(&mut one, 0, 100);
    let rank = ranker.rank(&one, &packet(0, 900, 0, &one));
    ranker.accept(&mut one, rank, 900);
    ranker.withdraw(&mut one, rank, 900);
    assert_eq!(
        (ranker.rank(&one, &packet(0, 1, 0, &one)), one.backlog, one.arrived),
        (100 * ONE, 100, 100)
    );
}

#[test]
fn lstf_is_the_latest_departure_time() {
    // The flow's slack is 50 ns; the label of the second packet gives it a slack of 7 ns.
    assert_eq!(
        ranks(Ranking::Lstf, flow(1, 0, 50), &[(10, 40, 0), (20, 40, 7), (30, 40, 0)]),
        [60, 27, 80]
    );
    assert_eq!(ranks(Ranking::Lstf, flow(1, 0, 50), &[(u64::MAX, 40, 0)]), [u64::MAX]);
}

#[test]
fn edf_is_the_deadline_itself() {
    assert_eq!(
        ranks(Ranking::Edf, flow(1, 0, 50), &[(10, 40, 0), (20, 40, 65), (30, 40, 0)]),
        [60, 65, 80]
    );
}

#[test]
fn srpt_is_the_label_or_the_bytes_inside() {
    assert_eq!(
        ranks(Ranking::Srpt, flow(1, 0, 0), &[(0, 100, 0), (0, 200, 0), (0, 300, 12)]),
        [100, 300, 12]
    );
    let (mut ranker, mut one) = (Ranker::new(Ranking::Srpt, 0), flow(1, 0, 0));
    ranker.accept(&mut one, 100, 100);
    ranker.accept(&mut one, 300, 200);
    ranker.serve(&mut one, 100, 100);
    assert_eq!(ranker.rank(&one, &packet(0, 50, 0, &one)), 250);
}

#[test]
fn sjf_counts_bytes_until_the_flow_is_empty() {
    let (mut ranker, mut one) = (Ranker::new(Ranking::Sjf, 0), flow(1, 0, 0));
    ranker.accept(&mut one, 100, 100);
    ranker.accept(&mut one, 300, 200);
    ranker.serve(&mut one, 100, 100);
    assert_eq!(ranker.rank(&one, &packet(0, 50, 0, &one)), 350);
    assert_eq!(ranker.rank(&one, &packet(0, 50, 9, &one)), 9);
    ranker.serve(&mut one, 300, 200);
    assert_eq!(ranker.rank(&one, &packet(0, 50, 0, &one)), 50);
}

#[test]
fn las_is_the_bytes_of_all_earlier_arrivals() {
    let (mut ranker, mut one) = (Ranker::new(Ranking::Las, 0), flow(1, 0, 0));
    assert_eq!(ranker.rank(&one, &packet(0, 100, 5, &one)), 0);
    ranker.accept(&mut one, 0, 100);
    ranker.serve(&mut one, 0, 100);
    ranker.rest();
    assert_eq!(ranker.rank(&one, &packet(9, 100, 5, &one)), 100);
}

#[test]
fn fifo_plus_is_the_remaining_time_at_any_arrival() {
    assert_eq!(
        ranks(Ranking::FifoPlus, flow(1, 0, 50), &[(10, 40, 0), (20, 40, 30), (30, 40, 0)]),
        [50, 30, 50]
    );
}

#[test]
fn prio_and_arrival_are_the_priority_and_the_arrival() {
    assert_eq!(ranks(Ranking::Prio, flow(1, 7, 0), &[(3, 40, 1), (4, 40, 2)]), [7, 7]);
    assert_eq!(ranks(Ranking::Arrival, flow(1, 7, 0), &[(3, 40, 1), (4, 40, 2)]), [3, 4]);
}

#[test]
fn setting_virtual_time_back_keeps_distances() {
    let (mut ranker, mut one) = (Ranker::new(Ranking::Stfq, HALF - 10), flow(1, 0, 0));
    let rank = ranker.rank(&one, &packet(0, 100, 0, &one));
    ranker.accept(&mut one, rank, 100);
    assert!(!ranker.must_set_back());
    ranker.rest();
    assert!(ranker.must_set_back());
    let ahead = ranker.rank(&one, &packet(0, 1, 0, &one)) - rank;
    let by = ranker.set_back();
    one.set_back(by);
    assert!(!ranker.must_set_back());
    assert_eq!(ranker.rank(&one, &packet(0, 1, 0, &one)) - (rank - by), ahead);
}
