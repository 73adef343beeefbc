//! The method `events` records every enqueue and dequeue of the disciplines to which a device hands
//! its packets: its root, or the children of an `mq` root.
//!
//! The kernel calls the BPF programs at each enqueue and dequeue. The programs write records,
//! separately on each processor. A turn collects the records, sorts them, and checks that each
//! length follows from the previous one. At intervals the sampling program scans the existing
//! disciplines. The kernel also reports the end of a discipline, so that its successor counts as
//! another queue even at the same address.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::Ordering::Relaxed;

use libbpf_rs::Link;
use weir_linux::sys::shared::SharedWords;

use super::chain::{Chain, Rule, accepted_bytes};
use super::layout::{MAX_DEVICES, PER_CPU, ROOT, Slot};
use super::records::{self, Key, Kind, Record, Records};
use super::sampling::Sampling;
use super::{Programs, processors};
use crate::catalogue::Identity;
use crate::error::ProbeError;
use crate::pacer::{monotonic, sleep_until};
use crate::source::{Plan, Source};
use weir_measure::watch::{Event, EventKind, Handle, PacketEvent, QueueId, Sink};
use weir_measure::watch::{Gaps, Method, Pace};

/// The BPF programs for disciplines.
const TRACEPOINT_PROGRAMS: [&str; 4] = ["on_enqueue", "on_dequeue", "on_reset", "on_destroy"];
/// The BPF programs for single packets.
const PACKET_PROGRAMS: [&str; 3] = ["on_arrive", "on_sent", "on_free"];
/// Time between two reads of the records, in ns: short, so that regions do not fill up.
const POLL: u64 = 3_000_000;
/// Time between two scans of disciplines and devices, in ns.
const SCAN_INTERVAL: u64 = 20_000_000;
/// Records younger than this, in ns, wait for the next turn, because the records of lock-free
/// disciplines are written only nearly in order.
const GUARD: u64 = 50_000;
/// Number of records of 64 bytes each: the aim for all regions together, and the bounds for one
/// region. Each processor has [`records::LEVELS`] regions.
const RECORDS: usize = 1 << 20;
const MOST: usize = 1 << 16;
const FEWEST: usize = 1 << 12;
/// Disciplines that drop only arrivals. If the device has a discipline of another kind, waiting
/// packets may have been dropped.
const DROP_ONLY_ARRIVALS: [&str; 11] = [
    "tbf",
    "pfifo",
    "bfifo",
    "pfifo_fast",
    "prio",
    "multiq",
    "mq",
    "htb",
    "drr",
    "noqueue",
    "plug",
];

/// A queue that has had events.
struct Tracked {
    id: QueueId,
    chain: Chain,
    /// Time of the last event; 0 before the first.
    last: u64,
    /// The backlog in bytes after the last event.
    backlog: u32,
}

/// The numbers of recorded and of missing events.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    events: u64,
    /// Events that followed a gap in the record of their queue.
    after_gap: u64,
    /// Time of the last event of any queue.
    last: u64,
    /// The upper bound of the missing events, see [`Recording::lost`].
    lost: u64,
}

pub(crate) struct Recording {
    sampling: Sampling,
    programs: Programs,
    /// The attached programs; empty before the first turn and after the end.
    links: Vec<Link>,
    recorder: SharedWords,
    records: Records,
    /// The inode number of each group's namespace.
    netns: Vec<u32>,
    /// The namespace and the index of each device on which waiting packets may be dropped.
    dropping: Vec<(u32, u32)>,
    tracked: BTreeMap<Key, Tracked>,
    /// The names of the disciplines, by [`Key::ops`].
    kinds: BTreeMap<u64, String>,
    /// Time of the last scan of all queues; 0 before the first.
    scanned: u64,
    /// The number of packets that the last scan found in all queues.
    waiting: u64,
    sums: Sums,
    gaps: Gaps,
    /// The records being delivered. A field only to reuse the memory.
    ready: Vec<Record>,
    /// The events of disciplines that the next flush delivers.
    batch: Vec<Event>,
    with_packets: bool,
    /// The events of packets that the next flush delivers.
    packets: Vec<PacketEvent>,
}

