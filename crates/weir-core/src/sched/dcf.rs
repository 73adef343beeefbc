//! The medium of an 802.11 network: stations contend for it by the distributed coordination
//! function, or by the access categories of EDCA.
//!
//! # Model
//! Each flow is a station. A station with a packet waits until the medium has been idle for a DIFS,
//! and then for a number of idle slots that it draws from its window. A station that is alone in a
//! slot sends its packet and gets an acknowledgement. When several stations start in the same slot,
//! they collide: all their frames are lost, and each station draws again from a window twice as
//! large. A station drops a packet after too many retries, with the reason `retry_limit`. After
//! each packet a station draws again, even if it has no other packet: a packet that arrives later
//! waits for the rest of the backoff, or is sent in the next slot if the backoff is over and the
//! medium is idle. A packet leaves the scheduler at the end of its exchange, so that the link needs
//! no rate of its own: leave `bw` out.
//!
//! ```text
//!  DIFS  slots   PLCP  header + packet + FCS   SIFS  PLCP  ACK
//! |----|-|-|-|-|------|-----------------------|----|------|-----|
//!
//!  announced by an RTS:  RTS  SIFS  CTS  SIFS  PLCP, header, packet, FCS  SIFS  ACK
//! ```
//!
//! *Rates.* Each station has its own data rate: the `rate` of its queue. Stations take turns
//! by packets and not by time. A single slow station therefore slows all other stations down to
//! about its own throughput, the performance anomaly of 802.11.
//!
//! *Errors.* A data frame is lost with the probability `errors`. The station that sent the frame
//! reacts as after a collision.
//!
//! *RTS and CTS.* An RTS precedes a frame above the threshold `rts`. Only the RTS can then collide,
//! and a collision of RTS frames takes less time.
//!
//! *EDCA.* Each packet has one of four access categories: voice, video, best effort, background. A
//! category waits for SIFS and AIFSN slots in place of a DIFS, has its own windows, and may send
//! several consecutive packets, SIFS apart, up to its TXOP limit. With `edca queue`, a flow is a
//! station of one category, by the `pri` of its queue, which is a user priority of 802.1D: 1 and 2
//! are background, 0 and 3 best effort, 4 and 5 video, 6 and 7 voice. With `edca dscp`, a flow is a
//! station with all four categories, and the DSCP of each packet selects one, as RFC 8325
//! recommends. If two categories of a station begin in the same slot, the higher category sends,
//! and the lower category reacts as after a collision.
//!
//! # Reference
//! IEEE Std 802.11-2012: DCF and RTS/CTS (9.3), EDCA (9.19), the physical layers. RFC 8325 for code
//! points. Bianchi, "Performance analysis of the IEEE 802.11 distributed coordination function",
//! IEEE JSAC 18(3), 2000, for the throughput to expect. Heusse, Rousseau, Berger-Sabbatel and Duda,
//! "Performance anomaly of 802.11b", INFOCOM 2003. Robinson and Randhawa, "Saturation throughput
//! analysis of IEEE 802.11e enhanced distributed coordination function", IEEE JSAC 22(5), 2004, for
//! the shares of categories.
//!
//! # Parameters
//! `standard`: the timings.
//!
//! | `standard` | slot | SIFS | preamble | extension | windows | rates in Mbit/s | control frames at |
//! |---|---|---|---|---|---|---|---|
//! | `b` (default) | 20 us | 10 us | 192 us, short 96 us | | 31, 1023 | 1, 2, 5.5, 11 | 1, 2 |
//! | `g` | 9 us | 10 us | 20 us | 6 us | 15, 1023 | 6, 9, 12, 18, 24, 36, 48, 54 | 6, 12, 24 |
//! | `a` | 9 us | 16 us | 20 us | | 15, 1023 | as `g` | 6, 12, 24 |
//! | `n` | 9 us | 10 us | 36 us, control 20 us | 6 us | 15, 1023 | 6.5, 13, 19.5, 26, 39, 52, 58.5, 65 | 6, 12, 24 |
//!
//! The numbers are those of IEEE Std 802.11-2012: `b` of clause 17 (HR/DSSS), `g` of clause 19
//! (ERP-OFDM, with the short slot of a cell without 802.11b stations), `a` of clause 18 (OFDM), `n`
//! of clause 20 (HT, one stream at 2.4 GHz in 20 MHz, mixed format, long guard interval).
//!
//! `phy`: the data rate in Mbit/s of stations without `rate`; by default the highest rate.
//! `preamble`: long or short, for 802.11b. `retries` 0..255, default 7: the number of
//! retransmissions of a packet before it is dropped. `rts` 0..65535 bytes, default 0 for no RTS:
//! frames longer than this, headers included, are announced by an RTS. `errors` 0..1, default 0:
//! the probability that a data frame is lost. `edca`: `off` (default), `queue` or `dscp`.
//!
//! `cwmin` and `cwmax`: the first and the largest window; a `cwmax` below `cwmin` counts as
//! `cwmin`. `aifsn`: slots between SIFS and the first slot of the backoff. `txop`: the limit in us,
//! which the first packet may exceed; 0 for one packet. These four settings take one number, or one
//! each for voice, video, best effort and background, such as `aifsn 2,2,3,7`. Without EDCA `cwmin`
//! and `cwmax` of best effort apply, AIFSN is 2, and each packet contends. The standard's numbers,
//! from its table 8-105, are:
//!
//! | category | AIFSN | `cwmin` (b, others) | `cwmax` (b, others) | TXOP limit (b, others) |
//! |---|---|---|---|---|
//! | voice | 2 | 7, 3 | 15, 7 | 3264 us, 1504 us |
//! | video | 2 | 15, 7 | 31, 15 | 6016 us, 3008 us |
//! | best effort | 3 | 31, 15 | 1023 | 0 |
//! | background | 7 | 31, 15 | 1023 | 0 |
//!
//! `seed`, default 1: all draws follow from it and from the run's seed. A station's `rate` is a
//! rate of the standard; 0 or none means `phy`. All other values are fixed. DIFS is SIFS and two
//! slots. Each packet has 36 bytes of header, LLC/SNAP and FCS, or 38 with EDCA. An RTS has 20
//! bytes; a CTS or an acknowledgement has 14. These control frames have the highest control rate
//! that is not above the data rate.
//!
//! # Complexity
//! O(log N) for each frame sent, with N stations that have packets.
//!
//! # Guarantees
//! Stations of one category that always have packets send equal numbers of packets in the long run,
//! regardless of packet sizes and rates, if each access is for one packet. There is no guarantee
//! over short times. With `edca dscp`, packets of a flow keep their order only within a category.
//!
//! # Differences from Linux/FreeBSD
//! Neither implements this medium; dummynet's profiles add random air-time, but have no stations.
//! Differences from the standard: slots start at the same moments for all stations, even for a
//! packet that finds the medium idle. All stations receive each other; there are no hidden stations
//! and no capture. Errors affect data frames only. After a failure every station waits for the time
//! of the missing answer, which approximates EIFS. One limit of retries applies to frames with and
//! without RTS. A failed frame ends its TXOP. Only the first frame of a TXOP is announced by an
//! RTS. There is no aggregation (A-MPDU) and no block acknowledgement, so that `n` shows the
//! throughput of stations without aggregation. 802.11b and OFDM stations do not share a cell.
//! Stations keep their rates: there is no rate control.
//!
//! # Validation
//! `weir algorithms --check dcf` compares simulation and models. Tests compare them by 95 %
//! confidence intervals over ten seeds. The intervals lie entirely within these distances from the
//! model:
//!
//! * saturation throughput of 1 to 50 stations, with and without RTS, for `b`, `g` and `n`: within
//!   4 % of Bianchi's model;
//! * throughput when a fifth of the frames are lost: within 3 % of the same model with errors;
//! * throughput of cells of 2 to 10 stations with one slow station: within 6 % of Heusse's formula
//!   and 5 % of Bianchi's model;
//! * shares of categories of `b`: within 1.5 percentage points of a model of contention zones after
//!   Robinson and Randhawa, except that the model gives background stations up to twice the share
//!   that they have here.
//!
//! Other tests check the exact times of each physical layer, of gaps and of TXOPs, equal shares,
//! and that every failure leads to a retry or a drop.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::dcf_settings::{Access, Edca, STATION_RATE, Settings, USER_PRIORITY};
use super::wifi::{Air, Category};
use super::{Discipline, FlowSlot, FlowSpec, Row, Scheduler, Traits};
use crate::packet::{PacketId, PacketList, Store};
use crate::rng::{Purpose, Stream};
use crate::settings::UNIT;
use crate::slab::Slab;
use crate::stats::DropReason;
use crate::units::{Nanos, Probability};

