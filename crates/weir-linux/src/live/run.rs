//! A worker: the loop itself, on one thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use weir_core::config::{LinkConfig, PipeConfig};
use weir_core::{Departure, Emulator, Nanos};
use weir_rules::classify::Classifier;

use super::awake::Awake;
use super::commands::{Change, Command, Inbox};
use super::config::{LiveConfig, LiveError, Realtime};
use super::egress::{Engine, Outlet};
use super::exchange::Exchange;
use super::forwarding::{Forwarding, Strays};
use super::ingress::ETHERNET_HEADER;
use super::lane::Lane;
use super::observe::Sample;
use super::pace::{Pacer, REST, Wait};
use super::report::{
    Arrivals, LaneReport, LiveEvent, LiveReport, RuleCount, StopReason, merge_rules,
};
use super::rules::Rules;
use super::team::Shared;
use crate::arena::Arena;
use crate::clock;
use crate::port::{Fault, Ingress, Losses};
use crate::sys::thread::{self, Policy};

/// A worker: made on any thread, run on the one that calls [`Worker::run`].
pub(super) struct Worker {
    /// Its number, from 0.
    number: usize,
    shared: Arc<Shared>,
    pub(super) engine: Engine,
    outlets: Vec<Outlet>,
    /// The lane that each port feeds.
    lane_of: Vec<Option<u16>>,
    /// Decides instead, where there is one.
    forwarding: Option<Forwarding>,
    strays: Strays,
    inbox: Inbox,
    pacer: Pacer,
    awake: Awake,
    realtime: Realtime,
    has_realtime: bool,
    /// Some pipe has a rate or a delay.
    keeps_time: bool,
    /// The thread's policy without real-time priority, where it may have that.
    usual: Option<Policy>,
    /// Since when there has always been a frame to take, if there has.
    busy_since: Option<Nanos>,

    cpu: Option<usize>,
    stop_when_port_vanishes: bool,
    sample_period: Nanos,
    next_sample: Nanos,
    next_refresh: Nanos,
    started: Nanos,
    events: Vec<LiveEvent>,
    losses: Vec<Losses>,
    departures: Vec<Departure>,
    received: Vec<Ingress>,
}

impl Worker {
    /// Makes worker `number` with its pipes from a configuration that has been checked; nothing
    /// moves before [`Worker::run`].
    pub(super) fn new(
        config: LiveConfig,
        number: usize,
        shared: Arc<Shared>,
        inbox: Inbox,
        exchange: Option<Exchange>,
    ) -> Self {
        let mut lane_of = vec![None; config.ports.len()];
        for (index, lane) in config.lanes.iter().enumerate() {
            lane_of[lane.from] = Some(index as u16);
        }
        let now = clock::now();
        let engine = Engine {
            emulator: Emulator::new(config.seed, config.limits),
            arena: Arena::new(config.memory),
            lanes: config.lanes.into_iter().map(Lane::new).collect(),
            exchange,
            way_out: Vec::new(),
            refused: Vec::new(),
            watching: config.observer.as_ref().is_some_and(|observer| observer.wants_frames()),
            observer: config.observer,
            needs_key: config.rules.as_ref().is_some_and(|rules| rules.needs_key()),
            rules: config.rules.map(|rules| Rules::new(rules, shared.state(number))),
            sketch: Vec::new(),
        };
        let mut worker = Self {
            number,
            shared,
            engine,
            losses: vec![Losses::default(); config.ports.len()],
            outlets: config.ports.into_iter().map(Outlet::new).collect(),
            lane_of,
            forwarding: config.forwarding,
            strays: Strays::default(),
            inbox,
            pacer: Pacer::new(config.spin),
            awake: Awake::off(),
            realtime: config.realtime,
            has_realtime: false,
            keeps_time: false,
            usual: None,
            busy_since: None,
            cpu: config.cpu,
            stop_when_port_vanishes: config.stop_when_port_vanishes,
            sample_period: config.sample_period,
            next_sample: now,
            next_refresh: Nanos::ZERO,
            started: now,
            events: Vec::new(),
            departures: Vec::new(),
            received: Vec::new(),
        };
        for (id, pipe) in &config.pipes {
            worker.set_pipe(now, *id, pipe);
        }
        worker
    }

