//! The objects that schedulers and AQMs receive: packets, flows and the state of a queue.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use weir_core::packet::PacketId;
use weir_core::sched::FlowSpec;

/// The packets that a scheduler has dropped.
#[derive(Debug, Default)]
pub(super) struct Drops {
    count: AtomicUsize,
    packets: Mutex<Vec<(PacketId, u64)>>,
}

impl Drops {
    /// Whether no packet was dropped since the last [`Self::take`].
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Takes the dropped packets, each with its serial number.
    pub(super) fn take(&self) -> Vec<(PacketId, u64)> {
        let mut packets = self.packets.lock().unwrap_or_else(PoisonError::into_inner);
        self.count.store(0, Ordering::Relaxed);
        std::mem::take(&mut *packets)
    }
}

/// A packet, as a scheduler or an AQM in Python sees it.
#[pyclass(frozen, module = "weirlab")]
#[derive(Debug)]
pub(crate) struct Packet {
    /// Number of the packet's queue.
    #[pyo3(get)]
    pub(super) flow: u32,
    /// Length from the network-layer header on.
    #[pyo3(get)]
    pub(super) bytes: u32,
    /// Time of the arrival at the queue, ns.
    #[pyo3(get)]
    pub(super) arrived_ns: u64,
    /// Hash of addresses, ports and protocol.
    #[pyo3(get)]
    pub(super) hash: u32,
    /// A rank or a deadline.
    #[pyo3(get)]
    pub(super) label: u64,
    /// Differentiated services code point.
    #[pyo3(get)]
    pub(super) dscp: u8,
    /// The ECN field.
    #[pyo3(get)]
    pub(super) ecn: u8,
    /// The number of the packet among those of a scheduler, from 1; 0 for a packet of an AQM.
    pub(super) serial: u64,
    /// The packet in the engine; `None` for a packet of an AQM.
    pub(super) id: Option<PacketId>,
    /// The list to which the packet is added when it is dropped; `None` for a packet of an AQM.
    pub(super) drops: Option<Arc<Drops>>,
    /// Whether the scheduler marks the packet.
    pub(super) marked: AtomicBool,
}

#[pymethods]
impl Packet {
    /// Whether the packet may be marked.
    #[getter]
    fn ecn_capable(&self) -> bool {
        self.ecn != 0
    }

    /// Drops the packet from its scheduler, which must not return it later.
    ///
    /// >>> import weirlab as wl
    /// >>> class Half(wl.Scheduler):
    /// ...     odd = False
    /// ...     def enqueue(self, packet: wl.Packet, now_ns: int) -> None:
    /// ...         self.odd = not self.odd
    /// ...         if self.odd:
    /// ...             packet.drop()
    fn drop(&self) -> PyResult<()> {
        let (Some(id), Some(drops)) = (self.id, &self.drops) else {
            let message = "an AQM drops a packet by returning \"drop\"";
            return Err(pyo3::exceptions::PyRuntimeError::new_err(message));
        };
        let mut packets = drops.packets.lock().unwrap_or_else(PoisonError::into_inner);
        packets.push((id, self.serial));
        drops.count.store(packets.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Marks the packet with congestion experienced when it leaves its scheduler. Returns whether
    /// it is ECN-capable; otherwise nothing happens.
    ///
    /// >>> import weirlab as wl
    /// >>> class Marking(wl.Scheduler):
    /// ...     def enqueue(self, packet: wl.Packet, now_ns: int) -> None:
    /// ...         if not packet.mark():
    /// ...             packet.drop()
    fn mark(&self) -> PyResult<bool> {
        if self.id.is_none() {
            let message = "an AQM marks a packet by returning \"mark\"";
            return Err(pyo3::exceptions::PyRuntimeError::new_err(message));
        }
        if self.ecn != 0 {
            self.marked.store(true, Ordering::Relaxed);
        }
        Ok(self.ecn != 0)
    }

    fn __repr__(&self) -> String {
        let Self { flow, bytes, arrived_ns, .. } = self;
        format!("<weirlab.Packet flow={flow} bytes={bytes} arrived_ns={arrived_ns}>")
    }
}

/// A flow of a scheduler in Python: a queue with its settings.
#[pyclass(frozen, get_all, module = "weirlab")]
#[derive(Debug)]
pub(crate) struct Flow {
    /// The number of the flow, as in `Packet.flow`.
    number: u32,
    /// The share of the flow among the flows with waiting packets.
    weight: u32,
    /// The priority; 0 is served first.
    priority: u32,
    /// Bytes of the largest packet (`lmax`).
    max_packet: u32,
    /// The guaranteed rate, bit/s; None without one.
    rate_bps: Option<u64>,
    /// The rate that the flow may not exceed, bit/s; None without one.
    ceil_bps: Option<u64>,
    /// The time from a packet's arrival to its deadline, ns; 0 for none.
    deadline_ns: u64,
    /// The most packets that the queue holds; None without a limit.
    limit: Option<u32>,
}

impl Flow {
    pub(super) fn new(spec: &FlowSpec) -> Self {
        let some = |bps: u64| (bps > 0).then_some(bps);
        Self {
            number: spec.flow,
            weight: spec.weight,
            priority: spec.priority,
            max_packet: spec.max_packet,
            rate_bps: some(spec.rate),
            ceil_bps: some(spec.ceil),
            deadline_ns: spec.deadline.0,
            limit: (spec.limit != u32::MAX).then_some(spec.limit),
        }
    }
}

#[pymethods]
impl Flow {
    fn __repr__(&self) -> String {
        let Self { number, weight, priority, .. } = self;
        format!("<weirlab.Flow number={number} weight={weight} priority={priority}>")
    }
}

/// The state of the queue of an AQM in Python, without the packet in question.
#[pyclass(frozen, get_all, module = "weirlab")]
#[derive(Debug)]
pub(crate) struct Queue {
    /// Packets that wait.
    pub(super) packets: u32,
    /// Bytes of the waiting packets, from the network-layer header on.
    pub(super) bytes: u64,
    /// Whether the packet that arrives does not fit; False when a packet leaves.
    pub(super) full: bool,
}

#[pymethods]
impl Queue {
    fn __repr__(&self) -> String {
        let Self { packets, bytes, full } = self;
        let full = if *full { "True" } else { "False" };
        format!("<weirlab.Queue packets={packets} bytes={bytes} full={full}>")
    }
}
