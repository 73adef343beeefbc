//! Flows: a flow is one queue of a flowset in one scheduler instance, with its gate, its counters,
//! its loss before the queue, and its AQM.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::tables::Flowset;
use crate::aqm::{AnyAqm, Aqm, Policy, Seen, Setup, Verdict};
use crate::config::{FlowsetConfig, QueueLimit};
use crate::gate::{Bounds, Gate};
use crate::key::{FlowKey, stable_hash};
use crate::link::LossProcess;
use crate::lookup::LookupKey;
use crate::packet::Header;
use crate::rng::{Purpose, Stream};
use crate::sched::{FlowSlot, FlowSpec};
use crate::stats::{DropReason, MarkReason, Reasons};
use crate::units::{Nanos, Rate};

/// A flow. The rarely used fields are in [`Cold`].
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Flow {
    /// Arrivals, including dropped packets.
    pub(super) packets_seen: u64,
    /// Network-layer bytes of the arrivals, including dropped packets.
    pub(super) bytes_seen: u64,
    /// The limit of the queue, and its length.
    pub(super) gate: Gate,
    /// The number of the link, which is the number of the scheduler instance.
    pub(super) link: u32,
    pub(super) slot: FlowSlot,
    /// The loss before the queue, and the AQM; `None` if neither is configured.
    policies: Option<Box<Policies>>,
    pub(super) cold: Box<Cold>,
}

const _: () = assert!(size_of::<Option<Flow>>() == 64, "a flow fills one cache line");

#[derive(Debug)]
struct Policies {
    loss: Option<Box<LossProcess>>,
    aqm: Option<Box<Managed>>,
}

/// An AQM, and the settings from which it was made.
#[derive(Debug)]
struct Managed {
    aqm: AnyAqm,
    policy: Policy,
    limit: QueueLimit,
    /// The link's rate in bit/s.
    rate: u64,
}

/// The fields of a flow that are used rarely: when a packet is dropped or marked, when flows are
/// made, changed or freed, and by views. An exception is `key`: it is compared for each packet that
/// an action sends to a queue.
#[derive(Debug)]
pub(super) struct Cold {
    pub(super) spec: FlowSpec,
    /// The queue (flowset) to which the flow belongs; `None` for packets that are sent to the pipe
    /// or scheduler directly.
    pub(super) queue: Option<u16>,
    /// The masked key of the flow's packets.
    pub(super) key: FlowKey,
    /// Drops and marks by reason; `None` until the first drop or mark.
    pub(super) reasons: Option<Box<Reasons>>,
    /// The flow of the same link that was created before this flow, or [`NO_FLOW`].
    pub(super) older: u32,
    /// The flow of the same link that was created after this flow, or [`NO_FLOW`].
    pub(super) newer: u32,
    /// Distinguishes the flow from later flows with the same number.
    pub(super) serial: u64,
    /// Whether the flow's queue has another mask or other schedulers now. New packets do not find
    /// such a flow, and it is freed when it is empty.
    pub(super) orphan: bool,
}

pub(super) const NO_FLOW: u32 = u32::MAX;

#[derive(Clone, Copy)]
pub(super) struct Identity {
    pub(super) number: u32,
    pub(super) serial: u64,
    pub(super) link: u32,
    pub(super) queue: Option<u16>,
    pub(super) key: FlowKey,
}

impl Flow {
    /// A new flow; `path` selects its random streams.
    pub(super) fn new(seed: u64, identity: Identity, flowset: &Flowset, path: u64) -> Self {
        let Identity { number, serial, link, queue, key } = identity;
        let spec = spec(number, &flowset.config);
        let cold = Cold {
            spec,
            queue,
            key,
            reasons: None,
            older: NO_FLOW,
            newer: NO_FLOW,
            serial,
            orphan: false,
        };
        Self {
            packets_seen: 0,
            bytes_seen: 0,
            gate: Gate::new(flowset.limit.into()),
            link,
            slot: FlowSlot::default(),
            policies: Policies::configure(None, seed, path, flowset),
            cold: Box::new(cold),
        }
    }

    /// Counts an arrival of `len` bytes, and decides whether the packet may enter and whether it is
    /// marked. Loss before the queue comes first, then the AQM, then the limit.
    #[inline]
    pub(super) fn admit(
        &mut self,
        now: Nanos,
        len: u32,
        header: Header,
    ) -> Result<Option<MarkReason>, DropReason> {
        self.packets_seen += 1;
        self.bytes_seen += u64::from(len);
        match &mut self.policies {
            None => self.gate.admit(len).map(|()| None),
            Some(policies) => policies.admit(now, &Seen { len, arrived: now, header }, &self.gate),
        }
    }

    #[inline]
    pub(super) fn is_managed(&self) -> bool {
        self.policies.as_ref().is_some_and(|policies| policies.aqm.is_some())
    }

    /// The AQM's verdict on a departing packet. The caller has already removed the packet from the
    /// counts of the gate.
    #[inline]
    pub(super) fn verdict_on_departure(
        &mut self,
        now: Nanos,
        seen: impl FnOnce() -> Seen,
    ) -> Verdict {
        match self.policies.as_mut().and_then(|policies| policies.aqm.as_mut()) {
            None => Verdict::Pass,
            Some(managed) => self.gate.release_by(&mut managed.aqm, now, &seen()),
        }
    }

