//! The methods `loop` and `timer`: reading in a loop inside the kernel, or once at each tick of a
//! timer.

use std::sync::atomic::Ordering::Relaxed;

use weir_linux::sys::shared::SharedWords;

use super::Programs;
use super::layout::{self, Slot, control, halves, word};
use crate::catalogue::Numbers;
use crate::error::ProbeError;
use crate::group::Group;
use crate::pacer::{NAP, monotonic, sleep_until};
use crate::source::{Plan, Source};
use weir_measure::watch::{Counters, Run, Sink};
use weir_measure::watch::{Gaps, Method, Pace};

/// Duration of one call inside the kernel, in ns. It is long enough that the cost of the call is
/// negligible, and short enough not to delay the release of kernel memory noticeably.
const SLICE: u64 = 500_000;
/// Time between two reads of the counters, in ns.
const COUNTER_INTERVAL: u64 = 20_000_000;
/// The thread's sleep ends this many ns before the next scheduled reading, since waking up may take
/// this long. The program then waits for the moment of the reading.
const EARLY: u64 = 200_000;

/// The pacing state of a namespace, kept while another namespace is being read.
#[derive(Clone, Copy, Debug, Default)]
struct Pacing {
    /// Time of the last reading; 0 before the first.
    last: u64,
    /// The next scheduled moment; 0 before the first reading.
    next: u64,
    /// When the counters were last read.
    counted: u64,
}

pub(crate) struct Sampling {
    method: Method,
    /// The requested readings per second; as many as possible if `None`.
    asked: Option<u64>,
    /// Time between two readings in ns; 0 without a rate.
    interval: u64,
    programs: Programs,
    /// The memory shared with the programs, see [`layout`].
    control: SharedWords,
    slots: SharedWords,
    runs: SharedWords,
    gaps: SharedWords,
    pub(super) groups: Vec<Group>,
    pacing: Vec<Pacing>,
    pub(super) numbers: Numbers,
    /// Number of calls of the program so far. Each call reads the next group.
    turn: usize,
    /// Index of the group with the namespace that this thread has entered.
    inside: Option<usize>,
    /// The flags `CUT_…` that were already reported: the reasons why results are incomplete.
    cut: u32,
    /// The runs being delivered. A field only to reuse the memory.
    batch: Vec<Run>,
}

impl Sampling {
    /// Loads the programs and prepares the first reading.
    ///
    /// # Errors
    /// The kernel refuses the programs, or a target does not exist.
    pub(crate) fn open(plan: &Plan, method: Method) -> Result<Sampling, ProbeError> {
        let groups = Group::of(&plan.targets)?;
        let mut programs =
            Programs::load(include_bytes!(concat!(env!("OUT_DIR"), "/watch.bpf.o")))?;
        let control = programs.map("control", control::WORDS * 8, control::WORDS)?;
        let slots = programs.map(
            "slots",
            layout::SLOT_WORDS * 8,
            layout::SLOT_WORDS * layout::MAX_QUEUES,
        )?;
        let runs =
            programs.map("runs", layout::RUN_WORDS * 8, layout::RUN_WORDS * layout::MAX_RUNS)?;
        let gaps = programs.map("gaps", layout::GAP_WORDS * 8, layout::GAP_WORDS)?;
        let interval = if method == Method::Loop { plan.interval() } else { 0 };
        control[control::INTERVAL].store(interval, Relaxed);
        control[control::MAX_READINGS].store(u64::MAX, Relaxed);
        control[control::DEVICES_CHILDREN].store(word(0, plan.children.into()), Relaxed);
        control[control::BANDS_COUNTERS].store(word(plan.bands.into(), 0), Relaxed);
        programs.prepare()?;
        let pacing = vec![Pacing::default(); groups.len()];
        Ok(Sampling {
            method,
            asked: plan.rate,
            interval: plan.interval(),
            programs,
            control,
            slots,
            runs,
            gaps,
            groups,
            pacing,
            numbers: Numbers::default(),
            turn: 0,
            inside: None,
            cut: 0,
            batch: Vec::new(),
        })
    }

    fn set(&self, field: usize, value: u64) {
        self.control[field].store(value, Relaxed);
    }

    fn get(&self, field: usize) -> u64 {
        self.control[field].load(Relaxed)
    }