/// The 802.11 medium.
#[derive(Debug)]
pub struct Dcf {
    stations: Slab<Station>,
    /// The contention of each category.
    lanes: [Lane; CATEGORIES],
    exchange: Option<Exchange>,
    /// The durations of frames.
    air: Air,
    edca: Edca,
    errors: Probability,
    most_retries: u32,
    /// Draws of backoffs.
    backoffs: Stream,
    /// Draws of lost frames.
    losses: Stream,
    /// Packets that were dropped after too many retries, until [`Scheduler::pop_refused`].
    given_up: PacketList,
    len: usize,
    backlog: u64,
    counters: Counters,
}

/// The contention of one category, with its own count of idle slots.
#[derive(Debug)]
struct Lane {
    /// The stations that contend, sorted by the idle slot in which they begin to send. Slots count
    /// only while the medium is idle.
    contenders: BTreeSet<(u64, u32)>,
    /// The time from which the medium is or was idle for contention.
    idle_from: Nanos,
    /// The number of the slot that begins at `idle_from`.
    slot: u64,
    /// The gap before contention.
    aifs: Nanos,
    /// The window for the first transmission of a packet, in slots.
    first_window: u32,
    /// The largest window, in slots.
    last_window: u32,
    /// The TXOP limit; 0 for one packet.
    txop: Nanos,
}

