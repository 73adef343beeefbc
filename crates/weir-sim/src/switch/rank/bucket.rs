//! Rank programs with a token bucket for each flow: `min-rate` guarantees a rate, and
//! `token-bucket` limits a flow to a rate when other flows compete.
//!
//! # Model
//! A bucket of `burst` bytes fills with tokens at `rate`; a token allows one byte.
//!
//! `min-rate` has two ranks. A packet that finds enough tokens takes them and goes before all
//! packets that found too few. Each flow thus gets its rate whatever other flows send, if the link
//! can carry all these rates. A packet that finds too few tokens takes none.
//!
//! `token-bucket` ranks a packet by the time at which a shaper with this bucket would release it.
//! While a flow keeps to its rate, that time is the packet's arrival; a flow that exceeds its rate
//! falls behind by the excess.
//!
//! Neither program delays packets on an idle link.
//!
//! # Reference
//! Sivaraman et al., "Programmable packet scheduling at line rate", SIGCOMM 2016 (minimum rates,
//! token buckets); Zhang, "VirtualClock", SIGCOMM 1990.

use weir_core::sched::Ranking;
use weir_core::settings::Number;
use weir_core::{Nanos, settings};

use super::{Row, Traits};
use crate::network::Labeller;
use crate::packet::Packet;

settings! {
    /// Settings of both programs.
    struct Settings {
        rate: u64 = Number::new(1, 400_000_000_000, "bit/s", 1_000_000, "of each flow"),
        burst: u64 = Number::new(1, 1 << 32, "bytes", 15_000, "what a flow may send at once"),
    }
}

pub(super) const TOKEN_BUCKET: Row = Row {
    name: "token-bucket",
    summary: "flows above a rate fall behind by what they exceed",
    source: "Zhang 1990; Sivaraman et al. 2016",
    aliases: &[],
    parameters: Settings::PARAMETERS,
    traits: Traits {
        ranking: Ranking::Edf,
        knows_flows: false,
        make: |choice, _| Some(Box::new(Buckets::new(Settings::of(choice), false))),
    },
};

pub(super) const MIN_RATE: Row = Row {
    name: "min-rate",
    summary: "each flow's packets within a rate go before all others",
    source: "Sivaraman et al. 2016",
    aliases: &[],
    parameters: Settings::PARAMETERS,
    traits: Traits {
        ranking: Ranking::Edf,
        knows_flows: false,
        make: |choice, _| Some(Box::new(Buckets::new(Settings::of(choice), true))),
    },
};

/// The bucket of each flow, stored as the time at which it is full. A bucket that lacks `x` bytes
/// is full after `x / rate`.
#[derive(Clone, Debug)]
struct Buckets {
    bps: u64,
    /// The time in which an empty bucket fills, ns.
    depth: u64,
    /// Whether the program is `min-rate`.
    two_ranks: bool,
    /// The time at which each flow's bucket is full, by flow number.
    full: Vec<u64>,
}

impl Buckets {
    fn new(settings: Settings, two_ranks: bool) -> Self {
        let Settings { rate, burst } = settings;
        Self { bps: rate, depth: span(burst, rate), two_ranks, full: Vec::new() }
    }
}

impl Labeller for Buckets {
    fn enter(&mut self, now: Nanos, packet: &Packet) -> (u64, u64) {
        let number = packet.flow.0 as usize;
        if self.full.len() <= number {
            self.full.resize(number + 1, 0);
        }
        let full = self.full[number].max(now.0);
        let after = full.saturating_add(span(u64::from(packet.len), self.bps));
        // The earliest time at which there are tokens for the packet.
        let at = after.saturating_sub(self.depth).max(now.0);
        let rank = match (self.two_ranks, at > now.0) {
            (false, _) => at.max(1),
            (true, false) => WITHIN,
            (true, true) => BEYOND,
        };
        if rank != BEYOND || !self.two_ranks {
            self.full[number] = after;
        }
        // The packet keeps its label, which belongs to the programs of other switches.
        (rank, packet.label)
    }
}

/// The time in which `bytes` tokens accumulate at the rate `bps`, ns.
fn span(bytes: u64, bps: u64) -> u64 {
    u64::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(bps.max(1))).unwrap_or(u64::MAX)
}

/// The rank of packets that find enough tokens, and the rank of all others.
const WITHIN: u64 = 1;
const BEYOND: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::FlowId;

    fn packet(flow: u32) -> Packet {
        Packet { flow: FlowId(flow), len: 1000, label: 9, ..Packet::default() }
    }

    #[test]
    fn a_flow_that_exceeds_its_bucket_falls_behind_by_the_excess() {
        // 8 Mbit/s: the tokens of a packet take one millisecond, and those of a full bucket two.
        let mut program = Buckets::new(Settings { rate: 8_000_000, burst: 2000 }, false);
        let ranks: Vec<_> = (0..4).map(|_| program.enter(Nanos(5_000_000), &packet(1)).0).collect();
        assert_eq!(ranks, [5_000_000, 5_000_000, 6_000_000, 7_000_000]);
        assert_eq!(program.enter(Nanos(5_000_000), &packet(0)), (5_000_000, 9));
        // The flow has exceeded its rate by two packets. After four milliseconds the bucket is full
        // again.
        assert_eq!(program.enter(Nanos(9_000_000), &packet(1)).0, 9_000_000);
    }

    #[test]
    fn packets_beyond_the_guaranteed_rate_take_no_tokens() {
        let mut program = Buckets::new(Settings { rate: 8_000_000, burst: 1000 }, true);
        let ranks: Vec<_> = [0, 0, 500_000, 1_000_000, 1_500_000]
            .iter()
            .map(|&t| program.enter(Nanos(t), &packet(0)).0)
            .collect();
        assert_eq!(ranks, [WITHIN, BEYOND, BEYOND, WITHIN, BEYOND]);
    }
}
