//! Views of pipes, schedulers and queues.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};
use weir_core::aqm::Policy;
use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, Loss, QueueLimit, default_limit};
use weir_core::key::{FlowMask, stable_hash};
use weir_core::sched::{Discipline, Kind};
use weir_core::units::{Bytes, Nanos, Rate};
use weir_measure::stats::Reasons;

use super::{FlowCount, Source};
use crate::command::{Numbers, ObjectKind};
use crate::link::{FileNames, LinkSpec};
use crate::mask;
use crate::print::canonical;
use crate::quantity::write_loss;
use crate::ruleset::{Ruleset, SHARED_PIPE, wanted};

/// A pipe, a scheduler or a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ObjectView {
    /// A pipe.
    Pipe(LinkView),
    /// A scheduler.
    Sched(LinkView),
    /// A queue.
    Queue(QueueView),
}

impl ObjectView {
    /// The number of rows: the object, its instances and flows, and for a link also its queue and
    /// the queues and schedulers that feed it.
    pub(super) fn rows(&self) -> usize {
        match self {
            Self::Pipe(link) | Self::Sched(link) => {
                let below = link.scheduler.children.len() + link.scheduler.queues.len();
                1 + link.queue.rows() + link.instances.len() + below
            }
            Self::Queue(queue) => queue.rows(),
        }
    }
}

impl QueueView {
    fn rows(&self) -> usize {
        1 + self.flows.len()
    }
}

/// A pipe or a scheduler: a link with its scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkView {
    /// Its number.
    pub number: u16,
    /// The configuration, in the language.
    pub spec: String,
    /// The rate in bit/s, for a trace the mean rate; absent if unlimited.
    pub rate_bps: Option<u64>,
    /// The delay in ns.
    pub delay_ns: u64,
    /// Bytes that may depart at once after an idle period.
    pub burst_bytes: u64,
    /// The air-time profile, if any.
    pub profile: Option<ProfileView>,
    /// The settings that dummynet does not have, in the language.
    pub extras: String,
    /// The object's own queue.
    pub queue: QueueView,
    /// The scheduler of the link.
    pub scheduler: SchedulerView,
    /// The instances; if there are many, only the first ones.
    pub instances: Vec<FlowView>,
}

/// An air-time profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileView {
    /// Its name.
    pub name: String,
    /// The quantile above which packets are lost.
    pub loss_level: f64,
    /// The number of samples.
    pub samples: u64,
}

/// The scheduler of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SchedulerView {
    /// The type of the scheduler.
    pub algorithm: String,
    /// All settings of the type, as strings in the language.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// The header bits that distinguish instances; empty without a mask.
    pub mask: String,
    /// The current number of instances.
    pub active: u64,
    /// The parent scheduler, which serves this one as a flow; absent if this one has its own link.
    #[serde(default)]
    pub parent: Option<u16>,
    /// The schedulers that are flows of this one.
    #[serde(default)]
    pub children: Vec<u16>,
    /// The queues that feed this scheduler.
    pub queues: Vec<u16>,
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueView {
    /// The number; a pipe's own queue has the pipe's number.
    pub number: u16,
    /// The pipe or scheduler that the queue feeds.
    pub scheduler: u16,
    /// The limit, if it is given in packets.
    pub limit_packets: Option<u32>,
    /// The limit, if it is given in bytes.
    pub limit_bytes: Option<u64>,
    /// Loss before the queue, as the argument of `plr`; empty without loss.
    pub plr: String,
    /// The AQM; absent for drop tail.
    #[serde(default)]
    pub aqm: Option<AqmView>,
    /// Weight.
    pub weight: u32,
    /// The size of the largest packet in bytes.
    pub max_packet: u32,
    /// Priority.
    pub priority: u32,
    /// The rate that each flow is promised, in bit/s.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// The rate that no flow exceeds, in bit/s.
    #[serde(default)]
    pub ceil_bps: Option<u64>,
    /// The bytes that a flow may send at once above its rates.
    #[serde(default)]
    pub burst_bytes: u64,
    /// The time from a packet's arrival to its deadline, in ns; 0 without a deadline.
    #[serde(default)]
    pub deadline_ns: u64,
    /// The header bits that distinguish flows; empty without a mask.
    pub mask: String,
    /// The current number of flows.
    pub active: u64,
    /// The flows; if there are many, only the first ones.
    pub flows: Vec<FlowView>,
}

/// The AQM of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AqmView {
    /// Its name.
    pub algorithm: String,
    /// All settings of the AQM, as strings in the language.
    pub settings: BTreeMap<String, String>,
}

impl From<&Policy> for AqmView {
    fn from(policy: &Policy) -> Self {
        let settings = policy.settings().map(|(setting, value)| (setting.name.to_owned(), value));
        Self { algorithm: policy.row().name.to_owned(), settings: settings.collect() }
    }
}

