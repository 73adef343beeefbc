//! Samples ports and watched flows over time, in the form of the simulator's results. A port is one
//! direction of a link.

use weir_core::stats::LinkStats;
use weir_linux::live::{LiveHandle, NoAnswer};
use weir_measure::series::{FlowPeriod, LinkPeriod};

use super::plan::engine_id;
use super::watch::{Count, Counts};

#[derive(Debug)]
pub(super) struct Sampler {
    handle: LiveHandle,
    ports: usize,
    /// The counters of watched flows, which the observer updates.
    watched: Counts,
    /// The counters of each port at the last reading.
    seen_links: Vec<LinkPeriod>,
    /// The counters of each watched flow at the last reading.
    seen_flows: Vec<FlowPeriod>,
    /// The current interval of each port.
    open: Vec<LinkPeriod>,
    /// The samples of each port, one for each interval.
    pub(super) links: Vec<Vec<LinkPeriod>>,
    /// The samples of each watched flow, one for each interval.
    pub(super) flows: Vec<Vec<FlowPeriod>>,
}

impl Sampler {
    pub(super) fn new(handle: LiveHandle, ports: usize, watched: Counts, flows: usize) -> Self {
        Self {
            handle,
            ports,
            watched,
            seen_links: vec![LinkPeriod::default(); ports],
            seen_flows: vec![FlowPeriod::default(); flows],
            open: vec![LinkPeriod::default(); ports],
            links: vec![Vec::new(); ports],
            flows: vec![Vec::new(); flows],
        }
    }

    /// Samples the lengths of all queues.
    pub(super) fn sample_queues(&mut self) -> Result<(), NoAnswer> {
        let ports = self.ports;
        let queues = self.handle.with_engine(move |engine, _| {
            (0..ports).map(|port| engine.queue_length(engine_id(port))).collect::<Vec<_>>()
        })?;
        for (open, (packets, bytes)) in self.open.iter_mut().zip(queues) {
            open.queue_packets.include(packets, 1);
            open.queue_bytes.include(bytes, 1);
        }
        Ok(())
    }

    /// Ends an interval.
    pub(super) fn close(&mut self) -> Result<(), NoAnswer> {
        self.read()?;
        for (samples, open) in self.links.iter_mut().zip(&mut self.open) {
            samples.push(std::mem::take(open));
        }
        let now = self.flows_now()?;
        for ((samples, now), seen) in self.flows.iter_mut().zip(&now).zip(&self.seen_flows) {
            samples.push(now.since(seen));
        }
        self.seen_flows = now;
        Ok(())
    }

    /// Resets all counters.
    pub(super) fn zero(&mut self) -> Result<(), NoAnswer> {
        self.read()?;
        let ports = self.ports;
        self.handle.with_engines(move |engine, _| {
            for port in 0..ports {
                // This cannot fail, because every port exists.
                let _ = engine.zero(engine_id(port));
            }
        })?;
        self.seen_links.fill(LinkPeriod::default());
        self.handle.settle_observer()?;
        // The current interval of each flow loses the counts from before the end of the warm-up.
        self.watched
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .iter_mut()
            .for_each(Count::zero);
        self.seen_flows.fill(FlowPeriod::default());
        Ok(())
    }

    /// The counters of each port.
    pub(super) fn stats(&self) -> Result<Vec<LinkStats>, NoAnswer> {
        let all = self.handle.pipe_stats()?;
        let of = |port| {
            all.iter()
                .find(|(id, _)| *id == engine_id(port))
                .map(|(_, stats)| stats.clone())
                .unwrap_or_default()
        };
        Ok((0..self.ports).map(of).collect())
    }

    /// Adds the increments of the ports' counters since the last reading to the open interval.
    fn read(&mut self) -> Result<(), NoAnswer> {
        let ports = self.ports;
        let now = self.handle.with_engine(move |engine, _| {
            let counters = |port| {
                engine
                    .stats(engine_id(port))
                    .map(|stats| LinkPeriod::totals(&stats.counters))
                    .unwrap_or_default()
            };
            (0..ports).map(counters).collect::<Vec<_>>()
        })?;
        for ((open, now), before) in self.open.iter_mut().zip(&now).zip(&self.seen_links) {
            open.add(&now.since(before));
        }
        self.seen_links = now;
        Ok(())
    }

    /// The counters of each watched flow, including all packets until now.
    pub(super) fn counts(&self) -> Result<Vec<Count>, NoAnswer> {
        self.handle.settle_observer()?;
        Ok(self.watched.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone())
    }

    /// The totals of each watched flow.
    fn flows_now(&self) -> Result<Vec<FlowPeriod>, NoAnswer> {
        self.handle.settle_observer()?;
        let counts = self.watched.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let sample = |count: &Count| FlowPeriod {
            sent: count.sent,
            sent_bytes: count.sent_bytes,
            received: count.received,
            received_bytes: count.received_bytes,
            goodput_bytes: count.payload_bytes,
            lost: count.reasons.total_drops(),
            marked: count.marked,
            delay_sum_ns: u64::try_from(count.delay_ns.sum()).unwrap_or(u64::MAX),
        };
        Ok(counts.iter().map(sample).collect())
    }
}
