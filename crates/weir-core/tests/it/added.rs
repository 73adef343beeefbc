//! Algorithms that a program adds to the tables: an added FIFO gives the same results as the
//! built-in FIFO, and an added AQM decides about packets.

use std::collections::VecDeque;
use std::sync::Once;

use weir_core::aqm::{self, Aqm, Policy, QueueState, Seen, Setup, Verdict};
use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, PipeConfig, QueueLimit};
use weir_core::key::FlowKey;
use weir_core::packet::{Ecn, PacketId, PacketList, Store};
use weir_core::sched::{self, Discipline, External, FlowSlot, FlowSpec, Kind};
use weir_core::settings::{Factory, Row};
use weir_core::stats::{DropReason, MarkReason};
use weir_core::{Action, Arrival, Departure, Emulator, Fate, Limits, Nanos, Rate};

/// A FIFO that the engine calls through a trait object.
#[derive(Debug, Default)]
struct Deque {
    packets: VecDeque<PacketId>,
    bytes: u64,
}

impl External for Deque {
    fn add_flow(&mut self, _now: Nanos, spec: &FlowSpec) -> FlowSlot {
        FlowSlot(spec.flow)
    }

    fn change_flow(&mut self, _: Nanos, _: &mut dyn Store, _: FlowSlot, _: &FlowSpec) {}

    fn remove_flow(
        &mut self,
        _now: Nanos,
        store: &mut dyn Store,
        _slot: FlowSlot,
        flow: u32,
    ) -> PacketList {
        let mut list = PacketList::default();
        for id in std::mem::take(&mut self.packets) {
            if store.flow(id) == flow {
                self.bytes -= u64::from(store.len(id));
                list.push_back(store, id);
            } else {
                self.packets.push_back(id);
            }
        }
        list
    }

    fn enqueue(
        &mut self,
        _now: Nanos,
        store: &mut dyn Store,
        _slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId> {
        self.bytes += u64::from(store.len(packet));
        self.packets.push_back(packet);
        None
    }

    fn dequeue(&mut self, _now: Nanos, store: &mut dyn Store) -> Option<PacketId> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(store.len(packet));
        Some(packet)
    }

    fn len(&self) -> usize {
        self.packets.len()
    }

    fn backlog(&self) -> u64 {
        self.bytes
    }
}

/// While ten or more packets wait, marks ECN-capable packets and drops all other packets.
#[derive(Debug)]
struct Ten;

impl Aqm for Ten {
    fn arrive(&mut self, _now: Nanos, packet: &Seen, queue: &QueueState) -> Verdict {
        match (queue.packets >= 10, packet.header.ecn.is_capable()) {
            (false, _) => Verdict::Pass,
            (true, true) => Verdict::Mark(MarkReason::Early),
            (true, false) => Verdict::Drop(DropReason::Early),
        }
    }

    fn leave(&mut self, _now: Nanos, _packet: &Seen, _queue: &QueueState) -> Verdict {
        Verdict::Pass
    }
}

/// The factory of [`Deque`].
struct Deques;
/// The factory of [`Ten`].
struct Tens;

const fn row<T>(traits: T) -> Row<T> {
    Row { name: "test.Added", aliases: &[], summary: "", source: "", parameters: &[], traits }
}

static SCHEDULER: Row<sched::Traits> = row(sched::Traits {
    complexity: "",
    weighted: false,
    work_conserving: true,
    classifies: false,
    flow: &[],
});
static AQM: Row<aqm::Traits> = row(aqm::Traits { marks: true, classifies: false });

impl Factory for Deques {
    type Traits = sched::Traits;

    fn row(&self) -> &'static Row<sched::Traits> {
        &SCHEDULER
    }
}

impl sched::ExternalFactory for Deques {
    fn make(&self, _discipline: &Discipline) -> Box<dyn External> {
        Box::new(Deque::default())
    }
}

impl Factory for Tens {
    type Traits = aqm::Traits;

    fn row(&self) -> &'static Row<aqm::Traits> {
        &AQM
    }
}

impl aqm::ExternalFactory for Tens {
    fn make(&self, _policy: &Policy, _setup: &Setup) -> Box<dyn aqm::External> {
        Box::new(Ten)
    }
}

/// The added scheduler and AQM.
pub(crate) fn kinds() -> (Kind, aqm::Kind) {
    static ADDED: Once = Once::new();
    ADDED.call_once(|| {
        sched::ADDED.add(&Deques).unwrap();
        aqm::ADDED.add(&Tens).unwrap();
    });
    let name = "TEST.added";
    (Kind::from_name(name).unwrap(), aqm::Kind::from_name(name).unwrap())
}

/// Sends 500 packets through a link that is too slow for them. Returns for each packet its frame,
/// its due time, and whether it was delivered.
fn play(scheduler: Option<Kind>, policy: Option<aqm::Kind>) -> Vec<(u32, Nanos, bool)> {
    let mut emulator = Emulator::new(1, Limits::default());
    let pipe = PipeConfig {
        link: LinkConfig {
            capacity: Capacity::Constant(Rate::new(8_000_000).unwrap()),
            ..LinkConfig::default()
        },
        scheduler: scheduler.map(Discipline::new),
        queue: FlowsetConfig {
            limit: Some(QueueLimit::Packets(30)),
            aqm: policy.map(Policy::new),
            ..FlowsetConfig::default()
        },
    };
    emulator.set_pipe(Nanos::ZERO, 1, &pipe);
    let (mut out, mut seen) = (Vec::new(), Vec::new());
    for frame in 0..500 {
        let now = Nanos(u64::from(frame) * 800_000);
        emulator.poll(now, &mut out);
        let ecn = Ecn::NotEct;
        let arrival = Arrival { frame, len: 1000, link_header: 14, segments: 1, ecn, label: 0 };
        if emulator.submit(now, arrival, &FlowKey::default(), Action::Pipe(1)).is_err() {
            seen.push((frame, now, false));
        }
    }
    while let Some(next) = emulator.next_event() {
        emulator.poll(next, &mut out);
    }
    let delivered = |departure: &Departure| matches!(departure.fate, Fate::Deliver { .. });
    seen.extend(out.iter().map(|one| (one.frame, one.due, delivered(one))));
    seen
}

fn delivered_count(seen: &[(u32, Nanos, bool)]) -> usize {
    seen.iter().filter(|(.., delivered)| *delivered).count()
}

#[test]
fn an_added_scheduler_gives_the_results_of_the_built_in_one() {
    let (kind, _) = kinds();
    let fifo = play(Some(Kind::Fifo), None);
    assert!((300..500).contains(&delivered_count(&fifo)));
    assert_eq!(play(Some(kind), None), fifo);
}

#[test]
fn an_added_aqm_decides_about_packets() {
    let (_, policy) = kinds();
    let (tail, early) = (play(None, None), play(None, Some(policy)));
    assert_eq!((tail.len(), early.len()), (500, 500));
    // Tail drop fills the queue with 30 packets, and the AQM with 10.
    assert_eq!(delivered_count(&tail) - delivered_count(&early), 20);
}
