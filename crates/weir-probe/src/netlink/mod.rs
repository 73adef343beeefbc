//! The method `netlink`: sends the queries of `tc`, but from one process, over one socket for each
//! namespace. It needs no privileges in the caller's own namespace, and is the baseline for reading
//! inside the kernel.
//!
//! A reading is one dump of the namespace's disciplines, from which those of the watched devices
//! are selected. The kernel dumps the disciplines of all devices, so other devices in the namespace
//! make the reading slower. If only roots are read, they are queried one by one. The kernel also
//! sends each such answer to all programs that listen to changes of traffic control (`tc monitor`),
//! because it offers no private query for one discipline.

mod wire;

use std::io;

use weir_measure::packets::Discipline;
pub(crate) use wire::count_answers;
use wire::{Answer, Outcome, QuerySocket};

use crate::catalogue::{Identity, Numbers};
use crate::error::ProbeError;
use crate::group::Group;
use crate::pacer::{NAP, Pacer, monotonic, sleep_until};
use crate::source::{Plan, Source};
use weir_measure::watch::{Counters, Method, Pace, Run, Sink};

/// Maximum number of attempts at a query, which is repeated while the disciplines change.
const ATTEMPTS: u32 = 10;
/// Duration of one turn, in ns. The source delivers its readings at the end of a turn.
const TURN: u64 = 4_000_000;
/// Time between two deliveries of the counters, in ns.
const COUNTER_INTERVAL: u64 = 20_000_000;

/// One namespace: its socket, the last answer, and the open runs.
struct Place {
    group: Group,
    socket: QuerySocket,
    /// Answers of the current reading.
    now: Vec<Answer>,
    /// Answers of the previous reading, in the order of the runs and of the catalogue's numbers.
    before: Vec<Answer>,
    /// The open run of each queue.
    open: Vec<Run>,
    /// When the counters were last delivered.
    counted: u64,
}

pub(crate) struct NetlinkSource {
    pacer: Pacer,
    children: bool,
    /// Whether bands were requested and no remark has yet said that netlink does not show them.
    bands: bool,
    places: Vec<Place>,
    numbers: Numbers,
    /// Runs that have ended and were not delivered yet.
    ended: Vec<Run>,
    /// Whether an interrupted reading was already reported.
    interrupted: bool,
}

/// The discipline of a device in the caller's namespace, with the rate and limits that it reports.
///
/// # Errors
/// The kernel refuses the query.
pub(crate) fn discipline_of(ifindex: u32) -> io::Result<Discipline> {
    let mut socket = QuerySocket::open()?;
    let mut answers: Vec<Answer> = Vec::new();
    for _ in 0..ATTEMPTS {
        answers.clear();
        let outcome = socket.all(ifindex, |answer| {
            if answer.ifindex == ifindex {
                answers.push(answer);
            }
        })?;
        if outcome == Outcome::Whole {
            break;
        }
    }
    let Some(root) = answers.iter().find(|answer| answer.is_root()) else {
        return Ok(Discipline { kind: "noqueue".to_owned(), ..Discipline::default() });
    };
    let mut others = answers.iter().filter(|answer| !answer.is_root());
    let inner = others.next().filter(|_| others.next().is_none());
    let limits = inner.map_or(root.shaping, |inner| inner.shaping);
    let known = |value: u64| Some(value).filter(|&value| value > 0);
    // If the inner discipline reports no limit, the limit of the root is used.
    let limit = |of: fn(&wire::Shaping) -> u32| {
        [of(&limits), of(&root.shaping)].into_iter().find(|&limit| limit > 0)
    };
    let limit_packets = limit(|shaping| shaping.limit_packets);
    Ok(Discipline {
        kind: root.kind(),
        inner: inner.map(Answer::kind),
        rate_bps: known(root.shaping.rate_bps),
        burst_bytes: known(root.shaping.burst_bytes),
        limit_packets,
        limit_bytes: limit(|shaping| shaping.limit_bytes)
            .filter(|_| limit_packets.is_none())
            .map(u64::from),
    })
}

impl NetlinkSource {
    /// Opens a socket in each namespace.
    ///
    /// # Errors
    /// A target does not exist, or its namespace cannot be entered.
    pub(crate) fn open(plan: &Plan) -> Result<NetlinkSource, ProbeError> {
        let place = |group: Group| {
            let socket = group
                .within(QuerySocket::open)
                .map_err(ProbeError::system("open a netlink socket"))?;
            Ok(Place {
                group,
                socket,
                now: Vec::new(),
                before: Vec::new(),
                open: Vec::new(),
                counted: 0,
            })
        };
        let places =
            Group::of(&plan.targets)?.into_iter().map(place).collect::<Result<_, ProbeError>>()?;
        // Without the privilege for exact timers, wake-ups are slightly late.
        let _ = weir_linux::sys::thread::exact_timers();
        Ok(NetlinkSource {
            pacer: Pacer::new(plan.rate, plan.interval()),
            children: plan.children,
            bands: plan.bands,
            places,
            numbers: Numbers::default(),
            ended: Vec::new(),
            interrupted: false,
        })
    }

    /// Takes one reading of all namespaces; `false` if it failed.
    fn read(&mut self, started: u64, sink: &mut dyn Sink) -> Result<bool, ProbeError> {
        let mut time = started;
        for at in 0..self.places.len() {
            if at > 0 {
                time = monotonic();
            }
            let place = &mut self.places[at];
            if !place
                .query(self.children)
                .map_err(ProbeError::system("ask the kernel for its queueing disciplines"))?
            {
                if !std::mem::replace(&mut self.interrupted, true) {
                    sink.remark(
                        time,
                        "disciplines changed while the kernel listed them: such \
                                       readings are left out",
                    );
                }
                return Ok(false);
            }
            if place.is_as_before() {
                place.note(time, &mut self.ended);
            } else {
                self.begin(at, time, sink);
            }
        }
        Ok(true)
    }