/// A flow, as a station of the medium.
#[derive(Debug)]
struct Station {
    /// The data rate, in units of 100 kbit/s.
    rate: u32,
    /// The category of all packets of the station, unless the DSCP decides.
    category: usize,
    queues: [Queue; CATEGORIES],
}

/// The packets of one category of a station.
#[derive(Debug)]
struct Queue {
    list: PacketList,
    /// The window from which the queue draws its next backoff, in slots.
    window: u32,
    /// The retransmissions of the first packet so far.
    retries: u32,
    /// The slot in which the queue begins to send; for a queue without packets, the slot in which
    /// its backoff ends.
    begins: u64,
}

type Sender = (u32, usize);

#[derive(Clone, Copy, Debug)]
struct Exchange {
    end: Nanos,
    /// The sender, if the exchange succeeds and the sender has not been removed.
    winner: Option<Sender>,
    /// The beginning of the first exchange of the TXOP.
    won: Nanos,
}

#[derive(Debug, Default)]
struct Counters {
    sent: u64,
    /// Collisions of several stations.
    collisions: u64,
    /// Frames that were not sent because a higher category of the station began in the same slot.
    internal: u64,
    /// Data frames lost with the probability `errors`.
    errors: u64,
    retries: u64,
    /// Packets dropped after too many retries.
    given_up: u64,
}

impl Dcf {
    /// An idle medium without stations.
    pub fn new(discipline: &Discipline) -> Self {
        let settings = Settings::of(discipline);
        let air = settings.air();
        let lane = |category| {
            let Access { aifsn, first_window, last_window, txop } = settings.access(category);
            Lane {
                contenders: BTreeSet::new(),
                idle_from: Nanos::ZERO,
                slot: 0,
                aifs: Nanos((air.sifs() + aifsn * air.slot()) * US),
                first_window,
                last_window,
                txop: Nanos(txop * US),
            }
        };
        let seed = u64::from(settings.seed) ^ discipline.seed();
        // The setting is in billionths.
        let errors = settings.errors.0 as f64 / UNIT as f64;
        Self {
            stations: Slab::default(),
            lanes: Category::ALL.map(lane),
            exchange: None,
            air,
            edca: settings.edca,
            errors: Probability::new(errors).unwrap_or(Probability::ONE),
            most_retries: settings.retries,
            backoffs: Stream::new(seed, 0, Purpose::Scheduler),
            losses: Stream::new(seed, 1, Purpose::Scheduler),
            given_up: PacketList::default(),
            len: 0,
            backlog: 0,
            counters: Counters::default(),
        }
    }

    fn queue(&mut self, (station, category): Sender) -> &mut Queue {
        &mut self.stations.at_mut(station).queues[category]
    }

    /// Draws the number of slots that a queue waits, from the next idle slot on.
    fn draw(&mut self, sender: Sender) {
        let window = self.queue(sender).window;
        let backoff = self.backoffs.below(window + 1);
        self.queue(sender).begins = self.lanes[sender.1].slot + u64::from(backoff);
    }

