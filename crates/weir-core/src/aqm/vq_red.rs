//! Generalized RED: several virtual queues within one, each with thresholds of its own, chosen by
//! what packets carry in their DSCP.
//!
//! # Model
//! Packets of all virtual queues wait together. Each virtual queue is a RED; so that packets of
//! lower standing are dropped before others, its thresholds are lower and its probability is
//! higher. Queue 0 has the highest standing. Settings are given for the first queue and for the
//! last; those between are evenly spaced.
//!
//! What a virtual queue's RED sees is said by `mode`:
//! - `own`: the average of its own packets, among those that wait;
//! - `rio`: that, and the averages of all queues of higher standing that have packets;
//! - `wred`: the average of the whole queue.
//!
//! A packet's virtual queue is said by `by`:
//! - `precedence`: the drop precedence of assured forwarding; of AF11, AF21, AF31 and AF41 queue 0,
//!   of AF12… 1, of AF13… 2. Other packets are of queue 0.
//! - `dscp`: the whole code point, in as many ranges as there are queues; the highest is queue 0.
//!   With 8 queues, these are the classes CS7 to CS0.
//!
//! # Reference
//! Linux's `sch_gred`, made by Hadi Salim after Clark and Fang, "Explicit allocation of best-effort
//! packet delivery service", IEEE/ACM Transactions on Networking 6(4), 1998 (RIO); precedences: RFC
//! 2597.
//!
//! # Parameters
//! Three queues are what assured forwarding needs. Thresholds are in packets or bytes, as in `red`.
//!
//! # Complexity
//! O(1); with `rio`, O(queues).
//!
//! # Guarantees
//! A packet is not chosen while the average that its queue sees is below that queue's lower
//! threshold.
//!
//! # Differences from Linux/FreeBSD
//! Decisions are those of `red` with `variant linux`. Linux has lengths in bytes, a limit for each
//! virtual queue, and thresholds and priorities given one by one; two queues of equal priority turn
//! `rio` into `wred` there, which is a mode of its own here. It takes a packet's queue from a mark
//! that a filter made, and has no word for DSCP. FreeBSD does not have it; `gred` in dummynet's
//! language is gentle `red`.
//!
//! # Validation
//! One virtual queue against `red`, packet by packet; order of standing under load; backlogs
//! against lists.

use alloc::vec;
use alloc::vec::Vec;

use super::power::{PacketRate, number, parts};
use super::red::adapt::Adapt;
use super::red::average::FRACTION;
use super::red::core::{Core, Plan, Variant};
use super::red::parameters as p;
use super::{Aqm, Policy, QueueState, Row, Seen, Setup, Verdict};
use crate::rng::Stream;
use crate::settings::{Domain, Parameter, Scope, UNIT};
use crate::units::Nanos;

/// Generalized RED.
#[derive(Debug)]
pub struct VqRed {
    queues: Vec<Virtual>,
    mode: Mode,
    by: By,
    stream: Stream,
}

/// A virtual queue.
#[derive(Debug)]
struct Virtual {
    red: Core,
    /// Its packets among those that wait, as far as they came since this AQM is there.
    packets: u32,
    bytes: u64,
}

/// Of which packets a virtual queue sees the average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Own,
    Rio,
    Wred,
}

/// What says of which virtual queue a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Precedence,
    Dscp,
}

impl VqRed {
    /// One with averages of 0.
    pub fn new(policy: &Policy, setup: &Setup) -> Self {
        let last = policy.get("queues").max(1) - 1;
        let queues = (0..=last)
            .map(|n| Virtual { red: Core::new(plan(policy, setup, n, last)), packets: 0, bytes: 0 })
            .collect();
        let mode = [Mode::Own, Mode::Rio, Mode::Wred][policy.get("mode") as usize];
        let by = [By::Precedence, By::Dscp][policy.get("by") as usize];
        Self { queues, mode, by, stream: setup.stream.clone() }
    }

    /// Number of the virtual queue of packets with this code point.
    fn place(&self, dscp: u8) -> usize {
        let last = self.queues.len() - 1;
        match self.by {
            By::Dscp => usize::from(63 - dscp.min(63)) * self.queues.len() / 64,
            By::Precedence => {
                let (class, precedence) = (dscp >> 3, dscp & 7);
                let assured = (1..=4).contains(&class) && matches!(precedence, 2 | 4 | 6);
                if assured { usize::from(precedence / 2 - 1).min(last) } else { 0 }
            }
        }
    }

    /// The sum of the averages of the queues before `place` that have packets.
    fn before(&self, place: usize) -> u128 {
        self.queues[..place]
            .iter()
            .filter(|queue| queue.packets > 0)
            .map(|queue| queue.red.average())
            .sum()
    }
}

