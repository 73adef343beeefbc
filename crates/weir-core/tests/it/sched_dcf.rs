//! The 802.11b medium: exact times of a single station, fair turns, and the accounting of
//! collisions.

use crate::common;

use common::Rig;
use weir_core::Nanos;
use weir_core::sched::{Dcf, Discipline, Kind, Scheduler};

fn dcf(settings: &[(&str, &str)]) -> Discipline {
    let mut discipline = Discipline::new(Kind::Dcf);
    settings.iter().for_each(|(name, value)| discipline.set(name, value).unwrap());
    discipline
}

/// A medium with these settings.
fn medium(settings: &[(&str, &str)]) -> Rig<Dcf> {
    Rig::new(Dcf::new(&dcf(settings)))
}

fn figure<S: Scheduler>(rig: &Rig<S>, name: &str) -> u64 {
    rig.scheduler.figures().into_iter().find(|f| f.0 == name).unwrap().1
}

/// A packet of 1464 bytes has 1500 bytes with its overhead, which take 192 + 1091 us at 11 Mbit/s.
/// SIFS and 192 + 56 us of acknowledgement follow.
#[test]
fn a_single_station_waits_whole_slots_between_exchanges() {
    let mut rig = medium(&[]);
    let station = rig.add(1, 1500, 0);
    rig.now = Nanos(1_000_000);
    rig.send(station, 1464);
    assert_eq!(rig.take_in_time(), Some((station, 1464)));
    assert_eq!(rig.now, Nanos(1_000_000 + 1_541_000));
    let (mut slots, count) = (0, 4000);
    rig.send(station, 1464);
    for _ in 0..count {
        let before = rig.now.0;
        rig.send(station, 1464);
        rig.take_in_time();
        let waited = rig.now.0 - before - 1_541_000 - 50_000;
        assert_eq!(waited % 20_000, 0);
        assert!(waited / 20_000 <= 31);
        slots += waited / 20_000;
    }
    // The mean backoff is 15.5 slots.
    assert!(slots.abs_diff(count * 31 / 2) < count / 2, "{slots}");
    assert_eq!(figure(&rig, "collisions"), 0);
}

#[test]
fn rates_and_preambles_take_the_times_of_the_standard() {
    for (phy, preamble, us) in [
        ("1", "long", 192 + 12_000 + 10 + 192 + 112),
        ("2", "short", 96 + 6000 + 10 + 96 + 56),
        ("5.5", "long", 192 + 2182 + 10 + 248),
    ] {
        let mut rig = medium(&[("phy", phy), ("preamble", preamble)]);
        let station = rig.add(1, 1500, 0);
        rig.send(station, 1464);
        rig.take_in_time();
        assert_eq!(rig.now, Nanos(us * 1000), "{phy} {preamble}");
    }
}

#[test]
fn stations_send_equal_numbers_of_packets_of_any_size() {
    let mut rig = medium(&[]);
    let lens = [100, 700, 1500, 1500];
    let stations: Vec<u32> = lens.iter().map(|_| rig.add(1, 1500, 0)).collect();
    for &station in stations.iter().cycle().take(8) {
        rig.send(station, lens[station as usize]);
    }
    let mut packets = [0u32; 4];
    for _ in 0..40_000 {
        let (station, len) = rig.take_in_time().unwrap();
        packets[station as usize] += 1;
        rig.send(station, len);
    }
    assert!(packets.iter().all(|&n| n.abs_diff(10_000) < 500), "{packets:?}");
    let (collisions, retries, given_up) =
        (figure(&rig, "collisions"), figure(&rig, "retries"), figure(&rig, "given-up"));
    assert!(
        collisions > 1000 && retries + given_up >= 2 * collisions,
        "{collisions} {retries} {given_up}"
    );
}

#[test]
fn a_packet_is_given_up_after_its_retries_and_the_next_is_sent() {
    let mut rig = medium(&[("retries", "0"), ("cwmin", "1"), ("cwmax", "1")]);
    let stations = [rig.add(1, 1500, 0), rig.add(1, 1500, 0)];
    for _ in 0..200 {
        stations.iter().for_each(|&station| rig.send(station, 1000));
    }
    let mut served = 0;
    while rig.take_in_time().is_some() {
        served += 1;
    }
    let given_up = figure(&rig, "given-up");
    assert_eq!((served + given_up, rig.inside(), rig.pool.len()), (400, 0, 0));
    assert!(given_up > 50 && given_up == 2 * figure(&rig, "collisions"), "{given_up}");
}

#[test]
fn equal_seeds_give_equal_orders_and_others_do_not() {
    let order = |seed: &str| {
        let mut rig = medium(&[("seed", seed)]);
        for _ in 0..5 {
            let station = rig.add(1, 1500, 0);
            (0..20).for_each(|_| rig.send(station, 500));
        }
        core::iter::from_fn(|| rig.take_in_time()).map(|(station, _)| station).collect::<Vec<_>>()
    };
    assert_eq!(order("7").len(), 100);
    assert_eq!(order("7"), order("7"));
    assert_ne!(order("7"), order("8"));
}

#[test]
fn a_station_may_be_removed_while_it_sends() {
    let mut rig = medium(&[]);
    let (one, other) = (rig.add(1, 1500, 0), rig.add(1, 1500, 0));
    rig.send(one, 1000);
    assert!(rig.take().is_none(), "the packet is on the air");
    rig.remove(one);
    rig.send(other, 1000);
    assert_eq!(rig.take_in_time(), Some((other, 1000)));
}
