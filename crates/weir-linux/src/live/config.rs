//! The configuration of the loop.

use std::sync::Arc;

use weir_core::config::PipeConfig;
use weir_core::{Limits, Nanos};
use weir_rules::classify::{Classifier, Pass};

use super::forwarding::Forwarding;
use super::observe::Observer;
use crate::port::AnyPort;

/// Everything the loop needs. Start from [`LiveConfig::new`] and change what differs.
pub struct LiveConfig {
    /// What receives and sends frames.
    pub ports: Vec<AnyPort>,
    /// The paths from one port to another.
    pub lanes: Vec<LaneConfig>,
    /// Pipes to make before the first frame.
    pub pipes: Vec<(u16, PipeConfig)>,
    /// Seed of every random decision.
    pub seed: u64,
    /// Bounds of the engine.
    pub limits: Limits,
    /// The most bytes of frame buffers in use; frames beyond are dropped as `no_memory`. 512 MiB by
    /// default.
    pub memory: usize,
    /// How the loop waits shortly before a release.
    pub spin: Spin,
    /// Whether to ask for real-time priority.
    pub realtime: Realtime,
    /// Processor to run on.
    pub cpu: Option<usize>,
    /// Time between two samples for the observer; 10 ms by default.
    pub sample_period: Nanos,
    /// Sees arrivals, departures and samples.
    pub observer: Option<Box<dyn Observer>>,
    /// Decide each packet's path through the engine in place of its lane's pipe.
    pub rules: Option<Arc<Classifier>>,
    /// Selects a frame's lane by its destination; a port may then feed several lanes.
    pub forwarding: Option<Forwarding>,
    /// Ports of further workers: each has as many as `ports`, on the same interfaces in the same
    /// order, among which the kernel distributes the arriving flows. A worker is a thread; it has
    /// real-time priority only while there are fewer workers than processors. Each instance of a
    /// pipe or scheduler lives on one of them.
    pub more_workers: Vec<Vec<AnyPort>>,
    /// Whether the loop ends when a port's interface disappears; true by default.
    pub stop_when_port_vanishes: bool,
}

impl LiveConfig {
    /// The defaults for these ports and lanes.
    pub fn new(ports: Vec<AnyPort>, lanes: Vec<LaneConfig>) -> Self {
        Self {
            ports,
            lanes,
            pipes: Vec::new(),
            seed: 0,
            limits: Limits::default(),
            memory: DEFAULT_MEMORY,
            spin: Spin::Adaptive,
            realtime: Realtime::WhenAllowed,
            cpu: None,
            sample_period: Nanos::from_millis(10),
            observer: None,
            rules: None,
            forwarding: None,
            more_workers: Vec::new(),
            stop_when_port_vanishes: true,
        }
    }

    /// Checks that ports and lanes fit together.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.lanes.is_empty() {
            return Err(ConfigError::NoLanes);
        }
        let ports = self.ports.len();
        let mut taken = vec![false; ports];
        for (index, lane) in self.lanes.iter().enumerate() {
            if lane.from >= ports || lane.to >= ports {
                return Err(ConfigError::NoSuchPort { lane: index, ports });
            }
            if std::mem::replace(&mut taken[lane.from], true) && self.forwarding.is_none() {
                return Err(ConfigError::PortTaken { lane: index, port: lane.from });
            }
        }
        for (port, _, lane) in self.forwarding.iter().flat_map(Forwarding::entries) {
            if self.lanes.get(usize::from(lane)).is_none_or(|lane| lane.from != port) {
                return Err(ConfigError::WrongLane { port, lane });
            }
        }
        if self.lanes.len() > usize::from(u16::MAX) {
            return Err(ConfigError::TooManyLanes);
        }
        if let Some(worker) = self.more_workers.iter().position(|worker| worker.len() != ports) {
            return Err(ConfigError::WorkerPorts { worker: worker + 1, ports });
        }
        if self.lanes.iter().any(|lane| lane.passes.len() > MOST_PASSES) {
            return Err(ConfigError::TooManyPasses);
        }
        if self.sample_period < MIN_SAMPLE_PERIOD {
            return Err(ConfigError::SamplePeriod);
        }
        Ok(())
    }
}

