//! The sections of the RFC as scenario files: [`text`] writes them.
//!
//! ```text
//! left ── 25 ms ── router ── 10 Mbit/s, the queue under test ── exchange ── 25 ms ── right
//! ```
//! Only the link between the two routers has a queue that fills. The files of the suite, with tail
//! drop, are in `experiments/rfc7928`: they are scenarios like any other, for `weir sim` and for
//! campaigns.

use std::fmt::Write as _;

use weir_core::Nanos;
use weir_rules::manager::Manager;

/// A section of the RFC with a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// The section's number.
    pub number: &'static str,
    /// Name in results, and of the file.
    pub name: &'static str,
    /// The purpose of the scenario.
    pub summary: &'static str,
    /// Adds the section's hosts and traffic.
    make: fn(&mut Draft),
}

/// A scenario that is being written.
#[derive(Debug)]
struct Draft {
    duration: Nanos,
    /// Round trips of the pairs of hosts, without queues, in ms.
    round_trips: Vec<u64>,
    /// The specification of the link under test in each direction, without the queue management.
    forward: String,
    back: String,
    /// Whether the return path also has the queue management under test.
    both: bool,
    /// Whether packets can be marked.
    ecn: bool,
    /// The tables of the traffic.
    traffic: String,
}

/// Every section, in the order of the RFC.
pub const SECTIONS: &[Section] = &[
    Section {
        number: "5.1.1",
        name: "friendly",
        summary: "two NewReno transfers with the same initial window",
        make: friendly,
    },
    Section {
        number: "5.1.2",
        name: "initial-window",
        summary: "a NewReno transfer, and short ones that begin with 3 and with 10 segments",
        make: initial_window,
    },
    Section {
        number: "5.2",
        name: "aggressive",
        summary: "a CUBIC transfer beside a NewReno one",
        make: aggressive,
    },
    Section {
        number: "5.3",
        name: "unresponsive",
        summary: "a NewReno transfer; from a third of the time on, UDP at 12 Mbit/s for another \
                  third",
        make: unresponsive,
    },
    Section {
        number: "5.4",
        name: "less-than-best-effort",
        summary: "a LEDBAT transfer beside a NewReno one",
        make: scavenger,
    },
    Section {
        number: "6",
        name: "round-trips",
        summary: "transfers with round trips of 20, 100, 200 and 400 ms",
        make: round_trips,
    },
    Section {
        number: "7.2",
        name: "bursts",
        summary: "a transfer, UDP at 1 Mbit/s, and a burst of ten 30-packet responses every 2 s, or \
                  later if the previous burst is not complete",
        make: bursts,
    },
    Section {
        number: "8.2.2",
        name: "mild",
        summary: "enough transfers to lose about 0.1 % of the packets",
        make: mild,
    },
    Section {
        number: "8.2.3",
        name: "medium",
        summary: "enough transfers to lose about 0.5 % of the packets",
        make: medium,
    },
    Section {
        number: "8.2.4",
        name: "heavy",
        summary: "enough transfers to lose about 1 % of the packets",
        make: heavy,
    },
    Section {
        number: "8.2.5",
        name: "varying-load",
        summary: "mild, medium, heavy and mild load in turn",
        make: varying_load,
    },
    Section {
        number: "8.2.6",
        name: "varying-rate",
        summary: "the link's rate alternates between 10 and 1 Mbit/s every 10 s",
        make: varying_rate,
    },
    Section {
        number: "9",
        name: "mix",
        summary: "two VoIP calls, a CBR video, web responses and two transfers",
        make: mix,
    },
    Section {
        number: "10",
        name: "asymmetric",
        summary: "a back direction with a tenth of the rate, which carries a transfer",
        make: asymmetric,
    },
    Section { number: "11", name: "ecn", summary: "as 5.2, with ECN", make: ecn },
];

/// The scenario of a section with `manager` at the link under test.
pub fn text(section: &Section, manager: &Manager, duration: Nanos) -> String {
    let mut draft = Draft {
        duration,
        round_trips: vec![ROUND_TRIP_MS],
        forward: format!("bw 10Mbit/s queue {ONE_SECOND}"),
        back: format!("bw 10Mbit/s queue {ONE_SECOND}"),
        both: false,
        ecn: false,
        traffic: String::new(),
    };
    (section.make)(&mut draft);
    draft.finish(section, manager)
}

