//! What ports and watched flows do over time, as the simulator's meter writes it down.

use weir_core::stats::{LinkCounters, LinkStats};
use weir_linux::live::{Gone, LiveHandle};
use weir_sim::measure::{FlowSample, LinkSample};

use super::plan::engine_id;
use super::watch::{Count, Counts};

/// Looks at a running loop.
#[derive(Debug)]
pub(super) struct Sampler {
    handle: LiveHandle,
    ports: usize,
    watched: Counts,
    seen_links: Vec<LinkSample>,
    seen_flows: Vec<FlowSample>,
    open: Vec<LinkSample>,
    /// Samples of each port.
    pub(super) links: Vec<Vec<LinkSample>>,
    /// Samples of each watched flow.
    pub(super) flows: Vec<Vec<FlowSample>>,
}

impl Sampler {
    /// One for this many ports and these flows.
    pub(super) fn new(handle: LiveHandle, ports: usize, watched: Counts, flows: usize) -> Self {
        Self {
            handle,
            ports,
            watched,
            seen_links: vec![LinkSample::default(); ports],
            seen_flows: vec![FlowSample::default(); flows],
            open: vec![LinkSample::default(); ports],
            links: vec![Vec::new(); ports],
            flows: vec![Vec::new(); flows],
        }
    }

    /// Looks at all queues.
    pub(super) fn look(&mut self) -> Result<(), Gone> {
        let ports = self.ports;
        let queues = self.handle.with_engine(move |engine, _| {
            (0..ports).map(|port| engine.queue_length(engine_id(port))).collect::<Vec<_>>()
        })?;
        for (open, (packets, bytes)) in self.open.iter_mut().zip(queues) {
            open.queue_packets.include(packets);
            open.queue_bytes.include(bytes);
        }
        Ok(())
    }

    /// Closes an interval.
    pub(super) fn close(&mut self) -> Result<(), Gone> {
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

    /// Sets all counters to zero.
    pub(super) fn zero(&mut self) -> Result<(), Gone> {
        self.read()?;
        let ports = self.ports;
        self.handle.with_engines(move |engine, _| {
            for port in 0..ports {
                // Every port is there.
                let _ = engine.zero(engine_id(port));
            }
        })?;
        self.seen_links.fill(LinkSample::default());
        self.handle.settle_observer()?;
        // An interval that the warm-up ends in lacks what was before.
        self.watched
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .iter_mut()
            .for_each(|count| *count = Count::default());
        self.seen_flows.fill(FlowSample::default());
        Ok(())
    }

    /// What each port has counted.
    pub(super) fn stats(&self) -> Result<Vec<LinkStats>, Gone> {
        let all = self.handle.pipe_stats()?;
        let of = |port| {
            all.iter()
                .find(|(id, _)| *id == engine_id(port))
                .map(|(_, stats)| stats.clone())
                .unwrap_or_default()
        };
        Ok((0..self.ports).map(of).collect())
    }

    /// Adds what ports have counted since the last time to the open interval.
    fn read(&mut self) -> Result<(), Gone> {
        let ports = self.ports;
        let now = self.handle.with_engine(move |engine, _| {
            let counters = |port| {
                engine.stats(engine_id(port)).map(|stats| seen(&stats.counters)).unwrap_or_default()
            };
            (0..ports).map(counters).collect::<Vec<_>>()
        })?;
        for ((open, now), before) in self.open.iter_mut().zip(&now).zip(&self.seen_links) {
            open.add(&now.since(before));
        }
        self.seen_links = now;
        Ok(())
    }

    /// What each watched flow has counted, everything until now included.
    pub(super) fn counts(&self) -> Result<Vec<Count>, Gone> {
        self.handle.settle_observer()?;
        Ok(self.watched.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone())
    }

    fn flows_now(&self) -> Result<Vec<FlowSample>, Gone> {
        self.handle.settle_observer()?;
        let counts = self.watched.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let sample = |count: &Count| FlowSample {
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

fn seen(c: &LinkCounters) -> LinkSample {
    let (drops, marks) = (c.total_drops(), c.reasons().total_marks());
    let (packets_in, bytes_in, packets_out, bytes_out) =
        (c.packets_in, c.bytes_in, c.packets_out, c.bytes_out);
    LinkSample {
        packets_in,
        bytes_in,
        packets_out,
        bytes_out,
        drops,
        marks,
        ..LinkSample::default()
    }
}
