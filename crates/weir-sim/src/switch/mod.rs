//! A switch whose queues are programmed: input buffers, a pipeline, a traffic manager with a rank
//! program, and the queues behind it.
//!
//! # Model
//! ```text
//!  input 0 ─► [buffer] ─┐               output 0: rank program ─► [traffic manager] ─► [egress] ─► [interface] ─► wire
//!  input 1 ─► [buffer] ─┼─► pipeline ─► output 1: …
//!  …                    ┘
//! ```
//! The pipeline (parser and match-action stages) serves its input buffers in turn, one packet at a
//! time, and is the same for all packets. The *traffic manager* of an output is a scheduler of the
//! engine: strict queues with slices of the ranks, an exact PIFO, SP-PIFO, AIFO, a tree of PIFOs,
//! or any other of the table. A [program](rank) computes the rank of each packet as it comes and,
//! as it leaves, what it carries on to the next switch.
//!
//! Behind the traffic manager stand two first-in first-out queues, of the egress pipeline and of
//! the interface. When they *block*, what is full makes the one before it wait, so that packets
//! queue where their order is still decided. When they do not, they drop, and ranks decide nothing.
//!
//! The interface may take packets in batches, as a sending process does that sleeps until its
//! socket has room: after it was full it takes the next one when `batch` packets have left.
//!
//! # Reference
//! The software switch of P4 in which FIFO+ was tried on strict-priority queues: 64 ports, 1024
//! packets for each input, eight queues of 64, 128 packets behind the egress pipeline and 1000 in
//! the interface.
//!
//! # Differences
//! The traffic manager drops what it has no room for, and does not make the pipeline wait. There is
//! no multicast and no recirculation.
//!
//! # Validation
//! Each limit by itself; strict priority with and without blocking; each rank program by hand and
//! through a switch.

pub mod rank;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_core::Nanos;
use weir_core::config::{FlowsetConfig, LinkConfig, QueueLimit, SchedulerConfig};
use weir_core::device::{Completion, DeviceConfig, Done, StageConfig};
use weir_core::key::FlowMask;
use weir_core::sched::{Discipline, Kind, Ranking};

use crate::network::{Network, PortId};
use rank::Choice;

/// What a switch is like.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SwitchConfig {
    /// Most ports, each an input and an output.
    pub ports: u16,
    /// Packets in the buffer of an input.
    pub input_buffer: u32,
    /// Packets a second that the pipeline serves; 0 for a pipeline that takes no time and needs no
    /// buffers.
    pub pipeline: u64,
    /// The scheduler of each output with its settings, as `strict-n queues 8 depth 64`.
    pub manager: String,
    /// The rank program with its settings, as `fifo+ deadline 1s`; without one the scheduler goes
    /// by what it knows itself.
    pub program: Option<String>,
    /// Packets of each flow in front of a scheduler that has no limit of its own; of all together
    /// where it does not tell flows apart, as `fifo`.
    pub queue: u32,
    /// Whether packets of a flow keep their order whatever their ranks.
    pub keep_order: bool,
    /// Packets in the queue behind the egress pipeline.
    pub egress: u32,
    /// Whether the traffic manager waits while that queue is full; else packets are dropped there.
    pub egress_blocks: bool,
    /// Packets in the queue of the interface.
    pub interface: u32,
    /// Whether the egress queue waits while that queue is full; else packets are dropped there.
    pub interface_blocks: bool,
    /// Packets that leave the interface before it takes more, once it was full.
    pub batch: u32,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        Self {
            ports: 64,
            input_buffer: 1024,
            pipeline: 100_000,
            manager: "strict-n queues 8 depth 64".to_owned(),
            program: None,
            queue: 512,
            keep_order: false,
            egress: 128,
            egress_blocks: true,
            interface: 1000,
            interface_blocks: true,
            batch: 1,
        }
    }
}

/// Why there is no such switch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SwitchError {
    /// There are more ports than the configuration has, or than there can be.
    #[error("{0} ports are too many: the switch has {1}, and at most {MOST_PORTS}")]
    Ports(usize, u16),
    /// A queue has no place, or too many.
    #[error("`{0}` must be 1..{MOST_PACKETS} packets")]
    Places(&'static str),
    /// The batch is larger than the interface's queue.
    #[error("`batch` must be 1..{0}, at most what the interface holds")]
    Batch(u32),
    /// The pipeline would need less than a nanosecond for a packet.
    #[error("`pipeline` must be 0, or 1..1000000000 packets a second")]
    Pipeline,
    /// The scheduler or a setting of it is not known.
    #[error("`manager = \"{words}\"`: {why}")]
    Manager {
        /// What was written.
        words: String,
        /// What is wrong, and what is allowed.
        why: String,
    },
    /// The program or a setting of it is not known.
    #[error("`program = \"{words}\"`: {why}")]
    Program {
        /// What was written.
        words: String,
        /// What is wrong, and what is allowed.
        why: String,
    },
}