impl Draft {
    fn finish(self, section: &Section, manager: &Manager) -> String {
        let Section { number, name, summary, .. } = section;
        let seconds = self.duration.0 / 1_000_000_000;
        let managed = managed(*manager, self.ecn);
        let back = if self.both { managed.as_str() } else { "" };
        let mut hosts = String::new();
        let mut links = String::new();
        for &ms in &self.round_trips {
            for (side, router) in [("left", "router"), ("right", "exchange")] {
                let host = host(side, ms);
                let quarter = ms / 4;
                let _ = write!(hosts, "[[node]]\nname = \"{host}\"\n");
                let _ = write!(
                    links,
                    "[[link]]\nbetween = [\"{host}\", \"{router}\"]\n\
                     spec = \"bw 1Gbit/s delay {quarter}ms queue 10000\"\n"
                );
            }
        }
        format!(
            "# RFC 7928, section {number}: {summary}.\n\
             name = \"{name}\"\n\
             duration = \"{seconds}s\"\n\
             warmup = \"{}s\"\n\n\
             {hosts}[[node]]\nname = \"router\"\nkind = \"router\"\n\
             [[node]]\nname = \"exchange\"\nkind = \"router\"\n\n\
             # The link under test.\n\
             [[link]]\nname = \"{LINK}\"\nbetween = [\"router\", \"exchange\"]\n\
             forward = \"{}{managed}\"\nback = \"{}{back}\"\n\n\
             {links}\n{}",
            seconds / 10,
            self.forward,
            self.back,
            self.traffic.trim_end().to_owned() + "\n",
        )
    }

    /// Adds traffic of a kind between the hosts with the usual round trip. `settings` are lines of
    /// the table.
    fn traffic(&mut self, group: &str, kind: &str, settings: &[String]) {
        self.between(group, kind, ROUND_TRIP_MS, settings);
    }

    /// Adds traffic of a kind between the hosts with a round trip of `ms` ms.
    fn between(&mut self, group: &str, kind: &str, ms: u64, settings: &[String]) {
        let (from, to) = (host("left", ms), host("right", ms));
        let _ = write!(
            self.traffic,
            "[[traffic]]\nname = \"{group}\"\ngroup = \"{group}\"\nfrom = \"{from}\"\n\
             to = \"{to}\"\nkind = \"{kind}\"\n"
        );
        for line in settings {
            self.traffic += line;
            self.traffic.push('\n');
        }
        self.traffic.push('\n');
    }

    /// Adds a transfer that starts within the first second and does not end.
    fn bulk(&mut self, group: &str, control: &str) {
        self.traffic(group, "tcp", &[cc(control), JITTER.to_owned()]);
    }

    fn udp(&mut self, group: &str, bytes: u32, rate: &str, more: &[String]) {
        let mut settings = vec![format!("rate = \"{rate}\""), format!("size = \"{bytes}B\"")];
        settings.extend_from_slice(more);
        self.traffic(group, "cbr", &settings);
    }

    /// Adds `count` transfers. With `times`, they start at most 1 s after `times[0]` and stop at
    /// `times[1]`; without, they start within the first second of the run and do not end.
    fn transfers(&mut self, group: &str, count: u32, times: Option<[Nanos; 2]>) {
        let mut settings = vec![cc("newreno"), JITTER.to_owned(), format!("count = {count}")];
        settings.extend(times.into_iter().flat_map(period));
        self.traffic(group, "tcp", &settings);
    }
}

fn host(side: &str, ms: u64) -> String {
    if ms == ROUND_TRIP_MS { side.to_owned() } else { format!("{side}-{ms}ms") }
}

fn cc(control: &str) -> String {
    format!("cc = \"{control}\"")
}

/// The settings of traffic between two times.
fn period([start, stop]: [Nanos; 2]) -> [String; 2] {
    let ms = |at: Nanos| at.0 / 1_000_000;
    [format!("start = \"{}ms\"", ms(start)), format!("stop = \"{}ms\"", ms(stop))]
}

/// The queue management as the last part of a link's specification; empty for a plain queue.
fn managed(mut manager: Manager, ecn: bool) -> String {
    if ecn {
        // Enables marking where it is not the default. Algorithms that cannot mark packets drop
        // them.
        let _ = match &mut manager {
            Manager::Aqm(policy) => policy.set("ecn", "on"),
            Manager::Scheduler(discipline) => discipline.set("ecn", "on"),
            Manager::None => Ok(()),
        };
    }
    match manager {
        Manager::None => String::new(),
        Manager::Aqm(_) => format!(" aqm {manager}"),
        Manager::Scheduler(_) => format!(" sched {manager}"),
    }
}

/// The number of transfers that together fill the link if each loses a fraction `loss` of its
/// packets. With this loss, a transfer sends sqrt(3/2) / sqrt(loss) segments per round trip
/// (Mathis et al. 1997).
fn load(loss: f64) -> u32 {
    let window = libm::sqrt(1.5 / loss);
    let full = RATE_BPS * (ROUND_TRIP_MS as f64 / 1e3) / (8.0 * 1500.0);
    (libm::round(full / window) as u32).max(1)
}

fn friendly(draft: &mut Draft) {
    draft.bulk("first", "newreno");
    draft.bulk("second", "newreno");
}

fn initial_window(draft: &mut Draft) {
    draft.bulk("transfer", "newreno");
    for window in [3, 10] {
        // 30 segments, every 2 s on average.
        draft.traffic(
            &format!("short-iw{window}"),
            "flows",
            &[
                cc("newreno"),
                format!("initial_window = {window}"),
                format!("sizes = \"{}B\"", 30 * 1448),
                "per_second = 0.5".to_owned(),
            ],
        );
    }
}

