//! The statistics of received packets: loss, duplication, reordering, gaps, delays, throughput and
//! bursts.

use serde::{Deserialize, Serialize};

use crate::arrival::Arrival;
use crate::clock::SECOND;

/// Percentiles, extremes and mean of a set of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The smallest value.
    pub min: u64,
    /// 1st percentile.
    pub p1: u64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// The largest value.
    pub max: u64,
    /// Mean.
    pub mean: f64,
}

impl Spread {
    /// The spread of `values`, which may be in any order. All fields are 0 if there are no values.
    pub fn of(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        let (Some(&min), Some(&max)) = (values.first(), values.last()) else {
            return Self::default();
        };
        // Nearest rank: the smallest value such that at least `percent` % of all values are not
        // larger.
        let rank =
            |percent: usize| values[(values.len() * percent).div_ceil(100).saturating_sub(1)];
        let mean = values.iter().map(|&v| v as f64).sum::<f64>() / values.len() as f64;
        Self { min, p1: rank(1), p50: rank(50), p99: rank(99), max, mean }
    }
}

/// The statistics of one received flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reception {
    /// Packets, copies included.
    pub received: u64,
    /// Network-layer bytes, copies included.
    pub bytes: u64,
    /// Time from the first to the last arrival, ns.
    pub span_ns: u64,
    /// Throughput in network-layer bits per second: the bytes after the first packet, divided by
    /// `span_ns`. 0 if `span_ns` is 0.
    pub bits_per_second: f64,
    /// Packets per second: the packets after the first, divided by `span_ns`. 0 if `span_ns` is 0.
    pub packets_per_second: f64,
    /// Packets that were sent: the number that the caller gave, or the highest sequence number
    /// received plus one, whichever is larger.
    pub expected: u64,
    /// Sequence numbers of which no packet arrived.
    pub lost: u64,
    /// Runs of consecutive lost sequence numbers; a run may have length 1.
    pub loss_runs: u64,
    /// Length of the longest run of lost sequence numbers.
    pub longest_loss_run: u64,
    /// Copies of packets that had already arrived.
    pub duplicated: u64,
    /// Packets that arrived with the ECN codepoint CE (congestion experienced).
    #[serde(default)]
    pub marked: u64,
    /// Packets, copies excluded, that arrived after a packet with a higher sequence number.
    pub reordered: u64,
    /// The largest difference between the sequence number of a reordered packet and the highest
    /// sequence number that had arrived before it.
    pub reorder_depth: u64,
    /// Time between consecutive arrivals, ns.
    pub gap_ns: Spread,
    /// Time from sending to arrival, ns.
    pub delay_ns: Spread,
    /// Size in bytes of the smallest token bucket that would have passed all packets without delay.
    /// The bucket is filled at the caller's `burst_rate`; `None` without such a rate.
    pub burst_bytes: Option<u64>,
    /// Packets dropped because the socket's buffer was full. They also count as `lost`, although
    /// the link did not lose them.
    pub socket_drops: u64,
    /// The lost sequence numbers, if the caller asked for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_sequences: Vec<u32>,
    /// The sequence number of each packet and its arrival in nanoseconds since the first, in order
    /// of arrival, if the caller asked for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrivals: Vec<(u32, u64)>,
}

/// The input of [`reception`] in addition to the packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// The number of packets that were sent, if known. Packets that were lost after the last one
    /// received can be counted only with this number.
    pub sent: Option<u64>,
    /// Rate of the token bucket that measures bursts, bits/s.
    pub burst_rate: Option<u64>,
    /// Whether to list the lost sequence numbers.
    pub list_lost: bool,
    /// Whether to list the arrivals.
    pub list_arrivals: bool,
}

/// Computes the statistics of packets, which are given in order of arrival.
pub fn reception(arrivals: &[Arrival], known: Known) -> Reception {
    let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else {
        let lost = known.sent.unwrap_or(0);
        return Reception {
            expected: lost,
            lost,
            loss_runs: lost.min(1),
            longest_loss_run: lost,
            ..Reception::default()
        };
    };
    let span_ns = last.at_ns.saturating_sub(first.at_ns);
    let bytes: u64 = arrivals.iter().map(|a| u64::from(a.bytes)).sum();
    let per_second =
        |n: u64| if span_ns == 0 { 0.0 } else { n as f64 * SECOND as f64 / span_ns as f64 };
    let mut sequences = Sequences::default();
    for arrival in arrivals {
        sequences.note(arrival.stamp.sequence);
    }
    let losses = sequences.losses(known.sent);
    let gaps = arrivals.windows(2).map(|w| w[1].at_ns.saturating_sub(w[0].at_ns)).collect();
    let since_first = |a: &Arrival| (a.stamp.sequence, a.at_ns.saturating_sub(first.at_ns));
    Reception {
        received: arrivals.len() as u64,
        bytes,
        span_ns,
        bits_per_second: per_second((bytes - u64::from(first.bytes)) * 8),
        packets_per_second: per_second(arrivals.len() as u64 - 1),
        expected: losses.expected,
        lost: losses.sequences.len() as u64,
        loss_runs: losses.runs,
        longest_loss_run: losses.longest,
        duplicated: sequences.duplicated,
        marked: arrivals.iter().filter(|a| a.marked).count() as u64,
        reordered: sequences.reordered,
        reorder_depth: sequences.depth,
        gap_ns: Spread::of(gaps),
        delay_ns: Spread::of(
            arrivals.iter().map(|a| a.at_ns.saturating_sub(a.stamp.sent_ns)).collect(),
        ),
        burst_bytes: known.burst_rate.map(|rate| burst(arrivals, rate)),
        socket_drops: 0,
        lost_sequences: if known.list_lost { losses.sequences } else { Vec::new() },
        arrivals: if known.list_arrivals {
            arrivals.iter().map(since_first).collect()
        } else {
            Vec::new()
        },
    }
}