/// A flow of a queue, or an instance of a pipe or scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowView {
    /// A hash of its key, 0 to 63.
    pub bucket: u8,
    /// The protocol; 0 for any.
    pub proto: u8,
    /// Source address.
    pub src: IpAddr,
    /// Source port.
    pub src_port: u16,
    /// Destination address.
    pub dst: IpAddr,
    /// Destination port.
    pub dst_port: u16,
    /// IPv6 flow label.
    pub flow_id: u32,
    /// The fields of the key that dummynet does not have, in the language.
    pub extras: String,
    /// Packets that arrived.
    pub packets: u64,
    /// Network-layer bytes of the packets that arrived.
    pub bytes: u64,
    /// Packets in the queue now.
    pub queue_packets: u64,
    /// Network-layer bytes of the packets in the queue.
    pub queue_bytes: u64,
    /// Dropped and marked packets, by reason.
    #[serde(flatten)]
    pub reasons: Reasons,
    /// The state of the flow's AQM, by name: probabilities from 0 to 1, counts, and times in ns.
    #[serde(default)]
    pub aqm: BTreeMap<String, f64>,
}

/// Views of the requested objects, in the order of their numbers.
pub(super) fn views(
    ruleset: &Ruleset,
    kind: ObjectKind,
    which: &[Numbers],
    source: &dyn Source,
) -> Vec<ObjectView> {
    let asked = |number: &u16| wanted(which, *number);
    match kind {
        ObjectKind::Pipe => {
            let pipes = ruleset.pipes.iter().filter(|(number, _)| asked(number));
            pipes
                .map(|(&number, spec)| ObjectView::Pipe(pipe(ruleset, number, spec, source)))
                .collect()
        }
        ObjectKind::Sched => {
            let scheds = ruleset.scheds.iter().filter(|(number, _)| asked(number));
            let view = |(&number, sched): (&u16, &std::sync::Arc<crate::command::SchedSpec>)| {
                let scheduler = &sched.scheduler;
                ObjectView::Sched(link(
                    ruleset,
                    (ObjectKind::Sched, number),
                    &sched.link,
                    (scheduler.discipline, scheduler.mask),
                    source,
                ))
            };
            scheds.map(view).collect()
        }
        ObjectKind::Queue => {
            let queues = ruleset.queues.iter().filter(|(number, _)| asked(number));
            let view = |(&number, spec): (&u16, &std::sync::Arc<crate::command::QueueSpec>)| {
                let (flows, active) = source.flows(ObjectKind::Queue, number);
                let limit = limit_of(ruleset, spec.scheduler, &spec.flowset);
                let view = queue((number, spec.scheduler), &spec.flowset, limit);
                ObjectView::Queue(QueueView {
                    active,
                    flows: flows.iter().map(flow).collect(),
                    ..view
                })
            };
            queues.map(view).collect()
        }
    }
}

fn pipe(ruleset: &Ruleset, number: u16, spec: &LinkSpec, source: &dyn Source) -> LinkView {
    let mask = spec.pipe.queue.mask;
    let discipline = scheduler_of_pipe(ruleset, number, spec);
    let mut own = spec.clone();
    own.pipe.queue.mask = FlowMask::default();
    let view = link(ruleset, (ObjectKind::Pipe, number), &own, (discipline, mask), source);
    LinkView { spec: canonical(spec), ..view }
}

fn scheduler_of_pipe(ruleset: &Ruleset, number: u16, spec: &LinkSpec) -> Discipline {
    let mut feeders = ruleset.queues_of(number).chain(ruleset.children_of(number));
    let kind = if feeders.next().is_some() { SHARED_PIPE } else { Kind::Fifo };
    spec.pipe.scheduler.unwrap_or_else(|| kind.into())
}

fn link(
    ruleset: &Ruleset,
    (object, number): (ObjectKind, u16),
    spec: &LinkSpec,
    (discipline, mask): (Discipline, FlowMask),
    source: &dyn Source,
) -> LinkView {
    let config = &spec.pipe.link;
    let (instances, active) = source.flows(object, number);
    LinkView {
        number,
        spec: canonical(spec),
        rate_bps: match &config.capacity {
            Capacity::Unlimited => None,
            Capacity::Constant(rate) => Some(rate.bps()),
            Capacity::Trace(trace) => Some(trace.mean_bps()),
        },
        delay_ns: config.delay.0,
        burst_bytes: config.burst.0,
        profile: config.profile.as_ref().map(|p| ProfileView {
            name: p.name().to_owned(),
            loss_level: p.loss_level().as_f64(),
            samples: p.samples().len() as u64,
        }),
        extras: extras(spec),
        queue: queue(
            (number, number),
            &spec.pipe.queue,
            spec.pipe.queue.limit.unwrap_or_else(|| default_limit(config, discipline.kind())),
        ),
        scheduler: SchedulerView {
            algorithm: discipline.row().name.to_owned(),
            settings: discipline
                .settings()
                .map(|(setting, value)| (setting.name.to_owned(), value))
                .collect(),
            mask: mask::write(&mask),
            active,
            parent: ruleset.scheds.get(&number).and_then(|sched| sched.scheduler.parent),
            children: ruleset.children_of(number).collect(),
            queues: ruleset.queues_of(number).collect(),
        },
        instances: instances.iter().map(flow).collect(),
    }
}

