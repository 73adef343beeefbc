//! A worker: the live loop on one thread.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_core::config::{LinkConfig, PipeConfig};
use weir_core::stats::LateCauses;
use weir_core::{Emulator, Nanos};
use weir_rules::classify::Classifier;

use super::awake::{Awake, LatencyRequests};
use super::commands::{Change, Command, Inbox};
use super::config::{LiveConfig, LiveError};
use super::effort::Effort;
use super::emulation::Emulation;
use super::entry::Entry;
use super::exchange::Exchange;
use super::faults::Faults;
use super::intake::{Intake, arrival_time};
use super::lane::Lane;
use super::live_port::LivePort;
use super::pace::{Pacer, REST, Wait};
use super::packets::Packets;
use super::ports::Ports;
use super::priority::Priority;
use super::report::{Arrivals, LaneReport, LiveReport, RuleCount, StopReason, merge_rules};
use super::rules::Rules;
use super::secret::lookup_key;
use super::shared::Shared;
use super::tap::{LaneSample, Tap};
use super::watch::Woken;
use crate::clock;
use crate::port::{Ingress, Losses};

/// A worker. It is created on any thread, and runs on the thread that calls [`Worker::run`].
pub(super) struct Worker {
    number: usize,
    shared: Arc<Shared>,
    emulation: Emulation,
    ports: Ports,
    intake: Intake,
    inbox: Inbox,
    pacer: Pacer,
    effort: Effort,
    awake: Awake,
    latency_requests: LatencyRequests,
    priority: Priority,
    faults: Faults,
    cpu: Option<usize>,
    /// Time between two rounds of housekeeping.
    period: Nanos,
    next_housekeeping: Nanos,
    /// When the ports read the changeable properties of their interfaces again.
    next_refresh: Nanos,
    started: Nanos,
    /// The frames of one batch. Empty between two batches; a field only to reuse the memory.
    received: Vec<Ingress>,
}

impl Worker {
    /// Creates worker `number` with its pipes from a configuration that has been checked. It
    /// forwards nothing before [`Worker::run`].
    ///
    /// # Errors
    /// No descriptor is left.
    pub(super) fn new(
        config: LiveConfig,
        number: usize,
        shared: Arc<Shared>,
        inbox: Inbox,
        exchange: Option<Exchange>,
        tap: Option<Tap>,
    ) -> Result<Self, LiveError> {
        let now = clock::now();
        let count = config.ports.len();
        let ports = Ports::new(config.ports)
            .map_err(|errno| LiveError::System { what: "watching ports", errno })?;
        let intake = Intake::new(count, &config.lanes, config.forwarding);
        let period = if tap.is_some() { config.sample_period } else { IDLE };
        let lanes = config.lanes.into_iter().map(Lane::new).collect();
        let needs_key = config.rules.as_ref().is_some_and(|rules| rules.needs_key());
        let rules = config.rules.map(|rules| Rules::new(rules, shared.state(number)));
        let emulation = Emulation::new(
            Packets::new(config.memory, lanes, tap),
            Entry::new(
                Emulator::new(config.seed, config.limits).with_lookup_key(lookup_key()),
                exchange,
                needs_key,
            ),
            rules,
        );
        let mut worker = Self {
            number,
            shared,
            emulation,
            ports,
            intake,
            inbox,
            pacer: Pacer::new(config.spin),
            effort: Effort::default(),
            awake: Awake::off(),
            latency_requests: config.latency_requests,
            priority: Priority::new(config.realtime),
            faults: Faults::new(config.stop_when_port_vanishes),
            cpu: config.cpu,
            period,
            next_housekeeping: now,
            next_refresh: Nanos::ZERO,
            started: now,
            received: Vec::new(),
        };
        for (id, pipe) in &config.pipes {
            worker.set_pipe(now, *id, pipe);
        }
        Ok(worker)
    }

    /// The engine, for its configuration.
    pub(super) fn emulator_mut(&mut self) -> &mut Emulator {
        self.expect_any_configuration();
        self.emulation.emulator_mut()
    }

    pub(super) fn unobserved(&self) -> u64 {
        self.emulation.packets().unobserved()
    }

