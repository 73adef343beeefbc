//! The scenarios of the RFC. Each is a section, with its network and its flows.

use weir_core::config::Capacity;
use weir_core::link::{Schedule, Step};
use weir_core::rng::Stream;
use weir_core::{Nanos, Rate};
use weir_rules::manager::Manager;
use weir_sim::dumbbell::{Crossing, Dumbbell, Load, mbit};
use weir_sim::tcp::{self, Data, cc};

/// A scenario: a section of the RFC.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Number of the section.
    pub section: &'static str,
    /// Name in results.
    pub name: &'static str,
    /// The purpose of the scenario.
    pub summary: &'static str,
    /// Makes the network and the flows, and assigns each flow to a class of results.
    pub(super) make: fn(&mut Bench),
}

/// The network and the flows of a scenario.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) network: Dumbbell,
    pub(super) flows: Vec<Crossing>,
    /// Names of the classes of flows, by group.
    pub(super) classes: Vec<&'static str>,
    pub(super) duration: Nanos,
    pub(super) stream: Stream,
    pub(super) control: Option<cc::Choice>,
}

/// Every scenario, in the order of the RFC.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        section: "5.1.1",
        name: "friendly",
        summary: "two NewReno transfers with the same initial window",
        make: friendly,
    },
    Scenario {
        section: "5.1.2",
        name: "initial-window",
        summary: "a NewReno transfer, and short ones that begin with 3 and with 10 segments",
        make: initial_window,
    },
    Scenario {
        section: "5.2",
        name: "aggressive",
        summary: "a CUBIC transfer beside a NewReno one",
        make: aggressive,
    },
    Scenario {
        section: "5.3",
        name: "unresponsive",
        summary: "a NewReno transfer; from a third of the time on, UDP at 12 Mbit/s for another \
                  third",
        make: unresponsive,
    },
    Scenario {
        section: "5.4",
        name: "less-than-best-effort",
        summary: "a LEDBAT transfer beside a NewReno one",
        make: scavenger,
    },
    Scenario {
        section: "6",
        name: "round-trips",
        summary: "transfers with round trips of 20, 100, 200 and 400 ms",
        make: round_trips,
    },
    Scenario {
        section: "7.2",
        name: "bursts",
        summary: "a transfer, UDP at 1 Mbit/s, and a burst of ten 30-packet responses every 2 s",
        make: bursts,
    },
    Scenario {
        section: "8.2.2",
        name: "mild",
        summary: "so many transfers that about 0.1 % is lost",
        make: mild,
    },
    Scenario {
        section: "8.2.3",
        name: "medium",
        summary: "so many transfers that about 0.5 % is lost",
        make: medium,
    },
    Scenario {
        section: "8.2.4",
        name: "heavy",
        summary: "so many transfers that about 1 % is lost",
        make: heavy,
    },
    Scenario {
        section: "8.2.5",
        name: "varying-load",
        summary: "mild, medium, heavy and mild load in turn",
        make: varying_load,
    },
    Scenario {
        section: "8.2.6",
        name: "varying-rate",
        summary: "the link's rate alternates between 10 and 1 Mbit/s",
        make: varying_rate,
    },
    Scenario {
        section: "9",
        name: "mix",
        summary: "two VoIP calls, a CBR video, web responses and two transfers",
        make: mix,
    },
    Scenario {
        section: "10",
        name: "asymmetric",
        summary: "a way back of a tenth of the rate, with a transfer on it",
        make: asymmetric,
    },
    Scenario { section: "11", name: "ecn", summary: "as 5.2, with ECN", make: ecn },
];

impl Bench {
    /// Adds a class of flows with its name in results, and returns its group.
    fn class(&mut self, name: &'static str) -> u32 {
        self.classes.push(name);
        self.classes.len() as u32 - 1
    }

    fn tcp(&mut self, group: u32, control: &str, round_trip: Nanos, config: tcp::Config) {
        let kind = cc::Kind::from_name(control).unwrap_or(cc::Kind::ALL[0]);
        let control = self.control.unwrap_or_else(|| cc::Choice::new(kind));
        // Start times differ from seed to seed by up to a second.
        let start = Nanos(config.start.0 + u64::from(self.stream.below(1_000_000_000)));
        self.flows.push(Crossing {
            access_delay: Nanos(round_trip.0 / 4),
            reverse: false,
            group,
            load: Load::Tcp(tcp::Config { control, start, ..config }),
        });
    }

