//! Weir's own queues as a source: the pipes, queues and schedulers of a daemon, read over its API.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use weir_control::api::{LengthView, LengthsView};
use weir_control::client::{Client, ClientError, Connection, find_socket};
use weir_linux::clock;
use weir_probe::{
    Counters, Handle, Method, Opened, Pace, ProbeError, Queue, QueueId, Run, Sink, Source,
};

pub(crate) struct DaemonQueues {
    daemon: Connection,
    /// The daemon's socket, shown as the namespace of its queues; `None` for the default daemon.
    place: Option<String>,
    /// Time between two readings, in ns.
    interval: u64,
    /// When the next reading is due, in ns; 0 before the first.
    next: u64,
    /// Time of the last reading, in ns; 0 before the first.
    last: u64,
    pace: Pace,
    /// The objects in the last reading, each with its number in this source.
    queues: BTreeMap<(Kind, u16), QueueId>,
    /// The number that the next new queue gets.
    next_id: QueueId,
}

/// A kind of object that holds packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Pipe,
    Sched,
    Queue,
}

/// The lengths of a daemon's pipes, schedulers and queues at one moment.
type Readings = BTreeMap<(Kind, u16), LengthView>;

impl DaemonQueues {
    /// Opens a source of the queues of the daemon at `socket`, or of the daemon that this user's
    /// commands use by default. `rate` is in readings per second; the source limits it, to spare
    /// the daemon.
    ///
    /// # Errors
    /// No daemon answers.
    pub(crate) fn open(socket: Option<PathBuf>, rate: u64) -> Result<Opened, ProbeError> {
        let place = socket.as_ref().map(|path| path.display().to_string());
        let mut daemon = Client::new(socket.unwrap_or_else(find_socket))
            .keep()
            .map_err(|error| refused(&error))?;
        daemon.lengths().map_err(|error| refused(&error))?;
        let mut remarks = Vec::new();
        if rate > MOST_RATE {
            remarks.push(format!("Weir's own queues are read {MOST_RATE} times a second"));
        }
        let rate = rate.clamp(1, MOST_RATE);
        let own = Self {
            daemon,
            place,
            interval: 1_000_000_000 / rate,
            next: 0,
            last: 0,
            pace: Pace { asked: Some(rate), ..Pace::default() },
            queues: BTreeMap::new(),
            next_id: 0,
        };
        Ok(Opened { source: Box::new(own), remarks })
    }

    /// Sleeps until the next reading is due, at most [`NAP`]. Returns whether it is due.
    fn wait(&mut self) -> bool {
        let now = clock::now().0;
        let due = if self.next == 0 { now } else { self.next };
        if due > now {
            std::thread::sleep(Duration::from_nanos((due - now).min(NAP)));
            if due > now + NAP {
                return false;
            }
        }
        let passed = clock::now().0.saturating_sub(due) / self.interval;
        self.pace.missed += passed;
        self.next = due + (passed + 1) * self.interval;
        true
    }

    /// Reports to the sink which queues appeared and vanished.
    fn follow(&mut self, time: u64, readings: &Readings, sink: &mut dyn Sink) {
        self.queues.retain(|key, id| {
            let stays = readings.contains_key(key);
            if !stays {
                sink.vanished(time, *id);
            }
            stays
        });
        for &key in readings.keys() {
            if !self.queues.contains_key(&key) {
                let id = self.next_id;
                self.next_id += 1;
                self.queues.insert(key, id);
                sink.appeared(time, id, &queue(key, self.place.clone()));
            }
        }
    }
}

impl Source for DaemonQueues {
    fn method(&self) -> Method {
        Method::Daemon
    }

