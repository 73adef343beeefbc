//! The configuration of a session: surroundings, what packets meet, who observes, and tuning.

use std::path::PathBuf;
use std::sync::Arc;

use weir_core::Nanos;
use weir_core::config::SchedulerConfig;
use weir_linux::live::{Change, Forwarding, LaneConfig, Observer, Realtime, Spin};
use weir_rules::LinkSpec;
use weir_rules::ruleset::Ruleset;

use crate::rules::{ActiveRules, Where};

/// Everything that a session is built from.
pub struct SessionConfig<S> {
    pub(super) surroundings: S,
    pub(super) emulation: Emulation,
    pub(super) observation: Observation,
    pub(super) sample_period: Nanos,
    pub(super) seed: u64,
    pub(super) tuning: Tuning,
    pub(super) outlives_ports: bool,
}

impl<S> SessionConfig<S> {
    /// A session in `surroundings` in which packets meet `emulation`: with seed 1, with series for
    /// plots and without a capture.
    pub fn new(surroundings: S, emulation: Emulation) -> Self {
        Self {
            surroundings,
            emulation,
            observation: Observation::Series { capture: None },
            sample_period: SAMPLE_PERIOD,
            seed: 1,
            tuning: Tuning::default(),
            outlives_ports: false,
        }
    }

    /// The seed of all random draws: the same seed loses the same packets.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Workers, memory, priority and processor.
    #[must_use]
    pub fn tuning(self, tuning: Tuning) -> Self {
        Self { tuning, ..self }
    }

    /// What is recorded of the packets.
    #[must_use]
    pub fn observation(self, observation: Observation) -> Self {
        Self { observation, ..self }
    }

    /// Time between two samples of each lane, 10 ms unless set, at least 100 us.
    #[must_use]
    pub fn sample_period(self, sample_period: Nanos) -> Self {
        Self { sample_period, ..self }
    }

    /// The session goes on when an interface disappears, so that a later
    /// [`Control::replace_port`](super::Control::replace_port) can take it again. Without this call
    /// the session ends then.
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

/// What packets meet on their path from port to port.
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
        /// Where they look at packets.
        place: Where,
    },
    /// Any number of lanes between any number of ports.
    Lanes(Lanes),
}

/// A link with its name.
#[derive(Clone, Debug)]
pub struct Link {
    /// The name by which it is changed, and which results show: `up`.
    pub name: String,
    /// Its rate, delay, queue and impairments.
    pub spec: LinkSpec,
}

impl Link {
    /// A link with this name.
    pub fn new(name: impl Into<String>, spec: LinkSpec) -> Self {
        Self { name: name.into(), spec }
    }
}

/// Lanes between any number of ports, and what leads packets through the engine.
#[derive(Default)]
pub struct Lanes {
    /// The lanes.
    pub lanes: Vec<LaneConfig>,
    /// Which lane a frame takes, by its destination, where a port feeds several.
    pub forwarding: Option<Forwarding>,
    /// Lead packets to pipes and queues, in place of their lanes' pipes.
    pub rules: Option<ActiveRules>,
    /// Makes pipes, schedulers and queues that are not part of `rules`; called for the engine of
    /// each worker before the first frame.
    pub engine: Option<Change>,
    /// The links among them that can be changed by name.
    pub links: Vec<NamedLink>,
}

/// A link of the engine that can be changed by its name.
#[derive(Clone, Debug)]
pub struct NamedLink {
    /// Its name and its present parameters.
    pub link: Link,
    /// Number of its pipe or scheduler in the engine.
    pub id: u16,
    /// The scheduler that serves it; `None` for a pipe.
    pub scheduler: Option<Arc<SchedulerConfig>>,
}

/// What is recorded of the packets.
pub enum Observation {
    /// Nothing: no observer costs time.
    Nothing,
    /// A series for each lane, and a capture where one is wanted.
    Series {
        /// Every packet with what became of it, in a file.
        capture: Option<Capture>,
    },
    /// What the caller's own observer records.
    Own(Box<dyn Observer>),
}

/// A capture file.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The file, in the format pcapng.
    pub path: PathBuf,
    /// Bytes to keep of each packet; 0 keeps all.
    pub snaplen: usize,
}

/// How the live loop uses the machine.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Threads that share the work, at least 1.
    pub workers: usize,
    /// Most bytes of frames inside.
    pub memory: usize,
    /// How the last microseconds before a departure are waited for.
    pub spin: Spin,
    /// Whether the loop asks for real-time priority.
    pub realtime: Realtime,
    /// Processor of the first worker; the others take those behind it.
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

/// Enough for a second at 4 Gbit/s, in bytes.
const DEFAULT_MEMORY: usize = 512 << 20;
/// Fine enough to see the burst of a TCP window, coarse enough to cost nothing.
const SAMPLE_PERIOD: Nanos = Nanos::from_millis(10);