    fn contend(&mut self, sender: Sender) {
        let queue = self.queue(sender);
        if !queue.list.is_empty() {
            let begins = queue.begins;
            self.lanes[sender.1].contenders.insert((begins, sender.0));
        }
    }

    /// The time at which the next contender begins; `None` without contenders.
    fn next_start(&self) -> Option<Nanos> {
        let first = |lane: &Lane| Some(self.time_of(lane, lane.contenders.first()?.0));
        self.lanes.iter().filter_map(first).min()
    }

    /// The time at which idle slot number `slot` of a lane begins.
    fn time_of(&self, lane: &Lane, slot: u64) -> Nanos {
        let slots = slot.saturating_sub(lane.slot);
        lane.idle_from.saturating_add(Nanos(slots.saturating_mul(self.slot().0)))
    }

    /// The number of a lane's first idle slot that begins at `now` or later.
    fn slot_at(&self, now: Nanos, category: usize) -> u64 {
        let lane = &self.lanes[category];
        lane.slot + now.since(lane.idle_from).0.div_ceil(self.slot().0)
    }

    fn slot(&self) -> Nanos {
        Nanos(self.air.slot() * US)
    }

    /// Advances the medium until `now`, at most to the end of the next successful exchange. Returns
    /// the sender and this exchange.
    fn run<P: Store>(&mut self, now: Nanos, store: &mut P) -> Option<(Sender, Exchange)> {
        loop {
            match self.exchange {
                Some(exchange) if exchange.end > now => return None,
                Some(exchange) => {
                    self.exchange = None;
                    if let Some(winner) = exchange.winner {
                        return Some((winner, exchange));
                    }
                }
                None => {
                    let start = self.next_start()?;
                    if start > now {
                        return None;
                    }
                    self.begin(start, store);
                }
            }
        }
    }

    /// Starts the transmissions of all queues that begin at `start`.
    fn begin<P: Store>(&mut self, start: Nanos, store: &mut P) {
        let mut senders = self.senders(start);
        self.count_slots(start);
        // A station sends one frame: that of its highest category.
        senders.sort_unstable();
        let mut losers = Vec::new();
        let mut last = None;
        senders.retain(|&sender| {
            let is_highest = last.replace(sender.0) != Some(sender.0);
            if !is_highest {
                losers.push(sender);
            }
            is_highest
        });
        self.counters.internal += losers.len() as u64;
        if let [sender] = senders[..] {
            let (len, rate) = self.first_frame(sender);
            self.transmit(sender, start, start, self.air.success(len, rate), store);
        } else {
            self.counters.collisions += 1;
            let longest = senders.iter().map(|&sender| {
                let (len, rate) = self.first_frame(sender);
                self.air.collision(len, rate)
            });
            let longest = longest.max().unwrap_or(0);
            self.occupy(start, start, longest, None);
            senders.into_iter().for_each(|sender| self.failed(sender, store));
        }
        losers.into_iter().for_each(|sender| self.failed(sender, store));
    }

    /// Removes and returns the contenders that begin at `start`.
    fn senders(&mut self, start: Nanos) -> Vec<Sender> {
        let mut senders = Vec::new();
        for category in 0..CATEGORIES {
            while let Some(&(begins, station)) = self.lanes[category].contenders.first() {
                if self.time_of(&self.lanes[category], begins) != start {
                    break;
                }
                self.lanes[category].contenders.pop_first();
                senders.push((station, category));
            }
        }
        senders
    }

    /// Counts the slots that have passed until a transmission begins. With EDCA, a backoff also
    /// counts the slot in which another station begins.
    fn count_slots(&mut self, start: Nanos) {
        let busy = u64::from(self.edca != Edca::Off);
        let slot = self.slot().0;
        for lane in self.lanes.iter_mut().filter(|lane| lane.idle_from <= start) {
            lane.slot += start.since(lane.idle_from).0 / slot + busy;
        }
    }

    /// The length and the data rate of a queue's first packet.
    fn first_frame(&self, (station, category): Sender) -> (u32, u32) {
        let station = self.stations.at(station);
        (station.queues[category].list.front_len(), station.rate)
    }

    /// Sends a queue's first packet from `start` on, in an exchange of `us` microseconds. The TXOP
    /// began at `won`.
    fn transmit<P: Store>(
        &mut self,
        sender: Sender,
        won: Nanos,
        start: Nanos,
        us: u64,
        store: &mut P,
    ) {
        let lost = !self.errors.is_zero() && self.losses.happens(self.errors);
        self.occupy(won, start, us, (!lost).then_some(sender));
        if lost {
            self.counters.errors += 1;
            self.failed(sender, store);
        }
    }