impl Recording {
    /// Loads the programs; the kernel calls them from the first turn on.
    ///
    /// # Errors
    /// The kernel refuses the programs, or a target does not exist.
    pub(crate) fn open(plan: &Plan) -> Result<Recording, ProbeError> {
        // Children are always scanned: they determine whether waiting packets may be dropped.
        let plan = Plan { rate: None, children: true, bands: false, ..plan.clone() };
        let sampling = Sampling::open(&plan, Method::Timer)?;
        let cpus = processors() as usize;
        let parts = cpus * records::LEVELS;
        let each = (RECORDS / parts.next_power_of_two()).clamp(FEWEST, MOST);
        let sizes = [("regions", parts as u32), ("records", (parts * each) as u32)];
        let mut programs = Programs::load_sized(
            include_bytes!(concat!(env!("OUT_DIR"), "/events.bpf.o")),
            &sizes,
        )?;
        programs.prepare()?;
        let recorder = programs.map("recorder", records::RECORDER * 8, records::RECORDER)?;
        recorder[records::MASK].store(each as u64 - 1, Relaxed);
        recorder[records::CPUS].store(cpus as u64, Relaxed);
        recorder[records::WITH_PACKETS].store(plan.packets.into(), Relaxed);
        for place in 0..2 {
            // Each word depends on random bytes from the system.
            let word = RandomState::new().hash_one(place);
            recorder[records::FLOW_KEY + place].store(word, Relaxed);
        }
        let regions = programs.map("regions", records::REGION * 8, parts * records::REGION)?;
        let words = programs.map("records", records::RECORD * 8, parts * each * records::RECORD)?;
        Ok(Recording {
            netns: vec![0; sampling.groups.len()],
            sampling,
            programs,
            links: Vec::new(),
            recorder,
            records: Records::new(regions, words, each),
            dropping: Vec::new(),
            tracked: BTreeMap::new(),
            kinds: BTreeMap::new(),
            scanned: 0,
            waiting: 0,
            sums: Sums::default(),
            gaps: Gaps::default(),
            ready: Vec::new(),
            batch: Vec::new(),
            with_packets: plan.packets,
            packets: Vec::new(),
        })
    }

    /// Scans the existing disciplines. The events of a vanished discipline are delivered before its
    /// end is reported.
    fn scan(&mut self, sink: &mut dyn Sink) -> Result<(), ProbeError> {
        let mut dropping = Vec::new();
        self.waiting = 0;
        for at in 0..self.sampling.groups.len() {
            let time = monotonic();
            let slots = self.sampling.call(at, time, true, sink)?;
            self.netns[at] = self.sampling.netns();
            let ended = self.take(monotonic(), sink)?;
            let mut roots: Vec<Slot> =
                slots.iter().filter(|slot| takes_packets(slot, &slots)).cloned().collect();
            // A discipline that has ended since the scan began is left out. If the program found a
            // successor that looks the same, the next scan reports the successor.
            roots.retain(|slot| {
                !ended.iter().any(|(end, seen)| *end >= time && *seen == slot.identity())
            });
            self.waiting += roots.iter().map(|root| u64::from(root.qlen)).sum::<u64>();
            self.sampling.observe(at, time, &roots, sink);
            self.sampling.hand_over_counters(at, time, &roots, sink);
            self.sampling.remark_cuts(time, sink);
            let drops =
                slots.iter().filter(|slot| !DROP_ONLY_ARRIVALS.contains(&slot.kind().as_str()));
            dropping.extend(drops.map(|slot| (self.netns[at], slot.ifindex)));
        }
        dropping.dedup();
        self.dropping = dropping;
        let there: Vec<QueueId> =
            self.sampling.groups.iter().flat_map(|group| group.catalogue.ids()).copied().collect();
        self.tracked.retain(|_, queue| there.contains(&queue.id));
        self.watch_devices(sink);
        self.scanned = monotonic();
        Ok(())
    }

    /// Tells the programs which devices to record.
    fn watch_devices(&mut self, sink: &mut dyn Sink) {
        let groups = self.sampling.groups.iter().zip(&self.netns);
        let devices: Vec<(u32, u32)> = groups
            .flat_map(|(group, &netns)| {
                group.devices.keys().take(MAX_DEVICES).map(move |&ifindex| (netns, ifindex))
            })
            .collect();
        for (_, ifindex) in records::watch(&self.recorder, &devices) {
            let names = self.sampling.groups.iter().find_map(|group| group.devices.get(&ifindex));
            let name = names.map_or("a device", String::as_str);
            sink.remark(
                monotonic(),
                &format!("{name} is not recorded: too many devices are watched at once"),
            );
        }
    }

