//! Analytic models of the 802.11 medium under saturation.
//!
//! # Contention zones
//! In Bianchi's model a station sends in each slot with a probability `τ`, independently of other
//! stations, and each attempt fails with the same probability `p`. A backoff is 0 to `CW_j` slots
//! long at attempt `j`, where `CW_j + 1` doubles with each retry up to `CWmax + 1`. With at most
//! `R` retries, a packet has `Σ p^j` attempts, and its backoffs and attempts take
//! `Σ p^j (CW_j / 2 + 1)` slots, `j` from 0 to `R`. `τ` is the number of attempts divided by this
//! number of slots. Without a bound on retries, this is Bianchi's formula.
//!
//! Access categories differ in the gap (AIFS) that they wait before contention. Slot 0 after a
//! transmission begins at the end of the shortest gap. A category with a gap that is `d` slots
//! longer than the shortest gap sends only in the slots from `d` on. These ranges of slots are
//! Robinson and Randhawa's contention zones. The medium reaches slot `i` if all slots before it are
//! idle. An attempt fails if another station sends in the same slot. The probability of this is a
//! mean over the slots in which the category may send, weighted by the probability that the medium
//! reaches the slot. `τ` and `p` of all categories depend on one another; the model finds them by
//! damped iteration.
//!
//! A period from one transmission to the end of the next consists of the shortest gap, idle slots,
//! and a success or a collision. Its mean length, and the mean bits that it delivers, give the
//! throughput of each group. A group with a TXOP limit delivers all packets that fit. An error has
//! the cost of a success and delivers nothing.
//!
//! # Differences from the simulation
//! The models let a backoff count the slot in which another station begins to send. EDCA does so;
//! DCF does not, and its stations send a little less often than the model says.

use weir_core::sched::DcfSettings;
use weir_core::sched::wifi::{Air, Category};

use super::group::Group;

/// The result of a model for each group.
#[derive(Clone, Debug, PartialEq)]
pub struct Computed {
    /// The throughput of one station of each group, in bit/s.
    pub station_bps: Vec<f64>,
    /// The probability that an attempt of each group collides.
    pub collisions: Vec<f64>,
}

impl Computed {
    /// The total throughput of the groups in bit/s.
    pub fn total(&self, groups: &[Group]) -> f64 {
        self.station_bps.iter().zip(groups).map(|(bps, g)| bps * f64::from(g.stations)).sum()
    }
}

/// A group of equal stations in the model.
struct Class {
    stations: u32,
    /// Number of slots after the shortest gap in which the class does not send.
    offset: usize,
    /// The contention window of each attempt.
    windows: Vec<f64>,
    /// The mean number of bits that an access delivers.
    bits: f64,
    /// The duration of a successful access, in us.
    success: f64,
    /// The duration of a collision, in us. Only the first packet of an access can collide.
    collision: f64,
    /// The probability that an error destroys an access.
    errors: f64,
}

/// The throughput of groups of stations that always have packets. With `retries`, a packet has at
/// most that many retries. Without it, the number of retries has no bound.
pub fn saturation(settings: &DcfSettings, groups: &[Group], retries: Option<u32>) -> Computed {
    let air = settings.air();
    let access: Vec<_> = groups.iter().map(|g| settings.access(category(settings, g))).collect();
    let least = access.iter().map(|a| a.aifsn).min().unwrap_or(0);
    let errors = settings.errors.0 as f64 / weir_core::settings::UNIT as f64;
    let classes: Vec<Class> = groups
        .iter()
        .zip(&access)
        .map(|(group, access)| {
            let rate = air.rate_of(group.rate_bps);
            let (frames, success) = txop(&air, group.len, rate, access.txop);
            let window = |n: u32| {
                let window = f64::from(access.first_window + 1) * power(2.0, n.min(20)) - 1.0;
                window.min(f64::from(access.last_window))
            };
            Class {
                stations: group.stations,
                offset: (access.aifsn - least) as usize,
                windows: (0..=retries.unwrap_or(UNBOUNDED)).map(window).collect(),
                bits: f64::from(frames) * f64::from(group.len) * 8.0 * (1.0 - errors),
                success,
                collision: air.collision(group.len, rate) as f64,
                errors,
            }
        })
        .collect();
    let gap = (air.sifs() + least * air.slot()) as f64;
    let sends = fixed_point(&classes);
    periods(&classes, &sends, gap, air.slot() as f64)
}

/// The category of a group's packets.
pub(super) fn category(settings: &DcfSettings, group: &Group) -> Category {
    match settings.edca {
        weir_core::sched::Edca::Off => Category::BestEffort,
        _ => Category::of_priority(group.priority),
    }
}

