//! A congestion control in Python.

use pyo3::prelude::*;
use weir_core::Nanos;
use weir_sim::tcp::cc::{Control, Path, Sample, Setup, Signal};

use super::instance::{Instance, Kind, Method};

/// An acknowledgement, or the state of the connection when the control is called for another
/// reason.
#[pyclass(frozen, get_all, module = "weirlab")]
#[derive(Debug)]
pub(crate) struct Ack {
    /// Simulated time, ns.
    now_ns: u64,
    /// Bytes of a full segment.
    mss: u32,
    /// Smoothed round-trip time, ns; None before the first sample.
    srtt_ns: Option<u64>,
    /// Smallest round-trip time until now, ns; None before the first sample.
    min_rtt_ns: Option<u64>,
    /// Round-trip time of this acknowledgement, ns; None without a sample.
    rtt_ns: Option<u64>,
    /// One-way delay of the data by the timestamps, ns; None without a sample.
    one_way_ns: Option<u64>,
    /// Bytes that were sent and are neither acknowledged nor lost.
    in_flight: u64,
    /// Bytes that have arrived since the start.
    delivered: u64,
    /// Bytes that the acknowledgement newly reports as arrived.
    acked: u64,
    /// Bytes that were found lost with this acknowledgement.
    lost: u64,
    /// Bytes that are newly reported as marked.
    marked: u64,
    /// Delivery rate, bit/s; None without a sample.
    rate_bps: Option<u64>,
    /// Whether the application limited the transmission during the sample.
    app_limited: bool,
    /// Whether the window was fully used, so that it may grow.
    window_limited: bool,
    /// Whether the window is being reduced, so that it should not grow.
    reducing: bool,
}

impl Ack {
    fn new(path: &Path, sample: &Sample) -> Self {
        Self {
            now_ns: path.now.0,
            mss: path.mss,
            srtt_ns: (path.srtt.0 > 0).then_some(path.srtt.0),
            min_rtt_ns: (path.min_rtt != Nanos::MAX).then_some(path.min_rtt.0),
            rtt_ns: sample.rtt.map(|rtt| rtt.0),
            one_way_ns: sample.one_way.map(|delay| delay.0),
            in_flight: path.in_flight,
            delivered: path.delivered,
            acked: sample.acked,
            lost: sample.lost,
            marked: sample.ce,
            rate_bps: sample.rate(),
            app_limited: sample.app_limited,
            window_limited: sample.window_limited,
            reducing: sample.reducing,
        }
    }
}

#[pymethods]
impl Ack {
    fn __repr__(&self) -> String {
        let Self { now_ns, acked, lost, in_flight, .. } = self;
        format!("<weirlab.Ack now_ns={now_ns} acked={acked} lost={lost} in_flight={in_flight}>")
    }
}

/// A congestion control that decides by the methods of a Python object. The object's attributes
/// `cwnd` and `pacing_bps` are read after each call.
pub(crate) struct PythonControl {
    python: Option<Object>,
    mss: u64,
    window: u64,
    /// The window after the last reduction; `u64::MAX` before the first.
    threshold: u64,
    pacing: Option<u64>,
    /// The window before the last reduction or timeout. Of several timeouts for the same data, the
    /// first one counts.
    before: u64,
}

struct Object {
    instance: Instance,
    on_ack: Method,
    on_loss: Method,
    on_rto: Method,
    on_undo: Method,
    /// Whether `cwnd` also applies during a reduction.
    owns: bool,
}

impl std::fmt::Debug for PythonControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PythonControl").field("window", &self.window).finish_non_exhaustive()
    }
}

impl PythonControl {
    pub(crate) fn new(py: Python<'_>, class: &Bound<'_, PyAny>, setup: &Setup) -> PyResult<Self> {
        let mut stream = setup.stream.clone();
        let given = [
            ("mss", Some(u64::from(setup.mss))),
            ("initial_window", Some(setup.initial_window)),
            ("seed", Some(stream.bits())),
        ];
        let instance = Instance::new(py, class, Kind::Control, &given)?;
        let object = Object {
            on_ack: instance.method(py, "on_ack")?,
            on_loss: instance.method(py, "on_loss")?,
            on_rto: instance.method(py, "on_rto")?,
            on_undo: instance.method(py, "on_undo")?,
            owns: instance.flag(py, "owns_window")?,
            instance,
        };
        let mut control = Self { python: Some(object), ..Self::failed(setup) };
        control.read(py)?;
        Ok(control)
    }

    /// A congestion control without an object, which has a constant window.
    pub(crate) fn failed(setup: &Setup) -> Self {
        Self {
            python: None,
            mss: setup.mss.into(),
            window: setup.initial_window,
            threshold: u64::MAX,
            pacing: None,
            before: setup.initial_window,
        }
    }

    /// Reads the attributes that the object has set.
    fn read(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(Object { instance, .. }) = &self.python else { return Ok(()) };
        let object = instance.object.bind(py);
        let window = instance.amount("cwnd", &object.getattr(pyo3::intern!(py, "cwnd"))?)?;
        let pacing = object.getattr(pyo3::intern!(py, "pacing_bps"))?;
        self.pacing = if pacing.is_none() {
            None
        } else {
            Some(instance.amount("pacing_bps", &pacing)?.max(1))
        };
        self.window = window.clamp(self.mss, LARGEST);
        Ok(())
    }

    /// Calls a method of the object, then reads the attributes.
    fn tell(&mut self, path: &Path, sample: &Sample, method: impl Fn(&Object) -> &Method) {
        Python::attach(|py| {
            let Some(object) = &self.python else { return };
            if object.instance.run.failed() {
                return;
            }
            let ack = Py::new(py, Ack::new(path, sample));
            let called = ack.and_then(|ack| method(object).call.bind(py).call1((ack,)));
            let told = called.and_then(|_| self.read(py));
            if let (Err(error), Some(object)) = (told, &self.python) {
                object.instance.fail(py, path.now, method(object).name, error);
            }
        });
    }
}

impl Control for PythonControl {
    fn acked(&mut self, path: &Path, sample: &Sample) {
        self.tell(path, sample, |object| &object.on_ack);
    }

    fn reduce(&mut self, path: &Path, signal: Signal) {
        self.before = self.window;
        let sample = match signal {
            Signal::Loss => Sample::default(),
            Signal::Marks => Sample { ce: path.mss.into(), ..Sample::default() },
        };
        self.tell(path, &sample, |object| &object.on_loss);
        self.threshold = self.window;
    }

    fn timeout(&mut self, path: &Path, first: bool) {
        if first {
            self.before = self.window;
        }
        self.tell(path, &Sample::default(), |object| &object.on_rto);
    }

    fn undo(&mut self, path: &Path) {
        let before = self.window.max(self.before);
        if let Some(object) = &self.python {
            let set = Python::attach(|py| {
                object.instance.object.setattr(py, pyo3::intern!(py, "cwnd"), before)
            });
            if let Err(error) = set {
                Python::attach(|py| object.instance.fail(py, path.now, "on_undo", error));
            }
        }
        self.tell(path, &Sample::default(), |object| &object.on_undo);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn threshold(&self) -> u64 {
        self.threshold
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.pacing
    }

    fn owns_window(&self, _signal: Signal) -> bool {
        self.python.as_ref().is_some_and(|object| object.owns)
    }
}

/// The largest window.
const LARGEST: u64 = 1 << 40;
