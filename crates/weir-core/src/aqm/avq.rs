//! AVQ: a virtual queue in parallel with the real queue. The service rate of the virtual queue
//! adapts so that traffic uses a given part of the link.
//!
//! # Model
//! The virtual queue receives the packets of the real queue and, by default, has the same buffer
//! size. It is served at a rate C̃, which is at most the link's rate C. A packet that overflows the
//! virtual queue is marked or dropped, so that the real queue stays short. C̃ falls with each
//! arrival and rises with time, so that the arrival rate settles at `gamma`·C.
//!
//! # Equations
//! For a packet of `b` bytes that arrives at `t`, with the previous arrival at `s`:
//! ```text
//! VQ <- max(VQ - C̃·(t-s), 0)
//! VQ + b > B:  mark or drop;  else VQ <- VQ + b
//! C̃  <- clamp(C̃ + alpha·gamma·C·(t-s) - alpha·b, 0, C)      with b = 0 if the packet was dropped
//! ```
//! `VQ` is the backlog of the virtual queue and `B` its buffer size. VQ is in units of 10^-9 bytes,
//! C̃ in units of 2^-24 bytes per second.
//!
//! # Reference
//! Kunniyur and Srikant, "Analysis and design of an adaptive virtual queue (AVQ) algorithm for
//! active queue management", ACM SIGCOMM 2001.
//!
//! # Parameters
//! The defaults are those of ns-2. `alpha` is the speed at which C̃ adapts, in 1/s; with long
//! round-trip times, a large value makes the control unstable. `avpkt` converts a limit in packets
//! to bytes; with `unit packets`, every packet counts as `avpkt` bytes long.
//!
//! # Complexity
//! O(1), without division.
//!
//! # Guarantees
//! No packet is marked or dropped while the virtual queue has room.
//!
//! # Differences from Linux/FreeBSD
//! Neither implements AVQ. ns-2 adds the packet to the virtual queue first and removes it when it
//! does not fit. With marking on, ns-2 passes packets that are not ECN-capable; here such packets
//! are dropped. A link without a configured rate has no C, so every packet passes.
//!
//! # Validation
//! A test compares the implementation with the equations in floating point, packet by packet.

use alloc::vec;
use alloc::vec::Vec;

use super::power::{Factor, as_f64};
use super::red::core::Lengths;
use super::red::parameters::{AVPKT, ECN};
use super::{Aqm, Policy, QueueState, Row, Seen, Setup, Traits, Verdict};
use crate::settings;
use crate::settings::{Fraction, Part, UNIT};
use crate::stats::{DropReason, MarkReason};
use crate::units::{NANOS_PER_SEC, Nanos};

/// Adaptive virtual queue.
#[derive(Debug)]
pub struct Avq {
    /// VQ and B, in units of 10^-9 bytes.
    backlog: u128,
    buffer: u128,
    /// C̃ and C, in units of 2^-[`FRACTION`] bytes per second.
    virtual_rate: u64,
    capacity: u64,
    /// alpha·gamma·C per ns.
    rise: Factor,
    /// alpha per byte.
    fall: Factor,
    last_arrival: Option<Nanos>,
    /// The length in bytes that every packet counts as; 0: each packet counts with its own length.
    fixed_len: u32,
    ecn: bool,
}

settings! {
    /// Settings of AVQ.
    struct Settings {
        gamma: Fraction =
            Part::new(1, UNIT, UNIT * 98 / 100, "part of the link's rate that traffic should use"),
        alpha: Fraction = Part::new(
            1,
            100 * UNIT,
            UNIT * 15 / 100,
            "how fast the virtual rate adapts, in 1/s",
        ),
        initial: Fraction = Part::new(
            1,
            UNIT,
            UNIT * 8 / 10,
            "initial virtual rate, as a part of the link's rate",
        ),
        buffer: Fraction =
            Part::new(1, 100 * UNIT, UNIT, "virtual buffer, as a part of the queue's limit"),
        avpkt: u32 = AVPKT.or(1000),
        unit: Lengths = Lengths::setting(
            Lengths::Bytes,
            "whether packets count with their length or as mean packets",
        ),
        ecn: bool = ECN,
    }
}

