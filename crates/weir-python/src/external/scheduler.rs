//! A scheduler in Python.
//!
//! [`PythonScheduler`] keeps a list of the packets inside. It thus knows whether a packet that the
//! object returns is inside. The scheduler's length and backlog do not depend on the object. The
//! waiting packets of a removed flow leave with the flow. If the object returns such a packet
//! later, the packet is skipped and the object is asked again.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use weir_core::Nanos;
use weir_core::packet::{PacketId, PacketList, Store};
use weir_core::sched::{External, FlowSlot, FlowSpec};
use weir_core::stats::{DropReason, MarkReason};

use super::instance::{Instance, Kind, Method, wrong_type};
use super::packet::{Drops, Flow, Packet};

/// A scheduler that decides by the methods of a Python object.
#[derive(Debug)]
pub(crate) struct PythonScheduler {
    /// `None` if no object could be made.
    python: Option<Object>,
    held: Held,
    /// Packets that the object has dropped, to be taken by the caller.
    refused: VecDeque<PacketId>,
    drops: Arc<Drops>,
    /// The time at which an object that holds its packets back will release the next one.
    next: Option<Nanos>,
    now: Nanos,
}

struct Object {
    instance: Instance,
    enqueue: Method,
    dequeue: Method,
    next_event: Method,
    work_conserving: bool,
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.instance.fmt(f)
    }
}

#[derive(Debug, Default)]
struct Held {
    /// The serial number, flow and length of each packet inside, by the index of the packet's id.
    /// The serial number is 0 where no packet is inside.
    packets: Vec<(u64, u32, u32)>,
    count: usize,
    bytes: u64,
    /// The serial number of the last arrival.
    last: u64,
    /// The serial numbers of packets that left although the object did not return them: with their
    /// flow, or by [`Held::leave_oldest`]. The object may still return or drop them.
    gone: HashSet<u64>,
    /// Packets in the order of arrival, for a scheduler that is emptied or has failed. Some may
    /// have left.
    oldest: VecDeque<(u64, PacketId)>,
}

impl Held {
    fn enter(&mut self, id: PacketId, flow: u32, len: u32) -> u64 {
        let number = id.index() as usize;
        if self.packets.len() <= number {
            self.packets.resize(number + 1, (0, 0, 0));
        }
        self.last += 1;
        self.packets[number] = (self.last, flow, len);
        self.count += 1;
        self.bytes += u64::from(len);
        self.last
    }

    /// Removes a packet. Returns whether it was inside.
    #[inline]
    fn leave(&mut self, id: PacketId, serial: u64) -> bool {
        let Some(place) = self.packets.get_mut(id.index() as usize) else { return false };
        if place.0 != serial || serial == 0 {
            return false;
        }
        self.count -= 1;
        self.bytes -= u64::from(place.2);
        place.0 = 0;
        true
    }

    /// Removes the oldest packet, without asking the object. The packets inside are sorted once,
    /// and further calls continue in this order.
    fn leave_oldest(&mut self) -> Option<PacketId> {
        while self.count > 0 {
            if self.oldest.is_empty() {
                self.oldest = self.ids(|_| true).into();
            }
            let (serial, id) = self.oldest.pop_front()?;
            if self.leave(id, serial) {
                self.gone.insert(serial);
                return Some(id);
            }
        }
        None
    }

    /// The packets inside for which `wanted` is true, in the order of arrival.
    fn ids(&self, wanted: impl Fn(u32) -> bool) -> Vec<(u64, PacketId)> {
        let inside = self
            .packets
            .iter()
            .enumerate()
            .filter(|(_, (serial, flow, _))| *serial != 0 && wanted(*flow));
        let mut ids: Vec<_> =
            inside.map(|(n, &(serial, ..))| (serial, PacketId::from_index(n as u32))).collect();
        ids.sort_unstable_by_key(|(serial, _)| *serial);
        ids
    }
}

impl PythonScheduler {
    pub(crate) fn new(py: Python<'_>, class: &Bound<'_, PyAny>, seed: u64) -> PyResult<Self> {
        let setup = [("seed", Some(seed))];
        let instance = Instance::new(py, class, Kind::Scheduler, &setup)?;
        let object = Object {
            enqueue: instance.method(py, "enqueue")?,
            dequeue: instance.method(py, "dequeue")?,
            next_event: instance.method(py, "next_event")?,
            work_conserving: instance.flag(py, "work_conserving")?,
            instance,
        };
        Ok(Self { python: Some(object), ..Self::failed() })
    }

