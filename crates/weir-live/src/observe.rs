//! What a session records of its packets: a series for each lane, and a capture.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use weir_core::Nanos;
use weir_linux::live::{ArrivalEvent, DepartureEvent, Observer, Outcome, Sample};
use weir_report::pcap::{Event, Interface, Meta};
use weir_report::{CaptureError, CaptureReport, CaptureSink, Series, SeriesRecorder, spawn_writer};

/// Records a session: keeps the series, and writes the capture.
#[derive(Debug)]
pub(crate) struct Recorder {
    recording: Recording,
    capture: Option<Arc<Mutex<CaptureSink>>>,
}

impl Recorder {
    /// A recorder of lanes that are described as `interfaces`, from the moment `now` = `started`
    /// on. The capture is a path and the bytes to keep of each packet.
    pub(crate) fn new(
        interfaces: &[Interface],
        capture: Option<(&Path, usize)>,
        now: Nanos,
        started: SystemTime,
    ) -> Result<(Self, Box<dyn Observer>), CaptureError> {
        let application = concat!("weir ", env!("CARGO_PKG_VERSION"));
        let open = |(path, snaplen)| spawn_writer(path, application, interfaces, snaplen);
        let capture = capture.map(open).transpose()?.map(|sink| Arc::new(Mutex::new(sink)));
        let wall = started
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX));
        let recording = Recording::new(interfaces.len(), now);
        let watcher = Watcher {
            recording: recording.clone(),
            capture: capture.clone(),
            wall_offset: wall.saturating_sub(now.0),
        };
        Ok((Self { recording, capture }, Box::new(watcher)))
    }

    /// The series that grow while packets pass.
    pub(crate) fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Ends the capture, after the loop has ended. `None` when there was none.
    pub(crate) fn finish(self) -> Option<CaptureReport> {
        let sink = Arc::into_inner(self.capture?)?;
        sink.into_inner().ok().map(CaptureSink::finish)
    }
}

/// The series of each lane: written by the observer, read from any thread.
#[derive(Debug, Clone)]
pub(crate) struct Recording(Arc<Mutex<Vec<SeriesRecorder>>>);

impl Recording {
    fn new(lanes: usize, start: Nanos) -> Self {
        Self(Arc::new(Mutex::new((0..lanes).map(|_| SeriesRecorder::new(start)).collect())))
    }

    /// The series of each lane up to now.
    pub(crate) fn series(&self) -> Vec<Series> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .map(SeriesRecorder::series)
            .collect()
    }
}

/// The observer of a session.
#[derive(Debug)]
struct Watcher {
    recording: Recording,
    capture: Option<Arc<Mutex<CaptureSink>>>,
    /// Wall-clock time minus monotonic time, ns.
    wall_offset: u64,
}

impl Watcher {
    fn capture(&self, lane: u16, at: Nanos, frame: &[u8], event: Event) {
        let Some(sink) = &self.capture else { return };
        let original_len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.offer(
            &Meta {
                interface: lane.into(),
                unix_ns: at.0.saturating_add(self.wall_offset),
                original_len,
                event,
            },
            frame,
        );
    }
}

impl Observer for Watcher {
    fn wants_frames(&self) -> bool {
        self.capture.is_some()
    }

    fn on_arrival(&mut self, event: &ArrivalEvent<'_>) {
        self.capture(event.lane, event.at, event.frame, Event::Arrived);
    }

    fn on_departure(&mut self, event: &DepartureEvent<'_>) {
        let what = match event.outcome {
            Outcome::Delivered { marked, corrupted, duplicate } => Event::Left {
                queue_ns: event.dequeued.since(event.arrived).0,
                total_ns: event.due.since(event.arrived).0,
                marked,
                duplicate,
                corrupted,
            },
            Outcome::Dropped(reason) => Event::Dropped { reason },
        };
        self.capture(event.lane, event.at, event.frame, what);
    }

    fn on_sample(&mut self, sample: &Sample<'_>) {
        let mut recorders = self.recording.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(recorder) = recorders.get_mut(usize::from(sample.lane)) {
            recorder.observe(
                sample.at,
                sample.counters,
                (sample.queue_packets, sample.queue_bytes),
            );
        }
    }
}
