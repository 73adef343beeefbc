//! The 802.11 medium: exact times of single stations, of frames announced by an RTS and of TXOPs,
//! fair turns, the accounting of collisions and errors, and access categories.

use crate::common;

use common::Rig;
use weir_core::Nanos;
use weir_core::packet::{Header, Packet, Pool};
use weir_core::sched::wifi::Category;
use weir_core::sched::{Dcf, Discipline, FlowSpec, Kind, Misfit, Scheduler, check, check_flow};
use weir_core::stats::DropReason;

fn dcf(settings: &[(&str, &str)]) -> Discipline {
    let mut discipline = Discipline::new(Kind::Dcf);
    settings.iter().for_each(|(name, value)| discipline.set(name, value).unwrap());
    discipline
}

fn medium(settings: &[(&str, &str)]) -> Rig<Dcf> {
    Rig::new(Dcf::new(&dcf(settings)))
}

fn variable<S: Scheduler>(rig: &Rig<S>, name: &str) -> u64 {
    rig.scheduler.variables().into_iter().find(|f| f.0 == name).unwrap().1
}

/// A packet of 1464 bytes has 1500 bytes with its overhead. Its frame takes 192 us for the preamble
/// and 1091 us at 11 Mbit/s. SIFS and an acknowledgement of 192 + 56 us follow.
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
        // DIFS is 50 us; the rest is the backoff in slots of 20 us.
        let waited = rig.now.0 - before - 1_541_000 - 50_000;
        assert_eq!(waited % 20_000, 0);
        assert!(waited / 20_000 <= 31);
        slots += waited / 20_000;
    }
    // The mean backoff is 15.5 slots.
    assert!(slots.abs_diff(count * 31 / 2) < count / 2, "{slots}");
    assert_eq!(variable(&rig, "collisions"), 0);
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
        (variable(&rig, "collisions"), variable(&rig, "retries"), variable(&rig, "given-up"));
    assert!(
        collisions > 1000 && retries + given_up >= 2 * collisions,
        "{collisions} {retries} {given_up}"
    );
}

#[test]
fn a_packet_is_dropped_after_its_retries_and_the_next_is_sent() {
    let mut rig = medium(&[("retries", "0"), ("cwmin", "1"), ("cwmax", "1")]);
    let stations = [rig.add(1, 1500, 0), rig.add(1, 1500, 0)];
    for _ in 0..200 {
        stations.iter().for_each(|&station| rig.send(station, 1000));
    }
    let mut served = 0;
    while rig.take_in_time().is_some() {
        served += 1;
    }
    let given_up = variable(&rig, "given-up");
    assert_eq!((served + given_up, rig.inside(), rig.pool.len()), (400, 0, 0));
    assert!(given_up > 50 && given_up == 2 * variable(&rig, "collisions"), "{given_up}");
}

