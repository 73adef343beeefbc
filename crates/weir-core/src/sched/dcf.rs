//! The medium of an 802.11b network: stations contend for it by the distributed coordination
//! function.
//!
//! # Model
//! Each flow is a station. A station with a packet waits until the medium has been idle for a DIFS
//! and then for as many idle slots as it has drawn. A station that is alone in a slot sends its
//! packet and gets an acknowledgement. When several stations start in the same slot, they collide:
//! all their frames are lost, and each draws again from a window twice as large. A station drops a
//! packet after too many retries. After each packet a station draws again, even if it has no other:
//! a packet that arrives later waits for the rest of the backoff, or is sent in the next slot if
//! the backoff is over and the medium is idle. A packet leaves the scheduler at the end of its
//! exchange, so that the link needs no rate of its own: leave `bw` out.
//!
//! ```text
//!  DIFS  slots   PLCP  header + packet + FCS   SIFS  PLCP  ACK
//! |----|-|-|-|-|------|-----------------------|----|------|-----|
//! ```
//!
//! # Reference
//! IEEE Std 802.11-1999 and 802.11b-1999: DCF, the long and short PLCP, the times of the
//! direct-sequence PHY. Bianchi, "Performance analysis of the IEEE 802.11 distributed coordination
//! function", IEEE JSAC 18(3), 2000, for the throughput to expect.
//!
//! # Parameters
//! `phy`, the data rate in Mbit/s: 1, 2, 5.5 or 11, default 11. `preamble`: long (192 us at 1
//! Mbit/s, default) or short (96 us). `retries` 0..255, default 7: the number of retransmissions of
//! a packet before it is dropped. `cwmin` 1..1023, default 31, and `cwmax` 1..1023, default 1023:
//! the first and the largest window. `seed`, default 1: the seed of the draws. Everything else is
//! fixed by the standard: DIFS 50 us, SIFS 10 us, slots of 20 us; 36 bytes of header, LLC/SNAP and
//! FCS with each packet; acknowledgements of 14 bytes at 2 Mbit/s, or at 1 when that is the data
//! rate; no RTS.
//!
//! # Complexity
//! O(log N) of the stations that have packets, for each frame sent.
//!
//! # Guarantees
//! Stations that always have packets send equal numbers of packets in the long run, regardless of
//! packet sizes. There is no guarantee over short times.
//!
//! # Differences from Linux/FreeBSD
//! Neither implements it; dummynet's profiles add random air-time, but have no stations. There are
//! three differences from the standard. Slots start at the same moments for all stations, even for
//! a packet that finds the medium idle. All stations receive each other, and frames are lost only
//! by collisions. After a collision every station waits for the time of an acknowledgement (EIFS).
//!
//! # Validation
//! `weir algorithms --check dcf` compares the saturation throughput with Bianchi's model for 1 to
//! 50 stations. Tests check the exact times of a single station, equal shares, and that every
//! collision leads to a retry or a drop.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{Discipline, FlowSlot, FlowSpec, Row, Scheduler, Traits};
use crate::packet::{PacketId, PacketList, Store};
use crate::rng::{Purpose, Stream};
use crate::settings::Count;
use crate::slab::Slab;
use crate::stats::DropReason;
use crate::units::Nanos;
use crate::{choice, settings};

/// The 802.11b medium.
#[derive(Debug)]
pub struct Dcf {
    stations: Slab<Station>,
    /// The stations that contend, sorted by the idle slot in which they begin to send. Slots count
    /// only while the medium is idle.
    contenders: BTreeSet<(u64, u32)>,
    exchange: Option<Exchange>,
    /// The time from which the medium is or was idle for contention, and the number of the slot
    /// that begins then.
    idle_from: Nanos,
    slot: u64,
    air: Air,
    draws: Stream,
    given_up: PacketList,
    len: usize,
    backlog: u64,
    figures: Figures,
}

#[derive(Debug)]
struct Station {
    list: PacketList,
    window: u32,
    retries: u32,
    /// The slot in which the station begins to send; for a station without packets, the slot in
    /// which its backoff ends.
    begins: u64,
}

/// The exchange on the air.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    end: Nanos,
    /// The only sender in this slot; `None` after a collision or when the sender has been removed.
    winner: Option<u32>,
}

/// Durations in us, and limits.
#[derive(Clone, Copy, Debug)]
struct Air {
    preamble: u64,
    /// The data rate in units of 500 kbit/s.
    rate: u64,
    first_window: u32,
    last_window: u32,
    most_retries: u32,
}

#[derive(Debug, Default)]
struct Figures {
    sent: u64,
    collisions: u64,
    retries: u64,
    given_up: u64,
}