/// The number of packets that an access sends, and the duration of the access in us.
fn txop(air: &Air, len: u32, rate: u32, limit: u64) -> (u32, f64) {
    let first = air.success(len, rate);
    let next = air.sifs() + air.exchange(len, rate);
    let more = limit.saturating_sub(first) / next;
    (1 + more as u32, (first + more * next) as f64)
}

/// The probability that a station of each class sends in a slot in which it may send.
fn fixed_point(classes: &[Class]) -> Vec<f64> {
    let mut sends: Vec<f64> = classes.iter().map(|_| 0.05).collect();
    for _ in 0..ITERATIONS {
        let next: Vec<f64> = (0..classes.len())
            .map(|k| {
                let class = &classes[k];
                let p = collides(classes, &sends, k);
                let fails = 1.0 - (1.0 - p) * (1.0 - class.errors);
                let (mut weight, mut attempts, mut slots) = (1.0, 0.0, 0.0);
                for window in &class.windows {
                    attempts += weight;
                    slots += weight * (window / 2.0 + 1.0);
                    weight *= fails;
                }
                attempts / slots
            })
            .collect();
        sends.iter_mut().zip(next).for_each(|(send, next)| *send += DAMPING * (next - *send));
    }
    sends
}

/// The probability that an attempt of class `k` collides.
fn collides(classes: &[Class], sends: &[f64], k: usize) -> f64 {
    let (mut reached, mut alone, mut weight) = (0.0, 0.0, 1.0);
    for slot in 0..MAX_SLOTS {
        if weight < NEGLIGIBLE {
            break;
        }
        let idle = silence(classes, sends, slot, |_| true);
        if slot >= classes[k].offset {
            reached += weight;
            alone += weight * idle / (1.0 - sends[k]);
        }
        weight *= idle;
    }
    1.0 - alone / reached
}

/// The probability that a slot stays idle if only the classes for which `counts` is true could
/// send.
fn silence(classes: &[Class], sends: &[f64], slot: usize, counts: impl Fn(usize) -> bool) -> f64 {
    (0..classes.len())
        .filter(|&k| counts(k) && classes[k].offset <= slot)
        .map(|k| power(1.0 - sends[k], classes[k].stations))
        .product()
}

/// The throughput of each class, from the mean length and contents of the periods between the ends
/// of transmissions.
fn periods(classes: &[Class], sends: &[f64], gap: f64, slot_us: f64) -> Computed {
    let mut wins = vec![0.0; classes.len()];
    let (mut us, mut weight) = (gap, 1.0);
    for slot in 0..MAX_SLOTS {
        if weight < NEGLIGIBLE {
            break;
        }
        for (k, class) in classes.iter().enumerate().filter(|(_, c)| c.offset <= slot) {
            let n = class.stations;
            let one = f64::from(n) * sends[k] * power(1.0 - sends[k], n.saturating_sub(1));
            let wins_here = weight * one * silence(classes, sends, slot, |other| other != k);
            wins[k] += wins_here;
            us += wins_here * class.success;
            // Collisions in which this class has the longest frame.
            let longer = |other: usize| (classes[other].collision, other) > (class.collision, k);
            let shorter = |other: usize| other != k && !longer(other);
            let some = 1.0 - power(1.0 - sends[k], n);
            let collisions = some - one * silence(classes, sends, slot, shorter);
            let longest = silence(classes, sends, slot, longer) * collisions;
            us += weight * longest * class.collision;
        }
        let idle = silence(classes, sends, slot, |_| true);
        weight *= idle;
        us += weight * slot_us;
    }
    let bps =
        |(k, class): (usize, &Class)| wins[k] * class.bits / f64::from(class.stations) / us * 1e6;
    Computed {
        station_bps: classes.iter().enumerate().map(bps).collect(),
        collisions: (0..classes.len()).map(|k| collides(classes, sends, k)).collect(),
    }
}

