//! From a list of received packets to the figures: loss, duplication, order, gaps, delays,
//! throughput and bursts.

use serde::{Deserialize, Serialize};

use crate::clock::SECOND;

/// One received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Its number, from 0.
    pub sequence: u32,
    /// Network-layer bytes.
    pub bytes: u32,
    /// When it was sent, ns.
    pub sent_ns: u64,
    /// When it arrived, ns on the same clock.
    pub arrived_ns: u64,
    /// It carries the mark of congestion.
    pub marked: bool,
}

/// Where the values of a sample lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Least.
    pub min: u64,
    /// 1st percentile.
    pub p1: u64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Greatest.
    pub max: u64,
    /// Mean.
    pub mean: f64,
}

impl Spread {
    /// The spread of values in any order; zeros without any.
    pub fn of(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        let (Some(&min), Some(&max)) = (values.first(), values.last()) else {
            return Self::default();
        };
        // Nearest rank: the least value that at least this share of all values does not exceed.
        let rank =
            |percent: usize| values[(values.len() * percent).div_ceil(100).saturating_sub(1)];
        let mean = values.iter().map(|&v| v as f64).sum::<f64>() / values.len() as f64;
        Self { min, p1: rank(1), p50: rank(50), p99: rank(99), max, mean }
    }
}

/// What a receiver saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reception {
    /// Packets, copies included.
    pub received: u64,
    /// Network-layer bytes, copies included.
    pub bytes: u64,
    /// From the first to the last packet, ns.
    pub span_ns: u64,
    /// Network-layer bits per second: the bytes after the first packet over the span. 0 below two
    /// packets.
    pub bits_per_second: f64,
    /// Packets per second over the span.
    pub packets_per_second: f64,
    /// Packets that were sent (as far as known: the highest number seen, or what the caller said).
    pub expected: u64,
    /// Numbers that never came.
    pub lost: u64,
    /// Runs of numbers that never came; a run may have length 1.
    pub loss_runs: u64,
    /// The longest of these runs.
    pub longest_loss_run: u64,
    /// Copies of packets that had come already.
    pub duplicated: u64,
    /// Packets that carry the mark of congestion.
    #[serde(default)]
    pub marked: u64,
    /// Packets that came after one with a higher number.
    pub reordered: u64,
    /// The greatest distance of such a packet from the highest number before it.
    pub reorder_depth: u64,
    /// Time between neighbours, ns.
    pub gap_ns: Spread,
    /// Time from sending to arrival, ns.
    pub delay_ns: Spread,
    /// The smallest token bucket that would have let this arrive unshaped at `burst_rate`, bytes.
    pub burst_bytes: Option<u64>,
    /// Packets that the socket had no room for; they are lost too, but not by the link.
    pub socket_drops: u64,
    /// The lost numbers, when asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_sequences: Vec<u32>,
    /// Each packet's number and arrival in nanoseconds since the first, in the order of arrival,
    /// when asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrivals: Vec<(u32, u64)>,
}

/// What the figures need to know beside the packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// How many packets were sent, when known; the numbers after the last one received are lost too
    /// then.
    pub sent: Option<u64>,
    /// Rate in bits/s against which bursts are measured.
    pub burst_rate: Option<u64>,
    /// List the lost numbers.
    pub list_lost: bool,
    /// List the arrivals.
    pub list_arrivals: bool,
}

/// The figures for packets in the order of their arrival.
pub fn reception(receipts: &[Receipt], known: Known) -> Reception {
    let (Some(first), Some(last)) = (receipts.first(), receipts.last()) else {
        let lost = known.sent.unwrap_or(0);
        return Reception {
            expected: lost,
            lost,
            loss_runs: lost.min(1),
            longest_loss_run: lost,
            ..Reception::default()
        };
    };
    let span_ns = last.arrived_ns.saturating_sub(first.arrived_ns);
    let bytes: u64 = receipts.iter().map(|r| u64::from(r.bytes)).sum();
    let per_second =
        |n: u64| if span_ns == 0 { 0.0 } else { n as f64 * SECOND as f64 / span_ns as f64 };
    let order = order(receipts);
    let losses = losses(&order.seen, known.sent);
    let gaps =
        receipts.windows(2).map(|w| w[1].arrived_ns.saturating_sub(w[0].arrived_ns)).collect();
    Reception {
        received: receipts.len() as u64,
        bytes,
        span_ns,
        bits_per_second: per_second((bytes - u64::from(first.bytes)) * 8),
        packets_per_second: per_second(receipts.len() as u64 - 1),
        expected: losses.expected,
        lost: losses.sequences.len() as u64,
        loss_runs: losses.runs,
        longest_loss_run: losses.longest,
        duplicated: order.duplicated,
        marked: receipts.iter().filter(|r| r.marked).count() as u64,
        reordered: order.reordered,
        reorder_depth: order.depth,
        gap_ns: Spread::of(gaps),
        delay_ns: Spread::of(
            receipts.iter().map(|r| r.arrived_ns.saturating_sub(r.sent_ns)).collect(),
        ),
        burst_bytes: known.burst_rate.map(|rate| burst(receipts, rate)),
        socket_drops: 0,
        lost_sequences: if known.list_lost { losses.sequences } else { Vec::new() },
        arrivals: if known.list_arrivals {
            receipts
                .iter()
                .map(|r| (r.sequence, r.arrived_ns.saturating_sub(first.arrived_ns)))
                .collect()
        } else {
            Vec::new()
        },
    }
}