    /// The engine, to configure it.
    pub(super) fn engine_mut(&mut self) -> &mut Emulator {
        // Whatever is configured here may have a mask, and a rate.
        self.engine.needs_key = true;
        self.keeps_time = true;
        &mut self.engine.emulator
    }

    /// Forwards until `stop` is set, a handle asks to stop, another worker ends, or a port's
    /// interface disappears (where that is to end it).
    ///
    /// # Errors
    /// Waiting failed, which does not happen on a working system.
    pub(super) fn run(&mut self, stop: &AtomicBool) -> Result<LiveReport, LiveError> {
        self.prepare_thread();
        self.started = clock::now();
        self.next_sample = self.started;
        let result = self.turn_until(stop);
        self.set_realtime(false);
        let reason = result?;
        let now = clock::now();
        self.read_losses();
        self.sample(now);
        let engine = &self.engine.emulator;
        let pipes =
            engine.schedulers().filter_map(|id| Some((id, engine.stats(id)?.clone()))).collect();
        Ok(LiveReport { pipes, rules: self.rule_counts(), ..self.report(now, Some(reason)) })
    }

    fn turn_until(&mut self, stop: &AtomicBool) -> Result<StopReason, LiveError> {
        loop {
            if stop.load(Ordering::Relaxed) || self.shared.ended() {
                return Ok(StopReason::Asked);
            }
            let mut busy = false;
            for port in 0..self.outlets.len() {
                busy |= self.receive(port);
            }
            busy |= self.engine.collect();
            let mut now = clock::now();
            self.release(now);
            if let Some(reason) = self.note_faults(now) {
                return Ok(reason);
            }
            if self.obey(now) {
                return Ok(StopReason::Asked);
            }
            if now >= self.next_sample {
                self.housekeeping(now);
                now = clock::now();
            }
            self.note_load(now, busy);
            if self.has_realtime
                && self
                    .pacer
                    .must_rest(now, self.engine.emulator.next_event().unwrap_or(Nanos::MAX))
            {
                clock::sleep(REST);
                self.pacer.rested(clock::now());
            } else if !busy {
                self.wait(now)?;
            }
        }
    }

    /// Takes one batch from a port; gives whether there was anything.
    fn receive(&mut self, port: usize) -> bool {
        let outlet = &mut self.outlets[port];
        if outlet.fault.is_some_and(|fault| fault != Fault::Down) {
            return false;
        }
        let mut received = std::mem::take(&mut self.received);
        match outlet.port.receive(&mut self.engine.arena.pool, &mut received) {
            // A frame shows that an interface which was down is up.
            Ok(count) if count > 0 && outlet.fault == Some(Fault::Down) => outlet.fault = None,
            Ok(_) => {}
            Err(fault) => outlet.fault = Some(fault),
        }
        let any = !received.is_empty();
        if any {
            self.accept(port, &mut received);
        }
        self.received = received;
        any
    }

    /// Submits a batch. What is due meanwhile leaves meanwhile: a batch of trains may be thousands
    /// of packets.
    fn accept(&mut self, port: usize, received: &mut Vec<Ingress>) {
        let mut now = clock::now();
        self.awake.packets(now);
        let mut packets = 0u32;
        for frame in received.drain(..) {
            let Some(lane) = self.lane_for(port, &frame) else {
                self.strays.frames += 1;
                self.strays.bytes += frame.len.saturating_sub(ETHERNET_HEADER) as u64;
                self.engine.arena.pool.give(frame.buffer);
                continue;
            };
            let at = arrival_time(now, frame.arrived);
            packets += u32::from(self.engine.accept(at, lane, frame));
            if packets >= RELEASE_EVERY {
                packets = 0;
                now = clock::now();
                self.release(now);
            }
        }
    }

    /// The lane that a frame takes, if there is one for it.
    #[inline]
    fn lane_for(&self, port: usize, frame: &Ingress) -> Option<u16> {
        match &self.forwarding {
            None => self.lane_of[port],
            Some(forwarding) => forwarding
                .lane(port, frame.buffer.bytes().get(frame.start..frame.start + frame.len)?),
        }
    }

