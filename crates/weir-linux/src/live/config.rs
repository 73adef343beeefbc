//! What the loop is told before it starts.

use std::sync::Arc;

use weir_core::config::PipeConfig;
use weir_core::{Limits, Nanos};
use weir_rules::classify::{Classifier, Pass};

use super::forwarding::Forwarding;
use super::observe::Observer;
use crate::port::AnyPort;

/// Everything the loop needs. Start from [`LiveConfig::new`] and change what differs.
pub struct LiveConfig {
    /// Where frames come in and go out.
    pub ports: Vec<AnyPort>,
    /// Ways from one port to another.
    pub lanes: Vec<LaneConfig>,
    /// Pipes to make before the first frame.
    pub pipes: Vec<(u16, PipeConfig)>,
    /// Seed of every random decision.
    pub seed: u64,
    /// Bounds of the engine.
    pub limits: Limits,
    /// Most bytes of frame buffers in use; frames beyond are dropped as `no_memory`. 512 MiB by
    /// default.
    pub memory: usize,
    /// How the last stretch before a release is waited for.
    pub spin: Spin,
    /// Whether to ask for real-time priority.
    pub realtime: Realtime,
    /// Processor to stay on.
    pub cpu: Option<usize>,
    /// Time between two samples for the observer; 10 ms by default.
    pub sample_period: Nanos,
    /// Is told of arrivals, departures and samples.
    pub observer: Option<Box<dyn Observer>>,
    /// Decide each packet's way through the engine in place of its lane's pipe.
    pub rules: Option<Arc<Classifier>>,
    /// Decides which lane a frame takes, by its destination; ports may then feed several lanes.
    pub forwarding: Option<Forwarding>,
    /// Ports of further workers: each has as many as `ports`, on the same interfaces in the same
    /// order, which share what comes in. A worker is a thread; it has real-time priority only while
    /// there are fewer of them than processors. Each instance of a pipe or scheduler lives on one
    /// of them.
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

/// A way from one port to another.
#[derive(Clone, Debug)]
pub struct LaneConfig {
    /// Name in results, such as `up`.
    pub name: String,
    /// Index of the port where frames come in. A port feeds one lane where no [`Forwarding`]
    /// decides.
    pub from: usize,
    /// Index of the port where they go out.
    pub to: usize,
    /// The pipe they go through, where there are no rules.
    pub pipe: u16,
    /// Where rules look at them, in this order; nowhere lets them pass.
    pub passes: Vec<Pass>,
    /// What happens to offload trains.
    pub gso: Gso,
}

/// What happens to an offload train (a frame of up to 64 KiB that stands for many wire packets).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gso {
    /// Every wire packet is shaped by itself; those that leave together leave as one train again.
    #[default]
    Split,
    /// The train is one unit in queue and link: quicker, coarser. Loss takes all of it.
    Whole,
}

/// How the last stretch before a release is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spin {
    /// By spinning for as long as the machine's timers have lately been late, 20 to 300 us.
    #[default]
    Adaptive,
    /// By spinning for this long.
    Fixed(Nanos),
    /// By sleeping: packets leave as late as the machine's timers are, and an idle link costs
    /// nothing.
    Off,
}

/// Whether the loop's thread asks for real-time priority, and that processors stay awake under
/// light traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Realtime {
    /// Takes it where the system allows and some pipe has a time to keep, and goes on without where
    /// not.
    #[default]
    WhenAllowed,
    /// Stays an ordinary thread.
    Off,
}

/// Why a configuration cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Nothing to do.
    #[error("there is no lane; a link needs at least one direction")]
    NoLanes,
    /// A lane names a port that is not there.
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
    /// Frames of a port are sent to a lane that does not begin there.
    #[error("frames of port {port} are to take lane {lane}, which does not begin at that port")]
    WrongLane {
        /// The port.
        port: usize,
        /// The lane.
        lane: u16,
    },
    /// More lanes than can be named.
    #[error("there are more than 65,535 lanes")]
    TooManyLanes,
    /// A worker lacks ports, or has too many.
    #[error("worker {worker} needs {ports} ports, one for each of the first worker's")]
    WorkerPorts {
        /// The worker, counted from 0.
        worker: usize,
        /// How many ports the first has.
        ports: usize,
    },
    /// More passes than a packet can count.
    #[error("a lane has more than {MOST_PASSES} passes")]
    TooManyPasses,
    /// Samples too close together.
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
    /// A system call that always works did not.
    #[error("{what} failed ({errno})")]
    System {
        /// What was tried.
        what: &'static str,
        /// The error.
        errno: rustix::io::Errno,
    },
}

/// Most passes of a lane.
const MOST_PASSES: usize = 100;
const DEFAULT_MEMORY: usize = 512 << 20;
const MIN_SAMPLE_PERIOD: Nanos = Nanos::from_micros(100);