    /// Forwards until `stop` is set, a handle asks to stop, another worker ends, or a port's
    /// interface disappears (if that ends the loop).
    ///
    /// # Errors
    /// Waiting failed, which does not happen on a working system.
    pub(super) fn run(&mut self, stop: &AtomicBool) -> Result<LiveReport, LiveError> {
        if self.priority.prepare_thread(self.cpu) {
            self.awake = Awake::when_allowed(&mut self.latency_requests);
        }
        self.shared.progress()[self.number].of_this_thread();
        self.started = clock::now();
        self.effort.woke(self.started);
        self.next_housekeeping = self.started;
        let result = self.turn_until(stop).map(|reason| self.last_report(reason));
        // The last report says with which priority the loop ran.
        self.priority.give_up();
        result
    }

    fn last_report(&mut self, reason: StopReason) -> LiveReport {
        let now = clock::now();
        self.sample(now);
        self.publish();
        let emulator = self.emulation.emulator();
        let pipes = emulator
            .schedulers()
            .filter_map(|id| Some((id, emulator.stats(id)?.clone())))
            .collect();
        LiveReport { pipes, rules: self.rule_counts(), ..self.report(now, Some(reason)) }
    }

    fn turn_until(&mut self, stop: &AtomicBool) -> Result<StopReason, LiveError> {
        loop {
            if stop.load(Ordering::Relaxed) || self.shared.ended() {
                return Ok(StopReason::Asked);
            }
            self.inbox.count_turn();
            let mut busy = false;
            for _ in 0..self.ports.ready_count() {
                busy |= self.receive();
            }
            busy |= self.emulation.collect();
            let mut now = clock::now();
            let due = self.emulation.emulator().next_event().is_some_and(|event| event <= now);
            self.effort.turn(now, busy, due);
            self.emulation.release(now, &mut self.ports);
            let tap = self.emulation.packets_mut().tap_mut();
            if let Some(reason) = self.faults.note(now, &mut self.ports, tap) {
                return Ok(reason);
            }
            let obeyed = match self.inbox.next().map(|command| self.run_command(now, command)) {
                Some(Obeyed::Stop) => return Ok(StopReason::Asked),
                obeyed => obeyed.is_some(),
            };
            if now >= self.next_housekeeping {
                self.keep_house(now);
                now = clock::now();
            }
            self.priority.note_load(now, busy);
            // After a command, another one may already wait, so the next turn begins at once.
            self.wait(now, busy || obeyed)
                .map_err(|errno| LiveError::System { what: "waiting for frames", errno })?;
        }
    }

    /// Receives one batch from the next port that is ready; returns whether there were any frames.
    fn receive(&mut self) -> bool {
        let mut received = std::mem::take(&mut self.received);
        let port = self.ports.receive_next(self.emulation.packets_mut(), &mut received);
        let any = !received.is_empty();
        if let (Some(port), true) = (port, any) {
            self.accept(port, &mut received);
        }
        self.received = received;
        any
    }

    /// Submits a batch. A batch of trains may be thousands of packets, so packets that become due
    /// in the meantime are sent in between.
    fn accept(&mut self, port: usize, received: &mut Vec<Ingress>) {
        let mut now = clock::now();
        self.awake.packets(now);
        let mut packets = 0u32;
        for frame in received.drain(..) {
            let Some(lane) = self.intake.lane(port, &frame) else {
                self.emulation.packets_mut().pool().give(frame.buffer);
                continue;
            };
            let at = arrival_time(now, frame.arrived);
            packets += u32::from(self.emulation.accept(at, lane, frame));
            if packets >= RELEASE_EVERY {
                packets = 0;
                now = clock::now();
                self.emulation.release(now, &mut self.ports);
            }
        }
    }

    /// Waits for a frame, an event of the engine, a command or the next housekeeping. Does not wait
    /// if this turn had work to do. Also finds out which ports have become ready.
    fn wait(&mut self, now: Nanos, busy: bool) -> Result<(), rustix::io::Errno> {
        let event = self.emulation.emulator().next_event();
        if self.priority.is_realtime() && self.pacer.must_rest(now, event.unwrap_or(Nanos::MAX)) {
            self.effort.sleeps(clock::now());
            clock::sleep(REST);
            let woke = clock::now();
            self.effort.woke(woke);
            self.pacer.rested(woke);
            return self.ports.check_readiness(woke);
        }
        // After frames or parcels, more of them often follow. In this case sleeping costs more than
        // another turn.
        if busy || self.ports.any_ready() {
            return self.ports.check_readiness(now);
        }
        let idle = now.saturating_add(IDLE);
        let mut next = event.unwrap_or(idle).min(idle).min(self.next_housekeeping);
        if self.ports.any_blocked() {
            next = next.min(now.saturating_add(RETRY));
        }
        match self.pacer.plan(now, next) {
            Wait::Spin => {
                std::hint::spin_loop();
                self.ports.check_readiness(now)
            }
            // A parcel has arrived; the next turn accepts it.
            Wait::Sleep(_) if self.emulation.exchange().is_some_and(|ring| !ring.fall_asleep()) => {
                self.ports.check_readiness(now)
            }
            Wait::Sleep(until) => self.sleep(now, until),
        }
    }

