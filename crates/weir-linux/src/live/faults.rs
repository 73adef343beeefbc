//! The events of a worker's ports, such as an interface that goes down.

use std::collections::VecDeque;

use weir_core::Nanos;

use super::ports::Ports;
use super::report::{LiveEvent, StopReason};
use super::tap::Tap;
use crate::port::Fault;

#[derive(Debug)]
pub(super) struct Faults {
    events: VecDeque<LiveEvent>,
    stop_when_port_vanishes: bool,
}

impl Faults {
    pub(super) fn new(stop_when_port_vanishes: bool) -> Self {
        Self { events: VecDeque::new(), stop_when_port_vanishes }
    }

    /// The latest events, the oldest first.
    pub(super) fn events(&self) -> Vec<LiveEvent> {
        self.events.iter().cloned().collect()
    }

    /// Records the ports' new faults, and passes them to `tap`. Returns the reason to stop if one
    /// of the faults ends the loop.
    #[inline]
    pub(super) fn note(
        &mut self,
        now: Nanos,
        ports: &mut Ports,
        mut tap: Option<&mut Tap>,
    ) -> Option<StopReason> {
        let mut reason = None;
        while let Some((index, fault)) = ports.next_fault() {
            let interface = ports.port(index).name().to_owned();
            let event = LiveEvent { at: now, port: index, interface, fault };
            if let Some(tap) = &mut tap {
                tap.event(&event);
            }
            if self.events.len() == MAX_EVENTS {
                self.events.pop_front();
            }
            self.events.push_back(event);
            if fault == Fault::Vanished && self.stop_when_port_vanishes {
                reason = Some(StopReason::PortVanished(index));
            }
        }
        reason
    }
}

/// Maximum number of events in a report. The limit bounds the memory, because an interface may go
/// down and up for years.
const MAX_EVENTS: usize = 100;