    /// A scheduler without an object, which is a FIFO.
    pub(crate) fn failed() -> Self {
        Self {
            python: None,
            held: Held::default(),
            refused: VecDeque::new(),
            drops: Arc::default(),
            next: None,
            now: Nanos::ZERO,
        }
    }

    /// The object, if it has not failed.
    fn object(&self) -> Option<&Object> {
        self.python.as_ref().filter(|object| !object.instance.run.failed())
    }

    fn tell_flow(&self, name: &'static str, spec: &FlowSpec) {
        let Some(object) = self.object() else { return };
        Python::attach(|py| {
            let told = object.instance.method(py, name).and_then(|method| {
                method.call.bind(py).call1((Py::new(py, Flow::new(spec))?,)).map(drop)
            });
            if let Err(error) = told {
                object.instance.fail(py, self.now, name, error);
            }
        });
    }

    /// Removes the packets that the object has dropped.
    #[cold]
    fn take_drops(&mut self) {
        for (id, serial) in self.drops.take() {
            if self.held.leave(id, serial) {
                // If the object returns this packet later, it breaks its contract.
                self.refused.push_back(id);
            } else if !self.held.gone.remove(&serial)
                && let Some(object) = self.object()
            {
                Python::attach(|py| {
                    let what = "dropped a packet that it does not hold";
                    let error = object.instance.broken(py, "enqueue or dequeue", what);
                    object.instance.fail(py, self.now, "enqueue or dequeue", error);
                });
            }
        }
    }

    /// Asks the object for the next packet; `None` if the object serves none. An object that is
    /// being emptied (`ends`) is not asked for the time of the next packet.
    fn ask(&mut self, ends: bool, store: &mut dyn Store) -> Option<PacketId> {
        let now = self.now;
        let object = self.python.as_ref().filter(|object| !object.instance.run.failed())?;
        let (instance, held) = (&object.instance, &mut self.held);
        let drops = &self.drops;
        Python::attach(|py| {
            loop {
                let found = instance.call(py, now, &object.dequeue, (now.0,), |result| {
                    if result.is_none() {
                        return Ok(None);
                    }
                    let Ok(packet) = result.cast::<Packet>() else {
                        let found = result.get_type().name()?;
                        let class = &instance.class;
                        let expected = "expected a weirlab.Packet or None";
                        let message = format!("{class}.dequeue: {expected}, not {found}");
                        return Err(wrong_type(py, &message));
                    };
                    let packet = packet.get();
                    let own = packet.drops.as_ref().is_some_and(|own| Arc::ptr_eq(own, drops));
                    let (serial, true, Some(id)) = (packet.serial, own, packet.id) else {
                        let what = "returned a packet that it was never given";
                        return Err(instance.broken(py, "dequeue", what));
                    };
                    if held.leave(id, serial) {
                        return Ok(Some(Some((id, packet.marked.load(Ordering::Relaxed)))));
                    }
                    if held.gone.remove(&serial) {
                        return Ok(Some(None));
                    }
                    let what = "returned a packet that has left already";
                    Err(instance.broken(py, "dequeue", what))
                })?;
                match found {
                    // The packet has left already, without the object.
                    Some(None) => {}
                    Some(Some((id, marked))) => {
                        if marked {
                            store.mark(id, MarkReason::Early);
                        }
                        return Some(id);
                    }
                    None => {
                        if drops.is_empty() && held.count > 0 && !ends {
                            self.next = waiting(py, object, held.count, now);
                        }
                        return None;
                    }
                }
            }
        })
    }
}

/// The time at which an object that has packets, and serves none now, will serve the next one.
fn waiting(py: Python<'_>, object: &Object, count: usize, now: Nanos) -> Option<Nanos> {
    let instance = &object.instance;
    if object.work_conserving {
        let what = format!(
            "returned None while {count} packets wait; a scheduler that holds packets back has \
             work_conserving = False"
        );
        instance.fail(py, now, "dequeue", instance.broken(py, "dequeue", &what));
        return None;
    }
    instance.call(py, now, &object.next_event, (now.0,), |result| {
        if result.is_none() {
            return Ok(None);
        }
        let next = instance.amount("next_event", result)?;
        if next <= now.0 {
            let what = format!("is {next}, and it is {} already", now.0);
            return Err(instance.broken(py, "next_event", &what));
        }
        Ok(Some(Nanos(next)))
    })?
}

