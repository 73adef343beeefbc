//! A sink that passes everything on to several sinks.

use super::model::{Counters, Event, PacketEvent, Queue, QueueId, Run, Sink, Transmission};
use alloc::vec::Vec;

/// Passes everything on to several sinks, in their order.
pub struct Tee<'a>(pub Vec<&'a mut dyn Sink>);

impl Sink for Tee<'_> {
    fn appeared(&mut self, time: u64, id: QueueId, queue: &Queue) {
        self.0.iter_mut().for_each(|sink| sink.appeared(time, id, queue));
    }

    fn vanished(&mut self, time: u64, id: QueueId) {
        self.0.iter_mut().for_each(|sink| sink.vanished(time, id));
    }

    fn runs(&mut self, runs: &[Run]) {
        self.0.iter_mut().for_each(|sink| sink.runs(runs));
    }

    fn events(&mut self, events: &[Event]) {
        self.0.iter_mut().for_each(|sink| sink.events(events));
    }

    fn packets(&mut self, events: &[PacketEvent]) {
        self.0.iter_mut().for_each(|sink| sink.packets(events));
    }

    fn empty(&mut self, time: u64) {
        self.0.iter_mut().for_each(|sink| sink.empty(time));
    }

    fn lost(&mut self, time: u64, events: u64) {
        self.0.iter_mut().for_each(|sink| sink.lost(time, events));
    }

    fn counters(&mut self, time: u64, id: QueueId, counters: &Counters) {
        self.0.iter_mut().for_each(|sink| sink.counters(time, id, counters));
    }

    fn transmission(&mut self, time: u64, queues: &[Transmission]) {
        self.0.iter_mut().for_each(|sink| sink.transmission(time, queues));
    }

    fn remark(&mut self, time: u64, text: &str) {
        self.0.iter_mut().for_each(|sink| sink.remark(time, text));
    }
}
