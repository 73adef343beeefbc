//! The memory that a scheduler uses for its flows and packets, as the operating system counts it.

use weir_core::Nanos;
use weir_core::descriptor::Descriptors;
use weir_core::sched::{FlowSlot, Scheduler, Visitor};

use crate::algorithm::Algorithm;
use crate::flows::FlowSet;

/// Memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Memory for the flows.
    pub flows: u64,
    /// Memory for the packets, including the scheduler's own data for them.
    pub packets: u64,
}

/// Adds the flows to a scheduler and enqueues `packets` packets for each. `resident` returns the
/// memory of the process in bytes. The result is correct only in a process that has done nothing
/// else before, since reused memory does not increase the process's memory.
pub fn measure(
    algorithm: &Algorithm,
    flows: &FlowSet,
    packets: u32,
    resident: &dyn Fn() -> Option<u64>,
) -> Option<Memory> {
    algorithm.visit(Measured { flows, packets, resident })
}

struct Measured<'a> {
    flows: &'a FlowSet,
    packets: u32,
    resident: &'a dyn Fn() -> Option<u64>,
}

impl Visitor for Measured<'_> {
    type Output = Option<Memory>;

    fn visit<S: Scheduler + std::fmt::Debug>(self, mut scheduler: S) -> Option<Memory> {
        // The values are not zero, so that the pages are resident before the first reading.
        let mut slots = vec![FlowSlot(1); self.flows.len() as usize];
        let before = (self.resident)()?;
        for flow in self.flows.flows() {
            slots[flow.number as usize] = scheduler.add_flow(Nanos::ZERO, &flow.spec());
        }
        let with_flows = (self.resident)()?;
        let mut store = Descriptors::new(slots.len() * self.packets as usize);
        for _ in 0..self.packets {
            for flow in self.flows.flows() {
                let packet = store.allocate(flow.lengths.longest(), flow.number);
                if let Some(refused) =
                    scheduler.enqueue(Nanos::ZERO, &mut store, slots[flow.number as usize], packet)
                {
                    store.release(refused);
                }
            }
        }
        let with_packets = (self.resident)()?;
        std::hint::black_box((&scheduler, &store, &slots));
        Some(Memory {
            flows: with_flows.saturating_sub(before),
            packets: with_packets.saturating_sub(with_flows),
        })
    }
}

/// The bytes of anonymous memory of this process; `None` where the system does not report them.
/// `smaps_rollup` counts the pages; the counters in `/proc/self/status` lag behind.
pub fn resident() -> Option<u64> {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_and_packets_are_counted_apart() {
        let calls = std::cell::Cell::new(0);
        let resident = || {
            calls.set(calls.get() + 1);
            Some([1000, 3000, 3500][calls.get() - 1])
        };
        let flows: FlowSet = "10:w1".parse().unwrap();
        let memory = measure(&Algorithm::None, &flows, 2, &resident);
        assert_eq!(memory, Some(Memory { flows: 2000, packets: 500 }));
        assert_eq!(measure(&Algorithm::None, &flows, 2, &|| None), None);
    }
}