    /// Replaces the set of queues, which has changed since the last reading: ends the runs and
    /// numbers the new queues.
    fn begin(&mut self, at: usize, time: u64, sink: &mut dyn Sink) {
        self.hand_over(sink);
        let Place { group, now, before, open, counted, .. } = &mut self.places[at];
        let seen = now.iter().map(|answer| Identity {
            ifindex: answer.ifindex,
            handle: answer.handle,
            parent: answer.parent,
            kind: answer.kind(),
            band: None,
            root: answer.is_root(),
            address: 0,
        });
        let netns = group.netns();
        group.catalogue.observe(
            time,
            seen.collect(),
            &mut self.numbers,
            (netns.as_deref(), &group.devices),
            sink,
        );
        if now.iter().any(|answer| answer.kind() == "pfifo_fast") && std::mem::take(&mut self.bands)
        {
            sink.remark(
                time,
                "the bands of a pfifo_fast cannot be seen over netlink, only all three together",
            );
        }
        open.clear();
        for (place, answer) in now.iter().enumerate() {
            let queue = group.catalogue.id(place).expect("every queue has a number");
            open.push(run_of(queue, time, answer));
        }
        std::mem::swap(now, before);
        *counted = 0;
    }

    /// Ends all open runs, and delivers the ended runs.
    fn hand_over(&mut self, sink: &mut dyn Sink) {
        for place in &mut self.places {
            self.ended.extend(place.open.iter().filter(|run| run.count > 0));
            place.open.iter_mut().for_each(|run| run.count = 0);
        }
        if !self.ended.is_empty() {
            sink.runs(&self.ended);
            self.ended.clear();
        }
    }

    fn hand_over_counters(&mut self, time: u64, sink: &mut dyn Sink) {
        for place in self.places.iter_mut().filter(|place| time >= place.counted + COUNTER_INTERVAL)
        {
            place.counted = time;
            for (answer, run) in place.before.iter().zip(&place.open) {
                let (drops, requeues, overlimits) =
                    (answer.drops.into(), answer.requeues.into(), answer.overlimits.into());
                sink.counters(
                    time,
                    run.queue,
                    &Counters {
                        packets: answer.packets,
                        bytes: answer.bytes,
                        drops,
                        requeues,
                        overlimits,
                    },
                );
            }
        }
    }
}

impl Place {
    /// Queries until the answer fits the buffer. Returns whether the answer is valid.
    fn query(&mut self, children: bool) -> io::Result<bool> {
        loop {
            match self.ask_once(children)? {
                Outcome::Whole => return Ok(true),
                Outcome::Interrupted => return Ok(false),
                Outcome::Cut => {}
            }
        }
    }

    fn ask_once(&mut self, children: bool) -> io::Result<Outcome> {
        let Place { group, socket, now, .. } = self;
        now.clear();
        if children {
            let only =
                if group.devices.len() == 1 { group.devices.keys().next().copied() } else { None };
            return socket.all(only.unwrap_or(0), |answer| {
                if only.map_or_else(
                    || group.devices.contains_key(&answer.ifindex),
                    |only| only == answer.ifindex,
                ) {
                    now.push(answer);
                }
            });
        }
        for &ifindex in group.devices.keys() {
            let outcome = socket.root(ifindex, |answer| now.push(answer))?;
            if outcome != Outcome::Whole {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Whole)
    }

    fn is_as_before(&self) -> bool {
        self.now.len() == self.before.len()
            && self.now.iter().zip(&self.before).all(|(now, before)| now.same_queue(before))
    }

    /// Adds the reading to the open runs, or starts new ones.
    fn note(&mut self, time: u64, ended: &mut Vec<Run>) {
        for (run, answer) in self.open.iter_mut().zip(&self.now) {
            if run.count > 0 && (run.qlen, run.backlog) == (answer.qlen, answer.backlog) {
                run.last = time;
                run.count += 1;
                continue;
            }
            if run.count > 0 {
                ended.push(*run);
            }
            *run = run_of(run.queue, time, answer);
        }
        std::mem::swap(&mut self.now, &mut self.before);
    }
}

fn run_of(queue: u32, time: u64, answer: &Answer) -> Run {
    Run { queue, first: time, last: time, count: 1, qlen: answer.qlen, backlog: answer.backlog }
}

impl Source for NetlinkSource {
    fn method(&self) -> Method {
        Method::Netlink
    }

    fn turn(&mut self, sink: &mut dyn Sink) -> Result<(), ProbeError> {
        let began = monotonic();
        for place in &mut self.places {
            place.group.follow(began, sink)?;
        }
        while let Some(time) = self.pacer.wait() {
            if self.read(time, sink)? {
                self.pacer.record_reading(time);
            } else {
                self.pacer.record_failure();
            }
            if time >= began + TURN {
                break;
            }
        }
        self.hand_over(sink);
        let now = monotonic();
        self.hand_over_counters(now, sink);
        // Without a device, the turn ends with a sleep.
        if self.places.iter().all(|place| place.group.devices.is_empty()) {
            sleep_until(now + NAP);
        }
        Ok(())
    }

    fn pace(&self) -> Pace {
        self.pacer.pace()
    }
}