fn aggressive(draft: &mut Draft) {
    draft.bulk("newreno", "newreno");
    draft.bulk("cubic", "cubic");
}

fn unresponsive(draft: &mut Draft) {
    draft.bulk("newreno", "newreno");
    let third = draft.duration.0 / 3;
    draft.udp("udp", 1000, "12Mbit/s", &period([Nanos(third), Nanos(2 * third)]));
}

fn scavenger(draft: &mut Draft) {
    draft.bulk("newreno", "newreno");
    draft.bulk("ledbat", "ledbat");
}

fn round_trips(draft: &mut Draft) {
    draft.round_trips = vec![20, ROUND_TRIP_MS, 200, 400];
    for ms in draft.round_trips.clone() {
        let settings = [cc("newreno"), JITTER.to_owned()];
        draft.between(&format!("rtt-{ms}ms"), "tcp", ms, &settings);
    }
}

fn bursts(draft: &mut Draft) {
    draft.bulk("transfer", "newreno");
    draft.udp("udp", 1000, "1Mbit/s", &["start_jitter = \"10ms\"".to_owned()]);
    // All start at the same time, like responses to one event.
    draft.traffic(
        "bursts",
        "incast",
        &[
            "count = 10".to_owned(),
            format!("size = \"{}B\"", 30 * 1448),
            "interval = \"2s\"".to_owned(),
            "persistent = false".to_owned(),
            "start = \"2s\"".to_owned(),
        ],
    );
}

fn mild(draft: &mut Draft) {
    draft.transfers("transfers", load(0.001), None);
}

fn medium(draft: &mut Draft) {
    draft.transfers("transfers", load(0.005), None);
}

fn heavy(draft: &mut Draft) {
    draft.transfers("transfers", load(0.01), None);
}

fn varying_load(draft: &mut Draft) {
    let quarter = draft.duration.0 / 4;
    let [mild, medium, heavy] = [0.001, 0.005, 0.01].map(load);
    draft.transfers("all-the-time", mild, None);
    let above = medium.saturating_sub(mild).max(1);
    draft.transfers("medium", above, Some([Nanos(quarter), Nanos(3 * quarter)]));
    let above = heavy.saturating_sub(medium).max(1);
    draft.transfers("heavy", above, Some([Nanos(2 * quarter), Nanos(3 * quarter)]));
}

fn varying_rate(draft: &mut Draft) {
    draft.forward = format!("queue {ONE_SECOND} schedule {SCHEDULE} loop");
    draft.bulk("first", "newreno");
    draft.bulk("second", "newreno");
}

fn mix(draft: &mut Draft) {
    let jitter = ["start_jitter = \"10ms\"".to_owned()];
    // G.711: 160 bytes of voice and 40 bytes of headers every 20 ms.
    draft.udp("voip-1", 200, "80kbit/s", &jitter);
    draft.udp("voip-2", 200, "80kbit/s", &jitter);
    draft.udp("video", 1400, "2Mbit/s", &jitter);
    draft.traffic("web", "flows", &["sizes = \"40kB\"".to_owned(), "per_second = 2".to_owned()]);
    draft.bulk("transfer-1", "cubic");
    draft.bulk("transfer-2", "newreno");
}

fn asymmetric(draft: &mut Draft) {
    draft.back = format!("bw 1Mbit/s queue {ONE_SECOND}");
    draft.both = true;
    draft.bulk("down", "cubic");
    let (from, to) = ("left", "right");
    let _ = write!(
        draft.traffic,
        "[[traffic]]\nname = \"{BACK}\"\ngroup = \"{BACK}\"\nfrom = \"{to}\"\nto = \"{from}\"\n\
         kind = \"tcp\"\n{}\n{JITTER}\n",
        cc("cubic"),
    );
}

fn ecn(draft: &mut Draft) {
    draft.ecn = true;
    for control in ["newreno", "cubic"] {
        let settings = [cc(control), JITTER.to_owned(), "ecn = \"ect0\"".to_owned()];
        draft.traffic(control, "tcp", &settings);
    }
}

/// The name of the link under test. Its direction to the right is the port of this name.
pub(super) const LINK: &str = "bottleneck";
/// The group of the traffic from right to left, with data in the link's back direction.
pub(super) const BACK: &str = "up";
/// The name of the file with the rates of `varying-rate`, and its text.
pub(super) const SCHEDULE: &str = "varying-rate.csv";
pub(super) const RATES: &str = "time,rate\n0s,10Mbit/s\n10s,1Mbit/s\n20s\n";

/// The round-trip time without queues, unless a section chooses another.
const ROUND_TRIP_MS: u64 = 100;
/// Number of packets of 1500 bytes per second at 10 Mbit/s.
const ONE_SECOND: u32 = 833;
const RATE_BPS: f64 = 10e6;
/// Start times differ from seed to seed by up to a second.
const JITTER: &str = "start_jitter = \"1s\"";
