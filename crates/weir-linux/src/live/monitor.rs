//! The observer's thread. It reads every worker's rings, merges their records by time, and calls
//! the observer. It also reads the machine's statistics, which show why packets were late.

use std::sync::atomic::{AtomicBool, Ordering};

use weir_core::Nanos;
use weir_core::stats::LateCauses;

use super::observe::{ArrivalEvent, DepartureEvent, Observer, Sample};
use super::tap::{LaneSample, Record, TapReader};
use super::witness::Witness;
use crate::clock;

/// An observer with the reading ends of all workers' rings.
pub(super) struct Monitor {
    observer: Box<dyn Observer>,
    readers: Vec<TapReader>,
    /// Each worker's last sample, by lane.
    latest: Vec<Vec<LaneSample>>,
    /// When the latest sample was taken.
    sampled: Option<Nanos>,
    /// Scratch memory for a frame that wraps at the end of its ring.
    scratch: Vec<u8>,
    witness: Witness,
}

impl Monitor {
    pub(super) fn new(
        observer: Box<dyn Observer>,
        readers: Vec<TapReader>,
        lanes: usize,
        witness: Witness,
    ) -> Self {
        let latest = vec![vec![LaneSample::default(); lanes]; readers.len()];
        Self { observer, readers, latest, sampled: None, scratch: Vec::new(), witness }
    }

    /// Serves the observer until `ended` is set and the rings are empty.
    pub(super) fn run(&mut self, ended: &AtomicBool) {
        let mut pause = SHORT_PAUSE;
        loop {
            let last = ended.load(Ordering::Acquire);
            self.witness.look(clock::now());
            let any = self.drain(if last { Nanos::MAX } else { self.horizon() });
            if last {
                return;
            }
            pause = if any { SHORT_PAUSE } else { (2 * pause).min(LONG_PAUSE) };
            std::thread::sleep(pause);
        }
    }

    /// Calls [`Observer::on_end`] with the number of frames that the observer missed. Returns the
    /// causes of lateness.
    pub(super) fn end(mut self, missed: u64) -> LateCauses {
        // The sums were last delivered with the first worker's last sample. The other workers may
        // have written samples since then, so the sums are delivered once more.
        if let Some(at) = self.sampled.filter(|_| self.readers.len() > 1) {
            self.tell_samples(at);
        }
        self.observer.on_end(missed);
        self.witness.finish(clock::now())
    }

    /// The time until which records may be delivered. With several workers, later records are held
    /// back, because another worker may still write an earlier record.
    fn horizon(&self) -> Nanos {
        if self.readers.len() > 1 { clock::now().saturating_sub(HOLD) } else { Nanos::MAX }
    }

    /// Delivers all records until `horizon`, the oldest first; returns whether there were any.
    fn drain(&mut self, horizon: Nanos) -> bool {
        let mut any = false;
        loop {
            let heads = self.readers.iter().enumerate();
            let oldest = heads
                .filter_map(|(worker, reader)| Some((reader.records.peek().ok()?.at(), worker)))
                .min();
            let Some((_, worker)) = oldest.filter(|&(at, _)| at <= horizon) else { return any };
            let Ok(record) = self.readers[worker].records.pop() else { return any };
            any = true;
            self.hand_over(worker, record);
        }
    }

    fn hand_over(&mut self, worker: usize, record: Record) {
        let observer = &mut *self.observer;
        let reader = &mut self.readers[worker];
        match record {
            Record::Arrival { lane, segments, len, at } => {
                reader.frame(len, &mut self.scratch, |frame| {
                    observer.on_arrival(&ArrivalEvent { lane, at, frame, segments });
                });
            }
            Record::Departure { lane, len, at, due, arrived, dequeued, outcome } => {
                reader.frame(len, &mut self.scratch, |frame| {
                    observer.on_departure(&DepartureEvent {
                        lane,
                        at,
                        due,
                        arrived,
                        dequeued,
                        outcome,
                        frame,
                    });
                });
            }
            Record::Sample { at } => {
                self.sampled = self.sampled.max(Some(at));
                for lane in &mut self.latest[worker] {
                    if let Ok(mut sample) = reader.samples.pop() {
                        // The observer may not have seen the worker's previous sample.
                        sample.peak_packets = sample.peak_packets.max(lane.peak_packets);
                        sample.peak_bytes = sample.peak_bytes.max(lane.peak_bytes);
                        *lane = sample;
                    }
                }
                // A sample of the first worker triggers a sample of the sums over all workers.
                if worker == 0 {
                    self.tell_samples(at);
                }
            }
            Record::Event(event) => observer.on_event(&event),
            Record::Mark { answer, .. } => answer.send(()),
        }
    }