impl Aqm for VqRed {
    fn arrive(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        if queue.packets == 0 {
            // Some that came in may have been taken out without having left.
            for queue in self.queues.iter_mut().filter(|queue| queue.packets > 0) {
                (queue.packets, queue.bytes) = (0, 0);
                queue.red.emptied(now);
            }
        }
        let place = self.place(packet.header.dscp);
        let others = if self.mode == Mode::Rio { self.before(place) } else { 0 };
        let (average, length) = if self.mode == Mode::Wred {
            let whole = &mut self.queues[0].red;
            let length = whole.length(queue);
            whole.observe(now, length, queue.packets == 0);
            (whole.average(), length)
        } else {
            let Virtual { red, packets, bytes } = &mut self.queues[place];
            let length = red.length(&QueueState { packets: *packets, bytes: *bytes, full: false });
            red.observe(now, length, *packets == 0);
            (red.average() + others, length)
        };
        let chosen = &mut self.queues[place];
        let verdict = chosen.red.judge(average, length, packet, &mut self.stream);
        if !queue.full && !matches!(verdict, Verdict::Drop(_)) {
            chosen.packets = chosen.packets.saturating_add(1);
            chosen.bytes += u64::from(packet.len);
        }
        verdict
    }

    fn leave(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        let place = self.place(packet.header.dscp);
        let left = &mut self.queues[place];
        if left.packets > 0 {
            left.packets -= 1;
            left.bytes = left.bytes.saturating_sub(u64::from(packet.len));
            if left.packets == 0 && self.mode != Mode::Wred {
                left.red.emptied(now);
            }
        }
        if queue.packets == 0 && self.mode == Mode::Wred {
            self.queues[0].red.emptied(now);
        }
        Verdict::Pass
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let mut figures = vec![("queues", self.queues.len() as u64)];
        let names = AVERAGES.iter().zip(&self.queues);
        figures.extend(names.map(|(&name, queue)| {
            (name, u64::try_from(queue.red.average() >> FRACTION).unwrap_or(u64::MAX))
        }));
        figures
    }
}

/// What virtual queue `n` of those up to `last` is made from.
fn plan(policy: &Policy, setup: &Setup, n: u64, last: u64) -> Plan {
    let between = |first: &str, other: &str| {
        let (from, to) = (u128::from(policy.get(first)), u128::from(policy.get(other)));
        let (n, last) = (u128::from(n), u128::from(last));
        (from * (last - n) + to * n).checked_div(last).unwrap_or(from)
    };
    Plan {
        variant: Variant::Linux,
        bytes: policy.is_on("unit"),
        min: between("min", "min_last") << FRACTION,
        max: between("max", "max_last") << FRACTION,
        weight: number(policy.get("w")),
        max_p: parts(between("max_p", "max_p_last") as u64),
        gentle: false,
        wait: false,
        ecn: policy.is_on("ecn"),
        harddrop: policy.is_on("harddrop"),
        quadratic: false,
        pace: PacketRate::of(setup, policy.get("avpkt") as u32),
        adapt: Adapt::Off,
    }
}

/// Names of the averages of virtual queues.
const AVERAGES: [&str; 16] = [
    "average_0",
    "average_1",
    "average_2",
    "average_3",
    "average_4",
    "average_5",
    "average_6",
    "average_7",
    "average_8",
    "average_9",
    "average_10",
    "average_11",
    "average_12",
    "average_13",
    "average_14",
    "average_15",
];

const fn choice(
    name: &'static str,
    words: &'static [&'static str],
    summary: &'static str,
) -> Parameter {
    Parameter { name, scope: Scope::Aqm, domain: Domain::Choice(words), default: 0, summary }
}

/// A parameter of the first queue, for the last one.
const fn last(
    name: &'static str,
    first: Parameter,
    default: u64,
    summary: &'static str,
) -> Parameter {
    Parameter { name, default, summary, ..first }
}

const QUEUES: Parameter = Parameter {
    name: "queues",
    scope: Scope::Aqm,
    domain: Domain::Number { least: 1, most: AVERAGES.len() as u64, unit: "" },
    default: 3,
    summary: "virtual queues",
};

pub(super) const ROW: Row = Row {
    name: "vq-red",
    aliases: &["generalized-red"],
    summary: "RED for several virtual queues within one, by DSCP",
    source: "Linux, sch_gred; Clark and Fang, IEEE/ACM Transactions on Networking 6(4), 1998",
    marks: true,
    classifies: false,
    parameters: &[
        QUEUES,
        choice("by", &["precedence", "dscp"], "what says of which virtual queue a packet is"),
        choice(
            "mode",
            &["own", "rio", "wred"],
            "which average a virtual queue sees: its own, with those before it, or the whole",
        ),
        p::but(p::said(p::MIN, "lower threshold of the first virtual queue"), 30),
        p::but(p::said(p::MAX, "upper threshold of the first virtual queue"), 60),
        p::said(p::MAX_P, "probability at the upper threshold of the first virtual queue"),
        last("min_last", p::MIN, 10, "lower threshold of the last virtual queue"),
        last("max_last", p::MAX, 30, "upper threshold of the last virtual queue"),
        last(
            "max_p_last",
            p::MAX_P,
            UNIT / 10,
            "probability at the upper threshold of the last virtual queue",
        ),
        p::W,
        p::UNIT_OF_LENGTH,
        p::ECN,
        p::HARDDROP,
        p::AVPKT,
    ],
};