#[test]
fn only_equal_seeds_give_equal_orders() {
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

/// Adds a station with this rate in bit/s (0: the rate of the medium) and this priority.
fn station(rig: &mut Rig<Dcf>, rate: u64, priority: u32) -> u32 {
    rig.add_spec(FlowSpec { rate, priority, ..FlowSpec::default() })
}

/// A frame of 1500 bytes takes 192 + 1091 us at 11 Mbit/s, and 192 + 12,000 us at 1 Mbit/s.
#[test]
fn stations_have_rates_of_their_own_and_equal_turns() {
    let mut rig = medium(&[]);
    let (fast, slow) = (station(&mut rig, 0, 0), station(&mut rig, 1_000_000, 0));
    for (flow, us) in [(fast, 1541), (slow, 12_506)] {
        rig.now = Nanos(rig.now.0 + 1_000_000_000);
        let before = rig.now.0;
        rig.send(flow, 1464);
        assert_eq!(rig.take_in_time(), Some((flow, 1464)));
        // A packet that finds the medium idle waits at most until the next slot.
        let took = rig.now.0 - before;
        assert!((us * 1000..us * 1000 + 20_000).contains(&took), "{took}");
    }
    [fast, fast, slow, slow].into_iter().for_each(|flow| rig.send(flow, 1464));
    let mut packets = [0u32; 2];
    for _ in 0..4000 {
        let (flow, len) = rig.take_in_time().unwrap();
        packets[flow as usize] += 1;
        rig.send(flow, len);
    }
    assert!(packets[0].abs_diff(2000) < 150, "{packets:?}");
}

#[test]
fn a_rate_changes_with_the_next_packet() {
    let mut rig = medium(&[("cwmin", "1"), ("cwmax", "1")]);
    let flow = station(&mut rig, 0, 0);
    (0..3).for_each(|_| rig.send(flow, 1464));
    rig.take_in_time();
    let spec = FlowSpec { rate: 2_000_000, ..rig.flows[&flow].spec };
    let slot = rig.flows[&flow].slot;
    rig.scheduler.change_flow(rig.now, &mut rig.pool, slot, &spec);
    let before = rig.now.0;
    rig.take_in_time();
    // DIFS, 0 or 1 slots, 192 + 6000 us, SIFS, 192 + 56 us.
    assert!([6_500_000, 6_520_000].contains(&(rig.now.0 - before)), "{}", rig.now.0 - before);
}

#[test]
fn a_frame_announced_by_an_rts_takes_rts_and_cts_too() {
    for (rts, us) in [("1499", 272 + 10 + 248 + 10 + 1541), ("1500", 1541)] {
        let mut rig = medium(&[("rts", rts)]);
        let flow = station(&mut rig, 0, 0);
        rig.send(flow, 1464);
        rig.take_in_time();
        assert_eq!(rig.now, Nanos(us * 1000));
    }
}

#[test]
fn other_standards_have_their_own_times() {
    // Preamble, data, SIFS and acknowledgement. With `g` and `n`, a signal extension of 6 us
    // follows the data and the acknowledgement.
    for (standard, us) in [("g", 294), ("a", 20 + 224 + 16 + 28), ("n", 36 + 188 + 16 + 34)] {
        let mut rig = medium(&[("standard", standard)]);
        let flow = station(&mut rig, 0, 0);
        rig.send(flow, 1464);
        rig.take_in_time();
        assert_eq!(rig.now, Nanos(us * 1000), "{standard}");
    }
}

/// Every attempt fails, so each packet takes three attempts and is dropped.
#[test]
fn a_packet_is_dropped_when_all_its_attempts_fail() {
    let mut pool = Pool::new(10);
    let mut dcf = Dcf::new(&dcf(&[("errors", "1"), ("retries", "2")]));
    let slot = dcf.add_flow(Nanos::ZERO, &FlowSpec::default());
    for frame in 0..2 {
        let packet = Packet { frame, len: 1464, segments: 1, ..Packet::default() };
        let id = pool.insert(packet).unwrap();
        assert!(dcf.enqueue(Nanos::ZERO, &mut pool, slot, id).is_none());
    }
    while let Some(now) = dcf.next_event() {
        assert!(dcf.dequeue(now, &mut pool).is_none());
    }
    for frame in 0..2 {
        let (id, reason) = dcf.pop_refused(&mut pool).unwrap();
        assert_eq!((pool.remove(id).frame, reason), (frame, DropReason::RetryLimit));
    }
    assert_eq!((dcf.len(), dcf.backlog(), pool.len()), (0, 0, 0));
    let variables = dcf.variables();
    for (name, count) in [("errors", 6), ("retries", 4), ("given-up", 2), ("sent", 0)] {
        assert!(variables.contains(&(name, count)), "{variables:?}");
    }
}

/// Of 20,000 attempts, 6000 fail on average, with a standard deviation of 65.
#[test]
fn frames_are_lost_with_their_probability() {
    let mut rig = medium(&[("errors", "0.3"), ("retries", "255")]);
    let flow = station(&mut rig, 0, 0);
    rig.send(flow, 500);
    rig.send(flow, 500);
    while variable(&rig, "sent") + variable(&rig, "errors") < 20_000 {
        rig.take_in_time();
        rig.send(flow, 500);
    }
    assert!(variable(&rig, "errors").abs_diff(6000) < 300, "{}", variable(&rig, "errors"));
    assert_eq!(variable(&rig, "retries"), variable(&rig, "errors"));
}

/// With a window of one slot, a station waits for SIFS, AIFSN slots, and at most one further slot.
#[test]
fn a_category_waits_for_its_own_gap() {
    let settings = [("edca", "queue"), ("cwmin", "1"), ("cwmax", "1"), ("txop", "0")];
    for (priority, aifsn) in [(0, 3), (1, 7), (2, 7), (3, 3), (4, 2), (5, 2), (6, 2), (7, 2)] {
        let mut rig = medium(&settings);
        let flow = station(&mut rig, 0, priority);
        (0..2).for_each(|_| rig.send(flow, 1462));
        rig.take_in_time();
        let mut gaps = std::collections::BTreeSet::new();
        for _ in 0..50 {
            let before = rig.now.0;
            rig.send(flow, 1462);
            rig.take_in_time();
            gaps.insert((rig.now.0 - before) / 1000 - 1541);
        }
        let expected = [10 + aifsn * 20, 10 + (aifsn + 1) * 20];
        assert_eq!(gaps.into_iter().collect::<Vec<u64>>(), expected, "priority {priority}");
    }
}

/// In 3264 us there is room for two packets of 1541 us with a SIFS between them.
#[test]
fn a_category_sends_until_its_limit() {
    let mut rig = medium(&[("edca", "queue")]);
    let flow = station(&mut rig, 0, 6);
    (0..101).for_each(|_| rig.send(flow, 1462));
    rig.take_in_time();
    for n in 1..101 {
        let before = rig.now.0;
        rig.take_in_time();
        let gap = (rig.now.0 - before) / 1000 - 1541;
        if n % 2 == 1 {
            assert_eq!(gap, 10, "packet {n}");
        } else {
            // AIFS, and up to 7 slots.
            assert!(
                (50..=190).contains(&gap) && (gap - 50).is_multiple_of(20),
                "packet {n}: {gap}"
            );
        }
    }
}

/// One station with packets of all categories: each category keeps its order, and voice sends the
/// most packets.
#[test]
fn the_dscp_selects_the_category_within_a_station() {
    let mut pool = Pool::new(1000);
    let mut dcf = Dcf::new(&dcf(&[("edca", "dscp"), ("txop", "0")]));
    let slot = dcf.add_flow(Nanos::ZERO, &FlowSpec::default());
    let dscps = [46u8, 34, 0, 8];
    let mut frames = 0;
    let mut send = |dcf: &mut Dcf, pool: &mut Pool, now, dscp| {
        let packet = Packet { frame: frames, len: 1000, segments: 1, ..Packet::default() };
        let id = pool.insert(packet).unwrap();
        pool.set_header(id, Header { dscp, ..Header::default() });
        frames += 1;
        assert!(dcf.enqueue(now, pool, slot, id).is_none());
    };
    dscps.into_iter().cycle().take(8).for_each(|d| send(&mut dcf, &mut pool, Nanos::ZERO, d));
    let (mut served, mut last, mut total) = ([0; 4], [None; 4], 0);
    while total < 4000 {
        let now = dcf.next_event().unwrap();
        let taken = dcf.dequeue(now, &mut pool);
        total += u32::from(taken.is_some());
        let refused = dcf.pop_refused(&mut pool).map(|refused| refused.0);
        for (id, given_up) in
            taken.into_iter().map(|id| (id, 0)).chain(refused.into_iter().map(|id| (id, 1)))
        {
            let dscp = weir_core::packet::Store::header(&pool, id).dscp;
            let frame = pool.remove(id).frame;
            let category = Category::of_dscp(dscp) as usize;
            assert!(last[category] < Some(frame), "order of category {category}");
            last[category] = Some(frame);
            served[category] += 1 - given_up;
            send(&mut dcf, &mut pool, now, dscp);
        }
    }
    assert!(served[0] > 3 * served[1] / 2 && served[1] > 2 * served[2], "{served:?}");
    assert!(served[2] > served[3], "{served:?}");
    let variables = dcf.variables();
    let count = |name| variables.iter().find(|f| f.0 == name).unwrap().1;
    // The categories of a single station collide only inside the station.
    assert!(count("collisions") == 0 && count("internal-collisions") > 100, "{variables:?}");
}

/// Stations change their categories and rates and are removed while they contend and send.
#[test]
fn changes_lose_no_packet() {
    for edca in ["off", "queue", "dscp"] {
        let mut rig = medium(&[("edca", edca), ("errors", "0.1"), ("rts", "700")]);
        let mut random = 1u64;
        let mut below = move |n: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % n
        };
        let mut flows: Vec<u32> = (0..8).map(|n| station(&mut rig, 0, n)).collect();
        for _ in 0..20_000 {
            let n = below(8) as usize;
            match below(20) {
                0 => {
                    let state = rig.flows.get_mut(&flows[n]).unwrap();
                    let rate = [0, 1_000_000, 5_500_000][below(3) as usize];
                    state.spec = FlowSpec { priority: below(8) as u32, rate, ..state.spec };
                    let (slot, spec) = (state.slot, state.spec);
                    rig.scheduler.change_flow(rig.now, &mut rig.pool, slot, &spec);
                }
                1 if below(10) == 0 => {
                    rig.remove(flows[n]);
                    flows[n] = station(&mut rig, 0, n as u32);
                }
                2..12 => rig.send(flows[n], 100 + below(1300) as u32),
                _ => {
                    let took = below(3_000_000);
                    let late = rig.now.saturating_add(Nanos(took));
                    if rig.scheduler.next_event().is_some_and(|next| next <= late) {
                        rig.take_in_time();
                    } else {
                        rig.now = late;
                    }
                }
            }
            assert_eq!(rig.scheduler.len(), rig.inside(), "{edca}");
        }
        while rig.take_in_time().is_some() {}
        assert_eq!((rig.inside(), rig.pool.len(), rig.scheduler.backlog()), (0, 0, 0), "{edca}");
    }
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    for (settings, fits) in [
        (&[("phy", "5.5")][..], true),
        (&[("standard", "g"), ("phy", "54")], true),
        (&[("standard", "g"), ("phy", "11")], false),
        (&[("standard", "n"), ("phy", "54")], false),
        (&[("standard", "a"), ("preamble", "short")], false),
        (&[("preamble", "short")], true),
    ] {
        assert_eq!(check(&dcf(settings)).is_ok(), fits, "{settings:?}");
    }
    let b = dcf(&[]);
    assert_eq!(check_flow(&b, 5_500_000, 63), Ok(()));
    let error = check_flow(&b, 7_000_000, 0).unwrap_err();
    assert_eq!(error.to_string(), "802.11b has no data rate of 7 Mbit/s; it has 1, 2, 5.5, 11");
    let edca = dcf(&[("edca", "queue")]);
    assert_eq!(check_flow(&edca, 0, 7), Ok(()));
    assert_eq!(check_flow(&edca, 0, 8), Err(Misfit::Priority(8)));
    assert_eq!(check_flow(&Kind::Htb.into(), 7_000_000, 63), Ok(()));
}