    /// Sends what is due at `now`.
    fn release(&mut self, now: Nanos) {
        self.engine.send_way_out(&mut self.outlets);
        loop {
            self.engine.emulator.poll(now, &mut self.departures);
            // What goes on through another pipe may be due there too.
            if !self.engine.dispatch(now, &mut self.departures, &mut self.outlets) {
                break;
            }
        }
        if let Some(exchange) = &mut self.engine.exchange {
            exchange.wake_peers();
        }
        for outlet in &mut self.outlets {
            if outlet.has_waiting() {
                self.engine.flush(outlet);
            }
        }
    }

    /// Waits for a frame, an event of the engine, a command or the next sample.
    fn wait(&mut self, now: Nanos) -> Result<(), LiveError> {
        let idle = now.saturating_add(IDLE);
        let mut next =
            self.engine.emulator.next_event().unwrap_or(idle).min(idle).min(self.next_sample);
        let blocked = self.outlets.iter().any(|outlet| outlet.blocked);
        if blocked {
            next = next.min(now.saturating_add(RETRY));
        }
        let until = match self.pacer.plan(now, next) {
            Wait::Spin => {
                std::hint::spin_loop();
                return Ok(());
            }
            Wait::Sleep(until) => until,
        };
        let span = until.since(now);
        let timeout = Timespec {
            tv_sec: (span.0 / 1_000_000_000) as i64,
            tv_nsec: (span.0 % 1_000_000_000) as i64,
        };
        let mut descriptors = Vec::with_capacity(self.outlets.len() + 1);
        descriptors.push(PollFd::new(&*self.inbox.wake, PollFlags::IN));
        for outlet in &self.outlets {
            if outlet.fault.is_none_or(|fault| fault == Fault::Down) {
                descriptors.push(PollFd::new(&outlet.port, PollFlags::IN));
            }
        }
        if self.engine.exchange.as_ref().is_some_and(|exchange| !exchange.fall_asleep()) {
            return Ok(());
        }
        let outcome = poll(&mut descriptors, Some(&timeout));
        let woke = clock::now();
        let called = !descriptors[0].revents().is_empty();
        if let Some(exchange) = &self.engine.exchange {
            exchange.awake();
            if called {
                // By another worker, or for a command: those are looked for in any case.
                self.inbox.acknowledge();
            }
        }
        if woke.since(now) >= REST {
            self.pacer.rested(woke);
        }
        self.awake.slept(woke, woke.since(now));
        self.note_sleep(woke.since(now));
        match outcome {
            Ok(0) => self.pacer.overslept(until, woke),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(LiveError::System { what: "waiting for frames", errno }),
        }
        Ok(())
    }

    /// Does what handles ask for; gives whether that is to stop.
    fn obey(&mut self, now: Nanos) -> bool {
        while let Ok(command) = self.inbox.commands.try_recv() {
            self.inbox.acknowledge();
            match command {
                Command::SetPipe(id, config, answer) => {
                    self.set_pipe(now, id, &config);
                    let _ = answer.send(());
                }
                Command::Rules(rules, change, answer) => {
                    let old = self.set_rules(now, rules, &change);
                    let _ = answer.send(old);
                }
                Command::RuleCounts(answer) => {
                    let _ = answer.send(self.rule_counts());
                }
                Command::ZeroRules(ids, answer) => {
                    if let Some(rules) = &mut self.engine.rules {
                        rules.state.zero(ids.as_deref());
                    }
                    let _ = answer.send(());
                }
                Command::Dynamic(answer) => {
                    let _ = answer.send(self.shared.dynamic_rules(now));
                }
                Command::Port(port, new, answer) => {
                    self.outlets[port].replace(*new);
                    let _ = answer.send(());
                }
                Command::Engine(work) => {
                    self.engine.needs_key = true;
                    work(&mut self.engine.emulator, now);
                }
                Command::Arrivals(answer) => {
                    let _ = answer.send(
                        self.engine.lanes.iter().map(|lane| Arrivals::of(&lane.counters)).collect(),
                    );
                }
                Command::Report(answer) => {
                    self.read_losses();
                    // Who asked may have gone.
                    let _ = answer.send(self.report(now, None));
                }
                Command::Stop => return true,
            }
        }
        false
    }