/// The sequence numbers of a flow that have arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sequences {
    /// One bit for each sequence number, set if the packet arrived.
    seen: Vec<u64>,
    /// The highest number that arrived.
    highest: Option<u32>,
    duplicated: u64,
    reordered: u64,
    /// The largest distance of a reordered packet's number from `highest`.
    depth: u64,
}

impl Sequences {
    /// Records the arrival of a packet with this number. Returns whether it is the first packet
    /// with the number.
    pub(crate) fn note(&mut self, sequence: u32) -> bool {
        let (word, bit) = (sequence as usize / 64, 1 << (sequence % 64));
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        let is_first = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        let highest = self.highest.unwrap_or(sequence);
        if !is_first {
            self.duplicated += 1;
        } else if sequence < highest {
            self.reordered += 1;
            self.depth = self.depth.max(u64::from(highest - sequence));
        }
        self.highest = Some(highest.max(sequence));
        is_first
    }

    /// The sequence numbers of which no packet arrived, among the numbers below `sent` and those
    /// below the highest number that arrived.
    fn losses(&self, sent: Option<u64>) -> Losses {
        let expected = sent.unwrap_or(0).max(self.highest.map_or(0, |n| u64::from(n) + 1));
        let mut losses = Losses { expected, sequences: Vec::new(), runs: 0, longest: 0 };
        let mut run = 0;
        for n in 0..expected {
            let word = self.seen.get(n as usize / 64).copied().unwrap_or(0);
            if word & 1 << (n % 64) != 0 {
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
}

/// The sequence numbers of which no packet arrived.
struct Losses {
    /// The number of packets that should have arrived.
    expected: u64,
    sequences: Vec<u32>,
    /// The number of runs of consecutive lost numbers.
    runs: u64,
    longest: u64,
}

/// The size of the smallest token bucket, filled at `rate` bits/s, that passes the packets without
/// delay. It equals the largest backlog of a queue that is served at this rate, in bytes, rounded
/// up.
///
/// The backlog is computed in bits × 10⁹, so that only the final result is rounded.
fn burst(arrivals: &[Arrival], rate: u64) -> u64 {
    let (mut backlog, mut most) = (0u128, 0u128);
    let mut before = arrivals.first().map_or(0, |a| a.at_ns);
    for a in arrivals {
        let drained = u128::from(a.at_ns.saturating_sub(before)) * u128::from(rate);
        before = a.at_ns;
        backlog = backlog.saturating_sub(drained) + u128::from(a.bytes) * 8 * u128::from(SECOND);
        most = most.max(backlog);
    }
    most.div_ceil(8 * u128::from(SECOND)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Stamp;

    fn at(list: &[(u32, u64)]) -> Vec<Arrival> {
        list.iter()
            .map(|&(sequence, ms)| Arrival {
                stamp: Stamp { sequence, ..Stamp::default() },
                at_ns: ms * 1_000_000,
                bytes: 1000,
                headers: 28,
                marked: false,
            })
            .collect()
    }

    fn statistics(list: &[(u32, u64)]) -> Reception {
        reception(
            &at(list),
            Known { list_lost: true, burst_rate: Some(8_000_000), ..Known::default() },
        )
    }

    #[test]
    fn throughput_counts_the_bytes_after_the_first_packet() {
        let r = statistics(&[(0, 0), (1, 1), (2, 2), (3, 4)]);
        assert_eq!((r.received, r.bytes, r.span_ns), (4, 4000, 4_000_000));
        assert_eq!(r.bits_per_second, 6_000_000.0);
        assert_eq!(r.packets_per_second, 750.0);
        assert_eq!((r.gap_ns.p50, r.gap_ns.max), (1_000_000, 2_000_000));
    }

    #[test]
    fn loss_duplication_and_reordering_are_counted_separately() {
        let r = statistics(&[(0, 0), (2, 1), (2, 2), (1, 3), (7, 4), (8, 5), (5, 6)]);
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
    fn the_bucket_holds_one_packet_of_an_even_flow_or_a_whole_burst() {
        let even: Vec<_> = (0..50).map(|i| (i, u64::from(i))).collect();
        assert_eq!(statistics(&even).burst_bytes, Some(1000));
        assert_eq!(statistics(&[(0, 0), (1, 0), (2, 0), (3, 2)]).burst_bytes, Some(3000));
        // A long pause does not fill the bucket beyond its size.
        assert_eq!(statistics(&[(0, 0), (1, 100), (2, 100)]).burst_bytes, Some(2000));
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
