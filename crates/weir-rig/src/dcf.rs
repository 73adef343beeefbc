//! The 802.11b medium against its model: the saturation throughput, simulated and computed.
//!
//! Bianchi's model describes each station as a Markov chain over its window and its counter, and
//! assumes that every attempt collides with the same probability `p`. With a first window of `W`
//! slots that doubles `m` times, a station sends in a slot with probability
//! `τ = 2 / (1 + W + p W Σ (2p)^i)`, `i` from 0 to `m − 1`, and `p = 1 − (1 − τ)^(n − 1)`.
//! Bisection finds the common solution of both equations. The throughput is the mean number of
//! packet bits that are delivered in a slot, divided by the mean length of a slot.
//!
//! The model does not limit retries and decrements the counters in busy slots too. The simulation
//! limits retries and stops the counters in busy slots. With the windows of the standard, the
//! results differ by a few per cent.

use serde::Serialize;
use weir_core::descriptor::Descriptors;
use weir_core::packet::PacketId;
use weir_core::sched::{Dcf, DcfSettings, Discipline, FlowSlot, FlowSpec, Kind, Scheduler};
use weir_core::units::{NANOS_PER_SEC, Nanos};

/// The simulated and the computed throughput of stations that always have packets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Saturation {
    /// The number of stations.
    pub stations: u32,
    /// The total throughput in bit/s, simulated.
    pub simulated_bps: f64,
    /// The total throughput in bit/s, computed by the model.
    pub model_bps: f64,
    /// The share of transmissions that collide, simulated.
    pub simulated_collisions: f64,
    /// The share of transmissions that collide, computed by the model.
    pub model_collisions: f64,
    /// The share of packets that the simulation gives up after its last retry.
    pub given_up: f64,
}

impl Saturation {
    /// The relative difference of the simulated throughput from the model's.
    pub fn error(&self) -> f64 {
        self.simulated_bps / self.model_bps - 1.0
    }
}

/// The numbers of stations in the comparison.
pub const STATIONS: [u32; 9] = [1, 2, 3, 5, 10, 20, 30, 40, 50];
/// The packet length in the comparison, in bytes.
pub const PACKET: u32 = 1500;
/// The number of packets that are sent for each number of stations.
pub const PACKETS: u32 = 20_000;

/// Compares simulation and model for `stations` stations with packets of `len` bytes, of which
/// `packets` are sent. If `discipline` is not `dcf`, the default settings of `dcf` apply.
pub fn saturation(discipline: &Discipline, stations: u32, len: u32, packets: u32) -> Saturation {
    let discipline = if discipline.kind() == Kind::Dcf { *discipline } else { Kind::Dcf.into() };
    let (simulated_bps, simulated_collisions, given_up) =
        simulate(&discipline, stations, len, packets);
    let (model_bps, model_collisions) = model(&discipline, stations, len);
    Saturation {
        stations,
        simulated_bps,
        model_bps,
        simulated_collisions,
        model_collisions,
        given_up,
    }
}

/// The throughput, the share of transmissions that collide, and the share of packets given up.
fn simulate(discipline: &Discipline, stations: u32, len: u32, packets: u32) -> (f64, f64, f64) {
    let mut medium = Dcf::new(discipline);
    let mut store = Descriptors::new(stations as usize * 2);
    let mut now = Nanos::ZERO;
    let slots: Vec<FlowSlot> = (0..stations)
        .map(|flow| medium.add_flow(now, &FlowSpec { flow, ..FlowSpec::default() }))
        .collect();
    let send = |medium: &mut Dcf, store: &mut Descriptors, now: Nanos, flow: u32| {
        let packet = store.allocate(len, flow);
        let refused: Option<PacketId> = medium.enqueue(now, store, slots[flow as usize], packet);
        debug_assert!(refused.is_none(), "stations queue without a bound");
    };
    for flow in (0..stations).chain(0..stations) {
        send(&mut medium, &mut store, now, flow);
    }
    let mut sent = 0;
    while sent < packets {
        let taken = medium.dequeue(now, &mut store);
        sent += u32::from(taken.is_some());
        let given_up = medium.pop_refused(&mut store).map(|(packet, _)| packet);
        for packet in taken.into_iter().chain(given_up) {
            let (_, flow) = store.release(packet);
            send(&mut medium, &mut store, now, flow);
        }
        if taken.is_none() && given_up.is_none() {
            let Some(next) = medium.next_event() else { break };
            now = next;
        }
    }
    let count =
        |name| medium.figures().into_iter().find(|f| f.0 == name).map_or(0.0, |f| f.1 as f64);
    let seconds = now.0 as f64 / NANOS_PER_SEC as f64;
    let lost = count("retries") + count("given-up");
    let through = f64::from(sent) * f64::from(len) * 8.0 / seconds;
    (
        through,
        lost / (lost + f64::from(sent)),
        count("given-up") / (count("given-up") + f64::from(sent)),
    )
}