/// The throughput of each station in bit/s by Heusse's formula. Of `stations` stations, one has the
/// rate `slow`, and the others have the rate of the medium. All packets have `len` bytes.
///
/// The frames of all `N` stations take `(N − 1) T_f + T_s` in a round, where `T_f` is the time of
/// a fast station's frame and `T_s` that of the slow station's. Collisions take `P_c N t_jam`,
/// where `t_jam` is the time of one collision. A frame takes `T = t_frame + DIFS + t_cont` with
/// `t_cont = slot (1 + P_c) / 2N · CWmin / 2` and `P_c = 1 − (1 − 1/CWmin)^(N − 1)`, where
/// `CWmin` is the number of slots in the first window. A collision takes as long as a slow frame if
/// the slow station takes part, which it does in `2/N` of all collisions.
pub fn heusse(settings: &DcfSettings, stations: u32, slow: u64, len: u32) -> f64 {
    let (air, n) = (settings.air(), f64::from(stations));
    let access = settings.access(Category::BestEffort);
    let window = f64::from(access.first_window + 1);
    let collides = 1.0 - power(1.0 - 1.0 / window, stations - 1);
    let contention = air.slot() as f64 * (1.0 + collides) / (2.0 * n) * window / 2.0;
    let gap = (air.sifs() + access.aifsn * air.slot()) as f64;
    let frame = |bps: u64| air.success(len, air.rate_of(bps)) as f64 + gap + contention;
    let (fast, slow) = (frame(0), frame(slow));
    let jam = 2.0 / n * slow + (1.0 - 2.0 / n) * fast;
    f64::from(len) * 8.0 / ((n - 1.0) * fast + slow + collides * jam * n) * 1e6
}

/// `base` to the power of `exponent`, by multiplication, so that every machine gives the same
/// result.
fn power(base: f64, exponent: u32) -> f64 {
    (0..exponent).fold(1.0, |product, _| product * base)
}

/// The number of iterations of [`fixed_point`].
const ITERATIONS: u32 = 400;
/// An iteration moves each probability by this fraction of its distance to the newly computed
/// value.
const DAMPING: f64 = 0.2;
/// The largest number of slots after a transmission. The model leaves out slots that are reached
/// with a probability below `NEGLIGIBLE`.
const MAX_SLOTS: usize = 100_000;
const NEGLIGIBLE: f64 = 1e-12;
/// Retries that count as unbounded.
const UNBOUNDED: u32 = 200;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::sched::{Discipline, Kind};

    fn settings(words: &[(&str, &str)]) -> DcfSettings {
        let mut discipline = Discipline::new(Kind::Dcf);
        words.iter().for_each(|(name, value)| discipline.set(name, value).unwrap());
        DcfSettings::of(&discipline)
    }

    fn group(stations: u32) -> Group {
        Group { stations, ..Group::default() }
    }

    /// A single station has no collisions. Each packet takes its transmission, its acknowledgement,
    /// a DIFS and 15.5 slots on average.
    #[test]
    fn the_model_of_one_station_is_a_sum_of_times() {
        let found = saturation(&settings(&[]), &[Group { len: 1464, ..group(1) }], None);
        assert!(found.collisions[0] < 1e-9);
        let us = 1541.0 + 50.0 + 15.5 * 20.0;
        let bps = found.station_bps[0];
        assert!((bps - 1464.0 * 8.0 / us * 1e6).abs() < 1000.0, "{bps}");
    }

    /// Bianchi's τ(p) for unbounded retries: 2 (1 − 2p) / ((1 − 2p)(W + 1) + p W (1 − (2p)^m)).
    #[test]
    fn without_a_bound_on_retries_the_model_is_bianchis() {
        for stations in [2, 5, 10, 50] {
            let found = saturation(&settings(&[]), &[group(stations)], None);
            let p = found.collisions[0];
            let (w, m) = (32.0, 5);
            let tau = 2.0 * (1.0 - 2.0 * p)
                / ((1.0 - 2.0 * p) * (w + 1.0) + p * w * (1.0 - power(2.0 * p, m)));
            let again = 1.0 - power(1.0 - tau, stations - 1);
            assert!((p - again).abs() < 1e-6, "{stations}: {p} {again}");
        }
    }

    /// Splitting a group into two with the same settings changes nothing.
    #[test]
    fn groups_of_equal_stations_are_one_group() {
        let edca = settings(&[("edca", "queue"), ("txop", "0")]);
        let whole = saturation(&edca, &[group(6)], Some(7));
        let parts = saturation(&edca, &[group(2), group(4)], Some(7));
        for bps in parts.station_bps {
            assert!((bps / whole.station_bps[0] - 1.0).abs() < 1e-9);
        }
    }

    /// Two stations, computed by hand: one at 11 Mbit/s with T_f = 1568 + 50 + 20·(33/32)/4·16
    /// us, and one at 1 Mbit/s.
    #[test]
    fn heusses_formula_is_that_of_the_paper() {
        let bps = heusse(&settings(&[]), 2, 1_000_000, 1500);
        let contention = 20.0 * (1.0 + 1.0 / 32.0) / 4.0 * 16.0;
        let (fast, slow) = (1568.0 + 50.0 + contention, 12_794.0 + 50.0 + contention);
        let expected = 12_000.0 / (fast + slow + slow * 2.0 / 32.0) * 1e6;
        assert!((bps - expected).abs() < 1.0, "{bps} {expected}");
    }
}
