//! The records of a session: a series for each lane, and a capture.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use weir_core::Nanos;
use weir_linux::live::{ArrivalEvent, DepartureEvent, Observer, Outcome, Sample};
use weir_measure::series::{LinkRecorder, LinkSeries, QueueState};
use weir_report::pcap::{Event, Interface, Meta};
use weir_report::{CaptureError, CaptureFile, CaptureReport};

/// The recorder of a session. It has the series, and receives the report of the capture.
#[derive(Debug)]
pub(crate) struct Recorder {
    recording: Recording,
    /// Receives the report of the capture after the loop has ended.
    captured: Receiver<CaptureReport>,
}

impl Recorder {
    /// A recorder of the lanes described by `interfaces`. The series begin at `now`, which is
    /// `started` on the wall clock. `capture` is a path and the number of bytes to record of each
    /// packet.
    pub(crate) fn new(
        interfaces: &[Interface],
        capture: Option<(&Path, usize)>,
        now: Nanos,
        started: SystemTime,
    ) -> Result<(Self, Box<dyn Observer>), CaptureError> {
        let application = concat!("weir ", env!("CARGO_PKG_VERSION"));
        let open = |(path, snaplen)| CaptureFile::create(path, application, interfaces, snaplen);
        let capture = capture.map(open).transpose()?;
        let wall = started
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX));
        let recording = Recording::new(interfaces.len(), now);
        let (report, captured) = channel();
        let watcher = Watcher {
            recording: recording.clone(),
            capture,
            report,
            flushed: now,
            wall_offset: wall.saturating_sub(now.0),
        };
        Ok((Self { recording, captured }, Box::new(watcher)))
    }

    /// The series, which grow while the session runs.
    pub(crate) fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The report of the capture, after the loop has ended; `None` without a capture.
    pub(crate) fn finish(self) -> Option<CaptureReport> {
        self.captured.try_recv().ok()
    }
}

/// The series of each lane. The observer writes them; any thread may read them.
#[derive(Debug, Clone)]
pub(crate) struct Recording(Arc<Mutex<Vec<LinkRecorder>>>);

impl Recording {
    fn new(lanes: usize, start: Nanos) -> Self {
        Self(Arc::new(Mutex::new((0..lanes).map(|_| LinkRecorder::new(start.0)).collect())))
    }

    pub(crate) fn series(&self) -> Vec<LinkSeries> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .map(LinkRecorder::series)
            .collect()
    }
}

/// The observer of a session. It runs on its own thread, so it may wait for the disk.
#[derive(Debug)]
struct Watcher {
    recording: Recording,
    capture: Option<CaptureFile>,
    report: Sender<CaptureReport>,
    /// When the capture was last flushed for programs that read the growing file.
    flushed: Nanos,
    /// Wall-clock time minus monotonic time, ns.
    wall_offset: u64,
}

impl Watcher {
    /// Writes a frame and its event to the capture, if there is one.
    fn capture(&mut self, lane: u16, at: Nanos, frame: &[u8], event: Event) {
        let Some(capture) = &mut self.capture else { return };
        let original_len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let unix_ns = at.0.saturating_add(self.wall_offset);
        capture.write(&Meta { interface: lane.into(), unix_ns, original_len, event }, frame);
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
        if sample.at.since(self.flushed) >= FLUSH_AFTER
            && let Some(capture) = &mut self.capture
        {
            self.flushed = sample.at;
            capture.flush();
        }
        let mut recorders = self.recording.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(recorder) = recorders.get_mut(usize::from(sample.lane)) {
            let queue = QueueState {
                packets: sample.queue_packets,
                bytes: sample.queue_bytes,
                peak_packets: sample.peak_packets,
                peak_bytes: sample.peak_bytes,
            };
            recorder.observe(sample.at.0, sample.counters, queue);
        }
    }

    fn on_end(&mut self, missed: u64) {
        if let Some(capture) = self.capture.take() {
            // This fails if the session was dropped.
            let _ = self.report.send(capture.finish(missed));
        }
    }
}

/// The least time between two flushes of the capture for programs that read the growing file. The
/// capture is flushed when a lane is sampled.
const FLUSH_AFTER: Nanos = Nanos::from_millis(200);
