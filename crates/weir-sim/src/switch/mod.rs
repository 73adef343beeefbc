//! A switch with programmable queues: input buffers, a pipeline, a traffic manager with a rank
//! program, and the queues after it.
//!
//! # Model
//! ```text
//!  input 0 ─► [buffer] ─┐   ingress pipeline             output 0: rank program ─► [traffic manager] ─► [egress] ─► [interface] ─► wire
//!  input 1 ─► [buffer] ─┼─► parser ─► stage 1 … 12 ─┬─► output 1: …
//!  …                    ┘                           └─► …
//! ```
//! The ingress pipeline serves its input buffers in turn. The parser and each match-action stage
//! hold one packet at a time, each for its own service time, and pass it on when the next stage is
//! free. The slowest stage determines the rate of the pipeline, and the sum of the times is the
//! delay of a packet that does not wait. A pipeline can also be given by its rate alone; it then
//! has a single stage.
//!
//! A packet that finds no room in the traffic manager is dropped there. With `manager_blocks`, it
//! causes back-pressure instead: it waits at the end of the pipeline, the stages before it stop,
//! and the input buffers fill and drop. Such a packet also stops packets for other outputs, because
//! the switch has one pipeline.
//!
//! The *traffic manager* of an output is a scheduler of the engine: strict queues with slices of
//! the ranks, an exact PIFO, SP-PIFO, AIFO, a tree of PIFOs, or any other. A [program](rank)
//! computes the rank of each packet at its arrival, and, at its departure, the label that the
//! packet carries to the next switch.
//!
//! Two FIFO queues follow the traffic manager: those of the egress pipeline and of the interface.
//! If they *block*, a full queue stops the queue before it, so that packets wait where ranks still
//! determine their order. If they do not block, packets do not wait in the traffic manager, and
//! ranks have no effect.
//!
//! The egress pipeline, with its deparser, holds each packet for `egress_time` before it puts the
//! packet into its queue.
//!
//! The interface may accept packets in batches, like a sending process that sleeps until its socket
//! has room. Once the interface's queue was full, it accepts the next packet when `batch` packets
//! have left.
//!
//! # Reference
//! The P4 software switch with which FIFO+ was tested on strict-priority queues: 64 ports, 1024
//! packets for each input, eight queues of 64, 128 packets after the egress pipeline and 1000 in
//! the interface.
//!
//! # Differences
//! That switch has one thread for the whole ingress pipeline, and its traffic manager drops. This
//! model has no multicast and no recirculation. The time of a stage does not depend on the packet.
//!
//! # Validation
//! Tests check each limit and each service time separately, the conservation of packets through all
//! stages, back-pressure in comparison with a run that drops, strict priority with and without
//! blocking, and each rank program alone and in a switch.

mod rank;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_core::Nanos;
use weir_core::config::{FlowsetConfig, LinkConfig, QueueLimit, SchedulerConfig};
use weir_core::device::{Completion, DeviceConfig, Done, StageConfig};
use weir_core::key::FlowMask;
use weir_core::sched::{Discipline, Kind, Ranking};
use weir_rules::named::{self, NamedError};

use crate::network::{Network, PortId};
use crate::random::Draws;
use crate::units::Time;
use rank::Choice;

/// The configuration of a switch.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SwitchConfig {
    /// Maximum number of ports, each an input and an output.
    pub ports: u16,
    /// Size of each input's buffer in packets.
    pub input_buffer: u32,
    /// Packets per second that an ingress pipeline of one stage serves, instead of `parser` and
    /// `stages`; 0 for a pipeline that takes no time and needs no buffers. 100000 by default.
    pub pipeline: Option<u64>,
    /// Time for which the parser holds a packet.
    pub parser: Option<Time>,
    /// Times for which the match-action stages hold a packet, in the order of the stages, at most
    /// 12.
    pub stages: Vec<Time>,
    /// The scheduler of each output with its settings, such as `strict-n queues 8 depth 64`.
    pub manager: String,
    /// The rank program with its settings, such as `fifo+ deadline 1s`. If absent, the scheduler
    /// computes its own ranks.
    pub program: Option<String>,
    /// For a scheduler without a limit: queue size in packets for each flow, or for all
    /// flows together if the scheduler does not distinguish flows, such as `fifo`.
    pub queue: u32,
    /// Whether a packet that finds no room in the traffic manager waits in the pipeline and blocks
    /// it. Otherwise the traffic manager drops the packet.
    pub manager_blocks: bool,
    /// Whether packets of a flow keep their order regardless of their ranks.
    pub keep_order: bool,
    /// Size in packets of the queue after the egress pipeline.
    pub egress: u32,
    /// Time for which the egress pipeline and its deparser hold a packet.
    pub egress_time: Time,
    /// Whether the traffic manager waits while the egress queue is full. Otherwise the egress queue
    /// drops packets.
    pub egress_blocks: bool,
    /// Size in packets of the interface's queue.
    pub interface: u32,
    /// Whether the egress queue waits while the interface's queue is full. Otherwise the
    /// interface's queue drops packets.
    pub interface_blocks: bool,
    /// Packets that must leave a full interface before it accepts more.
    pub batch: u32,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        Self {
            ports: 64,
            input_buffer: 1024,
            pipeline: None,
            parser: None,
            stages: Vec::new(),
            manager: "strict-n queues 8 depth 64".to_owned(),
            program: None,
            queue: 512,
            manager_blocks: false,
            keep_order: false,
            egress: 128,
            egress_time: Time(Nanos::ZERO),
            egress_blocks: true,
            interface: 1000,
            interface_blocks: true,
            batch: 1,
        }
    }
}