    /// Delivers the records up to a moment, and returns the disciplines that ended.
    fn take(
        &mut self,
        until: u64,
        sink: &mut dyn Sink,
    ) -> Result<Vec<(u64, Identity)>, ProbeError> {
        let mut ready = std::mem::take(&mut self.ready);
        self.records.take(until, &mut ready);
        let mut ended = Vec::new();
        for record in &ready {
            // A device that no longer matches the plan, such as after renaming, is in no group.
            let key = record.key;
            let here = |at: &usize| {
                self.netns[*at] == key.netns
                    && self.sampling.groups[*at].devices.contains_key(&key.ifindex)
            };
            let Some(at) = (0..self.netns.len()).find(here) else { continue };
            match record.kind {
                Kind::Enqueue | Kind::Dequeue => self.take_event(at, record, sink)?,
                Kind::Packet(kind) => self.packets.push(record.packet(kind)),
                Kind::Reset => {
                    self.flush(sink);
                    self.empty(at, record, sink);
                }
                Kind::Destroy => {
                    self.flush(sink);
                    let seen = self.identity(&key)?;
                    self.tracked.remove(&key);
                    self.sampling.groups[at].catalogue.release(record.time, &seen, sink);
                    ended.push((record.time, seen));
                }
            }
        }
        self.flush(sink);
        ready.clear();
        self.ready = ready;
        Ok(ended)
    }

    fn take_event(
        &mut self,
        at: usize,
        record: &Record,
        sink: &mut dyn Sink,
    ) -> Result<(), ProbeError> {
        if !self.tracked.contains_key(&record.key) {
            self.flush(sink);
            let seen = self.identity(&record.key)?;
            let group = &mut self.sampling.groups[at];
            let netns = group.netns();
            let place = (netns.as_deref(), &group.devices);
            let id =
                group.catalogue.adopt(record.time, seen, &mut self.sampling.numbers, place, sink);
            self.tracked.insert(
                record.key,
                Tracked { id, chain: Chain::begin(record), last: 0, backlog: 0 },
            );
        }
        let rule = if record.flags & PER_CPU != 0 {
            Rule::Loose(processors())
        } else if self.dropping.contains(&(record.key.netns, record.key.ifindex)) {
            Rule::Drops
        } else {
            Rule::Strict
        };
        let Some(queue) = self.tracked.get_mut(&record.key) else { return Ok(()) };
        let (mut packets, mut after_gap) = (record.packets, false);
        let mut before = None;
        if queue.last > 0 {
            (packets, after_gap) = queue.chain.follow(record, rule);
            before = (!after_gap).then_some(queue.backlog);
        }
        queue.backlog = record.backlog;
        // A time is earlier than the last one only in a lock-free discipline, if a processor was
        // interrupted between reading the clock and writing the record.
        after_gap |= record.time < queue.last;
        let time = record.time.max(queue.last);
        queue.last = time;
        let kind =
            if record.kind == Kind::Enqueue { EventKind::Enqueue } else { EventKind::Dequeue };
        let bytes = accepted_bytes(record, packets, before);
        let &Record { qlen, backlog, drops, cpu, .. } = record;
        self.batch.push(Event {
            queue: queue.id,
            time,
            kind,
            packets,
            bytes,
            qlen,
            backlog,
            drops,
            cpu,
            after_gap,
        });
        if self.sums.events > 0 {
            self.gaps.record(time.saturating_sub(self.sums.last));
        }
        self.sums.events += 1;
        self.sums.after_gap += u64::from(after_gap);
        self.sums.last = time;
        Ok(())
    }

    /// Processes the reset of a discipline, for example because its device was set down. The
    /// discipline discards its packets without dequeues.
    fn empty(&mut self, at: usize, record: &Record, sink: &mut dyn Sink) {
        let Some(queue) = self.tracked.get_mut(&record.key) else { return };
        queue.chain.empty();
        queue.backlog = 0;
        if record.qlen > 0 {
            let name = self.sampling.groups[at]
                .devices
                .get(&record.key.ifindex)
                .map_or("a device", String::as_str);
            let handle = Handle(record.key.handle);
            sink.remark(
                record.time,
                &format!(
                    "{name}: discipline {handle} was emptied, with {} packets in it",
                    record.qlen
                ),
            );
        }
    }