    /// Makes the medium busy for `us` microseconds from `start` on.
    fn occupy(&mut self, won: Nanos, start: Nanos, us: u64, winner: Option<Sender>) {
        let end = start.saturating_add(Nanos(us * US));
        for lane in &mut self.lanes {
            lane.idle_from = end.saturating_add(lane.aifs);
        }
        self.exchange = Some(Exchange { end, winner, won });
    }

    /// Schedules a retry for a queue after a failure, or drops its packet.
    fn failed<P: Store>(&mut self, sender: Sender, store: &mut P) {
        let (most, largest) = (self.most_retries, self.lanes[sender.1].last_window);
        let queue = self.queue(sender);
        if queue.retries < most {
            queue.retries += 1;
            queue.window = (2 * queue.window + 1).min(largest);
            self.counters.retries += 1;
        } else {
            self.counters.given_up += 1;
            if let Some(packet) = self.pop(sender, store) {
                self.given_up.push_back(store, packet);
            }
        }
        self.draw(sender);
        self.contend(sender);
    }

    /// Sends the next packet of a queue in the TXOP of the exchange that has just ended, if the
    /// packet fits.
    fn continue_txop<P: Store>(&mut self, sender: Sender, before: Exchange, store: &mut P) -> bool {
        if self.queue(sender).list.is_empty() {
            return false;
        }
        let (len, rate) = self.first_frame(sender);
        let us = self.air.exchange(len, rate);
        let start = before.end.saturating_add(Nanos(self.air.sifs() * US));
        let end = start.saturating_add(Nanos(us * US));
        let fits = end.since(before.won) <= self.lanes[sender.1].txop;
        if fits {
            self.transmit(sender, before.won, start, us, store);
        }
        fits
    }

    /// Removes a queue's first packet, and resets the queue's window to the first window.
    fn pop<P: Store>(&mut self, sender: Sender, store: &mut P) -> Option<PacketId> {
        let first_window = self.lanes[sender.1].first_window;
        let queue = self.queue(sender);
        let len = queue.list.front_len();
        let packet = queue.list.pop_front(store)?;
        (queue.window, queue.retries) = (first_window, 0);
        self.len -= 1;
        self.backlog -= u64::from(len);
        Some(packet)
    }

    /// Removes a packet regardless of the medium.
    fn drain<P: Store>(&mut self, store: &mut P) -> Option<PacketId> {
        let sending = self.exchange.take().and_then(|exchange| exchange.winner);
        let first = |(category, lane): (usize, &Lane)| Some((lane.contenders.first()?.1, category));
        let sender = sending.or_else(|| self.lanes.iter().enumerate().find_map(first))?;
        self.withdraw(sender);
        let packet = self.pop(sender, store);
        self.counters.sent += u64::from(packet.is_some());
        self.draw(sender);
        self.contend(sender);
        packet
    }

    fn withdraw(&mut self, sender: Sender) {
        let begins = self.queue(sender).begins;
        self.lanes[sender.1].contenders.remove(&(begins, sender.0));
    }

    /// The category of all packets of a flow, unless the DSCP decides.
    fn category(&self, spec: &FlowSpec) -> usize {
        match self.edca {
            Edca::Queue => Category::of_priority(spec.priority) as usize,
            Edca::Off | Edca::Dscp => Category::BestEffort as usize,
        }
    }

    /// Moves the packets of a station to another category, where it contends anew. A packet on the
    /// air stays on the air.
    fn change_category(&mut self, now: Nanos, station: u32, new: usize) {
        let old = core::mem::replace(&mut self.stations.at_mut(station).category, new);
        if old == new {
            return;
        }
        self.withdraw((station, old));
        let list = core::mem::take(&mut self.queue((station, old)).list);
        let window = self.lanes[new].first_window;
        *self.queue((station, new)) = Queue { list, window, retries: 0, begins: 0 };
        self.draw((station, new));
        let elapsed = self.slot_at(now, new) - self.lanes[new].slot;
        self.queue((station, new)).begins += elapsed;
        match &mut self.exchange {
            Some(Exchange { winner: Some(winner), .. }) if *winner == (station, old) => {
                *winner = (station, new);
            }
            _ => self.contend((station, new)),
        }
    }
}