    fn bulk(&mut self, name: &'static str, control: &str, round_trip: Nanos) {
        let group = self.class(name);
        self.tcp(group, control, round_trip, tcp::Config::default());
    }

    fn udp(&mut self, name: &'static str, len: u32, bps: u64, start: Nanos, stop: Nanos) {
        let group = self.class(name);
        let load = Load::Udp {
            len,
            header: 28,
            bps,
            start: Nanos(start.0 + u64::from(self.stream.below(10_000_000))),
            stop,
        };
        self.flows.push(Crossing {
            access_delay: Nanos(ROUND_TRIP.0 / 4),
            reverse: false,
            group,
            load,
        });
    }

    /// Adds `count` transfers that start within the first second.
    fn transfers(&mut self, name: &'static str, count: u32, start: Nanos, stop: Nanos) {
        let group = self.class(name);
        for _ in 0..count {
            self.tcp(
                group,
                "newreno",
                ROUND_TRIP,
                tcp::Config { start, stop, ..tcp::Config::default() },
            );
        }
    }

    /// The number of transfers that together fill the link if each loses a fraction `loss` of its
    /// packets. With this loss, a transfer sends sqrt(3/2) / sqrt(loss) segments per round trip
    /// (Mathis et al. 1997).
    fn load(&self, loss: f64) -> u32 {
        let window = libm::sqrt(1.5 / loss);
        let full = self.network.rate.bps() as f64 * (ROUND_TRIP.0 as f64 / 1e9) / (8.0 * 1500.0);
        (libm::round(full / window) as u32).max(1)
    }
}

fn friendly(bench: &mut Bench) {
    bench.bulk("first", "newreno", ROUND_TRIP);
    bench.bulk("second", "newreno", ROUND_TRIP);
}

fn initial_window(bench: &mut Bench) {
    bench.bulk("transfer", "newreno", ROUND_TRIP);
    for (name, window) in [("short, 3 segments", 3), ("short, 10 segments", 10)] {
        let group = bench.class(name);
        for second in (2..bench.duration.0 / 1_000_000_000).step_by(2) {
            let data = Data::Bytes(30 * 1448);
            let config = tcp::Config {
                data,
                initial_window: window,
                start: Nanos::from_secs(second),
                ..tcp::Config::default()
            };
            bench.tcp(group, "newreno", ROUND_TRIP, config);
        }
    }
}

fn aggressive(bench: &mut Bench) {
    bench.bulk("newreno", "newreno", ROUND_TRIP);
    bench.bulk("cubic", "cubic", ROUND_TRIP);
}

fn unresponsive(bench: &mut Bench) {
    bench.bulk("newreno", "newreno", ROUND_TRIP);
    let third = bench.duration.0 / 3;
    bench.udp("udp", 1000, 12_000_000, Nanos(third), Nanos(2 * third));
}

fn scavenger(bench: &mut Bench) {
    bench.bulk("newreno", "newreno", ROUND_TRIP);
    bench.bulk("ledbat", "ledbat", ROUND_TRIP);
}

fn round_trips(bench: &mut Bench) {
    for (name, ms) in [("20 ms", 20), ("100 ms", 100), ("200 ms", 200), ("400 ms", 400)] {
        bench.bulk(name, "newreno", Nanos::from_millis(ms));
    }
}

fn bursts(bench: &mut Bench) {
    bench.bulk("transfer", "newreno", ROUND_TRIP);
    bench.udp("udp", 1000, 1_000_000, Nanos::ZERO, Nanos::MAX);
    let group = bench.class("bursts");
    for second in (2..bench.duration.0 / 1_000_000_000).step_by(2) {
        for _ in 0..10 {
            let config = tcp::Config {
                data: Data::Bytes(30 * 1448),
                start: Nanos::from_secs(second),
                ..tcp::Config::default()
            };
            // All start at the same time, like responses to one event.
            bench.flows.push(Crossing {
                access_delay: Nanos(ROUND_TRIP.0 / 4),
                reverse: false,
                group,
                load: Load::Tcp(config),
            });
        }
    }
}

