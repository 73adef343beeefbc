//! The thread that records the observations of the readers: statistics for the view and the
//! summary, and every reading for the files.

use std::collections::BTreeSet;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use weir_probe::measure::Tally;
use weir_probe::{Event, QueueId, Run, Sink};

use super::WatchError;
use super::files::Files;
use super::reader::{Batch, Observation};

/// The record of a watch.
#[derive(Default)]
pub struct Record {
    /// Statistics of the queues.
    pub tally: Tally,
    /// The devices that each source has read, by name and namespace.
    pub devices: Vec<BTreeSet<(String, Option<String>)>>,
    files: Files,
    failures: Vec<String>,
}

pub(crate) struct Recorder {
    thread: JoinHandle<()>,
    record: Arc<Mutex<Record>>,
}

impl Recorder {
    /// Starts a recorder that ends after the last reader.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn start(from: Receiver<Batch>, files: Files) -> Result<Self, WatchError> {
        let record = Arc::new(Mutex::new(Record { files, ..Record::default() }));
        let work = {
            let record = Arc::clone(&record);
            move || {
                for (source, batch) in from {
                    lock(&record).take(source, batch);
                }
            }
        };
        let thread = std::thread::Builder::new().name("weir-record".to_owned()).spawn(work);
        let thread = thread.map_err(WatchError::Thread)?;
        Ok(Self { thread, record })
    }

    /// The current record. Recording waits while the caller holds it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Record> {
        lock(&self.record)
    }

    /// Waits for the end of all readers, and returns the record.
    ///
    /// # Errors
    /// The thread panicked.
    pub(crate) fn join(self) -> Result<Record, WatchError> {
        let panicked = || WatchError::Panicked("recording");
        self.thread.join().map_err(|_| panicked())?;
        let record = Arc::into_inner(self.record).ok_or_else(panicked)?;
        Ok(record.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Record {
    /// Records a batch. Each source has its own range of queue numbers, so that queues of different
    /// sources never share a number.
    fn take(&mut self, source: usize, batch: Vec<Observation>) {
        let number = |id: QueueId| id | (source as QueueId) << ID_BITS;
        if self.devices.len() <= source {
            self.devices.resize(source + 1, BTreeSet::new());
        }
        let renumbered = |seen| match seen {
            Observation::Appeared(time, id, queue) => {
                Observation::Appeared(time, number(id), queue)
            }
            Observation::Vanished(time, id) => Observation::Vanished(time, number(id)),
            Observation::Runs(runs) => Observation::Runs(
                runs.into_iter().map(|run| Run { queue: number(run.queue), ..run }).collect(),
            ),
            Observation::Events(events) => Observation::Events(
                events
                    .into_iter()
                    .map(|event| Event { queue: number(event.queue), ..event })
                    .collect(),
            ),
            Observation::Counters(time, id, counters) => {
                Observation::Counters(time, number(id), counters)
            }
            other => other,
        };
        let batch: Vec<Observation> = batch.into_iter().map(renumbered).collect();
        for seen in &batch {
            if let Observation::Appeared(_, _, queue) = seen {
                self.devices[source].insert((queue.device.clone(), queue.netns.clone()));
            }
            seen.report_to(&mut self.tally);
        }
        self.failures.extend(self.files.take(&batch));
    }

    /// The failures of files since the last call.
    pub fn failures(&mut self) -> Vec<String> {
        std::mem::take(&mut self.failures)
    }

    /// Completes the files. Returns the number of packets in the recording, if there is one, and
    /// new failures.
    pub(crate) fn finish(&mut self) -> (Option<u64>, Vec<String>) {
        self.tally.finish();
        let (recorded, failures) = self.files.finish();
        self.failures.extend(failures);
        (recorded, self.failures())
    }
}

impl Observation {
    pub(crate) fn report_to(&self, sink: &mut dyn Sink) {
        match self {
            Observation::Appeared(time, id, queue) => sink.appeared(*time, *id, queue),
            Observation::Vanished(time, id) => sink.vanished(*time, *id),
            Observation::Runs(runs) => sink.runs(runs),
            Observation::Events(events) => sink.events(events),
            Observation::Packets(events) => sink.packets(events),
            Observation::Lost(time, events) => sink.lost(*time, *events),
            Observation::Counters(time, id, counters) => sink.counters(*time, *id, counters),
            Observation::Transmission(time, queues) => sink.transmission(*time, queues),
            Observation::Empty(time) => sink.empty(*time),
            Observation::Remark(time, text) => sink.remark(*time, text),
        }
    }
}

fn lock(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bits of a queue's number within its source, enough for the queues of any watch.
const ID_BITS: u32 = 26;

#[cfg(test)]
mod tests {
    use weir_probe::{Handle, Queue};

    use super::*;

    fn appears(device: &str) -> Vec<Observation> {
        let (handle, parent) = (Handle(0), Handle::ROOT);
        let queue = Queue {
            device: device.into(),
            netns: None,
            kind: "fifo".into(),
            handle,
            parent,
            band: None,
            root: true,
        };
        let run =
            Run { queue: 0, first: 5, last: 5, count: 1, qlen: device.len() as u32, backlog: 0 };
        vec![Observation::Appeared(5, 0, queue), Observation::Runs(vec![run])]
    }

    #[test]
    fn queues_of_two_sources_never_share_a_number() {
        let mut record = Record::default();
        record.take(0, appears("eth0"));
        record.take(1, appears("weir"));
        record.take(1, vec![Observation::Vanished(9, 0)]);
        let queues = record.tally.queues();
        assert_eq!(queues.iter().map(|queue| queue.readings).collect::<Vec<_>>(), [1, 1]);
        assert_eq!((queues[0].until, queues[1].until), (None, Some(9)));
        assert!(
            record.devices[0].contains(&("eth0".into(), None))
                && record.devices[1].contains(&("weir".into(), None))
        );
    }
}