    fn set_pipe(&mut self, now: Nanos, id: u16, config: &PipeConfig) {
        self.keeps_time |= config.link != LinkConfig::default();
        let classifies = config.queue.aqm.is_some_and(|policy| policy.row().classifies);
        self.engine.needs_key |= classifies || !config.queue.mask.is_empty();
        self.engine.emulator.set_pipe(now, id, config);
    }

    /// Changes engine and rules between two packets; gives the rules that were in force.
    fn set_rules(
        &mut self,
        now: Nanos,
        classifier: Arc<Classifier>,
        change: &Change,
    ) -> Option<Arc<Classifier>> {
        change(&mut self.engine.emulator, now);
        self.engine.needs_key = true;
        self.keeps_time = true;
        if let Some(rules) = &mut self.engine.rules {
            return Some(rules.replace(classifier));
        }
        self.engine.rules = Some(Rules::new(classifier, self.shared.state(self.number)));
        None
    }

    fn rule_counts(&self) -> Vec<RuleCount> {
        let Some(rules) = &self.engine.rules else { return Vec::new() };
        merge_rules(vec![
            rules.state.counters().map(|(id, counters)| RuleCount { id, counters }).collect(),
        ])
    }

    /// Writes down what newly ails the ports; gives the reason to stop, if that is one.
    fn note_faults(&mut self, now: Nanos) -> Option<StopReason> {
        let mut reason = None;
        for (port, outlet) in self.outlets.iter_mut().enumerate() {
            let Some(fault) = outlet.fault.filter(|&fault| Some(fault) != outlet.noted) else {
                continue;
            };
            outlet.noted = Some(fault);
            let event =
                LiveEvent { at: now, port, interface: outlet.port.name().to_owned(), fault };
            if let Some(observer) = &mut self.engine.observer {
                observer.on_event(&event);
            }
            if self.events.len() == MOST_EVENTS {
                self.events.remove(0);
            }
            self.events.push(event);
            if fault == Fault::Vanished && self.stop_when_port_vanishes {
                reason = Some(StopReason::PortVanished(port));
            }
        }
        reason
    }

    fn housekeeping(&mut self, now: Nanos) {
        self.sample(now);
        if now >= self.next_refresh {
            self.next_refresh = now.saturating_add(REFRESH);
            for outlet in &mut self.outlets {
                outlet.port.refresh();
            }
        }
        let period = if self.engine.observer.is_some() { self.sample_period } else { IDLE };
        self.next_sample = self.next_sample.saturating_add(period).max(now);
    }

    fn sample(&mut self, at: Nanos) {
        let Engine { observer, lanes, emulator, rules, .. } = &mut self.engine;
        let Some(observer) = observer else { return };
        let queue_of = |lane: &Lane| {
            if rules.is_none() { emulator.queue_length(lane.config.pipe) } else { lane.inside() }
        };
        self.shared.sample(
            self.number,
            lanes.iter().map(|lane| (lane.counters.clone(), queue_of(lane))),
            |index, (counters, queue)| {
                let (queue_packets, queue_bytes) = *queue;
                observer.on_sample(&Sample {
                    lane: index,
                    at,
                    counters,
                    queue_packets,
                    queue_bytes,
                });
            },
        );
    }

    fn read_losses(&mut self) {
        for (losses, outlet) in self.losses.iter_mut().zip(&mut self.outlets) {
            *losses = outlet.losses();
        }
    }

    /// The results but for those of rules and pipes.
    fn report(&self, at: Nanos, stopped: Option<StopReason>) -> LiveReport {
        let lanes = self.engine.lanes.iter().map(|lane| self.lane_report(lane)).collect();
        LiveReport {
            started: self.started,
            at,
            lanes,
            events: self.events.clone(),
            realtime: self.has_realtime,
            spin_margin: self.pacer.margin(),
            stopped,
            workers: 1,
            rules: Vec::new(),
            pipes: Vec::new(),
            unrouted: self.engine.emulator.unrouted(),
            strays: self.strays,
        }
    }