settings! {
    /// Settings of the 802.11b medium.
    pub struct Settings {
        /// Data rate.
        phy: Phy = Phy::setting(Phy::Mbps11, "data rate in Mbit/s"),
        /// Preamble of a frame.
        preamble: Preamble =
            Preamble::setting(Preamble::Long, "preamble and PLCP header: 192 or 96 us"),
        /// The number of retransmissions of a packet before it is dropped.
        retries: u32 =
            Count::new(0, 255, "", 7, "retransmissions of a packet before it is dropped"),
        /// First contention window in slots.
        cwmin: u32 = window(31, "first contention window"),
        /// Largest contention window in slots.
        cwmax: u32 = window(1023, "largest contention window"),
        /// Seed of the stations' draws.
        seed: u32 = Count::new(0, u32::MAX, "", 1, "seed of the stations' random draws"),
    }
}

choice! {
    /// A data rate of 802.11b.
    pub enum Phy {
        /// 11 Mbit/s.
        Mbps11 = "11",
        /// 5.5 Mbit/s.
        Mbps5Half = "5.5",
        /// 2 Mbit/s.
        Mbps2 = "2",
        /// 1 Mbit/s.
        Mbps1 = "1",
    }
}

impl Phy {
    /// The rate in units of 500 kbit/s.
    pub fn half_mbps(self) -> u64 {
        match self {
            Self::Mbps11 => 22,
            Self::Mbps5Half => 11,
            Self::Mbps2 => 4,
            Self::Mbps1 => 2,
        }
    }
}

choice! {
    /// A preamble of 802.11b, with the PLCP header.
    pub enum Preamble {
        /// 192 us.
        Long = "long",
        /// 96 us.
        Short = "short",
    }
}

impl Preamble {
    /// The length of the preamble in us.
    pub fn micros(self) -> u64 {
        match self {
            Self::Long => 192,
            Self::Short => 96,
        }
    }
}

impl Dcf {
    /// An idle medium without stations.
    pub fn new(discipline: &Discipline) -> Self {
        let settings = Settings::of(discipline);
        let air = Air {
            preamble: settings.preamble.micros(),
            rate: settings.phy.half_mbps(),
            first_window: settings.cwmin,
            last_window: settings.cwmax.max(settings.cwmin),
            most_retries: settings.retries,
        };
        Self {
            stations: Slab::default(),
            contenders: BTreeSet::new(),
            exchange: None,
            idle_from: Nanos::ZERO,
            slot: 0,
            air,
            draws: Stream::new(settings.seed.into(), 0, Purpose::Scheduler),
            given_up: PacketList::default(),
            len: 0,
            backlog: 0,
            figures: Figures::default(),
        }
    }

    /// Draws the number of slots that a station waits, from the next idle slot on.
    fn draw(&mut self, slot: u32) {
        let station = self.stations.at_mut(slot);
        station.begins = self.slot + u64::from(self.draws.below(station.window + 1));
    }

    /// Adds a station that has packets to the contenders.
    fn contend(&mut self, slot: u32) {
        let station = self.stations.at(slot);
        if !station.list.is_empty() {
            self.contenders.insert((station.begins, slot));
        }
    }

    /// The time at which idle slot number `slot` begins.
    fn time_of(&self, slot: u64) -> Nanos {
        self.idle_from.saturating_add(Nanos(slot.saturating_sub(self.slot).saturating_mul(SLOT)))
    }

    /// Advances the medium until `now`, at most to the end of the next successful exchange, and
    /// returns the sender of that exchange.
    fn run<P: Store>(&mut self, now: Nanos, store: &mut P) -> Option<u32> {
        loop {
            match self.exchange {
                Some(exchange) if exchange.end > now => return None,
                Some(exchange) => {
                    self.exchange = None;
                    if exchange.winner.is_some() {
                        return exchange.winner;
                    }
                }
                None => {
                    let begins = self.contenders.first()?.0;
                    let start = self.time_of(begins);
                    if start > now {
                        return None;
                    }
                    self.begin(start, begins, store);
                }
            }
        }
    }

    /// Starts the transmissions of all stations that begin in this slot.
    fn begin<P: Store>(&mut self, start: Nanos, begins: u64, store: &mut P) {
        let mut senders = Vec::new();
        while let Some(&(at, slot)) = self.contenders.first().filter(|first| first.0 == begins) {
            self.contenders.remove(&(at, slot));
            senders.push(slot);
        }
        let longest =
            senders.iter().map(|&slot| self.stations.at(slot).list.front_len()).max().unwrap_or(0);
        let end = start.saturating_add(Nanos(self.air.exchange(longest) * US));
        self.idle_from = end.saturating_add(Nanos(DIFS * US));
        self.slot = begins;
        let winner = if let [alone] = senders[..] { Some(alone) } else { None };
        self.exchange = Some(Exchange { end, winner });
        if winner.is_none() {
            self.figures.collisions += 1;
            senders.into_iter().for_each(|slot| self.collided(slot, store));
        }
    }

    /// Schedules a retry for a station after a collision, or drops its packet.
    fn collided<P: Store>(&mut self, slot: u32, store: &mut P) {
        let station = self.stations.at_mut(slot);
        if station.retries < self.air.most_retries {
            station.retries += 1;
            station.window = (2 * station.window + 1).min(self.air.last_window);
            self.figures.retries += 1;
        } else {
            self.figures.given_up += 1;
            if let Some(packet) = self.pop(slot, store) {
                self.given_up.push_back(store, packet);
            }
        }
        self.draw(slot);
        self.contend(slot);
    }