/// The throughput and the collision probability.
fn model(discipline: &Discipline, stations: u32, len: u32) -> (f64, f64) {
    let settings = DcfSettings::of(discipline);
    let window = f64::from(settings.cwmin) + 1.0;
    let (first, last) = (u64::from(settings.cwmin) + 1, u64::from(settings.cwmax) + 1);
    let doublings = (0..16).take_while(|i| first << i < last).count() as u32;
    let sends = |p: f64| {
        2.0 / (1.0 + window + p * window * (0..doublings).map(|i| power(2.0 * p, i)).sum::<f64>())
    };
    let others = stations - 1;
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let p = f64::midpoint(low, high);
        if 1.0 - power(1.0 - sends(p), others) > p { low = p } else { high = p }
    }
    let (p, tau, n) = (low, sends(low), f64::from(stations));
    let idle = power(1.0 - tau, stations);
    let success = n * tau * power(1.0 - tau, others);
    let slot = idle * SLOT + (1.0 - idle) * (exchange(&settings, len) + DIFS);
    (success * f64::from(len) * 8.0 / slot * 1e6, p)
}

/// `base` to the power of `exponent`, by multiplication, so that every machine gives the same
/// result.
fn power(base: f64, exponent: u32) -> f64 {
    (0..exponent).fold(1.0, |product, _| product * base)
}

/// The duration of a packet and its acknowledgement in us. A collision occupies the medium equally
/// long.
fn exchange(settings: &DcfSettings, len: u32) -> f64 {
    let mbps = settings.phy.half_mbps() as f64 / 2.0;
    let preamble = settings.preamble.micros() as f64;
    let time = |bytes: f64, mbps: f64| (bytes * 8.0 / mbps).ceil();
    preamble
        + time(f64::from(len) + HEADERS, mbps)
        + SIFS
        + preamble
        + time(ACK, f64::min(mbps, 2.0))
}

/// The duration of a slot in us.
const SLOT: f64 = 20.0;
const SIFS: f64 = 10.0;
const DIFS: f64 = 50.0;
/// The headers of a packet in bytes.
const HEADERS: f64 = 36.0;
const ACK: f64 = 14.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_medium_carries_what_bianchis_model_says() {
        for stations in STATIONS {
            for settings in [
                &[][..],
                &[("phy", "1"), ("preamble", "long")],
                &[("phy", "5.5"), ("preamble", "short"), ("seed", "9")],
            ] {
                let mut discipline = Discipline::new(Kind::Dcf);
                settings.iter().for_each(|(name, value)| discipline.set(name, value).unwrap());
                let found = saturation(&discipline, stations, PACKET, PACKETS / 4);
                assert!(found.error().abs() < 0.04, "{settings:?}: {found:?}");
                assert!(
                    (found.simulated_collisions - found.model_collisions).abs() < 0.04,
                    "{settings:?}: {found:?}"
                );
            }
        }
    }

    /// A single station has no collisions. Each packet takes its transmission, its acknowledgement,
    /// a DIFS and 15.5 slots on average.
    #[test]
    fn the_model_of_one_station_is_a_sum_of_times() {
        let (bps, p) = model(&Kind::Dcf.into(), 1, 1464);
        assert!(p < 1e-9);
        let us = 1541.0 + 50.0 + 15.5 * 20.0;
        assert!((bps - 1464.0 * 8.0 / us * 1e6).abs() < 1000.0, "{bps}");
    }
}