/// Copies and order.
struct Order {
    seen: Vec<bool>,
    duplicated: u64,
    reordered: u64,
    depth: u64,
}

fn order(receipts: &[Receipt]) -> Order {
    let highest = receipts.iter().map(|r| r.sequence).max().unwrap_or(0);
    let mut order =
        Order { seen: vec![false; highest as usize + 1], duplicated: 0, reordered: 0, depth: 0 };
    let mut top = 0;
    for r in receipts {
        if std::mem::replace(&mut order.seen[r.sequence as usize], true) {
            order.duplicated += 1;
        } else if r.sequence < top {
            order.reordered += 1;
            order.depth = order.depth.max(u64::from(top - r.sequence));
        }
        top = top.max(r.sequence);
    }
    order
}

/// Numbers that never came.
struct Losses {
    expected: u64,
    sequences: Vec<u32>,
    runs: u64,
    longest: u64,
}

fn losses(seen: &[bool], sent: Option<u64>) -> Losses {
    let expected = sent.unwrap_or(0).max(seen.len() as u64);
    let mut losses = Losses { expected, sequences: Vec::new(), runs: 0, longest: 0 };
    let mut run = 0;
    for n in 0..expected {
        if seen.get(n as usize).copied().unwrap_or(false) {
            run = 0;
            continue;
        }
        losses.sequences.push(n as u32);
        losses.runs += u64::from(run == 0);
        run += 1;
        losses.longest = losses.longest.max(run);
    }
    losses
}

/// The greatest fill of a bucket that drains at `rate` bits/s, bytes rounded up.
///
/// Kept in bits × 10⁹ so that nothing is rounded on the way.
fn burst(receipts: &[Receipt], rate: u64) -> u64 {
    let (mut fill, mut most) = (0u128, 0u128);
    let mut before = receipts.first().map_or(0, |r| r.arrived_ns);
    for r in receipts {
        let drained = u128::from(r.arrived_ns.saturating_sub(before)) * u128::from(rate);
        before = r.arrived_ns;
        fill = fill.saturating_sub(drained) + u128::from(r.bytes) * 8 * u128::from(SECOND);
        most = most.max(fill);
    }
    most.div_ceil(8 * u128::from(SECOND)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(list: &[(u32, u64)]) -> Vec<Receipt> {
        list.iter()
            .map(|&(sequence, ms)| Receipt {
                sequence,
                bytes: 1000,
                sent_ns: 0,
                arrived_ns: ms * 1_000_000,
                marked: false,
            })
            .collect()
    }

    fn figures(list: &[(u32, u64)]) -> Reception {
        reception(
            &at(list),
            Known { list_lost: true, burst_rate: Some(8_000_000), ..Known::default() },
        )
    }

    #[test]
    fn throughput_counts_the_bytes_after_the_first_packet() {
        let r = figures(&[(0, 0), (1, 1), (2, 2), (3, 4)]);
        assert_eq!((r.received, r.bytes, r.span_ns), (4, 4000, 4_000_000));
        assert_eq!(r.bits_per_second, 6_000_000.0);
        assert_eq!(r.packets_per_second, 750.0);
        assert_eq!((r.gap_ns.p50, r.gap_ns.max), (1_000_000, 2_000_000));
    }

    #[test]
    fn loss_duplication_and_order_are_told_apart() {
        let r = figures(&[(0, 0), (2, 1), (2, 2), (1, 3), (7, 4), (8, 5), (5, 6)]);
        assert_eq!(r.lost_sequences, [3, 4, 6]);
        assert_eq!((r.expected, r.lost, r.loss_runs, r.longest_loss_run), (9, 3, 2, 2));
        assert_eq!((r.duplicated, r.reordered, r.reorder_depth), (1, 2, 3));
    }

    #[test]
    fn a_known_number_of_packets_shows_losses_at_the_end() {
        let known = Known { sent: Some(5), list_lost: true, ..Known::default() };
        let r = reception(&at(&[(0, 0), (1, 1)]), known);
        assert_eq!((r.lost, r.lost_sequences.as_slice()), (3, [2, 3, 4].as_slice()));
        assert_eq!(reception(&[], known).lost, 5);
    }

    #[test]
    fn an_even_stream_needs_a_bucket_of_one_packet_and_a_burst_its_size() {
        let even: Vec<_> = (0..50).map(|i| (i, u64::from(i))).collect();
        assert_eq!(figures(&even).burst_bytes, Some(1000));
        assert_eq!(figures(&[(0, 0), (1, 0), (2, 0), (3, 2)]).burst_bytes, Some(3000));
        // A pause does not earn credit.
        assert_eq!(figures(&[(0, 0), (1, 100), (2, 100)]).burst_bytes, Some(2000));
    }

    #[test]
    fn percentiles_are_values_of_the_sample() {
        let s = Spread::of((1..=200).rev().collect());
        assert_eq!((s.min, s.p1, s.p50, s.p99, s.max, s.mean), (1, 2, 100, 198, 200, 100.5));
        assert_eq!(
            Spread::of(vec![7]),
            Spread { min: 7, p1: 7, p50: 7, p99: 7, max: 7, mean: 7.0 }
        );
        assert_eq!(Spread::of(vec![]), Spread::default());
    }
}