/// Why a switch cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SwitchError {
    /// There are more ports than the configuration has, or than a switch may have.
    #[error("{0} ports are not possible: this switch allows {1}, and a switch 1 to {MAX_PORTS}")]
    Ports(usize, u16),
    /// The size of a queue is zero or too large.
    #[error("`{0}` must be 1..{MAX_PACKETS} packets")]
    Places(&'static str),
    /// The batch is larger than the interface's queue.
    #[error("`batch` must be 1..{0}, at most what the interface holds")]
    Batch(u32),
    /// The pipeline would need less than a nanosecond per packet.
    #[error("`pipeline` must be 0, or 1..1000000000 packets a second")]
    Pipeline,
    /// The configuration gives both the rate and the stages of the pipeline.
    #[error(
        "either `pipeline`, or `parser` and `stages`: a pipeline given by its rate has one stage"
    )]
    TwoPipelines,
    /// There are more match-action stages than a pipeline has.
    #[error("{0} match-action stages are too many: a pipeline has at most {MAX_STAGES}")]
    Stages(usize),
    /// A stage takes no time or too long.
    #[error("`{0}` must be 1ns..1s for each packet")]
    StageTime(&'static str),
    /// The egress pipeline takes too long.
    #[error("`egress_time` must be 0s..1s for each packet")]
    EgressTime,
    /// A packet cannot wait for the traffic manager, because there is no pipeline.
    #[error(
        "`manager_blocks` needs a pipeline in which packets wait: `pipeline` above 0, `parser` or \
         `stages`"
    )]
    NothingBlocks,
    /// A packet cannot wait for a traffic manager that drops packets for other reasons than a full
    /// queue.
    #[error(
        "`manager_blocks` needs a `manager` that drops a packet only if its queue is full; `{0}` \
         drops by other rules: use strict-n, sp-pifo, pifo, or a scheduler with `queue`, such as \
         fifo"
    )]
    DropsByRule(&'static str),
    /// The scheduler or one of its settings is unknown.
    #[error("`manager = \"{words}\"`: {why}")]
    Manager {
        /// The text in the configuration.
        words: String,
        /// The problem, and what is allowed.
        why: NamedError,
    },
    /// The program or one of its settings is unknown.
    #[error("`program = \"{words}\"`: {why}")]
    Program {
        /// The text in the configuration.
        words: String,
        /// The problem, and what is allowed.
        why: NamedError,
    },
}

/// A switch in a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    pipeline: Option<PortId>,
    outputs: Vec<PortId>,
}

impl Switch {
    /// The ports on the path from input `input` to output `output`.
    pub fn path(&self, input: u16, output: u16) -> Vec<PortId> {
        let mut ports = Vec::from_iter(self.pipeline.map(|pipeline| pipeline.through(input)));
        ports.extend(self.outputs.get(usize::from(output)));
        ports
    }

    /// The port of the pipeline with the input buffers; `None` if the pipeline takes no time.
    pub fn pipeline(&self) -> Option<PortId> {
        self.pipeline
    }

    /// The ports of the outputs, each with the link after it.
    pub fn outputs(&self) -> &[PortId] {
        &self.outputs
    }
}

/// A checked configuration.
#[derive(Clone, Debug)]
struct Parts {
    manager: Discipline,
    program: Option<Choice>,
    /// The service times of the parser and the match-action stages, in the order in which packets
    /// pass them.
    stages: Vec<Nanos>,
}

