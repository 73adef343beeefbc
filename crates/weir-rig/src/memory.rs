//! What a scheduler keeps for its flows, as the operating system counts it.

use weir_core::Nanos;
use weir_core::descriptor::Descriptors;
use weir_core::sched::{FlowSlot, Scheduler, Visitor};

use crate::algorithm::Algorithm;
use crate::flows::FlowSet;

/// Memory that was taken, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// For the flows.
    pub flows: u64,
    /// For the packets, with what the scheduler takes for them.
    pub packets: u64,
}

/// Adds flows to a scheduler and enqueues `packets` packets for each; `resident` returns the memory
/// of the process. The result is true only in a process that has done nothing before, since freed
/// memory is reused unnoticed.
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
        // Written to, so that it is there before.
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

/// Bytes of anonymous memory of this process, where the system reports it. The pages are counted,
/// since the system's quick statistics lag behind.
pub fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Anonymous:"))?;
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