/// A switch in a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    pipeline: Option<PortId>,
    outputs: Vec<PortId>,
}

impl Switch {
    /// The ports on the way from input `input` to output `output`.
    pub fn way(&self, input: u16, output: u16) -> Vec<PortId> {
        let mut way = Vec::from_iter(self.pipeline.map(|pipeline| pipeline.through(input)));
        way.extend(self.outputs.get(usize::from(output)));
        way
    }

    /// Its pipeline with the input buffers, unless that takes no time.
    pub fn pipeline(&self) -> Option<PortId> {
        self.pipeline
    }

    /// Its outputs, each with the link behind it.
    pub fn outputs(&self) -> &[PortId] {
        &self.outputs
    }
}

/// A configuration that was found right.
#[derive(Clone, Debug)]
struct Parts {
    manager: Discipline,
    program: Option<Choice>,
    service: Nanos,
}

impl SwitchConfig {
    /// Says whether there can be such a switch.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), SwitchError> {
        self.parts().map(|_| ())
    }

    /// Puts a switch into a network, with an input and an output for each of `links`, the links
    /// behind the outputs.
    ///
    /// # Errors
    /// What is wrong with the configuration, and more links than ports.
    pub fn build(
        &self,
        network: &mut Network,
        links: &[LinkConfig],
    ) -> Result<Switch, SwitchError> {
        let parts = self.parts()?;
        if links.len() > usize::from(self.ports) {
            return Err(SwitchError::Ports(links.len(), self.ports));
        }
        let pipeline = (parts.service > Nanos::ZERO)
            .then(|| self.add_pipeline(network, parts.service, links.len()));
        let outputs = links.iter().map(|link| self.add_output(network, &parts, link)).collect();
        Ok(Switch { pipeline, outputs })
    }

    fn parts(&self) -> Result<Parts, SwitchError> {
        if self.ports == 0 || self.ports > MOST_PORTS {
            return Err(SwitchError::Ports(usize::from(self.ports), self.ports.min(MOST_PORTS)));
        }
        let places = [
            ("input_buffer", self.input_buffer),
            ("queue", self.queue),
            ("egress", self.egress),
            ("interface", self.interface),
        ];
        if let Some((name, _)) =
            places.into_iter().find(|(_, places)| !(1..=MOST_PACKETS).contains(places))
        {
            return Err(SwitchError::Places(name));
        }
        if !(1..=self.interface).contains(&self.batch) {
            return Err(SwitchError::Batch(self.interface));
        }
        if self.pipeline > 1_000_000_000 {
            return Err(SwitchError::Pipeline);
        }
        let mut manager = read_manager(&self.manager)
            .map_err(|why| SwitchError::Manager { words: self.manager.clone(), why })?;
        let program = match &self.program {
            None => None,
            Some(words) => Some(
                rank::read(words)
                    .map_err(|why| SwitchError::Program { words: words.clone(), why })?,
            ),
        };
        if let Some(program) = &program {
            set_rank(&mut manager, program.ranking());
        }
        let service = Nanos(1_000_000_000u64.checked_div(self.pipeline).unwrap_or(0));
        Ok(Parts { manager, program, service })
    }

    /// Input buffers that take turns before a pipeline: a ring of one packet that the processor
    /// needs `service` to fill.
    fn add_pipeline(&self, network: &mut Network, service: Nanos, inputs: usize) -> PortId {
        let stage = StageConfig { limit: QueueLimit::Packets(1), service, blocking: true };
        let device = DeviceConfig { ring: stage, ..DeviceConfig::default() };
        let link = LinkConfig { device: Some(Arc::new(device)), ..LinkConfig::default() };
        let scheduler = SchedulerConfig {
            discipline: Discipline::new(Kind::RoundRobin),
            ..SchedulerConfig::default()
        };
        let queue = FlowsetConfig {
            limit: Some(QueueLimit::Packets(self.input_buffer)),
            ..FlowsetConfig::default()
        };
        network.add_scheduler(&scheduler, &link, &queue, &vec![queue.clone(); inputs])
    }

    fn add_output(&self, network: &mut Network, parts: &Parts, link: &LinkConfig) -> PortId {
        let stage = |limit, blocking| StageConfig {
            limit: QueueLimit::Packets(limit),
            service: Nanos::ZERO,
            blocking,
        };
        let device = DeviceConfig {
            stages: vec![stage(self.egress, self.egress_blocks)],
            ring: stage(self.interface, self.interface_blocks),
            completion: Completion {
                when: Done::Sent,
                frames: self.batch,
                time: if self.batch > 1 { LONGEST_BATCH } else { Nanos::ZERO },
            },
            dql: None,
        };
        let link = LinkConfig { device: Some(Arc::new(device)), ..link.clone() };
        let scheduler = SchedulerConfig { discipline: parts.manager, ..SchedulerConfig::default() };
        let apart = parts.manager.row().parameter(RANK).is_some()
            && !self.keep_order
            && parts.program.as_ref().is_some_and(|program| !program.knows_flows());
        let limit = if apart { MOST_PACKETS } else { self.queue };
        let queue = |priority| FlowsetConfig {
            mask: mask(apart, parts.manager.row().name),
            limit: Some(QueueLimit::Packets(limit)),
            priority,
            ..FlowsetConfig::default()
        };
        // A queue for each class where their priorities mean something.
        let classes = if !apart && parts.manager.row().traits.flow.iter().any(|p| p.name == "pri") {
            CLASSES
        } else {
            1
        };
        let queues: Vec<_> = (0..classes).map(queue).collect();
        let port = network.add_scheduler(&scheduler, &link, &queue(0), &queues);
        if let Some(program) = parts.program.as_ref().and_then(Choice::labeller) {
            network.set_labeller(port, program);
        }
        if apart {
            network.take_apart(port);
        }
        port
    }
}

