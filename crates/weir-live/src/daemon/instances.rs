//! The instances of pipes, queues and schedulers, gathered from the engines of all workers.

use std::ops::Range;

use weir_control::api::{InstancePage, InstanceView};
use weir_core::key::FlowKey;
use weir_core::{Emulator, Totals};
use weir_linux::live::{LiveHandle, NoAnswer};
use weir_rules::command::ObjectKind;
use weir_rules::show::{self, FlowCount};

use super::pages::{Slices, gather};

/// A page of the instances of a pipe, queue or scheduler.
pub(super) fn page(
    handle: &LiveHandle,
    kind: ObjectKind,
    id: u16,
    after: Option<u64>,
    limit: usize,
) -> Result<InstancePage, NoAnswer> {
    let total = total(handle, kind, id)?;
    let view = |instance: Instance<'_>| InstanceView {
        key: instance.key.into(),
        hash: instance.hash,
        packets_in: instance.totals.packets,
        bytes_in: instance.totals.bytes,
        reasons: instance.totals.reasons,
        aqm: show::variables(instance.aqm),
        queue_packets: instance.totals.queued_packets,
        queue_bytes: instance.totals.queued_bytes,
    };
    let page = gather(
        &mut Engines { handle, kind, id, view, with_aqm: true },
        handle.workers(),
        after,
        limit,
    )?;
    Ok(InstancePage { total, instances: page.items, next: page.next })
}

/// The first `most` instances of a pipe, queue or scheduler, and the number of all its instances.
pub(super) fn flows(
    handle: &LiveHandle,
    kind: ObjectKind,
    id: u16,
    most: usize,
) -> Result<(Vec<FlowCount>, u64), NoAnswer> {
    let total = total(handle, kind, id)?;
    let view = |instance: Instance<'_>| FlowCount {
        key: instance.key,
        packets: instance.totals.packets,
        bytes: instance.totals.bytes,
        reasons: instance.totals.reasons,
        variables: instance.aqm.to_vec(),
        queue_packets: instance.totals.queued_packets,
        queue_bytes: instance.totals.queued_bytes,
    };
    let page = gather(
        &mut Engines { handle, kind, id, view, with_aqm: true },
        handle.workers(),
        None,
        most,
    )?;
    Ok((page.items, total))
}

/// The keys, hashes and counters of the first `most` instances of a pipe, queue or scheduler. The
/// statistics of AQMs are left out, so that thousands of instances can be read each second.
pub(crate) fn totals(
    handle: &LiveHandle,
    kind: ObjectKind,
    id: u16,
    most: usize,
) -> Result<Vec<(FlowKey, u64, Totals)>, NoAnswer> {
    let view = |instance: Instance<'_>| (instance.key, instance.hash, instance.totals);
    let mut engines = Engines { handle, kind, id, view, with_aqm: false };
    Ok(gather(&mut engines, handle.workers(), None, most)?.items)
}

/// The number of instances on all workers.
fn total(handle: &LiveHandle, kind: ObjectKind, id: u16) -> Result<u64, NoAnswer> {
    let counts = handle.with_engines(move |engine, _| match kind {
        ObjectKind::Queue => engine.flow_count(id),
        ObjectKind::Pipe | ObjectKind::Sched => engine.instance_count(id),
    })?;
    Ok(counts.into_iter().map(|count| count as u64).sum())
}

/// An instance of a pipe or scheduler, or a flow of a queue.
struct Instance<'a> {
    key: FlowKey,
    hash: u64,
    totals: Totals,
    /// The statistics of the AQM, by name.
    aqm: &'a [(&'static str, u64)],
}

/// The instances of a pipe, queue or scheduler in the engines of all workers.
struct Engines<'a, V> {
    handle: &'a LiveHandle,
    kind: ObjectKind,
    id: u16,
    /// Makes an item of the list from an instance.
    view: V,
    /// Whether the views have the statistics of AQMs.
    with_aqm: bool,
}

impl<T, V> Slices<T> for Engines<'_, V>
where
    T: Send + 'static,
    V: Fn(Instance<'_>) -> T + Copy + Send + 'static,
{
    type Error = NoAnswer;

    fn bound(&mut self, worker: usize) -> Result<u32, NoAnswer> {
        let kind = self.kind;
        self.handle.with_engine_of(worker, move |engine, _| match kind {
            ObjectKind::Queue => engine.flow_bound(),
            ObjectKind::Pipe | ObjectKind::Sched => engine.instance_bound(),
        })
    }

    fn slice(&mut self, worker: usize, numbers: Range<u32>) -> Result<Vec<(u32, T)>, NoAnswer> {
        let (kind, id, view, with_aqm) = (self.kind, self.id, self.view, self.with_aqm);
        self.handle.with_engine_of(worker, move |engine, _| {
            if kind == ObjectKind::Queue {
                let flows = engine.flows_between(id, numbers).map(|flow| {
                    let aqm =
                        &if with_aqm { engine.aqm_variables(flow.number) } else { Vec::new() };
                    let (key, hash, totals) = (flow.key, flow.hash, flow.totals);
                    (flow.number, view(Instance { key, hash, totals, aqm }))
                });
                return flows.collect();
            }
            let instances = engine.instances_between(id, numbers).map(|one| {
                let aqm = &if with_aqm { aqm_of(engine, &one) } else { Vec::new() };
                let (key, hash, totals) = (one.key, one.hash, one.totals);
                (one.number, view(Instance { key, hash, totals, aqm }))
            });
            instances.collect()
        })
    }
}

/// AQM statistics of an instance with one flow; empty for an instance with several flows.
fn aqm_of(engine: &Emulator, instance: &weir_core::InstanceView) -> Vec<(&'static str, u64)> {
    let only = engine.flows_in(instance.number, 1).find(|_| instance.flows == 1);
    only.map(|flow| engine.aqm_variables(flow.number)).unwrap_or_default()
}
