//! Generalized RED: several virtual queues within one queue, each with its own thresholds. The DSCP
//! of a packet selects its virtual queue.
//!
//! # Model
//! Packets of all virtual queues wait together in one queue. Each virtual queue has its own RED.
//! Packets of lower precedence are dropped earlier: their virtual queue has lower thresholds and a
//! higher probability. Queue 0 has the highest precedence. The user gives settings for the first
//! and the last queue; the settings of the queues between these two are evenly spaced.
//!
//! `mode` selects the average that the RED of a virtual queue uses:
//! - `own`: the average of the virtual queue's own packets;
//! - `rio`: the same average plus the averages of all queues of higher precedence that have
//!   packets;
//! - `wred`: the average of the whole queue.
//!
//! `by` selects a packet's virtual queue:
//! - `precedence`: the drop precedence of assured forwarding; AF11, AF21, AF31 and AF41 are queue
//!   0, AF12… queue 1, AF13… queue 2. Other packets are in queue 0.
//! - `dscp`: the whole code point, in as many ranges as there are queues; the highest range is
//!   queue 0. With 8 queues, these are the classes CS7 to CS0.
//!
//! # Reference
//! Linux's `sch_gred` by Hadi Salim, based on Clark and Fang, "Explicit allocation of best-effort
//! packet delivery service", IEEE/ACM Transactions on Networking 6(4), 1998 (RIO). RFC 2597 defines
//! the drop precedences.
//!
//! # Parameters
//! Assured forwarding needs three queues. Thresholds are in packets or bytes, as in `red`.
//!
//! # Complexity
//! O(1); with `rio`, O(queues).
//!
//! # Guarantees
//! No packet is selected while the average that its virtual queue uses is below the lower threshold
//! of this queue.
//!
//! # Differences from Linux/FreeBSD
//! Decisions are those of `red` with `variant linux`. Linux counts lengths in bytes, and has a
//! limit, thresholds and a priority for each virtual queue. In Linux, two queues of equal priority
//! turn `rio` into `wred`; here `wred` is a separate mode. Linux selects a packet's queue by a mark
//! that a filter sets, and has no keyword for the DSCP. FreeBSD does not implement generalized RED;
//! `gred` in dummynet's language is gentle `red`.
//!
//! # Validation
//! Tests compare a single virtual queue with `red`, packet by packet, and backlogs with lists.
//! Tests also check the order of precedence under load.

use alloc::vec;
use alloc::vec::Vec;

use super::power::{PacketRate, as_f64, q32};
use super::red::adapt::Adapt;
use super::red::average::FRACTION;
use super::red::core::{Core, Lengths, Plan, Variant};
use super::red::parameters as p;
use super::{Aqm, Policy, QueueState, Row, Seen, Setup, Traits, Verdict};
use crate::rng::Stream;
use crate::settings::{Count, Fraction, UNIT};
use crate::units::Nanos;
use crate::{choice, settings};

/// Generalized RED.
#[derive(Debug)]
pub struct VqRed {
    queues: Vec<Virtual>,
    mode: Mode,
    by: By,
    stream: Stream,
}

#[derive(Debug)]
struct Virtual {
    red: Core,
    /// The waiting packets of this virtual queue that arrived after the AQM was created.
    packets: u32,
    bytes: u64,
}

choice! {
    /// The average that a virtual queue uses.
    enum Mode {
        /// The average of the virtual queue's own packets.
        Own = "own",
        /// The same average plus those of the virtual queues of higher precedence that have
        /// packets.
        Rio = "rio",
        /// The average of the whole queue.
        Wred = "wred",
    }
}

choice! {
    /// The part of the DSCP that selects the virtual queue of a packet.
    enum By {
        /// The drop precedence of assured forwarding.
        Precedence = "precedence",
        /// The whole code point.
        Dscp = "dscp",
    }
}

settings! {
    /// Settings of generalized RED.
    struct Settings {
        queues: u32 = Count::new(1, AVERAGES.len() as u32, "", 3, "virtual queues"),
        by: By = By::setting(By::Precedence, "part of the DSCP that selects the virtual queue"),
        mode: Mode = Mode::setting(
            Mode::Own,
            "average that a virtual queue uses: its own, its own plus those of higher precedence, \
             or the whole queue's",
        ),
        min: u32 = p::MIN.or(30).described("lower threshold of the first virtual queue"),
        max: u32 = p::MAX.or(60).described("upper threshold of the first virtual queue"),
        max_p: Fraction =
            p::MAX_P.described("probability at the upper threshold of the first virtual queue"),
        min_last: u32 = p::MIN.or(10).described("lower threshold of the last virtual queue"),
        max_last: u32 = p::MAX.or(30).described("upper threshold of the last virtual queue"),
        max_p_last: Fraction = p::MAX_P
            .or(UNIT / 10)
            .described("probability at the upper threshold of the last virtual queue"),
        w: Fraction = p::W,
        unit: Lengths = p::UNIT_OF_LENGTH,
        ecn: bool = p::ECN,
        harddrop: bool = p::HARDDROP,
        avpkt: u32 = p::AVPKT,
    }
}