impl SwitchConfig {
    /// Checks the configuration.
    ///
    /// # Errors
    /// The first problem of the configuration.
    pub fn check(&self) -> Result<(), SwitchError> {
        self.parts().map(|_| ())
    }

    /// Adds a switch to a network, with one input and one output for each of `links`. Each link
    /// follows its output.
    ///
    /// # Errors
    /// A problem of the configuration, or more links than ports.
    pub fn build(
        &self,
        network: &mut Network,
        links: &[LinkConfig],
    ) -> Result<Switch, SwitchError> {
        let parts = self.parts()?;
        if links.len() > usize::from(self.ports) {
            return Err(SwitchError::Ports(links.len(), self.ports));
        }
        let pipeline = parts
            .stages
            .split_last()
            .map(|(last, before)| self.add_pipeline(network, before, *last, links.len()));
        let outputs = links.iter().map(|link| self.add_output(network, &parts, link)).collect();
        Ok(Switch { pipeline, outputs })
    }

    fn parts(&self) -> Result<Parts, SwitchError> {
        if self.ports == 0 || self.ports > MAX_PORTS {
            return Err(SwitchError::Ports(usize::from(self.ports), self.ports.min(MAX_PORTS)));
        }
        let places = [
            ("input_buffer", self.input_buffer),
            ("queue", self.queue),
            ("egress", self.egress),
            ("interface", self.interface),
        ];
        if let Some((name, _)) =
            places.into_iter().find(|(_, places)| !(1..=MAX_PACKETS).contains(places))
        {
            return Err(SwitchError::Places(name));
        }
        if !(1..=self.interface).contains(&self.batch) {
            return Err(SwitchError::Batch(self.interface));
        }
        let stages = self.ingress()?;
        if self.egress_time.0 > LONGEST_STAGE {
            return Err(SwitchError::EgressTime);
        }
        let mut manager = named::read(&self.manager)
            .map_err(|why| SwitchError::Manager { words: self.manager.clone(), why })?;
        let program: Option<Choice> = match &self.program {
            None => None,
            Some(words) => Some(
                named::read(words)
                    .map_err(|why| SwitchError::Program { words: words.clone(), why })?,
            ),
        };
        if let Some(program) = &program {
            set_rank(&mut manager, program.row().traits.ranking);
        }
        if self.manager_blocks {
            if stages.is_empty() {
                return Err(SwitchError::NothingBlocks);
            }
            if !manager.knows_room() {
                return Err(SwitchError::DropsByRule(manager.row().name));
            }
        }
        Ok(Parts { manager, program, stages })
    }

    /// The service times of the stages of the ingress pipeline; empty if it takes no time.
    fn ingress(&self) -> Result<Vec<Nanos>, SwitchError> {
        let by_stage = self.parser.is_some() || !self.stages.is_empty();
        match self.pipeline {
            Some(_) if by_stage => return Err(SwitchError::TwoPipelines),
            Some(rate) if rate > 1_000_000_000 => return Err(SwitchError::Pipeline),
            rate if !by_stage => {
                let time = 1_000_000_000u64.checked_div(rate.unwrap_or(DEFAULT_PIPELINE));
                return Ok(time.map(Nanos).into_iter().collect());
            }
            _ => {}
        }
        if self.stages.len() > MAX_STAGES {
            return Err(SwitchError::Stages(self.stages.len()));
        }
        let allowed = |time: &Time| (Nanos(1)..=LONGEST_STAGE).contains(&time.0);
        if !self.parser.iter().all(allowed) {
            return Err(SwitchError::StageTime("parser"));
        }
        if !self.stages.iter().all(allowed) {
            return Err(SwitchError::StageTime("stages"));
        }
        Ok(self.parser.iter().chain(&self.stages).map(|time| time.0).collect())
    }

    /// Maximum number of queues of the engine that a switch with `links` links needs: one for each
    /// input buffer, and those of the outputs.
    pub fn queues(&self, links: usize) -> usize {
        let inputs = usize::from(self.ingress().is_ok_and(|stages| !stages.is_empty()));
        links * (inputs + CLASSES as usize)
    }