/// What tells flows apart: each packet for itself, nothing for a scheduler of one queue, and else
/// addresses and ports.
fn mask(apart: bool, scheduler: &str) -> FlowMask {
    if apart {
        return FlowMask { flow_id: APART - 1, ..FlowMask::default() };
    }
    if scheduler == "fifo" {
        return FlowMask::default();
    }
    FlowMask {
        src_ip: u32::MAX,
        dst_ip: u32::MAX,
        src_ip6: u128::MAX,
        dst_ip6: u128::MAX,
        src_port: u16::MAX,
        dst_port: u16::MAX,
        proto: u8::MAX,
        ..FlowMask::default()
    }
}

/// The scheduler that words name, with its settings: a name, then pairs of a setting and its value.
fn read_manager(words: &str) -> Result<Discipline, String> {
    let mut words = words.split_whitespace();
    let name = words.next().unwrap_or_default();
    let kind = Kind::from_name(name)
        .ok_or_else(|| format!("there is no scheduler `{name}`; `weir algorithms` lists them"))?;
    let mut discipline = Discipline::new(kind);
    while let Some(setting) = words.next() {
        let value = words.next().ok_or_else(|| format!("`{setting}` has no value"))?;
        discipline.set(setting, value).map_err(|error| format!("`{setting} {value}`: {error}"))?;
    }
    Ok(discipline)
}

/// Tells a scheduler that ranks by which of its ranks it goes; others have no such setting and stay
/// as they are.
fn set_rank(manager: &mut Discipline, ranking: Ranking) {
    let name = Ranking::NAMES[ranking as usize];
    for setting in [RANK, "class-rank"] {
        // What has no such setting is not sorted by ranks at all, which is a choice too: FIFO+ on a
        // FIFO keeps its books only.
        let _ = manager.set(setting, name);
    }
}

/// The setting of schedulers that are sorted by ranks.
const RANK: &str = "rank";
/// Queues in front of each output, by the class of a flow; priority 0 first.
const CLASSES: u32 = 8;
/// Packets that are flows of their own at one time in one output. A packet that comes later stays
/// behind the one that had its number, if that is still inside.
const APART: u32 = 4096;
/// Most ports: a switch's numbers are to fit beside those of its queues.
const MOST_PORTS: u16 = 1024;
/// Most packets in a queue.
const MOST_PACKETS: u32 = 1_000_000;
/// A batch that is not full is reported after this time.
const LONGEST_BATCH: Nanos = Nanos::from_secs(1);

#[cfg(test)]
mod tests;