    fn lane_report(&self, lane: &Lane) -> LaneReport {
        let mut counters = lane.counters.clone();
        // What only the engine can know.
        if let Some(stats) = self.engine.emulator.stats(lane.config.pipe) {
            counters.reordered = stats.counters.reordered;
            counters.peak_queue_packets = stats.counters.peak_queue_packets;
        }
        let losses = self.losses[lane.config.from];
        LaneReport {
            name: lane.config.name.clone(),
            from: self.outlets[lane.config.from].port.name().to_owned(),
            to: self.outlets[lane.config.to].port.name().to_owned(),
            pipe: lane.config.pipe,
            counters,
            queue_ns: lane.queue_ns.clone(),
            total_ns: lane.total_ns.clone(),
            lateness: lane.lateness.clone(),
            late_1ms: lane.late_1ms,
            rx_kernel_drops: losses.kernel_drops,
            rx_unreadable: losses.unreadable,
            passed: lane.passed,
        }
    }

    /// Makes this thread fit for its work as far as it is allowed.
    fn prepare_thread(&mut self) {
        let _ = thread::exact_timers();
        if let Some(cpu) = self.cpu {
            let _ = thread::pin(cpu);
        }
        if self.realtime == Realtime::Off {
            return;
        }
        self.awake = Awake::when_allowed();
        self.usual = Policy::current().ok().filter(|_| Policy::realtime(PRIORITY).apply().is_ok());
        self.has_realtime = self.usual.is_some();
        self.set_realtime(self.keeps_time);
    }

    /// Takes real-time priority, or gives it up.
    fn set_realtime(&mut self, on: bool) {
        let Some(usual) = self.usual.filter(|_| on != self.has_realtime) else { return };
        let policy = if on { Policy::realtime(PRIORITY) } else { usual };
        if policy.apply().is_ok() {
            self.has_realtime = on;
        }
    }

    /// Takes note at `now` of whether there were frames. A link that only passes frames on has no
    /// time to keep; with priority it would run where it is woken and push aside the very programs
    /// it serves, and a round trip would be longer by 60 us and more. But when frames come faster
    /// than it takes them, it must not lose its processor to those who send them.
    fn note_load(&mut self, now: Nanos, busy: bool) {
        if !busy {
            return;
        }
        let since = *self.busy_since.get_or_insert(now);
        if now.since(since) >= OVERLOADED {
            self.set_realtime(true);
        }
    }

    /// Takes note of a sleep: a short one is a pause, a long one the end of the load.
    fn note_sleep(&mut self, slept: Nanos) {
        if slept >= PAUSE {
            self.busy_since = None;
        }
        if slept >= UNLOADED && !self.keeps_time {
            self.set_realtime(false);
        }
    }
}

/// When a frame that is read at `now` came in. A time that cannot be (the wall clock was set)
/// counts as now.
///
/// A delay counts from here: that the loop had to be woken first, or was busy, does not make the
/// emulated link longer.
fn arrival_time(now: Nanos, arrived: Option<Nanos>) -> Nanos {
    arrived.filter(|&at| at <= now && now.since(at) <= LONGEST_UNREAD).unwrap_or(now)
}

/// A loop that has had frames to take for so long without a pause does not keep up.
const OVERLOADED: Nanos = Nanos::from_micros(300);
/// Events that a report has at most: an interface may come and go for years.
const MOST_EVENTS: usize = 100;
/// A sleep as long as this is one: falling asleep and waking take less.
const PAUSE: Nanos = Nanos::from_micros(10);
/// After a sleep of this length the load is over.
const UNLOADED: Nanos = Nanos::from_millis(1);
/// A frame does not wait longer than this to be read, unless the machine stood still.
const LONGEST_UNREAD: Nanos = Nanos::from_millis(100);

/// Packets after which a batch is interrupted to send what is due: some 30 us of work.
const RELEASE_EVERY: u32 = 256;
/// Longest sleep: how soon a stop flag is seen.
const IDLE: Nanos = Nanos::from_millis(100);
/// Time between two looks at the interfaces.
const REFRESH: Nanos = Nanos::from_secs(1);
/// How soon a port that took nothing is tried again.
const RETRY: Nanos = Nanos::from_micros(50);
/// The least real-time priority: above every ordinary thread, below every other real-time one.
const PRIORITY: i32 = 1;