    /// Adds the input buffers, which take turns, and the stages after them. A stage is free again
    /// when the next stage has taken its packet. The last stage is the ring of the device, and the
    /// wire after it takes no time.
    fn add_pipeline(
        &self,
        network: &mut Network,
        before: &[Nanos],
        last: Nanos,
        inputs: usize,
    ) -> PortId {
        let stage = |&service: &Nanos| StageConfig {
            limit: QueueLimit::Packets(1),
            service,
            blocking: true,
        };
        let device = DeviceConfig {
            stages: before.iter().map(stage).collect(),
            ring: stage(&last),
            gated: self.manager_blocks,
            ..DeviceConfig::default()
        };
        let link = LinkConfig { device: Some(Arc::new(device)), ..LinkConfig::default() };
        let scheduler = SchedulerConfig {
            discipline: Discipline::new(Kind::RoundRobin),
            ..SchedulerConfig::default()
        };
        let queue = FlowsetConfig {
            limit: Some(QueueLimit::Packets(self.input_buffer)),
            ..FlowsetConfig::default()
        };
        let port = network.add_scheduler(&scheduler, &link, &queue, &vec![queue.clone(); inputs]);
        if self.manager_blocks {
            network.gate(port);
        }
        port
    }

    fn add_output(&self, network: &mut Network, parts: &Parts, link: &LinkConfig) -> PortId {
        let stage = |limit, service, blocking| StageConfig {
            limit: QueueLimit::Packets(limit),
            service,
            blocking,
        };
        let device = DeviceConfig {
            stages: vec![stage(self.egress, self.egress_time.0, self.egress_blocks)],
            ring: stage(self.interface, Nanos::ZERO, self.interface_blocks),
            completion: Completion {
                when: Done::Sent,
                frames: self.batch,
                time: if self.batch > 1 { LONGEST_BATCH } else { Nanos::ZERO },
            },
            ..DeviceConfig::default()
        };
        let link = LinkConfig { device: Some(Arc::new(device)), ..link.clone() };
        let scheduler = SchedulerConfig { discipline: parts.manager, ..SchedulerConfig::default() };
        let separate = parts.manager.row().parameter(RANK).is_some()
            && !self.keep_order
            && parts.program.as_ref().is_some_and(|program| !program.row().traits.knows_flows);
        let limit = if separate { MAX_PACKETS } else { self.queue };
        let queue = |priority| FlowsetConfig {
            mask: mask(separate, parts.manager.row().name),
            limit: Some(QueueLimit::Packets(limit)),
            priority,
            ..FlowsetConfig::default()
        };
        // A scheduler that uses priorities of classes gets one queue per class.
        let classes =
            if !separate && parts.manager.row().traits.flow.iter().any(|p| p.name == "pri") {
                CLASSES
            } else {
                1
            };
        let queues: Vec<_> = (0..classes).map(queue).collect();
        let port = network.add_scheduler(&scheduler, &link, &queue(0), &queues);
        let draws = Draws::new(network.seed(), port.0.into(), READINGS);
        if let Some(program) = parts.program.as_ref().and_then(|p| rank::labeller(p, draws)) {
            network.set_labeller(port, program);
        }
        if separate {
            network.separate_packets(port);
        }
        port
    }
}

/// The mask that distinguishes flows: the flow label if each packet is a separate flow, nothing for
/// the scheduler `fifo`, and otherwise addresses, ports and protocol.
fn mask(separate: bool, scheduler: &str) -> FlowMask {
    if separate {
        return FlowMask { flow_id: SEPARATE - 1, ..FlowMask::default() };
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

fn set_rank(manager: &mut Discipline, ranking: Ranking) {
    let name = Ranking::NAMES[ranking as usize];
    for setting in [RANK, "class-rank"] {
        // A scheduler without this setting does not sort by rank. That is a valid choice: with a
        // FIFO, the program FIFO+ only updates labels.
        let _ = manager.set(setting, name);
    }
}

/// The setting of schedulers that sort by rank.
const RANK: &str = "rank";
/// Packets per second of the pipeline if nothing is configured.
const DEFAULT_PIPELINE: u64 = 100_000;
/// Maximum number of match-action stages, as in the published switch.
const MAX_STAGES: usize = 12;
/// The longest time for which a stage may hold a packet.
const LONGEST_STAGE: Nanos = Nanos::from_secs(1);
/// The random stream of an output's readings of the time.
const READINGS: u8 = 1;
/// Number of queues at each output if the scheduler uses priorities: one for each class of flows,
/// where class 0 goes first.
const CLASSES: u32 = 8;
/// Number of packets in one output that can be separate flows at the same time. The numbers of
/// packets repeat after that many packets. If the earlier packet with the same number is still
/// inside, the later packet stays behind it.
const SEPARATE: u32 = 4096;
/// Maximum number of ports, such that a port number and the number of its queue fit into one field.
const MAX_PORTS: u16 = 1024;
/// Maximum number of packets in a queue.
const MAX_PACKETS: u32 = 1_000_000;
/// The time after which the device reports an incomplete batch.
const LONGEST_BATCH: Nanos = Nanos::from_secs(1);

#[cfg(test)]
mod tests;
