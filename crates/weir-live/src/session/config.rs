//! The configuration of a session: surroundings, emulation, observation and tuning.

use std::path::PathBuf;
use std::sync::Arc;

use weir_core::Nanos;
use weir_core::config::SchedulerConfig;
use weir_linux::live::{Change, Forwarding, LaneConfig, LatencyRequests, Observer, Realtime, Spin};
use weir_rules::LinkSpec;
use weir_rules::ruleset::Ruleset;

use crate::rules::{ActiveRules, Where};

/// The complete configuration of a session.
pub struct SessionConfig<S> {
    pub(super) surroundings: S,
    pub(super) emulation: Emulation,
    pub(super) observation: Observation,
    pub(super) sample_period: Nanos,
    pub(super) seed: u64,
    pub(super) tuning: Tuning,
    pub(super) outlives_ports: bool,
    pub(super) latency_requests: LatencyRequests,
}

impl<S> SessionConfig<S> {
    /// A session that emulates `emulation` in `surroundings`, with seed 1, with series for plots
    /// and without a capture.
    pub fn new(surroundings: S, emulation: Emulation) -> Self {
        Self {
            surroundings,
            emulation,
            observation: Observation::Series { capture: None },
            sample_period: SAMPLE_PERIOD,
            seed: 1,
            tuning: Tuning::default(),
            outlives_ports: false,
            latency_requests: LatencyRequests::default(),
        }
    }

    /// Sets the seed of all random draws.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Sets how the live loop uses the machine.
    #[must_use]
    pub fn tuning(self, tuning: Tuning) -> Self {
        Self { tuning, ..self }
    }

    /// Sets what is recorded.
    #[must_use]
    pub fn observation(self, observation: Observation) -> Self {
        Self { observation, ..self }
    }

    /// Sets the time between two samples of each lane: 10 ms by default, at least 100 us.
    #[must_use]
    pub fn sample_period(self, sample_period: Nanos) -> Self {
        Self { sample_period, ..self }
    }

    /// Sets the workers' requests to keep processors awake. The caller has opened the requests,
    /// because the process may have given up the right to open them.
    #[must_use]
    pub fn latency_requests(self, latency_requests: LatencyRequests) -> Self {
        Self { latency_requests, ..self }
    }

    /// Lets the session continue when an interface disappears, so that
    /// [`Control::replace_port`](super::Control::replace_port) can replace the port later. Without
    /// this call the session ends when an interface disappears.
    #[must_use]
    pub fn outlives_ports(self) -> Self {
        Self { outlives_ports: true, ..self }
    }
}

impl<S: std::fmt::Debug> std::fmt::Debug for SessionConfig<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionConfig")
            .field("surroundings", &self.surroundings)
            .field("seed", &self.seed)
            .field("tuning", &self.tuning)
            .finish_non_exhaustive()
    }
}

/// The links or rules that a session emulates between its ports.
pub enum Emulation {
    /// A link in each direction between two ports: the first from port 0 to port 1, the second
    /// back.
    Links(Box<[Link; 2]>),
    /// Rules between two ports.
    Rules {
        /// Names of the two directions in results.
        directions: [String; 2],
        /// The rules, with their pipes, schedulers and queues.
        ruleset: Box<Ruleset>,
        /// Where the rules examine packets.
        place: Where,
    },
    /// Any number of lanes between any number of ports.
    Lanes(Lanes),
}

/// A link with its name.
#[derive(Clone, Debug)]
pub struct Link {
    /// The link's name in results and for changes, such as `up`.
    pub name: String,
    /// The link's rate, delay, queue and impairments.
    pub spec: LinkSpec,
    /// The name for both directions, if this is one direction of a link that has such a name:
    /// `a-b` for `a>b`.
    pub whole: Option<String>,
}

impl Link {
    /// A link with this name.
    pub fn new(name: impl Into<String>, spec: LinkSpec) -> Self {
        Self { name: name.into(), spec, whole: None }
    }

    /// The same link as one direction of the link `whole`.
    #[must_use]
    pub fn direction_of(self, whole: impl Into<String>) -> Self {
        Self { whole: Some(whole.into()), ..self }
    }
}

/// Lanes between any number of ports, with the pipes or rules of their packets.
#[derive(Default)]
pub struct Lanes {
    /// The lanes.
    pub lanes: Vec<LaneConfig>,
    /// Selects the lane of a frame by destination, where a port feeds several lanes.
    pub forwarding: Option<Forwarding>,
    /// Rules that select pipes and queues. The rules replace the lanes' pipes.
    pub rules: Option<ActiveRules>,
    /// Creates pipes, schedulers and queues that are not part of `rules`. Called for the engine of
    /// each worker before the first frame.
    pub engine: Option<Change>,
    /// The links that can be changed by name.
    pub links: Vec<NamedLink>,
}

/// A link of the engine that can be changed by its name.
#[derive(Clone, Debug)]
pub struct NamedLink {
    /// The link's name and its current parameters.
    pub link: Link,
    /// Number of the link's pipe or scheduler in the engine.
    pub id: u16,
    /// The scheduler of the link; `None` for a pipe.
    pub scheduler: Option<Arc<SchedulerConfig>>,
    /// The nodes from which and to which the link leads, if these are not the ends of a lane;
    /// otherwise empty.
    pub ends: [String; 2],
}

/// The records that a session keeps.
pub enum Observation {
    /// Nothing is recorded, so no observer costs time.
    Nothing,
    /// A series for each lane and, if requested, a capture.
    Series {
        /// The file that receives every packet with its outcome, if requested.
        capture: Option<Capture>,
    },
    /// The caller's own observer records.
    Own(Box<dyn Observer>),
}

/// A capture file.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The file, which has the pcapng format.
    pub path: PathBuf,
    /// Bytes to record of each packet; 0 records the whole packet.
    pub snaplen: usize,
}

/// How the live loop uses the machine.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Number of workers, at least 1.
    pub workers: usize,
    /// Maximum memory in bytes for the frames inside, the records of their packets, and free
    /// buffers.
    pub memory: usize,
    /// How the loop waits in the last microseconds before a packet is due.
    pub spin: Spin,
    /// Whether the workers ask for real-time priority.
    pub realtime: Realtime,
    /// Processor of the first worker. The other workers use the processors after it. `None` for any
    /// processors.
    pub cpu: Option<usize>,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            workers: 1,
            memory: DEFAULT_MEMORY,
            spin: Spin::Adaptive,
            realtime: Realtime::WhenAllowed,
            cpu: None,
        }
    }
}

/// The default memory in bytes, which is enough for a second at 4 Gbit/s.
const DEFAULT_MEMORY: usize = 512 << 20;
/// Time between samples: short enough to show the burst of a TCP window, and long enough to cost
/// almost nothing.
const SAMPLE_PERIOD: Nanos = Nanos::from_millis(10);
