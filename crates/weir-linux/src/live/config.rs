//! The configuration of the live loop.

use std::sync::Arc;

use weir_core::config::PipeConfig;
use weir_core::{Limits, Nanos};
use weir_rules::classify::{Classifier, Pass};

use super::awake::LatencyRequests;
use super::forwarding::Forwarding;
use super::observe::Observer;
use crate::port::AnyPort;

/// The configuration of the loop. Start from [`LiveConfig::new`] and change the fields that differ.
pub struct LiveConfig {
    /// The ports, which receive and send frames.
    pub ports: Vec<AnyPort>,
    /// The paths from one port to another.
    pub lanes: Vec<LaneConfig>,
    /// Pipes to create before the first frame, by number.
    pub pipes: Vec<(u16, PipeConfig)>,
    /// Seed of every random draw.
    pub seed: u64,
    /// The engine's limits.
    pub limits: Limits,
    /// Maximum number of bytes of stored frames, of the records of their packets, and of free
    /// buffers; 512 MiB by default. Further frames are dropped as `no_memory`. In addition, each
    /// packet socket has 4.6 MB of buffers, and free pieces of the allocator may take about as many
    /// bytes as this limit.
    pub memory: usize,
    /// How the loop waits shortly before a packet is due.
    pub spin: Spin,
    /// Whether the workers ask for real-time priority and for processors that stay awake.
    pub realtime: Realtime,
    /// The processor of the first worker; each further worker runs on the next processor. `None`
    /// for any processors.
    pub cpu: Option<usize>,
    /// Time between two samples for the observer; 10 ms by default.
    pub sample_period: Nanos,
    /// Receives arrivals, departures and samples.
    pub observer: Option<Box<dyn Observer>>,
    /// The rules that decide each packet's path through the engine, in place of
    /// [`LaneConfig::pipe`]. `None` for no rules.
    pub rules: Option<Arc<Classifier>>,
    /// Selects a frame's lane by its destination, so that a port may feed several lanes. `None` if
    /// each port feeds at most one lane.
    pub forwarding: Option<Forwarding>,
    /// Ports of further workers. Each element has as many ports as `ports`, on the same interfaces
    /// in the same order; the kernel distributes the arriving flows among the workers. A worker is
    /// a thread. Several workers ask for real-time priority only if there are fewer workers than
    /// processors. Each instance of a pipe or scheduler lives on one worker.
    pub more_workers: Vec<Vec<AnyPort>>,
    /// Whether the loop ends when a port's interface disappears; true by default.
    pub stop_when_port_vanishes: bool,
    /// The workers' requests to keep processors awake.
    pub latency_requests: LatencyRequests,
}

impl LiveConfig {
    /// The default configuration for these ports and lanes.
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
            latency_requests: LatencyRequests::default(),
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
        if self.lanes.iter().any(|lane| lane.passes.len() > MAX_PASSES) {
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
    /// Index of the port that receives the lane's frames. Without a [`Forwarding`] a port feeds
    /// only one lane.
    pub from: usize,
    /// Index of the port that sends the lane's frames.
    pub to: usize,
    /// The pipe of the lane's packets. It is not used with rules.
    pub pipe: u16,
    /// The passes, in order, in which rules examine the lane's packets. With rules but without
    /// passes, every packet is sent at once.
    pub passes: Vec<Pass>,
    /// How offload trains are handled.
    pub gso: Gso,
}

/// How the loop handles an offload train (a frame of up to 64 KiB that represents many wire
/// packets).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gso {
    /// Every wire packet is shaped separately. Packets that depart together are sent as one train
    /// again.
    #[default]
    Split,
    /// The train is one unit in queue and link: faster, but coarser. A loss drops the whole train.
    Whole,
}

/// How the loop waits shortly before a packet is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spin {
    /// Spins for as long as the machine's timers have recently been late, at least for 20 us and at
    /// most for 300 us.
    #[default]
    Adaptive,
    /// Spins for this time.
    Fixed(Nanos),
    /// Sleeps until the packet is due. Packets are then as late as the machine's timers.
    Off,
}

/// Whether the worker's thread asks for real-time priority, and for processors that stay awake
/// under light traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Realtime {
    /// The thread asks for priority if a pipe has a rate or a delay, and otherwise while it is
    /// overloaded. It asks for awake processors in any case. If the system refuses a request, the
    /// thread continues without its effect.
    #[default]
    WhenAllowed,
    /// The thread does not ask.
    Off,
}

/// Why a configuration is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There are no lanes.
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
    /// Two lanes take frames from the same port, and there is no [`Forwarding`].
    #[error(
        "lane {lane} takes frames from port {port}, which already feeds another lane; a port \
         feeds one"
    )]
    PortTaken {
        /// The lane.
        lane: usize,
        /// The port.
        port: usize,
    },
    /// The [`Forwarding`] names a lane that does not begin at the port of the frames.
    #[error("frames of port {port} are to take lane {lane}, which does not begin at that port")]
    WrongLane {
        /// The port.
        port: usize,
        /// The lane.
        lane: u16,
    },
    /// There are more lanes than lane numbers.
    #[error("there are more than 65,535 lanes")]
    TooManyLanes,
    /// A worker has too few or too many ports.
    #[error("worker {worker} needs {ports} ports, one for each of the first worker's")]
    WorkerPorts {
        /// The worker, counted from 0.
        worker: usize,
        /// Number of ports of the first worker.
        ports: usize,
    },
    /// A lane has more passes than are permitted.
    #[error("a lane has more than {MAX_PASSES} passes")]
    TooManyPasses,
    /// The sample period is too short.
    #[error("the sample period is below 100 us; take 100 us or more")]
    SamplePeriod,
}

/// Why the loop could not start or continue.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A worker's thread could not be started.
    #[error("a thread for a further worker could not be started ({0})")]
    Thread(std::io::Error),
    /// A system call failed that does not fail on a working system.
    #[error("{what} failed ({errno})")]
    System {
        /// The attempted operation.
        what: &'static str,
        /// The error.
        errno: rustix::io::Errno,
    },
}

const MAX_PASSES: usize = 100;
/// The default of [`LiveConfig::memory`] in bytes.
const DEFAULT_MEMORY: usize = 512 << 20;
const MIN_SAMPLE_PERIOD: Nanos = Nanos::from_micros(100);
