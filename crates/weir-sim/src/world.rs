//! The world: a network, its endpoints, and the event loop that runs them.
//!
//! **Order.** Events happen in order of time. At the same time, the engine's links come first, in
//! the order of their numbers, then plain ports, then endpoints, each in the order of their
//! numbers. The immediate consequences of an event happen before the next event: first starts of
//! flows, then arrivals of packets, then reports that a packet has left its host, and then notices,
//! each in the order in which they were caused. If a packet passes several ports in one step
//! ([`crate::network`]), only the last of them has an event. Nothing else affects the order:
//! neither addresses in memory nor threads nor the machine.

use weir_core::Nanos;

use crate::endpoint::{Context, Endpoint, EndpointId, Newborn};
use crate::measure::{Meter, RunSeries, Settings};
use crate::network::{FlowSpec, NO_ENDPOINT, Network, Observer};
use crate::packet::{FlowId, Packet};

/// A network with its endpoints.
#[derive(Debug)]
pub struct World {
    network: Network,
    endpoints: Vec<Place>,
    /// Endpoints of newly opened flows, to be placed next.
    born: Vec<Newborn>,
    started: bool,
    meter: Option<Meter>,
    /// When to call the meter or the observer next.
    next_tick: Nanos,
}

/// An endpoint and the time of its next event.
#[derive(Debug)]
struct Place {
    endpoint: Box<dyn Endpoint>,
    announced: Nanos,
}

impl World {
    /// Makes a world from a network with all its ports.
    pub fn new(network: Network) -> Self {
        Self {
            network,
            endpoints: Vec::new(),
            born: Vec::new(),
            started: false,
            meter: None,
            next_tick: Nanos::MAX,
        }
    }

    /// Adds a flow and its endpoints, which start when the world first runs.
    pub fn add_flow(
        &mut self,
        spec: &FlowSpec,
        source: Box<dyn Endpoint>,
        sink: Box<dyn Endpoint>,
    ) -> FlowId {
        let ids = [self.add_endpoint(source), self.add_endpoint(sink)];
        self.network.add_flow(spec, ids[0], ids[1])
    }

    /// The number of the next flow to be added, which its endpoints need.
    pub fn next_flow(&self) -> FlowId {
        self.network.next_flow()
    }

    /// Adds an endpoint without a flow, for instance one that makes flows.
    pub fn add_endpoint(&mut self, endpoint: Box<dyn Endpoint>) -> EndpointId {
        let id = self.reserve_endpoint();
        self.place(id, endpoint);
        id
    }

    /// Reserves the number of an endpoint that [`Self::fill_endpoint`] adds later, so that other
    /// endpoints can refer to it.
    pub fn reserve_endpoint(&mut self) -> EndpointId {
        let id = self.network.next_endpoint();
        self.place(id, Box::new(Absent));
        id
    }

    /// Adds the endpoint with a reserved number.
    pub fn fill_endpoint(&mut self, id: EndpointId, endpoint: Box<dyn Endpoint>) {
        self.place(id, endpoint);
    }

    /// Adds a template. It sends no packets, but [`Context::open`] makes flows like it.
    pub fn add_template(&mut self, spec: &FlowSpec) -> FlowId {
        let flow = self.network.add_flow(spec, NO_ENDPOINT, NO_ENDPOINT);
        self.network.count(flow).opened -= 1;
        flow
    }

