//! State that an environment shares with its agent: the last action, and sums since the last step.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use weir_core::Nanos;
use weir_core::settings::Row;

#[derive(Debug, Default)]
pub(super) struct Agent {
    /// The last action. All kinds of agents use only the action's first number: the window in
    /// bytes, the probability, or the priority.
    pub(super) action: Vec<f64>,
    pub(super) control: OfControl,
    pub(super) aqm: OfAqm,
    pub(super) scheduler: OfScheduler,
    /// Whether the agent is one of the simulation's algorithms.
    pub(super) present: bool,
}

pub(super) type Shared = Arc<Mutex<Agent>>;

thread_local! {
    /// The agent of the simulation that this thread builds or runs.
    static AGENT: RefCell<Option<Shared>> = const { RefCell::new(None) };
}

/// The agent of this thread's simulation. Outside an environment there is none: the run fails, and
/// the result is a new agent that nothing else uses.
pub(super) fn current() -> Shared {
    let agent = AGENT.with_borrow(Option::clone);
    let Some(agent) = agent else {
        let message = "`gym.agent` exists only in environments of weirlab.gym";
        crate::external::fail(PyValueError::new_err(message));
        return Shared::default();
    };
    lock(&agent).present = true;
    agent
}

pub(super) fn lock(agent: &Mutex<Agent>) -> MutexGuard<'_, Agent> {
    agent.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work`; the algorithms that it creates use this agent.
pub(super) fn during<T>(agent: &Shared, work: impl FnOnce() -> T) -> T {
    let before = AGENT.replace(Some(Arc::clone(agent)));
    let result = work();
    AGENT.set(before);
    result
}

pub(super) const fn row<T>(traits: T) -> Row<T> {
    Row {
        name: "gym.agent",
        aliases: &[],
        summary: "the agent of an environment",
        source: "reinforcement learning",
        parameters: &[],
        traits,
    }
}

/// Sums over the connections whose congestion window an agent sets. The smallest round-trip time,
/// the bytes in flight and the window are those of the connection that called the agent last.
#[derive(Debug, Default)]
pub(super) struct OfControl {
    pub(super) acked: u64,
    pub(super) lost: u64,
    /// The sum of the measured round-trip times in ns.
    pub(super) rtt_sum: u64,
    /// The number of round-trip times in the sum.
    pub(super) rtts: u64,
    pub(super) min_rtt: u64,
    pub(super) in_flight: u64,
    pub(super) window: u64,
    pub(super) timeouts: u64,
}

impl OfControl {
    /// Takes the sums: bytes acknowledged and bytes lost, the mean and the smallest round-trip time
    /// in ns (0 for unknown), bytes in flight, the window, and the number of timeouts.
    pub(super) fn take(&mut self) -> [f64; 7] {
        let taken = std::mem::take(self);
        // The state of the connections stays; the sums start again at 0.
        (self.min_rtt, self.in_flight) = (taken.min_rtt, taken.in_flight);
        self.window = taken.window;
        let mean = taken.rtt_sum.checked_div(taken.rtts).unwrap_or(0);
        [
            taken.acked,
            taken.lost,
            mean,
            taken.min_rtt,
            taken.in_flight,
            taken.window,
            taken.timeouts,
        ]
        .map(|value| value as f64)
    }
}

/// Sums over the queues of an agent.
#[derive(Debug, Default)]
pub(super) struct OfAqm {
    pub(super) arrived: u64,
    /// Packets that a full queue refused.
    pub(super) full: u64,
    pub(super) dropped: u64,
    pub(super) marked: u64,
    pub(super) sent: u64,
    pub(super) sent_bytes: u64,
    pub(super) wait_sum: u64,
    pub(super) wait_max: u64,
    /// Packets in the queue that called the agent last.
    pub(super) packets: u64,
    /// Bytes in the queue that called the agent last.
    pub(super) bytes: u64,
}

impl OfAqm {
    /// Takes the sums: numbers of packets that arrived, that a full queue refused, and that were
    /// dropped, marked and sent; bytes sent; mean and longest sojourn time in ns; packets and bytes
    /// in the queue.
    pub(super) fn take(&mut self) -> [f64; 10] {
        let taken = std::mem::take(self);
        (self.packets, self.bytes) = (taken.packets, taken.bytes);
        let mean = taken.wait_sum.checked_div(taken.sent).unwrap_or(0);
        [
            taken.arrived,
            taken.full,
            taken.dropped,
            taken.marked,
            taken.sent,
            taken.sent_bytes,
            mean,
            taken.wait_max,
            taken.packets,
            taken.bytes,
        ]
        .map(|value| value as f64)
    }
}

/// Sums over the flows of an agent.
#[derive(Debug, Default)]
pub(super) struct OfScheduler {
    /// The sums of each priority; the index is the priority.
    pub(super) priorities: Vec<Sums>,
}

/// Sums over the flows of one priority.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// The weight of the flow that was added or changed last.
    pub(super) weight: u64,
    /// Packets that wait now.
    pub(super) packets: u64,
    /// Bytes that wait now.
    pub(super) bytes: u64,
    /// Arrival of the packet at the head.
    pub(super) head: Option<Nanos>,
    pub(super) sent: u64,
    pub(super) sent_bytes: u64,
    pub(super) wait_sum: u64,
}

impl OfScheduler {
    /// Takes, for each priority, the weight of the flow added or changed last, the packets and
    /// bytes that wait, the age of the packet at the head in ns, the packets and bytes sent, and
    /// their mean sojourn time in ns.
    pub(super) fn take(&mut self, now: Nanos) -> Vec<f64> {
        let one = |sums: &mut Sums| {
            let age = sums.head.map_or(0, |head| now.since(head).0);
            let mean = sums.wait_sum.checked_div(sums.sent).unwrap_or(0);
            let all =
                [sums.weight, sums.packets, sums.bytes, age, sums.sent, sums.sent_bytes, mean];
            (sums.sent, sums.sent_bytes, sums.wait_sum) = (0, 0, 0);
            all.map(|value| value as f64)
        };
        self.priorities.iter_mut().flat_map(one).collect()
    }
}