impl Avq {
    /// A new AQM with an empty virtual queue.
    pub fn new(policy: &Policy, setup: &Setup) -> Self {
        let settings = Settings::of(policy);
        let mean = settings.avpkt;
        let limit = if setup.limit_packets == u32::MAX {
            setup.limit_bytes
        } else {
            u64::from(setup.limit_packets) * u64::from(mean)
        };
        let alpha = as_f64(settings.alpha);
        let capacity = (setup.rate << FRACTION) / 8;
        let scale = libm::exp2(f64::from(FRACTION));
        let bytes_a_ns = setup.rate as f64 / 8.0 / NANOS_PER_SEC as f64;
        Self {
            backlog: 0,
            // The setting is in billionths, so the product is in units of 10^-9 bytes.
            buffer: u128::from(limit) * u128::from(settings.buffer.0),
            virtual_rate: (u128::from(capacity) * u128::from(settings.initial.0) / u128::from(UNIT))
                as u64,
            capacity,
            rise: Factor::of(alpha * as_f64(settings.gamma) * bytes_a_ns * scale),
            fall: Factor::of(alpha * scale),
            last_arrival: None,
            fixed_len: if settings.unit == Lengths::Bytes { 0 } else { mean },
            ecn: settings.ecn,
        }
    }
}

impl Aqm for Avq {
    #[inline]
    fn arrive(&mut self, now: Nanos, packet: &Seen, _queue: &QueueState) -> Verdict {
        if self.capacity == 0 {
            return Verdict::Pass;
        }
        let elapsed = now.since(self.last_arrival.unwrap_or(now)).0;
        self.last_arrival = Some(now);
        let len = if self.fixed_len == 0 { packet.len } else { self.fixed_len };
        let served = (u128::from(self.virtual_rate) * u128::from(elapsed)) >> FRACTION;
        self.backlog = self.backlog.saturating_sub(served);
        let with_packet = self.backlog + u128::from(len) * u128::from(NANOS_PER_SEC);
        let risen = self.virtual_rate.saturating_add(self.rise.times(elapsed));
        let fits = with_packet <= self.buffer;
        if fits {
            self.backlog = with_packet;
        } else if !(self.ecn && packet.header.ecn.is_capable()) {
            self.virtual_rate = risen.min(self.capacity);
            return Verdict::Drop(DropReason::Forced);
        }
        let fallen = risen.saturating_sub(self.fall.times(u64::from(len)));
        self.virtual_rate = fallen.min(self.capacity);
        if fits { Verdict::Pass } else { Verdict::Mark(MarkReason::Forced) }
    }

    #[inline]
    fn leave(&mut self, _now: Nanos, _packet: &Seen, _queue: &QueueState) -> Verdict {
        Verdict::Pass
    }

    fn variables(&self) -> Vec<(&'static str, u64)> {
        let virtual_bytes =
            u64::try_from(self.backlog / u128::from(NANOS_PER_SEC)).unwrap_or(u64::MAX);
        vec![
            ("virtual_bytes", virtual_bytes),
            ("virtual_rate", ((u128::from(self.virtual_rate) * 8) >> FRACTION) as u64),
        ]
    }
}

/// The number of fraction bits of a rate in bytes per second. A rate of 400 Gbit/s takes 60 bits.
const FRACTION: u32 = 24;

pub(super) const ROW: Row = Row {
    name: "avq",
    aliases: &["adaptive-virtual-queue"],
    summary: "drops or marks packets that overflow a virtual queue with an adaptive rate",
    source: "Kunniyur and Srikant, SIGCOMM 2001",
    traits: Traits { marks: true, classifies: false },
    parameters: Settings::PARAMETERS,
};