    fn flush(&mut self, sink: &mut dyn Sink) {
        if !self.packets.is_empty() {
            sink.packets(&self.packets);
            self.packets.clear();
        }
        if !self.batch.is_empty() {
            sink.events(&self.batch);
            self.batch.clear();
        }
    }

    /// The identity of a record's discipline. [`Slot::identity`] of the same discipline is equal.
    fn identity(&mut self, key: &Key) -> Result<Identity, ProbeError> {
        if !self.kinds.contains_key(&key.ops) {
            self.recorder[records::OPS].store(key.ops, Relaxed);
            self.programs.run("name_kind")?;
            self.kinds.insert(key.ops, records::kind_of(&self.recorder));
        }
        let &Key { address, ops, ifindex, handle, parent, .. } = key;
        let root = Handle(parent) == Handle::ROOT;
        Ok(Identity {
            ifindex,
            handle,
            parent,
            kind: self.kinds[&ops].clone(),
            band: None,
            root,
            address,
        })
    }

    /// Reports the number of lost events if it has grown, the first time with a remark.
    fn remark_losses(&mut self, sink: &mut dyn Sink) {
        let (unwritten, lost) = self.lost();
        if lost > 0 && self.sums.lost == 0 {
            let text = if unwritten > 0 {
                "events come faster than they can be collected: some are lost"
            } else {
                "the kernel skipped programs that were already running: some events may be missing"
            };
            sink.remark(monotonic(), text);
        }
        if lost > self.sums.lost {
            sink.lost(monotonic(), lost);
        }
        self.sums.lost = lost;
    }

    /// Number of events that a program could not write, and the sum of this number and of the calls
    /// that the kernel skipped. A skipped call may have been for a packet of a device that is not
    /// watched, so the second number is an upper bound.
    fn lost(&self) -> (u64, u64) {
        let unwritten = self.records.lost() + self.recorder[records::ELSEWHERE].load(Relaxed);
        (unwritten, unwritten + self.programs.skipped_calls())
    }
}

impl Source for Recording {
    fn method(&self) -> Method {
        Method::Events
    }

    fn turn(&mut self, sink: &mut dyn Sink) -> Result<(), ProbeError> {
        if self.scanned == 0 {
            self.scan(sink)?;
            self.links = self.programs.attach(&TRACEPOINT_PROGRAMS)?;
            if self.with_packets {
                self.links.extend(self.programs.attach(&PACKET_PROGRAMS)?);
            }
            return Ok(());
        }
        sleep_until(monotonic() + POLL);
        if monotonic() >= self.scanned + SCAN_INTERVAL {
            self.scan(sink)?;
            self.remark_losses(sink);
        } else {
            self.take(monotonic() - GUARD, sink)?;
        }
        Ok(())
    }

    fn finish(&mut self, sink: &mut dyn Sink) -> Result<(), ProbeError> {
        self.links.clear();
        let time = monotonic();
        self.scan(sink)?;
        if self.waiting == 0 {
            sink.empty(time);
        }
        self.remark_losses(sink);
        let Sums { events, after_gap, lost, .. } = self.sums;
        let lost = match self.lost().0 {
            0 if lost == 0 => String::new(),
            unwritten if unwritten == lost => format!("; {lost} could not be recorded"),
            unwritten => format!("; {unwritten} to {lost} could not be recorded"),
        };
        sink.remark(monotonic(), &format!("{after_gap} of {events} events after a gap{lost}"));
        Ok(())
    }

    fn pace(&self) -> Pace {
        Pace {
            asked: None,
            readings: self.sums.events,
            missed: self.sums.lost,
            gaps: self.gaps.clone(),
        }
    }
}

/// Whether this is the root of a device, or a child of an `mq` or `mqprio` root.
fn takes_packets(slot: &Slot, all: &[Slot]) -> bool {
    let dealt_by = |root: &Slot| {
        root.flags & ROOT != 0
            && root.ifindex == slot.ifindex
            && root.handle >> 16 == slot.parent >> 16
            && root.kind().starts_with("mq")
    };
    slot.flags & ROOT != 0 || all.iter().any(dealt_by)
}