    pub(super) fn variables(&self) -> Vec<(&'static str, u64)> {
        self.policies
            .as_ref()
            .and_then(|policies| policies.aqm.as_ref())
            .map(|managed| managed.aqm.variables())
            .unwrap_or_default()
    }

    pub(super) fn configure(&mut self, seed: u64, path: u64, flowset: &Flowset) {
        self.gate.set_bounds(flowset.limit.into());
        self.cold.spec = spec(self.cold.spec.flow, &flowset.config);
        self.policies = Policies::configure(self.policies.take(), seed, path, flowset);
    }

    pub(super) fn zero(&mut self) {
        (self.packets_seen, self.bytes_seen, self.cold.reasons) = (0, 0, None);
    }

    /// Whether this is the flow with the key `masked` in instance `link`.
    #[inline]
    pub(super) fn is_of(&self, link: u32, masked: &FlowKey) -> bool {
        self.link == link && self.cold.key == *masked
    }
}

impl Cold {
    pub(super) fn count_drop(&mut self, reason: DropReason) {
        self.reasons.get_or_insert_default().count_drop(reason);
    }

    pub(super) fn count_mark(&mut self, reason: MarkReason) {
        self.reasons.get_or_insert_default().count_mark(reason);
    }
}

impl Policies {
    /// Creates or updates the policies of one flow, as its flowset configures them; `None` if the
    /// flowset has none. A policy with unchanged settings keeps its state.
    fn configure(
        old: Option<Box<Self>>,
        seed: u64,
        path: u64,
        flowset: &Flowset,
    ) -> Option<Box<Self>> {
        let config = &flowset.config;
        let old = old.map_or(Self { loss: None, aqm: None }, |policies| *policies);
        let loss = LossProcess::configure(old.loss, config.loss, || {
            Stream::new(seed, path, Purpose::LossBeforeQueue)
        });
        let aqm = config.aqm.map(|policy| {
            let Flowset { limit, rate, .. } = *flowset;
            let same = |had: &Managed| (had.policy, had.limit, had.rate) == (policy, limit, rate);
            old.aqm.filter(|had| same(had)).unwrap_or_else(|| {
                let Bounds { packets: limit_packets, bytes: limit_bytes } = limit.into();
                let stream = Stream::new(seed, path, Purpose::Aqm);
                let aqm = AnyAqm::new(&policy, &Setup { rate, limit_packets, limit_bytes, stream });
                Box::new(Managed { aqm, policy, limit, rate })
            })
        });
        (loss.is_some() || aqm.is_some()).then(|| Box::new(Self { loss, aqm }))
    }

    #[inline(never)]
    fn admit(
        &mut self,
        now: Nanos,
        packet: &Seen,
        gate: &Gate,
    ) -> Result<Option<MarkReason>, DropReason> {
        if self.loss.as_mut().is_some_and(|l| l.next_is_lost()) {
            return Err(DropReason::LossBeforeQueue);
        }
        match &mut self.aqm {
            None => gate.admit(packet.len).map(|()| None),
            Some(managed) => gate.admit_by(&mut managed.aqm, now, packet),
        }
    }
}

/// The description of flow `number` of a flowset, as its scheduler needs it.
pub(super) fn spec(number: u32, config: &FlowsetConfig) -> FlowSpec {
    let bps = |rate: Option<Rate>| rate.map_or(0, Rate::bps);
    FlowSpec {
        flow: number,
        weight: config.weight,
        max_packet: config.max_packet,
        priority: config.priority,
        rate: bps(config.rate),
        ceil: bps(config.ceil),
        burst: u32::try_from(config.burst.0).unwrap_or(u32::MAX),
        deadline: config.deadline,
        limit: config.limit.map_or(u32::MAX, |limit| packets(limit, config.max_packet)),
    }
}

/// A limit as a number of packets; a limit in bytes counts as packets of the largest length.
fn packets(limit: QueueLimit, max_packet: u32) -> u32 {
    match limit {
        QueueLimit::Packets(packets) => packets,
        QueueLimit::Bytes(bytes) => {
            u32::try_from(bytes / u64::from(max_packet.max(1))).unwrap_or(u32::MAX)
        }
    }
}

/// The number that selects the random streams of an instance. It does not depend on the time or
/// order in which instances are made.
pub(super) fn path(template: u16, key: &FlowKey) -> u64 {
    stable_hash(key) ^ u64::from(template).rotate_left(48)
}

/// The number that selects the random streams of a flow: the flow of queue `queue` with the key
/// `masked`, in the instance of `template` with the key `link_key`.
pub(super) fn flow_path(template: u16, link_key: &FlowKey, queue: u16, masked: &FlowKey) -> u64 {
    path(template, link_key) ^ path(queue, masked).rotate_left(17)
}

/// The hash under which the table of a queue holds the flow with the key `masked` in instance
/// `link`.
#[inline]
pub(super) fn flow_hash(lookup: &LookupKey, link: u32, masked: &FlowKey) -> u64 {
    lookup.owned(link, lookup.compact(masked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_learns_the_limit_of_a_queue_in_packets() {
        let of = |limit| spec(0, &FlowsetConfig { limit, ..FlowsetConfig::default() }).limit;
        assert_eq!(of(Some(QueueLimit::Packets(3))), 3);
        assert_eq!(of(Some(QueueLimit::Bytes(15_000))), 10);
        assert_eq!(of(Some(QueueLimit::Bytes(1))), 0);
        assert_eq!(of(None), u32::MAX);
    }
}