fn mild(bench: &mut Bench) {
    bench.transfers("transfers", bench.load(0.001), Nanos::ZERO, Nanos::MAX);
}

fn medium(bench: &mut Bench) {
    bench.transfers("transfers", bench.load(0.005), Nanos::ZERO, Nanos::MAX);
}

fn heavy(bench: &mut Bench) {
    bench.transfers("transfers", bench.load(0.01), Nanos::ZERO, Nanos::MAX);
}

fn varying_load(bench: &mut Bench) {
    let quarter = bench.duration.0 / 4;
    let [mild, medium, heavy] = [0.001, 0.005, 0.01].map(|loss| bench.load(loss));
    bench.transfers("all the time", mild, Nanos::ZERO, Nanos::MAX);
    bench.transfers(
        "from medium on",
        medium.saturating_sub(mild).max(1),
        Nanos(quarter),
        Nanos(3 * quarter),
    );
    bench.transfers(
        "heavy",
        heavy.saturating_sub(medium).max(1),
        Nanos(2 * quarter),
        Nanos(3 * quarter),
    );
}

fn varying_rate(bench: &mut Bench) {
    let step = |rate: Rate| Step { capacity: Some(Capacity::Constant(rate)), ..Step::default() };
    let steps = vec![(Nanos::ZERO, step(mbit(10))), (Nanos::from_secs(10), step(mbit(1)))];
    bench.network.schedule = Schedule::new(steps, Some(Nanos::from_secs(20))).ok();
    bench.bulk("first", "newreno", ROUND_TRIP);
    bench.bulk("second", "newreno", ROUND_TRIP);
}

fn mix(bench: &mut Bench) {
    // G.711: 160 bytes every 20 ms.
    bench.udp("voip 1", 200, 80_000, Nanos::ZERO, Nanos::MAX);
    bench.udp("voip 2", 200, 80_000, Nanos::ZERO, Nanos::MAX);
    bench.udp("video", 1400, 2_000_000, Nanos::ZERO, Nanos::MAX);
    let group = bench.class("web");
    for second in 1..bench.duration.0 / 1_000_000_000 {
        for _ in 0..2 {
            let config = tcp::Config {
                data: Data::Bytes(40_000),
                start: Nanos::from_secs(second),
                ..tcp::Config::default()
            };
            bench.tcp(group, "cubic", ROUND_TRIP, config);
        }
    }
    bench.bulk("transfer 1", "cubic", ROUND_TRIP);
    bench.bulk("transfer 2", "newreno", ROUND_TRIP);
}

fn asymmetric(bench: &mut Bench) {
    bench.network.return_rate = Some(mbit(1));
    bench.network.return_manager = bench.network.manager;
    bench.bulk("down", "cubic", ROUND_TRIP);
    bench.bulk("up", "cubic", ROUND_TRIP);
    if let Some(up) = bench.flows.last_mut() {
        up.reverse = true;
    }
}

fn ecn(bench: &mut Bench) {
    // Enables marking where it is not the default. Algorithms that cannot mark packets drop them.
    let _ = match &mut bench.network.manager {
        Manager::Aqm(policy) => policy.set("ecn", "on"),
        Manager::Scheduler(discipline) => discipline.set("ecn", "on"),
        Manager::None => Ok(()),
    };
    for control in ["newreno", "cubic"] {
        let group = bench.class(control);
        bench.tcp(
            group,
            control,
            ROUND_TRIP,
            tcp::Config { ecn: Some(true), ..tcp::Config::default() },
        );
    }
}

/// The default round-trip time.
pub(super) const ROUND_TRIP: Nanos = Nanos::from_millis(100);
/// Number of packets of 1500 bytes per second at 10 Mbit/s.
pub(super) const ONE_SECOND: u32 = 833;
/// The class of probes, which the fairness index ignores.
pub(super) const PROBES: &str = "probes";