impl std::fmt::Debug for LiveConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveConfig")
            .field("ports", &self.ports)
            .field("lanes", &self.lanes)
            .field("pipes", &self.pipes)
            .finish_non_exhaustive()
    }
}

/// A path from one port to another.
#[derive(Clone, Debug)]
pub struct LaneConfig {
    /// Name in results, such as `up`.
    pub name: String,
    /// Index of the port that receives its frames. Without a [`Forwarding`] a port feeds one lane
    /// only.
    pub from: usize,
    /// Index of the port that sends them.
    pub to: usize,
    /// The pipe that packets take where there are no rules.
    pub pipe: u16,
    /// The passes in which rules judge its packets, in this order. Without passes all packets are
    /// sent.
    pub passes: Vec<Pass>,
    /// What happens to offload trains.
    pub gso: Gso,
}

/// What happens to an offload train (a frame of up to 64 KiB that stands for many wire packets).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gso {
    /// Every wire packet is shaped separately; packets that leave together are sent as one train
    /// again.
    #[default]
    Split,
    /// The train is one unit in queue and link: faster, but coarser. A loss drops all of it.
    Whole,
}

/// How the loop waits shortly before a release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spin {
    /// It spins for as long as the machine's timers have recently been late, 20 to 300 us.
    #[default]
    Adaptive,
    /// It spins for this long.
    Fixed(Nanos),
    /// It sleeps: packets leave as late as the machine's timers are, and an idle link costs
    /// nothing.
    Off,
}

/// Whether the loop's thread asks for real-time priority, and for processors that stay awake under
/// light traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Realtime {
    /// Yes, where the system allows it and some pipe has a rate or a delay; otherwise it goes on
    /// without.
    #[default]
    WhenAllowed,
    /// No: it stays an ordinary thread.
    Off,
}

/// Why a configuration cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There is no lane.
    #[error("there is no lane; a link needs at least one direction")]
    NoLanes,
    /// A lane names a port that does not exist.
    #[error("lane {lane} names a port that is not there; there are {ports}, counted from 0")]
    NoSuchPort {
        /// The lane.
        lane: usize,
        /// How many ports there are.
        ports: usize,
    },
    /// Two lanes take from one port.
    #[error(
        "lane {lane} takes frames from port {port}, which already feeds another lane; a port feeds one"
    )]
    PortTaken {
        /// The lane.
        lane: usize,
        /// The port.
        port: usize,
    },
    /// Frames of a port are sent to a lane that starts at another port.
    #[error("frames of port {port} are to take lane {lane}, which does not begin at that port")]
    WrongLane {
        /// The port.
        port: usize,
        /// The lane.
        lane: u16,
    },
    /// There are more lanes than a frame can name.
    #[error("there are more than 65,535 lanes")]
    TooManyLanes,
    /// A worker has too few or too many ports.
    #[error("worker {worker} needs {ports} ports, one for each of the first worker's")]
    WorkerPorts {
        /// The worker, counted from 0.
        worker: usize,
        /// How many ports the first has.
        ports: usize,
    },
    /// A lane has more passes than a packet can count.
    #[error("a lane has more than {MOST_PASSES} passes")]
    TooManyPasses,
    /// The sample period is too short.
    #[error("the sample period is below 100 us; take 100 us or more")]
    SamplePeriod,
}

/// Why the loop could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The configuration cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A worker's thread could not be started.
    #[error("a thread for a further worker could not be started ({0})")]
    Thread(std::io::Error),
    /// A system call failed that always works.
    #[error("{what} failed ({errno})")]
    System {
        /// What was attempted.
        what: &'static str,
        /// The error.
        errno: rustix::io::Errno,
    },
}

/// The most passes of a lane.
const MOST_PASSES: usize = 100;
const DEFAULT_MEMORY: usize = 512 << 20;
const MIN_SAMPLE_PERIOD: Nanos = Nanos::from_micros(100);