impl External for PythonScheduler {
    fn add_flow(&mut self, now: Nanos, spec: &FlowSpec) -> FlowSlot {
        self.now = now;
        self.tell_flow("add_flow", spec);
        FlowSlot(spec.flow)
    }

    fn change_flow(
        &mut self,
        now: Nanos,
        _store: &mut dyn Store,
        _slot: FlowSlot,
        spec: &FlowSpec,
    ) {
        self.now = now;
        self.tell_flow("change_flow", spec);
    }

    fn remove_flow(
        &mut self,
        now: Nanos,
        store: &mut dyn Store,
        _slot: FlowSlot,
        flow: u32,
    ) -> PacketList {
        self.now = now;
        let mut list = PacketList::default();
        for (serial, id) in self.held.ids(|of| of == flow) {
            self.held.leave(id, serial);
            self.held.gone.insert(serial);
            list.push_back(store, id);
        }
        if let Some(object) = self.object() {
            Python::attach(|py| {
                let told = object.instance.method(py, "remove_flow");
                let told = told.and_then(|method| method.call.call1(py, (flow,)).map(drop));
                if let Err(error) = told {
                    object.instance.fail(py, now, "remove_flow", error);
                }
            });
        }
        list
    }

    fn enqueue(
        &mut self,
        now: Nanos,
        store: &mut dyn Store,
        _slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId> {
        self.now = now;
        let (flow, bytes) = (store.flow(packet), store.len(packet));
        let serial = self.held.enter(packet, flow, bytes);
        let object = self.object()?;
        let header = store.header(packet);
        let seen = Packet {
            flow,
            bytes,
            arrived_ns: store.arrived(packet).0,
            hash: header.hash,
            label: store.label(packet),
            dscp: header.dscp,
            ecn: header.ecn as u8,
            serial,
            id: Some(packet),
            drops: Some(Arc::clone(&self.drops)),
            marked: AtomicBool::new(false),
        };
        Python::attach(|py| {
            let seen = match Py::new(py, seen) {
                Ok(seen) => seen,
                Err(error) => return object.instance.fail(py, now, "enqueue", error),
            };
            object.instance.call(py, now, &object.enqueue, (seen, now.0), |result| {
                if result.is_none() {
                    return Ok(());
                }
                let found = result.get_type().name()?;
                let class = &object.instance.class;
                let message = format!(
                    "{class}.enqueue: expected None, not {found}; a packet is refused by its drop()"
                );
                Err(wrong_type(py, &message))
            });
        });
        if !self.drops.is_empty() {
            self.take_drops();
        }
        None
    }

    fn dequeue(&mut self, now: Nanos, store: &mut dyn Store) -> Option<PacketId> {
        self.next = None;
        if self.held.count == 0 {
            return None;
        }
        if now != Nanos::MAX {
            self.now = now;
        }
        loop {
            let before = self.held.count;
            let found = self.ask(now == Nanos::MAX, store);
            if !self.drops.is_empty() {
                self.take_drops();
            }
            if found.is_some() || self.held.count == 0 {
                return found;
            }
            // If the object has dropped packets meanwhile, it is asked again: it may serve another
            // one.
            if self.held.count == before || self.object().is_none() {
                break;
            }
        }
        if now != Nanos::MAX && self.object().is_some() {
            return None;
        }
        // At `Nanos::MAX`, the engine empties the scheduler. Then, and after a failure, the oldest
        // packet leaves.
        self.held.leave_oldest()
    }

    fn pop_refused(&mut self, _store: &mut dyn Store) -> Option<(PacketId, DropReason)> {
        self.refused.pop_front().map(|id| (id, DropReason::Scheduler))
    }

    fn next_event(&self) -> Option<Nanos> {
        self.next
    }

    fn len(&self) -> usize {
        self.held.count
    }

    fn backlog(&self) -> u64 {
        self.held.bytes
    }
}