    fn sleep(&mut self, now: Nanos, until: Nanos) -> Result<(), rustix::io::Errno> {
        self.effort.sleeps(clock::now());
        let woken = self.ports.sleep(self.inbox.wake().as_fd(), until.since(now));
        let woke = clock::now();
        self.effort.woke(woke);
        if let Some(exchange) = self.emulation.exchange() {
            exchange.awake();
        }
        let woken = woken?;
        if woken == Woken::OwnDescriptor {
            // Every turn checks for commands and for parcels, so the descriptor is only reset.
            self.inbox.acknowledge();
        }
        let slept = woke.since(now);
        if slept >= REST {
            self.pacer.rested(woke);
        }
        if woken == Woken::Timeout {
            self.pacer.overslept(until, woke);
        }
        self.awake.slept(woke, slept);
        self.priority.note_sleep(slept);
        Ok(())
    }

    /// Executes a command of a handle. A turn executes only one command, because packets wait
    /// meanwhile.
    fn run_command(&mut self, now: Nanos, command: Command) -> Obeyed {
        match command {
            Command::SetPipe(id, config, answer) => {
                self.set_pipe(now, id, &config);
                answer.send(config);
            }
            Command::Rules(rules, change, answer) => {
                let old = self.set_rules(now, rules, &change);
                answer.send(old);
            }
            Command::RuleCounts(answer) => {
                answer.send(self.rule_counts());
            }
            Command::ZeroRules(ids, answer) => {
                if let Some(rules) = self.emulation.rules_mut() {
                    rules.zero(ids.as_deref());
                }
                answer.send(());
            }
            Command::Dynamic(answer) => {
                answer.send(self.shared.dynamic_rules(now));
            }
            Command::Port(port, new, answer) => {
                self.ports.replace(port, *new);
                answer.send(());
            }
            Command::Engine(work) => {
                self.emulation.need_keys();
                work(self.emulation.emulator_mut(), now);
            }
            Command::Arrivals(answer) => {
                let lanes = self.emulation.packets().lanes();
                let arrivals = lanes.iter().map(|lane| Arrivals::of(lane.counters()));
                answer.send(arrivals.collect());
            }
            Command::Report(answer) => {
                answer.send(self.report(now, None));
            }
            Command::Mark(answer) => {
                if let Some(tap) = self.emulation.packets_mut().tap_mut() {
                    tap.mark(now, answer);
                }
            }
            Command::Stop => return Obeyed::Stop,
        }
        Obeyed::Continue
    }

    fn set_pipe(&mut self, now: Nanos, id: u16, config: &PipeConfig) {
        if config.link != LinkConfig::default() {
            self.priority.keep_time();
        }
        let classifies = config.queue.aqm.is_some_and(|policy| policy.row().traits.classifies)
            || config.scheduler.is_some_and(|scheduler| scheduler.row().traits.classifies);
        if classifies || !config.queue.mask.is_empty() {
            self.emulation.need_keys();
        }
        self.emulation.emulator_mut().set_pipe(now, id, config);
    }

    /// Changes the engine and then the rules. Returns the previous rules.
    fn set_rules(
        &mut self,
        now: Nanos,
        classifier: Arc<Classifier>,
        change: &Change,
    ) -> Option<Arc<Classifier>> {
        change(self.emulator_mut(), now);
        self.emulation.set_rules(classifier, || self.shared.state(self.number))
    }

    fn expect_any_configuration(&mut self) {
        self.emulation.need_keys();
        self.priority.keep_time();
    }

    fn rule_counts(&self) -> Vec<RuleCount> {
        let Some(rules) = self.emulation.rules() else { return Vec::new() };
        merge_rules(vec![
            rules.counters().map(|(id, counters)| RuleCount { id, counters }).collect(),
        ])
    }

