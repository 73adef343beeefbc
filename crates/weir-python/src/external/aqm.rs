//! An AQM in Python.

use std::sync::atomic::AtomicBool;

use pyo3::prelude::*;
use pyo3::types::PyString;
use weir_core::Nanos;
use weir_core::aqm::{Aqm, QueueState, Seen, Setup, Verdict};
use weir_core::stats::{DropReason, MarkReason};

use super::instance::{Instance, Kind, Method, wrong_type};
use super::packet::{Packet, Queue};

/// An AQM that decides by the methods of a Python object.
pub(crate) struct PythonAqm {
    instance: Instance,
    arrive: Method,
    /// `None` if the class inherits the method of `Aqm`, which passes every packet.
    leave: Option<Method>,
}

impl std::fmt::Debug for PythonAqm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.instance.fmt(f)
    }
}

impl PythonAqm {
    pub(crate) fn new(py: Python<'_>, class: &Bound<'_, PyAny>, setup: &Setup) -> PyResult<Self> {
        let mut stream = setup.stream.clone();
        let bounded = |limit: u64, unlimited: u64| (limit != unlimited).then_some(limit);
        let setup = [
            ("rate_bps", bounded(setup.rate, 0)),
            ("limit_packets", bounded(setup.limit_packets.into(), u32::MAX.into())),
            ("limit_bytes", bounded(setup.limit_bytes, u64::MAX)),
            ("seed", Some(stream.bits())),
        ];
        let instance = Instance::new(py, class, Kind::Aqm, &setup)?;
        let overrides_leave = instance.overrides(py, Kind::Aqm, "leave")?;
        Ok(Self {
            arrive: instance.method(py, "arrive")?,
            leave: overrides_leave.then(|| instance.method(py, "leave")).transpose()?,
            instance,
        })
    }

    fn ask(&self, now: Nanos, method: &Method, packet: &Seen, queue: &QueueState) -> Verdict {
        let instance = &self.instance;
        if instance.run.failed() {
            return Verdict::Pass;
        }
        let ecn = packet.header.ecn;
        let view = Packet {
            flow: 0,
            bytes: packet.len,
            arrived_ns: packet.arrived.0,
            hash: packet.header.hash,
            label: 0,
            dscp: packet.header.dscp,
            ecn: ecn as u8,
            serial: 0,
            id: None,
            drops: None,
            marked: AtomicBool::new(false),
        };
        let state = Queue { packets: queue.packets, bytes: queue.bytes, full: queue.full };
        let verdict = Python::attach(|py| {
            let arguments = Py::new(py, view).and_then(|view| Ok((view, Py::new(py, state)?)));
            let (view, state) = match arguments {
                Ok(arguments) => arguments,
                Err(error) => {
                    instance.fail(py, now, method.name, error);
                    return None;
                }
            };
            instance.call(py, now, method, (view, state, now.0), |result| {
                if result.is_none() {
                    return Ok(Verdict::Pass);
                }
                let word = result.cast::<PyString>().ok().map(|word| word.to_str()).transpose()?;
                match word {
                    Some("drop") => Ok(Verdict::Drop(DropReason::Early)),
                    Some("mark") if ecn.is_capable() => Ok(Verdict::Mark(MarkReason::Early)),
                    Some("mark") => Ok(Verdict::Drop(DropReason::Early)),
                    Some(word) => {
                        let what =
                            format!("returned {word:?}; allowed are None, \"mark\" and \"drop\"");
                        Err(instance.broken(py, method.name, &what))
                    }
                    None => {
                        let found = result.get_type().name()?;
                        let (class, name) = (&instance.class, method.name);
                        let expected = "expected None, \"mark\" or \"drop\"";
                        let message = format!("{class}.{name}: {expected}, not {found}");
                        Err(wrong_type(py, &message))
                    }
                }
            })
        });
        verdict.unwrap_or(Verdict::Pass)
    }
}

impl Aqm for PythonAqm {
    fn arrive(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        self.ask(now, &self.arrive, packet, queue)
    }

    fn leave(&mut self, now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        match &self.leave {
            None => Verdict::Pass,
            Some(leave) => self.ask(now, leave, packet, queue),
        }
    }
}