    fn tell_samples(&mut self, at: Nanos) {
        for lane in 0..self.latest[0].len() {
            let sum = sum(self.latest.iter().map(|worker| &worker[lane]));
            self.observer.on_sample(&Sample {
                lane: lane as u16,
                at,
                counters: &sum.counters,
                queue_packets: sum.queue_packets,
                queue_bytes: sum.queue_bytes,
                peak_packets: sum.peak_packets,
                peak_bytes: sum.peak_bytes,
            });
        }
        for lane in self.latest.iter_mut().flatten() {
            (lane.peak_packets, lane.peak_bytes) = (0, 0);
        }
    }
}

impl TapReader {
    /// Removes the next frame, of `len` bytes, from its ring and passes it to `work`. `scratch`
    /// joins a frame that wraps at the ring's end.
    fn frame(&mut self, len: u32, scratch: &mut Vec<u8>, work: impl FnOnce(&[u8])) {
        let Ok(chunk) = self.bytes.read_chunk(len as usize) else {
            debug_assert!(false, "a frame is written before its record");
            return;
        };
        let (head, rest) = chunk.as_slices();
        if rest.is_empty() {
            work(head);
        } else {
            scratch.clear();
            scratch.extend_from_slice(head);
            scratch.extend_from_slice(rest);
            work(scratch);
        }
        chunk.commit_all();
    }
}

/// The sum of the workers' samples of one lane.
fn sum<'a>(parts: impl Iterator<Item = &'a LaneSample>) -> LaneSample {
    let mut sum = LaneSample::default();
    for part in parts {
        sum.counters.merge(&part.counters);
        sum.queue_packets = sum.queue_packets.wrapping_add(part.queue_packets);
        sum.queue_bytes = sum.queue_bytes.wrapping_add(part.queue_bytes);
        // The peaks of two workers need not have occurred at the same time.
        sum.peak_packets = sum.peak_packets.max(part.peak_packets);
        sum.peak_bytes = sum.peak_bytes.max(part.peak_bytes);
    }
    // The workers' samples are from different moments. If a packet arrives on one worker and
    // departs on another, the sum may include its departure but not yet its arrival. The backlog
    // has then wrapped below zero, and counts as zero.
    for count in [&mut sum.counters.backlog_packets, &mut sum.queue_packets, &mut sum.queue_bytes] {
        *count = if (*count).cast_signed() < 0 { 0 } else { *count };
    }
    sum
}