    /// Takes a station's first packet, and resets its window to the first one.
    fn pop<P: Store>(&mut self, slot: u32, store: &mut P) -> Option<PacketId> {
        let station = self.stations.at_mut(slot);
        let len = station.list.front_len();
        let packet = station.list.pop_front(store)?;
        (station.window, station.retries) = (self.air.first_window, 0);
        self.len -= 1;
        self.backlog -= u64::from(len);
        Some(packet)
    }
}

impl Air {
    /// The time for which a packet of `len` bytes and its acknowledgement occupy the medium, in us.
    fn exchange(self, len: u32) -> u64 {
        let data = self.preamble + time(u64::from(len) + OVERHEAD, self.rate);
        data + SIFS + self.preamble + time(ACK, self.rate.min(BASIC_RATE))
    }
}

/// The transmission time of `bytes` at a rate in units of 500 kbit/s, in whole us.
fn time(bytes: u64, rate: u64) -> u64 {
    (bytes * 16).div_ceil(rate)
}

impl Scheduler for Dcf {
    fn add_flow(&mut self, _now: Nanos, _spec: &FlowSpec) -> FlowSlot {
        let window = self.air.first_window;
        FlowSlot(self.stations.insert(Station {
            list: PacketList::default(),
            window,
            retries: 0,
            begins: 0,
        }))
    }

    fn change_flow<P: Store>(
        &mut self,
        _now: Nanos,
        _store: &mut P,
        _slot: FlowSlot,
        _spec: &FlowSpec,
    ) {
    }

    fn remove_flow<P: Store>(
        &mut self,
        _now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        _flow: u32,
    ) -> PacketList {
        let Some(station) = self.stations.remove(slot.0) else { return PacketList::default() };
        self.contenders.remove(&(station.begins, slot.0));
        if let Some(exchange) = &mut self.exchange {
            exchange.winner = exchange.winner.filter(|&winner| winner != slot.0);
        }
        let (packets, bytes) = station.list.measure(store);
        self.len -= packets;
        self.backlog -= bytes;
        station.list
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
        let station = self.stations.at_mut(slot.0);
        let was_empty = station.list.is_empty();
        station.list.push_back_of(store, packet, len);
        if !was_empty {
            return None;
        }
        let busy = self.exchange.is_some() || now < self.idle_from;
        if station.begins > self.slot || !busy {
            let this_slot = self.slot + now.since(self.idle_from).0.div_ceil(SLOT);
            station.begins = station.begins.max(this_slot);
        } else {
            self.draw(slot.0);
        }
        self.contend(slot.0);
        None
    }

    fn dequeue<P: Store>(&mut self, now: Nanos, store: &mut P) -> Option<PacketId> {
        let slot = if now == Nanos::MAX {
            // A caller that drains the scheduler does not wait for the medium.
            let sending = self.exchange.take().and_then(|exchange| exchange.winner);
            sending.or_else(|| self.contenders.first().map(|first| first.1))?
        } else {
            self.run(now, store)?
        };
        self.contenders.remove(&(self.stations.at(slot).begins, slot));
        let packet = self.pop(slot, store);
        self.figures.sent += 1;
        self.draw(slot);
        self.contend(slot);
        packet
    }

    fn pop_refused<P: Store>(&mut self, store: &mut P) -> Option<(PacketId, DropReason)> {
        Some((self.given_up.pop_front(store)?, DropReason::Scheduler))
    }

    fn next_event(&self) -> Option<Nanos> {
        match self.exchange {
            Some(exchange) => Some(exchange.end),
            None => self.contenders.first().map(|first| self.time_of(first.0)),
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let Figures { sent, collisions, retries, given_up } = self.figures;
        Vec::from([
            ("sent", sent),
            ("collisions", collisions),
            ("retries", retries),
            ("given-up", given_up),
        ])
    }
}

const US: u64 = 1000;
/// The length of a slot, in ns.
const SLOT: u64 = 20 * US;
/// Gaps between frames, in us.
const SIFS: u64 = 10;
const DIFS: u64 = 50;
/// The bytes of a frame besides the packet: MAC header 24, LLC and SNAP 8, frame check sequence 4.
const OVERHEAD: u64 = 36;
/// The bytes of an acknowledgement.
const ACK: u64 = 14;
/// The largest rate at which acknowledgements are sent.
const BASIC_RATE: u64 = 4;

const fn window(default: u32, summary: &'static str) -> Count {
    Count::new(1, 1023, "slots", default, summary)
}

pub(super) const ROW: Row = Row {
    name: "dcf",
    aliases: &["wifi"],
    summary: "the 802.11b medium: stations contend, collide and take turns; leave the link's bw out",
    source: "IEEE 802.11-1999, 802.11b-1999",
    parameters: Settings::PARAMETERS,
    traits: Traits {
        complexity: "O(log N)",
        weighted: false,
        work_conserving: false,
        classifies: false,
        flow: &[],
    },
};