    /// Tells the program which devices to find.
    fn name_devices(&mut self, group_index: usize, time: u64, sink: &mut dyn Sink) {
        let group = &mut self.groups[group_index];
        let indices: Vec<u32> = group.devices.keys().copied().collect();
        if let Some(devices) = group.new_excess(layout::MAX_DEVICES) {
            let most = layout::MAX_DEVICES;
            let text = format!("{devices} devices match; only the first {most} are watched");
            sink.remark(time, &text);
        }
        let indices = &indices[..indices.len().min(layout::MAX_DEVICES)];
        for (place, pair) in indices.chunks(2).enumerate() {
            self.set(control::IFINDEX + place, word(pair[0], pair.get(1).copied().unwrap_or(0)));
        }
        self.set(
            control::DEVICES_CHILDREN,
            word(indices.len() as u32, halves(self.get(control::DEVICES_CHILDREN)).1),
        );
    }

    /// Assigns numbers to the queues that the last call found.
    pub(super) fn observe(
        &mut self,
        group_index: usize,
        time: u64,
        slots: &[Slot],
        sink: &mut dyn Sink,
    ) {
        let group = &mut self.groups[group_index];
        let (netns, seen) = (group.netns(), slots.iter().map(Slot::identity).collect());
        group.catalogue.observe(
            time,
            seen,
            &mut self.numbers,
            (netns.as_deref(), &group.devices),
            sink,
        );
    }

    /// Calls the program once in the namespace of the group, and returns the queues that it found.
    /// `with_counters` requests the counters too.
    pub(super) fn call(
        &mut self,
        group_index: usize,
        time: u64,
        with_counters: bool,
        sink: &mut dyn Sink,
    ) -> Result<Vec<Slot>, ProbeError> {
        self.groups[group_index].follow(time, sink)?;
        // The thread stays in the namespace of the last call.
        if self.inside != Some(group_index) {
            self.groups[group_index].enter()?;
            self.inside = Some(group_index);
        }
        self.name_devices(group_index, time, sink);
        self.set(
            control::BANDS_COUNTERS,
            word(halves(self.get(control::BANDS_COUNTERS)).0, with_counters.into()),
        );
        self.programs.run("sample")?;
        let (queues, _) = halves(self.get(control::QUEUES_RUNS));
        Ok((0..(queues as usize).min(layout::MAX_QUEUES))
            .map(|place| Slot::read(&self.slots, place))
            .collect())
    }

    /// Number of the namespace of the last call.
    pub(super) fn netns(&self) -> u32 {
        halves(self.get(control::CUT_NETNS)).1
    }

    /// Delivers the readings as runs of equal consecutive readings: those that ended during the
    /// call, and those that were still open at its end.
    fn hand_over(&mut self, group_index: usize, slots: &[Slot], sink: &mut dyn Sink) {
        let (_, written) = halves(self.get(control::QUEUES_RUNS));
        let catalogue = &self.groups[group_index].catalogue;
        self.batch.clear();
        for words in self.runs.chunks_exact(layout::RUN_WORDS).take(written as usize) {
            let (slot, count) = halves(words[2].load(Relaxed));
            let (qlen, backlog) = halves(words[3].load(Relaxed));
            let (first, last) = (words[0].load(Relaxed), words[1].load(Relaxed));
            if let Some(queue) = catalogue.id(slot as usize) {
                self.batch.push(Run { queue, first, last, count, qlen, backlog });
            }
        }
        for (place, slot) in slots.iter().enumerate().filter(|(_, slot)| slot.count > 0) {
            if let Some(queue) = catalogue.id(place) {
                let Slot { first, last, count, qlen, backlog, .. } = *slot;
                self.batch.push(Run { queue, first, last, count, qlen, backlog });
            }
        }
        sink.runs(&self.batch);
    }

    /// Delivers the counters of all disciplines that the last call found.
    pub(super) fn hand_over_counters(
        &self,
        group_index: usize,
        time: u64,
        slots: &[Slot],
        sink: &mut dyn Sink,
    ) {
        for (place, slot) in
            slots.iter().enumerate().filter(|(_, slot)| slot.flags & layout::BAND == 0)
        {
            let (drops, requeues, overlimits) =
                (slot.drops.into(), slot.requeues.into(), slot.overlimits.into());
            let counters =
                Counters { packets: slot.packets, bytes: slot.bytes, drops, requeues, overlimits };
            if let Some(id) = self.groups[group_index].catalogue.id(place) {
                sink.counters(time, id, &counters);
            }
        }
    }