    fn turn(&mut self, sink: &mut dyn Sink) -> Result<(), ProbeError> {
        if !self.wait() {
            return Ok(());
        }
        let now = self.daemon.lengths().map_err(|error| refused(&error))?;
        let (time, readings) = (now.at_ns, readings(now));
        self.follow(time, &readings, sink);
        let mut runs = Vec::with_capacity(readings.len());
        for (key, length) in &readings {
            let Some(&queue) = self.queues.get(key) else { continue };
            let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
            runs.push(Run {
                queue,
                first: time,
                last: time,
                count: 1,
                qlen: narrow(length.packets),
                backlog: narrow(length.bytes),
            });
            let LengthView { sent, sent_bytes, drops, .. } = *length;
            sink.counters(
                time,
                queue,
                &Counters { packets: sent, bytes: sent_bytes, drops, ..Counters::default() },
            );
        }
        sink.runs(&runs);
        self.pace.readings += 1;
        if self.last > 0 {
            self.pace.gaps.record(time.saturating_sub(self.last));
        }
        self.last = time;
        Ok(())
    }

    fn pace(&self) -> Pace {
        self.pace.clone()
    }
}

fn readings(lengths: LengthsView) -> Readings {
    let all =
        [(Kind::Pipe, lengths.pipes), (Kind::Sched, lengths.scheds), (Kind::Queue, lengths.queues)];
    all.into_iter()
        .flat_map(|(kind, lengths)| {
            lengths.into_iter().map(move |(number, length)| ((kind, number), length))
        })
        .collect()
}

fn queue((kind, number): (Kind, u16), place: Option<String>) -> Queue {
    let word = match kind {
        Kind::Pipe => "pipe",
        Kind::Sched => "sched",
        Kind::Queue => "queue",
    };
    let (handle, parent) = (Handle(0), Handle::ROOT);
    Queue {
        device: DEVICE.into(),
        netns: place,
        kind: format!("{word} {number}"),
        handle,
        parent,
        band: None,
        root: false,
    }
}

fn refused(error: &ClientError) -> ProbeError {
    ProbeError::Unavailable(error.to_string())
}

/// The device name under which the daemon's queues are shown.
const DEVICE: &str = "weir";
/// Maximum number of readings per second. Each reading interrupts the live loop.
const MOST_RATE: u64 = 1000;
/// The longest sleep of a turn, in ns, so that the caller can stop.
const NAP: u64 = 20_000_000;

#[cfg(test)]
mod tests {
    use weir_probe::Tally;

    use super::*;

    fn lengths(pipes: &[(u16, u64)], queues: &[(u16, u64)]) -> Readings {
        let view = |&(number, packets): &(u16, u64)| {
            (number, LengthView { packets, ..LengthView::default() })
        };
        let (pipes, queues) = (pipes.iter().map(view).collect(), queues.iter().map(view).collect());
        readings(LengthsView { at_ns: 1, pipes, queues, ..LengthsView::default() })
    }

    #[test]
    fn pipes_and_queues_with_equal_numbers_are_distinguished() {
        let mut own = DaemonQueues {
            daemon: Client::new("/nowhere").keep().expect("nothing is connected yet"),
            place: None,
            interval: 1,
            next: 0,
            last: 0,
            pace: Pace::default(),
            queues: BTreeMap::new(),
            next_id: 0,
        };
        let mut tally = Tally::new();
        own.follow(1, &lengths(&[(1, 5)], &[(1, 3)]), &mut tally);
        own.follow(2, &lengths(&[(2, 0)], &[(1, 3)]), &mut tally);
        own.follow(3, &lengths(&[(1, 0), (2, 0)], &[(1, 3)]), &mut tally);
        let seen: Vec<(String, Option<u64>)> =
            tally.queues().iter().map(|queue| (queue.queue.label(), queue.until)).collect();
        let names =
            ["weir pipe 1", "weir queue 1", "weir pipe 2", "weir pipe 1"].map(str::to_owned);
        assert_eq!(seen.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), names);
        assert_eq!(
            seen.iter().map(|(_, until)| *until).collect::<Vec<_>>(),
            [Some(2), None, None, None]
        );
    }

    #[test]
    fn the_error_names_a_missing_daemon() {
        let failed = DaemonQueues::open(Some("/nowhere/weir.sock".into()), 10)
            .map(|_| ())
            .expect_err("no daemon listens there");
        assert!(failed.to_string().contains("/nowhere/weir.sock"), "{failed}");
    }
}