/// The settings that dummynet's lines cannot express.
fn extras(spec: &LinkSpec) -> String {
    let mut rest = spec.clone();
    let link = &mut rest.pipe.link;
    if matches!(link.capacity, Capacity::Constant(_)) {
        link.capacity = Capacity::Unlimited;
    }
    *link = LinkConfig { burst: Bytes(0), delay: Nanos::ZERO, profile: None, ..link.clone() };
    rest.files = FileNames { profile: None, ..rest.files };
    rest.pipe.queue = FlowsetConfig::default();
    canonical(&rest)
}

fn limit_of(ruleset: &Ruleset, scheduler: u16, flowset: &FlowsetConfig) -> QueueLimit {
    let sched = ruleset.scheds.get(&scheduler).map(|sched| sched.scheduler.discipline);
    let of_pipe = |pipe: &std::sync::Arc<LinkSpec>| scheduler_of_pipe(ruleset, scheduler, pipe);
    let discipline = sched.or_else(|| ruleset.pipes.get(&scheduler).map(of_pipe));
    let kind = discipline.map_or(Kind::Fifo, |discipline| discipline.kind());
    let scheduler = ruleset.root_of(scheduler);
    let pipe = ruleset.pipes.get(&scheduler).map(|pipe| &pipe.pipe.link);
    let link = pipe.or_else(|| ruleset.scheds.get(&scheduler).map(|sched| &sched.link.pipe.link));
    flowset.limit.unwrap_or_else(|| default_limit(link.unwrap_or(&LinkConfig::default()), kind))
}

fn queue((number, scheduler): (u16, u16), flowset: &FlowsetConfig, limit: QueueLimit) -> QueueView {
    let (limit_packets, limit_bytes) = match limit {
        QueueLimit::Packets(packets) => (Some(packets), None),
        QueueLimit::Bytes(bytes) => (None, Some(bytes)),
    };
    QueueView {
        number,
        scheduler,
        limit_packets,
        limit_bytes,
        aqm: flowset.aqm.as_ref().map(AqmView::from),
        plr: if flowset.loss == Loss::None { String::new() } else { write_loss(flowset.loss) },
        weight: flowset.weight,
        max_packet: flowset.max_packet,
        priority: flowset.priority,
        rate_bps: flowset.rate.map(Rate::bps),
        ceil_bps: flowset.ceil.map(Rate::bps),
        burst_bytes: flowset.burst.0,
        deadline_ns: flowset.deadline.0,
        mask: mask::write(&flowset.mask),
        active: 0,
        flows: Vec::new(),
    }
}

fn flow(count: &FlowCount) -> FlowView {
    let key = &count.key;
    let address = |bits: u128| {
        if key.ipv6 {
            IpAddr::V6(Ipv6Addr::from(bits))
        } else {
            IpAddr::V4(Ipv4Addr::from(bits as u32))
        }
    };
    let mac = |bits: u64| {
        bits.to_be_bytes()[2..].iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":")
    };
    let extras = [
        (key.vlan != 0).then(|| format!("vlan {}", key.vlan)),
        (key.dscp != 0).then(|| format!("dscp {}", key.dscp)),
        (key.src_mac != 0).then(|| format!("src-mac {}", mac(key.src_mac))),
        (key.dst_mac != 0).then(|| format!("dst-mac {}", mac(key.dst_mac))),
    ];
    FlowView {
        bucket: (stable_hash(key) % BUCKETS) as u8,
        proto: key.proto,
        src: address(key.src),
        src_port: key.src_port,
        dst: address(key.dst),
        dst_port: key.dst_port,
        flow_id: key.flow_id,
        extras: extras.into_iter().flatten().collect::<Vec<_>>().join(" "),
        packets: count.packets,
        bytes: count.bytes,
        queue_packets: count.queue_packets,
        queue_bytes: count.queue_bytes,
        reasons: count.reasons,
        aqm: super::variables(&count.variables),
    }
}

/// The number of hash buckets that is printed for a mask: dummynet's default. Weir's hash tables
/// grow automatically.
pub(super) const BUCKETS: u64 = 64;