    /// Reports why queues, runs or devices could not be read, each reason only once.
    pub(super) fn remark_cuts(&mut self, time: u64, sink: &mut dyn Sink) {
        let (cut, _) = halves(self.get(control::CUT_NETNS));
        for (flag, text) in [
            (
                layout::CUT_QUEUES,
                format!("more than {} queues: the rest is not read", layout::MAX_QUEUES),
            ),
            (
                layout::CUT_DEVICES,
                "the kernel's list of devices exceeds the search limit: some devices are not read"
                    .to_owned(),
            ),
            (
                layout::CUT_RUNS,
                "lengths change faster than they can be written down: some readings are left out"
                    .to_owned(),
            ),
        ] {
            if cut & flag != 0 && self.cut & flag == 0 {
                sink.remark(time, &text);
            }
        }
        self.cut |= cut;
    }

    /// If the next scheduled reading is not near, sleeps until shortly before it, but at most for
    /// [`NAP`]. Returns whether it is time to enter the kernel.
    fn approach(&self, group_index: usize) -> bool {
        let (now, next) = (monotonic(), self.pacing[group_index].next);
        if next <= now + 2 * EARLY {
            return true;
        }
        sleep_until((next - EARLY).min(now + NAP));
        next <= now + EARLY + NAP
    }

    /// Sleeps until the next tick, but at most for [`NAP`]. Returns whether it is time to read.
    fn wait(&mut self, group_index: usize) -> bool {
        let now = monotonic();
        let pacing = &mut self.pacing[group_index];
        if pacing.next == 0 {
            pacing.next = now;
        }
        let due = pacing.next;
        if due > now {
            sleep_until(due.min(now + NAP));
            if due > now + NAP {
                return false;
            }
        }
        let passed = monotonic().saturating_sub(due) / self.interval.max(1);
        pacing.next = due + (passed + 1) * self.interval.max(1);
        let missed = self.get(control::MISSED) + passed;
        self.set(control::MISSED, missed);
        true
    }
}

impl Source for Sampling {
    fn method(&self) -> Method {
        self.method
    }

    fn turn(&mut self, sink: &mut dyn Sink) -> Result<(), ProbeError> {
        let group_index = self.turn % self.groups.len();
        let ready = if self.method == Method::Timer {
            self.wait(group_index)
        } else {
            self.approach(group_index)
        };
        if !ready {
            return Ok(());
        }
        self.turn += 1;
        let time = monotonic();
        let with_counters = time >= self.pacing[group_index].counted + COUNTER_INTERVAL;
        self.set(control::LAST_READING, self.pacing[group_index].last);
        if self.method == Method::Loop {
            self.set(control::NEXT_READING, self.pacing[group_index].next);
            self.set(control::SLICE, SLICE);
        }
        let slots = self.call(group_index, time, with_counters, sink)?;
        self.pacing[group_index].last = self.get(control::LAST_READING);
        if self.method == Method::Loop {
            self.pacing[group_index].next = self.get(control::NEXT_READING);
        }
        self.observe(group_index, time, &slots, sink);
        self.hand_over(group_index, &slots, sink);
        if with_counters {
            self.pacing[group_index].counted = time;
            self.hand_over_counters(group_index, time, &slots, sink);
        }
        self.remark_cuts(time, sink);
        // Without a queue to read, the call returns at once.
        if slots.is_empty() && self.method == Method::Loop {
            sleep_until(monotonic() + SLICE);
        }
        Ok(())
    }

    fn pace(&self) -> Pace {
        let counts = self
            .gaps
            .iter()
            .flat_map(|pair| <[u32; 2]>::from(halves(pair.load(Relaxed))))
            .map(u64::from);
        let gaps = Gaps::from_counts(counts.collect(), self.get(control::LONGEST_GAP));
        Pace {
            asked: self.asked,
            readings: self.get(control::READINGS),
            missed: self.get(control::MISSED),
            gaps,
        }
    }
}