    /// Sets the observer of all events from now on. It replaces an earlier observer.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.network.observer = Some(observer);
        self.set_next_tick();
    }

    /// Records time series from now on, in a run that ends at `end`.
    pub fn measure(&mut self, settings: Settings, end: Nanos) {
        self.meter = Some(Meter::new(settings, &self.network, end));
        self.set_next_tick();
    }

    /// Sets counters to zero at the end of the warm-up. Time series continue.
    pub fn zero(&mut self) {
        if let Some(meter) = &mut self.meter {
            meter.before_zero(&mut self.network);
        }
        if let Some(observer) = &mut self.network.observer {
            observer.zero();
        }
        self.network.zero();
    }

    /// Ends the time series and returns them, with the largest number of packets in the queues of
    /// each port since counters were set to zero. Returns `None` if no time series were recorded.
    pub(crate) fn take_series(&mut self) -> Option<(RunSeries, Vec<u64>)> {
        let meter = self.meter.take()?;
        self.set_next_tick();
        Some(meter.finish(&mut self.network))
    }

    fn set_next_tick(&mut self) {
        let observer =
            self.network.observer.as_ref().map_or(Nanos::MAX, |observer| observer.next_tick());
        self.next_tick = self.meter.as_ref().map_or(Nanos::MAX, Meter::next).min(observer);
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The network, for reading queues or setting counters to zero.
    pub fn network_mut(&mut self) -> &mut Network {
        &mut self.network
    }

    /// Number of events handled.
    pub fn events(&self) -> u64 {
        self.network.handled
    }

    /// Runs until `end`, inclusive. The first run starts the endpoints.
    pub fn run(&mut self, end: Nanos) {
        self.network.join();
        self.network.set_horizon(end.min(self.next_tick));
        if !self.started {
            self.started = true;
            for number in 0..self.endpoints.len() {
                self.call(EndpointId(number as u32), |endpoint, context| endpoint.start(context));
            }
            self.settle();
        }
        loop {
            let engine = self.network.engine_event();
            let agenda = self.network.agenda.earliest();
            let at = engine.min(agenda).max(self.network.now());
            if self.next_tick <= at.min(end) {
                self.tick();
                self.network.set_horizon(end.min(self.next_tick));
                continue;
            }
            if at > end || at == Nanos::MAX {
                break;
            }
            self.network.set_now(at);
            if engine <= agenda {
                self.network.run_engine();
            } else {
                let number = self.network.agenda.next();
                match number.checked_sub(self.network.ports()) {
                    None => {
                        if let Some(packet) = self.network.run_plain(number) {
                            self.deliver(packet);
                        }
                    }
                    Some(endpoint) => {
                        self.network.handled += 1;
                        self.call(EndpointId(endpoint), |endpoint, context| endpoint.wake(context));
                    }
                }
            }
            if self.network.unsettled {
                self.settle();
            }
        }
        // No event happens at `Nanos::MAX`, which means never.
        self.network.catch_up(end.min(Nanos(u64::MAX - 1)));
        if end != Nanos::MAX {
            self.network.set_now(end);
        }
    }

    /// Starts new endpoints, and delivers packets, reports and notices until there are no more.
    #[inline]
    fn settle(&mut self) {
        loop {
            if !self.born.is_empty() {
                self.bear();
            } else if let Some(packet) = self.network.next_arrived() {
                self.deliver(packet);
            } else if let Some((to, packet)) = self.network.left_host.pop_front() {
                self.call(to, |endpoint, context| endpoint.left_host(&packet, context));
            } else if let Some((to, flow, notice)) = self.network.notices.pop_front() {
                self.call(to, |endpoint, context| endpoint.notice(flow, notice, context));
            } else {
                self.network.unsettled = false;
                return;
            }
        }
    }

    #[inline]
    fn deliver(&mut self, number: u32) {
        let packet = self.network.take(number);
        let to = self.network.count_arrived(&packet);
        if self.network.counts_waits() {
            self.network.count_wait(number, &packet);
        }
        self.call(to, |endpoint, context| endpoint.receive(&packet, context));
        self.network.finish(&packet);
    }

    /// Places the endpoints of flows that have been opened, then starts them in that order.
    #[cold]
    fn bear(&mut self) {
        let born = std::mem::take(&mut self.born);
        let ids: Vec<EndpointId> = born.iter().map(|&(id, _)| id).collect();
        for (id, endpoint) in born {
            self.place(id, endpoint);
        }
        for id in ids {
            self.call(id, |endpoint, context| endpoint.start(context));
        }
    }

    #[inline]
    fn call(&mut self, id: EndpointId, what: impl FnOnce(&mut dyn Endpoint, &mut Context<'_>)) {
        let Some(slot) = self.endpoints.get_mut(id.0 as usize) else { return };
        what(
            &mut *slot.endpoint,
            &mut Context { network: &mut self.network, born: &mut self.born, me: id },
        );
        let next = slot.endpoint.next_event();
        if next != slot.announced {
            slot.announced = next;
            self.network.agenda.set(self.network.ports() + id.0, next);
        }
    }

    fn place(&mut self, id: EndpointId, endpoint: Box<dyn Endpoint>) {
        let number = id.0 as usize;
        while self.endpoints.len() <= number {
            self.endpoints.push(Place { endpoint: Box::new(Absent), announced: Nanos::MAX });
        }
        self.endpoints[number] = Place { endpoint, announced: Nanos::MAX };
        // The endpoint that had the number before may still be in the agenda.
        self.network.agenda.set(self.network.ports() + id.0, Nanos::MAX);
    }

    fn tick(&mut self) {
        let now = self.next_tick;
        self.network.set_now(now);
        // Meters and observers run before all other events of the same time.
        if now > Nanos::ZERO {
            self.network.catch_up(Nanos(now.0 - 1));
        }
        if let Some(meter) = self.meter.as_mut().filter(|meter| meter.next() <= now) {
            meter.tick(&mut self.network);
        }
        if let Some(mut observer) = self.network.observer.take() {
            if observer.next_tick() <= now {
                observer.tick(now, &mut self.network);
            }
            self.network.observer = Some(observer);
        }
        self.set_next_tick();
    }
}

/// Takes the place of an endpoint that does not exist yet.
#[derive(Debug)]
struct Absent;

impl Endpoint for Absent {
    fn receive(&mut self, _packet: &Packet, _context: &mut Context<'_>) {}
}
