//! PIE: a proportional-integral controller of the queue's delay.
//!
//! # Model
//! Every `tupdate` the delay of the queue is compared with its target and with its previous value.
//! Arriving packets are dropped, or marked, with a probability. A delay above the target and a
//! growing delay raise this probability; a delay below the target and a falling delay lower it. A
//! small probability changes in small steps, so that a link with few flows has few drops. No packet
//! is dropped while a burst allowance lasts, while the delay is below half the target and the
//! probability below 20 %, or while no more than two packets wait.
//!
//! # Equations
//! With the delay `d`, at each update:
//!
//! ```text
//! Δp = (α (d − target) + β (d − d_old)) / scale(p)       from p ≥ 0.1 on at most 0.02 (capdrop)
//! p ← p + Δp, within 0 and 1
//! p ← 0.98 p when d = d_old = 0
//!
//! p below    10⁻⁶  10⁻⁵  10⁻⁴  10⁻³  10⁻²  10⁻¹   above
//! scale(p)   2048  512   128   32    8     2      1
//! ```
//!
//! With `derand`, `p` is summed over the packets since the last drop, or since the last mark that
//! a random draw selected. While this sum is below 0.85, no packet is dropped. From 0.85 on, each
//! packet is dropped with probability `p`, and from 8.5 on, the packet is always dropped.
//!
//! # Reference
//! Pan, Natarajan, Baker and White, RFC 8033, 2017; Pan et al., "PIE: A lightweight control scheme
//! to address the bufferbloat problem", HPSR 2013.
//!
//! # Parameters
//! `variant` rfc|linux|dummynet, default rfc: the implementation that this one follows; see the
//! differences below. `target` and `tupdate`, 1us to 10s, both with default 15 ms. `hz`, 100 to
//! 1000, default 250: Linux's ticks per second, for `variant linux`. `alpha` and `beta`, 0 to 32 in
//! 1/s, default 0.125 and 1.25. `max_burst`, 0 to 10s, default 150 ms. `max_ecnth`, 0 to 1, default
//! 0.1: from this probability on, ECN-capable packets are dropped too. `ecn` off|on, default off.
//! `capdrop` off|on, default on. `derand` auto|off|on: auto is off for rfc and on for the other
//! variants. `qdelay` auto|ts|dre: the delay is that of the packet that left last (`ts`), or the
//! queue's length divided by the rate at which the queue was served while it held 16 KiB or more
//! (`dre`); auto is dre for dummynet and ts for the other variants. `onoff` off|on, default off:
//! PIE becomes active when the queue is a third full, and inactive when the queue is idle.
//! `bytemode` off|on, default off: `p` is multiplied by the packet's length and divided by
//! `mean_pkt`. `mean_pkt`, 0 to 65536 bytes: no packet is dropped while fewer than two packets of
//! this size wait, or exactly two with `rfc` and `dummynet`; 0, the default, selects the value of
//! the variant.
//!
//! # Complexity
//! O(1). The updates since the last packet are computed when a packet arrives or leaves, in a
//! number of steps that does not grow with the elapsed time.
//!
//! # Guarantees
//! `p` has the value of the equations at each update, to 13 digits. The mean delay of long flows
//! settles near the target, unless the target is shorter than the transmission of two packets.
//!
//! # Statistics
//! `probability`: `p` in parts of 2^32, with `variant linux` up to 2^40. `delay`: the delay in ns.
//! `burst_left`: the rest of the burst allowance in ns.
//!
//! # Differences from Linux/FreeBSD
//! The variants differ only in these points:
//!
//! | | rfc | linux | dummynet |
//! |---|---|---|---|
//! | decay | 0.98 | 63/64, when the queue is empty | 63/64 |
//! | delay above 250 ms | – | `p` rises by 0.02 more at each update | – |
//! | burst allowance used up by | time | time between departures; `dre`: measured time | time |
//! | delay that is compared with half the target | at the last update | now | at the last update |
//! | period | `tupdate` | `tupdate` in whole ticks of 1/`hz`, and one tick more | `tupdate` |
//! | largest `p` | 1 | 256; a `p` above 1 acts as 1, and above 256 it falls to 1 | 1 |
//! | two packets (`mean_pkt`) | up to 2 × 1000 bytes | less than 2 × 1500 bytes | up to 2 × 800 bytes |
//! | mark at exactly `max_ecnth` | no | yes | no |
//! | weight of a new departure rate | 1/4 | 1/8 | 1/4 |
//! | unit of departure rates | – | 1/256 byte per 64 ns: a rate below 0.5 Mbit/s is unknown | – |
//! | delay when the queue has emptied | 0 | 0 | 0 at the next update |
//! | `derand`, `qdelay` auto | off, ts | on, ts | on, dre |
//!
//! Linux's timer wheel adds the extra tick: at 250 ticks per second, a `tupdate` of 15 or 16 ms is
//! 4 ticks, and the timer runs every 20 ms. From 64 ticks on, periods are multiples of 8 ticks.
//! Here the first period begins with the first packet, in Linux half a second after the discipline
//! was created. Linux computes departure rates in whole units, and their mean only follows
//! differences of 8 units or more: at 10 Mbit/s, which is 20 units, each mean from 16 to 23 stays.
//!
//! Three differences from these programs remain. dummynet's second departure rate covers the first
//! measurement and one packet more. Linux's lengths include the link-layer header. dummynet's gains
//! have 13 bits of fraction.
//!
//! # Validation
//! Tests run the conformance case of ns-3's test suite and compare the probability with floating
//! point. Tests also compare many updates computed in one step with the same updates computed one
//! by one, and check each difference between the variants.

use alloc::vec::Vec;

use super::pie_law::{Law, State};
use super::pie_settings::Settings;
use super::proportional::coarse;
use super::{Aqm, Policy, QueueState, Row, Seen, Setup, Traits, Verdict};
use crate::rng::Stream;
use crate::units::Nanos;

/// PIE.
#[derive(Debug)]
pub struct Pie {
    law: Law,
    state: State,
    stream: Stream,
}

impl Pie {
    /// A new AQM for an empty queue.
    pub fn new(policy: &Policy, setup: &Setup) -> Self {
        let law = Law::new(&Settings::of(policy), setup.limit_packets, setup.limit_bytes);
        Self { state: law.state(), law, stream: setup.stream.clone() }
    }
}

impl Aqm for Pie {
    #[inline]
    fn arrive(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        self.law.arrive(&mut self.state, now, packet, queue, &mut self.stream)
    }

    #[inline]
    fn leave(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        self.law.leave(&mut self.state, now, packet, queue);
        Verdict::Pass
    }

    fn variables(&self) -> Vec<(&'static str, u64)> {
        Vec::from([
            ("probability", coarse(self.state.p)),
            ("delay", self.state.delay().0),
            ("burst_left", self.state.burst().0),
        ])
    }
}

pub(super) const ROW: Row = Row {
    name: "pie",
    aliases: &[],
    summary: "a proportional-integral controller of the delay, by the RFC, as in Linux or as in \
              dummynet",
    source: "RFC 8033",
    traits: Traits { marks: true, classifies: false },
    parameters: Settings::PARAMETERS,
};

const _: () = assert!(size_of::<Pie>() <= 320);
