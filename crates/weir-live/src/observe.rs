//! What watches a live link: the series for plots, and the capture.

use std::sync::{Arc, Mutex, PoisonError};

use weir_core::Nanos;
use weir_linux::live::{ArrivalEvent, DepartureEvent, Observer, Outcome, Sample};
use weir_measure::series::{LinkRecorder, LinkSeries};
use weir_report::CaptureSink;
use weir_report::pcap::{Event, Meta};

/// What was recorded, one entry for each lane. Written by the link's thread, read by everybody.
#[derive(Debug, Clone)]
pub struct Recording(Arc<Mutex<Vec<LinkRecorder>>>);

impl Recording {
    /// An empty recording of this many lanes, with series that begin at `start`.
    pub fn new(lanes: usize, start: Nanos) -> Self {
        Self(Arc::new(Mutex::new((0..lanes).map(|_| LinkRecorder::new(start.0)).collect())))
    }

    /// The series of each lane up to now.
    pub fn series(&self) -> Vec<LinkSeries> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .map(LinkRecorder::series)
            .collect()
    }
}

/// The observer of a live link.
#[derive(Debug)]
pub struct Watcher {
    recording: Recording,
    capture: Option<Arc<Mutex<CaptureSink>>>,
    /// Wall time less monotonic time, ns.
    wall_offset: u64,
}

impl Watcher {
    /// `wall_offset` is what turns the link's monotonic times into wall times.
    pub fn new(
        recording: Recording,
        capture: Option<Arc<Mutex<CaptureSink>>>,
        wall_offset: u64,
    ) -> Self {
        Self { recording, capture, wall_offset }
    }

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
                sample.at.0,
                sample.counters,
                (sample.queue_packets, sample.queue_bytes),
            );
        }
    }
}