/// How long a record waits for earlier records of other workers. A worker writes a record some
/// microseconds after the event. The record of an arrival is later, because its time is the
/// kernel's timestamp, from before the worker reads the frame.
const HOLD: Nanos = Nanos::from_millis(2);
/// The pause between two reads of the rings while they have records.
const SHORT_PAUSE: std::time::Duration = std::time::Duration::from_millis(2);
/// The longest pause while the rings are empty.
const LONG_PAUSE: std::time::Duration = std::time::Duration::from_millis(8);

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use weir_core::stats::DropReason;

    use super::*;
    use crate::live::mailbox::{Missing, question};
    use crate::live::observe::Outcome;
    use crate::live::shared::Shared;
    use crate::live::tap::{Frames, Tap, tap};

    /// The recorded calls of an observer: time, and the first byte and the length of the frame. A
    /// sample has 254 and its peak in their place, or 255 and its queue if the peak is 0.
    type Seen = Arc<Mutex<Vec<(u64, u8, usize)>>>;

    struct Recorder(Seen);

    impl Observer for Recorder {
        fn on_arrival(&mut self, event: &ArrivalEvent<'_>) {
            self.0.lock().unwrap().push((event.at.0, event.frame[0], event.frame.len()));
        }

        fn on_departure(&mut self, event: &DepartureEvent<'_>) {
            self.0.lock().unwrap().push((event.at.0, event.frame[0], event.frame.len()));
        }

        fn on_sample(&mut self, sample: &Sample<'_>) {
            let (kind, value) = match sample.peak_packets {
                0 => (255, sample.queue_packets),
                peak => (254, peak),
            };
            self.0.lock().unwrap().push((sample.at.0, kind, value as usize));
        }
    }

    fn monitor(workers: usize) -> (Monitor, Vec<Tap>, Seen) {
        let (taps, readers) = (0..workers).map(|_| tap(Frames::All, 1, workers)).unzip();
        let seen = Seen::default();
        let witness = Witness::new(Arc::new(Shared::new(1, workers)));
        (Monitor::new(Box::new(Recorder(Arc::clone(&seen))), readers, 1, witness), taps, seen)
    }

    fn arrive(tap: &mut Tap, at: u64, byte: u8, len: usize) {
        let frame = vec![byte; len];
        tap.arrival(&ArrivalEvent { lane: 0, at: Nanos(at), frame: &frame, segments: 1 });
    }

    fn queued(packets: u64) -> impl ExactSizeIterator<Item = LaneSample> {
        std::iter::once(LaneSample { queue_packets: packets, ..LaneSample::default() })
    }

    #[test]
    fn records_of_several_workers_are_merged_by_time_and_the_latest_wait() {
        let (mut monitor, mut taps, seen) = monitor(2);
        arrive(&mut taps[0], 10, 1, 60);
        arrive(&mut taps[0], 30, 2, 60);
        arrive(&mut taps[1], 20, 3, 60);
        arrive(&mut taps[1], 40, 4, 60);
        assert!(monitor.drain(Nanos(30)));
        let times = |seen: &Seen| seen.lock().unwrap().iter().map(|s| s.0).collect::<Vec<_>>();
        assert_eq!(times(&seen), [10, 20, 30]);
        arrive(&mut taps[0], 35, 5, 60);
        assert!(monitor.drain(Nanos::MAX) && !monitor.drain(Nanos::MAX));
        assert_eq!(times(&seen), [10, 20, 30, 35, 40]);
    }

    #[test]
    fn frames_keep_their_bytes_at_the_end_of_the_ring_and_omitted_ones_are_counted() {
        let (mut monitor, mut taps, seen) = monitor(1);
        let each = 1_000_003;
        let fit = (64 << 20) / each;
        for round in 0..3 {
            for n in 0..fit + 5 {
                arrive(&mut taps[0], 1, n as u8, each);
            }
            assert_eq!(taps[0].missed(), 5 * (round + 1));
            assert!(monitor.drain(Nanos::MAX));
        }
        let seen = seen.lock().unwrap();
        assert!(seen.iter().enumerate().all(|(n, s)| *s == (1, (n % fit) as u8, each)));
        assert_eq!(seen.len(), 3 * fit);
    }

    #[test]
    fn a_departure_has_the_time_and_the_frame_of_its_packet() {
        let (mut monitor, mut taps, seen) = monitor(1);
        let lost = DepartureEvent {
            lane: 0,
            at: Nanos(9),
            due: Nanos(8),
            arrived: Nanos(1),
            dequeued: Nanos(2),
            outcome: Outcome::Dropped(DropReason::QueueFull),
            frame: &[7; 90],
        };
        taps[0].departure(&lost);
        assert!(monitor.drain(Nanos::MAX));
        assert_eq!(*seen.lock().unwrap(), [(9, 7, 90)]);
    }

    #[test]
    fn samples_of_workers_are_summed_and_a_negative_backlog_is_zero() {
        let (mut monitor, mut taps, seen) = monitor(2);
        taps[1].sample(Nanos(1), queued(5));
        taps[0].sample(Nanos(2), queued(7));
        taps[1].sample(Nanos(3), queued(u64::MAX - 8));
        taps[0].sample(Nanos(4), queued(7));
        monitor.drain(Nanos::MAX);
        assert_eq!(*seen.lock().unwrap(), [(2, 255, 12), (4, 255, 0)]);
    }

    #[test]
    fn each_peak_of_a_worker_is_reported_exactly_once() {
        let (mut monitor, mut taps, seen) = monitor(2);
        let peak =
            |peak_packets| std::iter::once(LaneSample { peak_packets, ..LaneSample::default() });
        for (worker, at, most) in [(1, 1, 9), (1, 2, 3), (0, 3, 4), (1, 4, 2), (0, 5, 1)] {
            assert!(taps[worker].sample(Nanos(at), peak(most)));
        }
        monitor.drain(Nanos::MAX);
        assert_eq!(*seen.lock().unwrap(), [(3, 254, 9), (5, 254, 2)]);
    }

    #[test]
    fn a_mark_is_answered_after_all_earlier_records() {
        let (mut monitor, mut taps, seen) = monitor(1);
        let (answer, answered) = question();
        arrive(&mut taps[0], 1, 1, 60);
        taps[0].mark(Nanos(2), answer);
        assert_eq!(answered.wait(Duration::ZERO), Err(Missing::NotYet));
        monitor.drain(Nanos::MAX);
        assert_eq!((answered.wait(Duration::ZERO), seen.lock().unwrap().len()), (Ok(()), 1));
    }
}