impl VqRed {
    /// A new AQM with averages of 0.
    pub fn new(policy: &Policy, setup: &Setup) -> Self {
        let settings = Settings::of(policy);
        let queues = (0..settings.queues)
            .map(|n| Virtual { red: Core::new(plan(&settings, setup, n)), packets: 0, bytes: 0 })
            .collect();
        let Settings { mode, by, .. } = settings;
        Self { queues, mode, by, stream: setup.stream.clone() }
    }

    /// The number of the virtual queue for packets with this code point.
    fn number_of(&self, dscp: u8) -> usize {
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

    /// The sum of the averages of the queues before `number` that have packets.
    fn before(&self, number: usize) -> u128 {
        self.queues[..number]
            .iter()
            .filter(|queue| queue.packets > 0)
            .map(|queue| queue.red.average())
            .sum()
    }
}

impl Aqm for VqRed {
    fn arrive(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        if queue.packets == 0 {
            // A change of configuration may have removed packets without calls of `leave`.
            for queue in self.queues.iter_mut().filter(|queue| queue.packets > 0) {
                (queue.packets, queue.bytes) = (0, 0);
                queue.red.emptied(now);
            }
        }
        let number = self.number_of(packet.header.dscp);
        let others = if self.mode == Mode::Rio { self.before(number) } else { 0 };
        let (average, length) = if self.mode == Mode::Wred {
            let whole = &mut self.queues[0].red;
            let length = whole.length(queue);
            whole.observe(now, length, queue.packets == 0);
            (whole.average(), length)
        } else {
            let Virtual { red, packets, bytes } = &mut self.queues[number];
            let length = red.length(&QueueState { packets: *packets, bytes: *bytes, full: false });
            red.observe(now, length, *packets == 0);
            (red.average() + others, length)
        };
        let chosen = &mut self.queues[number];
        let verdict = chosen.red.judge(average, length, packet, &mut self.stream);
        if !queue.full && !matches!(verdict, Verdict::Drop(_)) {
            chosen.packets = chosen.packets.saturating_add(1);
            chosen.bytes += u64::from(packet.len);
        }
        verdict
    }

    fn leave(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        let number = self.number_of(packet.header.dscp);
        let counted: u64 = self.queues.iter().map(|queue| u64::from(queue.packets)).sum();
        let virtual_queue = &mut self.queues[number];
        // Packets that waited before this AQM existed are in no count, and leave first.
        if u64::from(queue.packets) < counted && virtual_queue.packets > 0 {
            virtual_queue.packets -= 1;
            virtual_queue.bytes = virtual_queue.bytes.saturating_sub(u64::from(packet.len));
            if virtual_queue.packets == 0 && self.mode != Mode::Wred {
                virtual_queue.red.emptied(now);
            }
        }
        if queue.packets == 0 && self.mode == Mode::Wred {
            self.queues[0].red.emptied(now);
        }
        Verdict::Pass
    }

    fn variables(&self) -> Vec<(&'static str, u64)> {
        let mut variables = vec![("queues", self.queues.len() as u64)];
        let names = AVERAGES.iter().zip(&self.queues);
        variables.extend(names.map(|(&name, queue)| {
            (name, u64::try_from(queue.red.average() >> FRACTION).unwrap_or(u64::MAX))
        }));
        variables
    }
}

/// The RED parameters of virtual queue `n`.
fn plan(settings: &Settings, setup: &Setup, n: u32) -> Plan {
    let last = u128::from(settings.queues - 1);
    let between = |from: u64, to: u64| {
        let (from, to, n) = (u128::from(from), u128::from(to), u128::from(n));
        (from * (last - n) + to * n).checked_div(last).unwrap_or(from)
    };
    let Settings { min, min_last, max, max_last, .. } = *settings;
    Plan {
        variant: Variant::Linux,
        bytes: settings.unit == Lengths::Bytes,
        min: between(min.into(), min_last.into()) << FRACTION,
        max: between(max.into(), max_last.into()) << FRACTION,
        weight: as_f64(settings.w),
        max_p: q32(Fraction(between(settings.max_p.0, settings.max_p_last.0) as u64)),
        gentle: false,
        wait: false,
        ecn: settings.ecn,
        harddrop: settings.harddrop,
        quadratic: false,
        pace: PacketRate::of(setup, settings.avpkt),
        adapt: Adapt::Off,
    }
}

/// The names under which the averages of virtual queues are reported.
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

pub(super) const ROW: Row = Row {
    name: "vq-red",
    aliases: &["generalized-red"],
    summary: "RED for several virtual queues within one queue, selected by DSCP",
    source: "Linux, sch_gred; Clark and Fang, IEEE/ACM Transactions on Networking 6(4), 1998",
    traits: Traits { marks: true, classifies: false },
    parameters: Settings::PARAMETERS,
};
