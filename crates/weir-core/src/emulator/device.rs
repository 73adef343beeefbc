//! The passage of packets through a link with a device between scheduler and wire.

use alloc::boxed::Box;

use super::context::{Context, drop_inside};
use super::engine::Emulator;
use super::link::Link;
use crate::config::LinkConfig;
use crate::device::{self, Device, DeviceStats, DeviceView, bytes};
use crate::packet::{LabelThenStart, Packet, PacketId, Pool};
use crate::sched::Scheduler;
use crate::stats::{DropReason, LinkStats};
use crate::units::Nanos;

impl Emulator {
    /// The state of the device of instance `number`; `None` without a device.
    pub fn device_of(&self, number: u32) -> Option<DeviceView> {
        self.links.get(number)?.device.as_ref().map(|device| device.view())
    }

    /// Permits the gated device ([`crate::device::DeviceConfig::gated`]) of link `id` to pass its
    /// next packet to the wire. Permits do not add up: several calls before the device passes a
    /// packet count as one. No effect on links with masks.
    pub fn permit(&mut self, now: Nanos, id: u16) {
        let template = self.templates.get(usize::from(id)).and_then(Option::as_ref);
        let Some(number) = template.and_then(|template| template.single) else { return };
        self.steps.begin_call(now);
        if let Some((state, mut context)) = self.at(number) {
            state.device.iter_mut().for_each(|device| device.permit());
            state.serve_free_wire(now, &mut context);
        }
        self.reschedule(number);
    }

    /// Serves the device of instance `number`, if it has one.
    pub(super) fn serve_device_of(&mut self, now: Nanos, number: u32) {
        if let Some((state, mut context)) =
            self.at(number).filter(|(state, _)| state.device.is_some())
        {
            state.serve_free_wire(now, &mut context);
        }
    }
}

impl Link {
    /// The time of the next event at the wire, in the device or in the scheduler.
    pub(super) fn device_event(&self) -> Nanos {
        let wire = self.wire.map_or(Nanos::MAX, |wire| wire.done);
        let Some(device) = &self.device else { return wire };
        let scheduler = if device.wants() && !self.scheduler.is_empty() {
            self.scheduler.next_event()
        } else {
            None
        };
        wire.min(device.next_event()).min(scheduler.unwrap_or(Nanos::MAX))
    }

    /// Takes the packet off the wire if its transmission has ended, and serves the device.
    pub(super) fn advance_device(&mut self, at: Nanos, context: &mut Context<'_>) {
        if let Some(wire) = self.wire.take_if(|wire| wire.done <= at) {
            if !wire.in_delay_line {
                self.cross(at, wire, context);
            }
            self.device.iter_mut().for_each(|device| device.sent(at));
        }
        self.serve_device(at, context);
    }

    /// Moves packets from the scheduler through the device to the wire, as far as possible at
    /// `now`.
    pub(super) fn serve_device(&mut self, now: Nanos, context: &mut Context<'_>) {
        let Some(mut device) = self.device.take() else { return self.serve(now, context) };
        loop {
            device.advance(now, context.pool);
            while let Some((packet, stage)) = device.pop_dropped() {
                drop_at_stage(now, packet, stage, context);
            }
            if self.wire.is_none() && self.start_next(now, &mut device, context) {
                continue;
            }
            if !device.wants()
                || self.scheduler.is_empty()
                || !self.fetch(now, &mut device, context)
            {
                break;
            }
        }
        let kept_back = || !self.scheduler.is_empty() && !device.wants();
        let starved = self.wire.is_none() && (!device.is_empty() || kept_back());
        let (starved_for, begins) = device.note_starved(now, starved);
        if starved_for > Nanos::ZERO || begins {
            let stats = device_stats(&mut context.template.stats);
            stats.starved_ns += starved_for.0;
            stats.starved += u64::from(begins);
        }
        if device.is_leaving() && device.is_empty() {
            self.set_effects(&context.template.link);
            return self.serve_next(now, context);
        }
        self.device = Some(device);
    }

    /// Starts the device's next packet on the free wire. Returns `false` if the device has no
    /// packet in its ring, or may not pass it yet.
    fn start_next(&mut self, now: Nanos, device: &mut Device, context: &mut Context<'_>) -> bool {
        let Some(id) = device.take_for_wire(now, context.pool) else { return false };
        let packet = context.pool.get_mut(id);
        packet.label_then_start = LabelThenStart::started(now);
        device_stats(&mut context.template.stats)
            .start(bytes(packet), now.since(packet.dequeued).0);
        let &mut Packet { len, segments, .. } = packet;
        let wire = self.launch(now, id, len, segments, context);
        if wire.done > now {
            self.wire = Some(wire);
        } else {
            self.cross(now, wire, context);
            device.sent(now);
        }
        true
    }

    /// Moves a packet from the scheduler to the device. Returns whether there was one.
    fn fetch(&mut self, now: Nanos, device: &mut Device, context: &mut Context<'_>) -> bool {
        let id = self.scheduler.dequeue(now, context.pool);
        self.drop_refused(now, context);
        let Some(id) = id else { return false };
        let dropped = context.leaves_queue(now, id);
        let packet = context.pool.get_mut(id);
        packet.dequeued = now;
        if let Some(reason) = dropped {
            drop_inside(now, id, reason, context);
            return true;
        }
        let stats = &mut context.template.stats;
        stats.queue_ns.record(now.since(packet.arrived).0);
        device_stats(stats).enter(bytes(packet));
        device.give(now, context.pool, id);
        true
    }

    /// Configures the device: creates it, changes it, or lets its packets go to the wire before it
    /// is removed.
    pub(super) fn configure_device(&mut self, now: Nanos, pool: &mut Pool, config: &LinkConfig) {
        match (&mut self.device, &config.device) {
            (Some(device), Some(config)) => device.configure(now, pool, config),
            (Some(device), None) => device.leave(now, pool),
            (None, config) => self.device = device::make(now, config.as_ref()),
        }
    }

    /// Drops the packets in the device of a link that is removed.
    pub(super) fn drop_device_packets(&mut self, now: Nanos, context: &mut Context<'_>) {
        let Some(mut packets) = self.device.as_mut().map(|device| device.drain(context.pool))
        else {
            return;
        };
        while let Some(id) = packets.pop_front(context.pool) {
            let packet = context.pool.get(id);
            let inside = now.since(packet.dequeued);
            let stats = device_stats(&mut context.template.stats);
            stats.leave(bytes(packet), inside.0);
            drop_inside(now, id, DropReason::NoSuchPipe, context);
        }
    }
}

/// The statistics of the devices of all instances, allocated when the first packet reaches a
/// device.
#[inline]
fn device_stats(stats: &mut LinkStats) -> &mut DeviceStats {
    #[cold]
    #[inline(never)]
    fn make() -> Box<DeviceStats> {
        Box::default()
    }
    stats.device.get_or_insert_with(make)
}

fn drop_at_stage(now: Nanos, id: PacketId, stage: usize, context: &mut Context<'_>) {
    let packet = context.pool.get(id);
    device_stats(&mut context.template.stats).drop_at(
        stage,
        bytes(packet),
        now.since(packet.dequeued).0,
    );
    drop_inside(now, id, DropReason::DeviceFull, context);
}
