//! A worker's end of the observation: bounded rings that are written without waiting.
//!
//! Three rings lead from a worker to the observer's thread. One holds records, which have a fixed
//! size and determine the order of all events. The other two hold the bytes of frames and the
//! values of samples, in the order of their records. If a record, its bytes or its values do not
//! fit, all of them are left out, and a frame that is left out is counted.

use rtrb::{Consumer, Producer, RingBuffer};
use weir_core::Nanos;
use weir_core::stats::LinkCounters;

use super::mailbox::Answer;
use super::observe::{ArrivalEvent, DepartureEvent, Observer, Outcome};
use super::report::LiveEvent;

/// An event, without the bytes of frames and the values of samples.
#[derive(Debug)]
pub(super) enum Record {
    /// A frame of `len` bytes arrived.
    Arrival { lane: u16, segments: u16, len: u32, at: Nanos },
    /// A packet of `len` bytes was sent or lost.
    Departure {
        lane: u16,
        len: u32,
        at: Nanos,
        due: Nanos,
        arrived: Nanos,
        dequeued: Nanos,
        outcome: Outcome,
    },
    /// A sample of every lane was taken.
    Sample { at: Nanos },
    /// An event of a port.
    Event(LiveEvent),
    /// The observer's thread sends the answer after it has handled all earlier records.
    Mark { at: Nanos, answer: Answer<()> },
}

impl Record {
    pub(super) fn at(&self) -> Nanos {
        match self {
            Self::Arrival { at, .. }
            | Self::Departure { at, .. }
            | Self::Sample { at }
            | Self::Mark { at, .. } => *at,
            Self::Event(event) => event.at,
        }
    }
}

/// A lane's counters, the packets and bytes in its queue, and their peaks since the previous
/// sample.
#[derive(Clone, Debug, Default)]
pub(super) struct LaneSample {
    pub(super) counters: LinkCounters,
    pub(super) queue_packets: u64,
    pub(super) queue_bytes: u64,
    pub(super) peak_packets: u64,
    pub(super) peak_bytes: u64,
}

/// The frames that an observer requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frames {
    No,
    /// The frames of dropped packets.
    Dropped,
    All,
}

impl Frames {
    pub(super) fn of(observer: &dyn Observer) -> Self {
        match (observer.wants_frames(), observer.wants_drops_only()) {
            (false, _) => Self::No,
            (true, true) => Self::Dropped,
            (true, false) => Self::All,
        }
    }
}

/// The writing end of a worker's rings.
#[derive(Debug)]
pub(super) struct Tap {
    records: Producer<Record>,
    bytes: Producer<u8>,
    samples: Producer<LaneSample>,
    frames: Frames,
    /// Number of frames that did not fit in the rings.
    missed: u64,
}

/// The reading end of a worker's rings.
#[derive(Debug)]
pub(super) struct TapReader {
    pub(super) records: Consumer<Record>,
    pub(super) bytes: Consumer<u8>,
    pub(super) samples: Consumer<LaneSample>,
}

/// Creates the rings of one of `workers` workers, for an observer of `lanes` lanes. The frame rings
/// of all workers together hold [`FRAME_BYTES`].
pub(super) fn tap(frames: Frames, lanes: usize, workers: usize) -> (Tap, TapReader) {
    let workers = workers.max(1);
    let (records, bytes) =
        if frames == Frames::No { (FEW_RECORDS, 0) } else { (RECORDS, FRAME_BYTES / workers) };
    let (records, records_out) = RingBuffer::new(records);
    let (bytes, bytes_out) = RingBuffer::new(bytes);
    let (samples, samples_out) = RingBuffer::new((lanes * PERIODS).min(MAX_SAMPLES).max(2 * lanes));
    (
        Tap { records, bytes, samples, frames, missed: 0 },
        TapReader { records: records_out, bytes: bytes_out, samples: samples_out },
    )
}

impl Tap {
    /// Whether the observer wants the frames of arrivals.
    pub(super) fn wants_arrivals(&self) -> bool {
        self.frames == Frames::All
    }

    /// Whether the observer wants the frame of a packet with this outcome.
    pub(super) fn wants(&self, outcome: Outcome) -> bool {
        match self.frames {
            Frames::No => false,
            Frames::Dropped => matches!(outcome, Outcome::Dropped(_)),
            Frames::All => true,
        }
    }

    pub(super) fn missed(&self) -> u64 {
        self.missed
    }

    pub(super) fn arrival(&mut self, event: &ArrivalEvent<'_>) {
        let ArrivalEvent { lane, at, frame, segments } = *event;
        self.write(frame, Record::Arrival { lane, segments, len: frame.len() as u32, at });
    }

    pub(super) fn departure(&mut self, event: &DepartureEvent<'_>) {
        let DepartureEvent { lane, at, due, arrived, dequeued, outcome, frame } = *event;
        let len = frame.len() as u32;
        self.write(frame, Record::Departure { lane, len, at, due, arrived, dequeued, outcome });
    }

    /// Writes a sample of all lanes. Returns whether there was room. If there was none, nothing is
    /// lost: the counters in the next sample are cumulative, and the caller does not restart its
    /// peaks.
    pub(super) fn sample(
        &mut self,
        at: Nanos,
        lanes: impl ExactSizeIterator<Item = LaneSample>,
    ) -> bool {
        if self.samples.slots() < lanes.len() || self.records.is_full() {
            return false;
        }
        for lane in lanes {
            // There is room, as checked above, because this is the only writer.
            let _ = self.samples.push(lane);
        }
        self.records.push(Record::Sample { at }).is_ok()
    }

    pub(super) fn event(&mut self, event: &LiveEvent) {
        // An event that does not fit is still part of the report.
        let _ = self.records.push(Record::Event(event.clone()));
    }

    /// Asks the observer's thread for an answer after it has handled all earlier records. If the
    /// request does not fit, `answer` is dropped, and the waiting thread notices this.
    pub(super) fn mark(&mut self, at: Nanos, answer: Answer<()>) {
        let _ = self.records.push(Record::Mark { at, answer });
    }

    /// Writes a frame and its record; counts the frame as missed if either does not fit.
    fn write(&mut self, frame: &[u8], record: Record) {
        if self.records.is_full() || self.bytes.push_entire_slice(frame).is_err() {
            self.missed += 1;
            return;
        }
        // There is room, as checked above, because this is the only writer.
        let _ = self.records.push(record);
    }
}

/// Maximum number of bytes of frames that wait for the observer, over all workers: a second of
/// traffic at 500 Mbit/s.
const FRAME_BYTES: usize = 64 << 20;
/// Maximum number of records of each worker that wait for an observer of frames.
const RECORDS: usize = 65_536;
/// Maximum number of records of each worker that wait for an observer of samples and events only.
const FEW_RECORDS: usize = 1024;
/// Maximum number of sample periods that wait for the observer.
const PERIODS: usize = 256;
/// Maximum number of lane samples in a ring, unless two samples of every lane are more. It limits
/// the periods if there are more than 64 lanes.
const MAX_SAMPLES: usize = 16_384;