    fn keep_house(&mut self, now: Nanos) {
        self.sample(now);
        self.publish();
        if now >= self.next_refresh {
            self.next_refresh = now.saturating_add(REFRESH);
            self.ports.iter_mut().for_each(LivePort::refresh);
        }
        self.next_housekeeping = self.next_housekeeping.saturating_add(self.period).max(now);
    }

    /// Publishes the numbers from which the observer's thread finds the causes of lateness.
    fn publish(&mut self) {
        let late = self.emulation.packets().lanes().iter().map(|lane| lane.lateness().1).sum();
        let (spun, longest) = (self.effort.spun(), self.effort.take_longest());
        let progress = &self.shared.progress()[self.number];
        progress.publish(late, spun, longest, self.priority.is_realtime());
    }

    /// Samples all lanes for the observer, if there is one.
    fn sample(&mut self, at: Nanos) {
        let ruled = self.emulation.rules().is_some();
        let (emulator, packets) = self.emulation.parts();
        let Some((tap, lanes)) = packets.tap_and_lanes() else { return };
        let samples = lanes.iter().map(|lane| {
            let pipe = lane.config().pipe;
            let (queue, peak) = if ruled {
                (lane.inside(), lane.peak_inside())
            } else {
                (emulator.queue_length(pipe), emulator.queue_peak(pipe))
            };
            LaneSample {
                counters: lane.counters().clone(),
                queue_packets: queue.0,
                queue_bytes: queue.1,
                peak_packets: peak.0,
                peak_bytes: peak.1,
            }
        });
        if tap.sample(at, samples) {
            for lane in lanes {
                lane.restart_peak();
                emulator.restart_peak(lane.config().pipe);
            }
        }
    }

    /// The results, without the statistics of rules and pipes.
    fn report(&mut self, at: Nanos, stopped: Option<StopReason>) -> LiveReport {
        // Each port's losses are reported with the first lane that it feeds.
        let mut losses: Vec<_> = self.ports.losses().into_iter().map(Some).collect();
        let lanes = self.emulation.packets().lanes();
        LiveReport {
            started: self.started,
            at,
            lanes: lanes
                .iter()
                .map(|lane| {
                    let losses = losses[lane.config().from].take().unwrap_or_default();
                    self.lane_report(lane, losses)
                })
                .collect(),
            events: self.faults.events(),
            realtime: self.priority.is_realtime(),
            spin_margin: self.pacer.margin(),
            stopped,
            workers: 1,
            rules: Vec::new(),
            pipes: Vec::new(),
            unrouted: self.emulation.emulator().unrouted(),
            strays: self.intake.strays(),
            unobserved: self.unobserved(),
            skipped_steps: self.emulation.emulator().skipped_steps(),
            late_causes: LateCauses::default(),
        }
    }

    fn lane_report(&self, lane: &Lane, losses: Losses) -> LaneReport {
        let mut counters = lane.counters().clone();
        let config = lane.config();
        // The engine's counters belong to the lane only if all its packets take the lane's pipe.
        if self.emulation.rules().is_none()
            && let Some(stats) = self.emulation.emulator().stats(config.pipe)
        {
            counters = lane.with_counters_of(&stats.counters);
        }
        let (queue_ns, total_ns) = lane.times();
        let (lateness, late_1ms) = lane.lateness();
        LaneReport {
            name: config.name.clone(),
            from: self.ports.port(config.from).name().to_owned(),
            to: self.ports.port(config.to).name().to_owned(),
            pipe: config.pipe,
            counters,
            queue_ns: queue_ns.clone(),
            total_ns: total_ns.clone(),
            lateness: lateness.clone(),
            late_1ms,
            rx_kernel_drops: losses.kernel_drops,
            rx_unreadable: losses.unreadable,
            passed: lane.passed_packets(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obeyed {
    Continue,
    Stop,
}

/// After this many packets, which take some 30 us, the worker interrupts a batch to send packets
/// that are due.
const RELEASE_EVERY: u32 = 256;
/// The longest sleep. It bounds the time until the worker reads the stop flag.
const IDLE: Nanos = Nanos::from_millis(100);
/// Time between two refreshes of the ports.
const REFRESH: Nanos = Nanos::from_secs(1);
/// Interval between attempts to send on a blocked port.
const RETRY: Nanos = Nanos::from_micros(50);