impl Scheduler for Dcf {
    fn add_flow(&mut self, _now: Nanos, spec: &FlowSpec) -> FlowSlot {
        let queue = |lane: &Lane| Queue {
            list: PacketList::default(),
            window: lane.first_window,
            retries: 0,
            begins: 0,
        };
        FlowSlot(self.stations.insert(Station {
            rate: self.air.rate_of(spec.rate),
            category: self.category(spec),
            queues: self.lanes.each_ref().map(queue),
        }))
    }

    fn change_flow<P: Store>(
        &mut self,
        now: Nanos,
        _store: &mut P,
        slot: FlowSlot,
        spec: &FlowSpec,
    ) {
        self.stations.at_mut(slot.0).rate = self.air.rate_of(spec.rate);
        self.change_category(now, slot.0, self.category(spec));
    }

    fn remove_flow<P: Store>(
        &mut self,
        _now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        _flow: u32,
    ) -> PacketList {
        if self.stations.get(slot.0).is_none() {
            return PacketList::default();
        }
        (0..CATEGORIES).for_each(|category| self.withdraw((slot.0, category)));
        if let Some(exchange) = &mut self.exchange {
            exchange.winner = exchange.winner.filter(|&(winner, _)| winner != slot.0);
        }
        let mut all = PacketList::default();
        for mut queue in self.stations.remove(slot.0).into_iter().flat_map(|s| s.queues) {
            while let Some(packet) = queue.list.pop_front(store) {
                all.push_back(store, packet);
            }
        }
        let (packets, bytes) = all.measure(store);
        self.len -= packets;
        self.backlog -= bytes;
        all
    }

    fn enqueue<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId> {
        let len = store.len(packet);
        self.len += 1;
        self.backlog += u64::from(len);
        let category = match self.edca {
            Edca::Dscp => Category::of_dscp(store.header(packet).dscp) as usize,
            Edca::Off | Edca::Queue => self.stations.at(slot.0).category,
        };
        let sender = (slot.0, category);
        let queue = self.queue(sender);
        let was_empty = queue.list.is_empty();
        queue.list.push_back_of(store, packet, len);
        if !was_empty {
            return None;
        }
        let begins = queue.begins;
        let lane = &self.lanes[category];
        let busy = self.exchange.is_some() || now < lane.idle_from;
        if begins > lane.slot || !busy {
            self.queue(sender).begins = begins.max(self.slot_at(now, category));
        } else {
            self.draw(sender);
        }
        self.contend(sender);
        None
    }

    fn dequeue<P: Store>(&mut self, now: Nanos, store: &mut P) -> Option<PacketId> {
        if now == Nanos::MAX {
            // A caller that drains the scheduler does not wait for the medium.
            return self.drain(store);
        }
        let (sender, exchange) = self.run(now, store)?;
        let packet = self.pop(sender, store);
        self.counters.sent += 1;
        if !self.continue_txop(sender, exchange, store) {
            self.draw(sender);
            self.contend(sender);
        }
        packet
    }

    fn pop_refused<P: Store>(&mut self, store: &mut P) -> Option<(PacketId, DropReason)> {
        Some((self.given_up.pop_front(store)?, DropReason::RetryLimit))
    }

    fn next_event(&self) -> Option<Nanos> {
        self.exchange.map(|exchange| exchange.end).or_else(|| self.next_start())
    }

    fn len(&self) -> usize {
        self.len
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }

    fn variables(&self) -> Vec<(&'static str, u64)> {
        let Counters { sent, collisions, internal, errors, retries, given_up } = self.counters;
        Vec::from([
            ("sent", sent),
            ("collisions", collisions),
            ("internal-collisions", internal),
            ("errors", errors),
            ("retries", retries),
            ("given-up", given_up),
        ])
    }
}

/// The nanoseconds of a microsecond.
const US: u64 = 1000;
const CATEGORIES: usize = Category::ALL.len();
pub(super) const ROW: Row = Row {
    name: "dcf",
    aliases: &["wifi"],
    summary: "the 802.11 medium: stations contend, collide and take turns; leave the link's bw out",
    source: "IEEE 802.11-2012",
    parameters: Settings::PARAMETERS,
    traits: Traits {
        complexity: "O(log N)",
        weighted: false,
        work_conserving: false,
        classifies: false,
        flow: &[STATION_RATE, USER_PRIORITY],
    },
};
