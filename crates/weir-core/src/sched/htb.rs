//! Hierarchical token buckets: each flow has a guaranteed rate and a rate that it never exceeds.
//!
//! # Model
//! Each flow is a class with two token buckets. While the first bucket, filled at `rate`, has
//! tokens for the next packet, the class sends within its own rate. Without these tokens the class
//! *borrows*: it shares the capacity that other classes leave. The second bucket, filled at `ceil`,
//! bounds all packets of the class; a class without tokens in this bucket waits, even if the link
//! is idle.
//!
//! Classes within their own rates are served before classes that borrow. In either group, lower
//! values of `pri` are served first. Classes of equal `pri` share by virtual starts: each class has
//! a virtual start for its next packet, and the least start is served first. Classes within their
//! own rates share in proportion to `rate`, which matters if the sum of the rates exceeds the link.
//! Classes that borrow share in proportion to `weight`. Borrowing does not use up a class's own
//! tokens.
//!
//! # Reference
//! Devera, "HTB Linux queuing discipline manual", 2002, for the meaning of the two rates. Goyal,
//! Vin and Cheng, "Start-time fair queuing", IEEE/ACM Transactions on Networking 5(5), 1997, for
//! the order of classes with equal `pri`.
//!
//! # Parameters
//! `rate` and `ceil` in bit/s, default none: without `rate` a class only borrows, without `ceil` it
//! may use the whole link. A `rate` above `ceil` counts as `ceil`. `burst` in bytes is the depth of
//! both buckets, at least `lmax`. The default depth is the bytes of 10 ms at the bucket's rate plus
//! two packets of `lmax`, so that a class does not lose tokens while it waits for the packet of
//! another class. `weight` 1..65536, default 1. `pri` 0..63, default 0, which is served first.
//! `lmax` in bytes, default 1500: the flow's largest packet. `variant` `exact` or `linux`, default
//! `exact`. With `linux`, a bucket with a number of tokens that is not negative lets any packet
//! pass, and classes of equal `pri` take turns by deficit round robin, in the order in which they
//! were added; a new class takes the place of a removed one. Their quantum is that of Linux's
//! default `r2q`: `rate / 80` bytes, at least 1000 and at most 200000. With `linux`, `weight` has
//! no effect.
//!
//! # Complexity
//! O(log N) for each packet, with N classes that have packets.
//!
//! # Guarantees
//! In any time `t` a class sends at most `ceil · t` plus the depth of its bucket; with `variant
//! linux`, up to one packet more. A packet longer than the depth leaves when the bucket is full,
//! and the number of tokens is negative afterwards. A class that always has packets gets its
//! `rate`, if the link can carry the rates of all classes and the bucket never becomes full while
//! the class waits for other classes. There is no rounding: rates hold exactly over any time.
//!
//! # Differences from Linux/FreeBSD
//! Linux lets a class send until its number of tokens is negative, so that it may send up to one
//! packet early; with `variant exact` the buckets must hold the tokens of the whole packet. Linux
//! shares by deficit round robin with quanta in bytes; `variant exact` shares in smaller steps, by
//! virtual starts. With `variant linux`, decisions are those of Linux for classes without a parent,
//! except that here these classes may borrow from the link. In Linux, classes borrow from a parent,
//! which has buckets too. Here, a scheduler can be a flow of another scheduler, but it offers up to
//! two packets to its parent before their service. Time is exact, so that no timer resolution
//! requires a minimum burst. dummynet has no comparable scheduler.
//!
//! # Validation
//! Tests compare rates with exact arithmetic over hours of simulated time, and check the bound of a
//! class in every window, the shares of borrowed capacity, priorities, and changes of rates while
//! packets wait. With `variant linux`, the order and the times of packets are compared with those
//! of Linux, see `docs/kernel.md`.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::bucket::Bucket;
use super::prio::PRIORITY;
use super::{
    Discipline, Domain, FlowSlot, FlowSpec, LMAX, MAX_PACKET, MAX_PRIORITY, MAX_WEIGHT, MIN_PACKET,
    Parameter, Row, Scheduler, Traits, WEIGHT,
};
use crate::packet::{PacketId, PacketList, Store};
use crate::slab::Slab;
use crate::units::{Nanos, Rate};
use crate::{choice, settings};

choice! {
    /// When a packet may leave, and how classes share.
    enum Variant {
        Exact = "exact",
        Linux = "linux",
    }
}

settings! {
    /// Settings of HTB.
    struct Settings {
        variant: Variant = Variant::setting(
            Variant::Exact,
            "exact: a packet needs tokens for its whole length, and shares are exact; linux: \
             packets pass until tokens are negative, in round robin",
        ),
    }
}

/// The HTB scheduler.
#[derive(Debug)]
pub struct Htb {
    variant: Variant,
    classes: Slab<Class>,
    /// Classes that may send within their own rate.
    own: Order,
    /// Classes that may borrow.
    borrowed: Order,
    /// The times at which waiting classes may send, and at which borrowing classes have their own
    /// tokens again.
    wakes: BTreeSet<(Nanos, u32)>,
    /// The latest time of a call.
    now: Nanos,
    len: usize,
    backlog: u64,
    /// The packets sent within a class's own rate, the packets sent by borrowing, and the number of
    /// times that a class had to wait for its bound.
    counts: [u64; 3],
}

/// Classes in the order of their priorities and virtual starts. All starts are 0 with round robin.
#[derive(Debug)]
struct Order {
    /// The priority, the virtual start and the slot of each class.
    ready: BTreeSet<(u8, u128, u32)>,
    /// The virtual time of each priority: the start of the packet served last.
    clock: Box<[u128; LEVELS]>,
    /// With round robin, a slot for each priority: the next class is the first at this slot or a
    /// higher one.
    turns: Box<[u32; LEVELS]>,
}

/// A flow, as a class with two buckets.
#[derive(Debug)]
struct Class {
    list: PacketList,
    /// The bucket for `rate`; `None` without a rate.
    own: Option<Bucket>,
    /// The bucket for `ceil`; `None` without a bound.
    ceil: Option<Bucket>,
    /// The virtual time per byte in [`Htb::own`].
    own_pace: u128,
    /// The virtual start of the next packet in [`Htb::own`].
    own_start: u128,
    /// The virtual time per byte in [`Htb::borrowed`].
    pace: u128,
    /// The virtual start of the next packet in [`Htb::borrowed`].
    start: u128,
    /// With round robin, the bytes that the class may send in its turn, in [`Htb::own`] and in
    /// [`Htb::borrowed`].
    deficits: [i64; 2],
    /// With round robin, the bytes of one turn.
    quantum: i64,
    priority: u8,
    state: State,
    /// The time of the class in [`Htb::wakes`]; [`Nanos::MAX`] if it is not there.
    wake: Nanos,
}

/// The state of a class, which determines the order that contains the class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The class has no packets.
    Idle,
    /// The class has reached its bound.
    Waits,
    /// The class is in [`Htb::borrowed`].
    Borrows,
    /// The class is in [`Htb::own`].
    Sends,
}

impl Default for Order {
    fn default() -> Self {
        let (clock, turns) = (Box::new([0; LEVELS]), Box::new([0; LEVELS]));
        Self { ready: BTreeSet::new(), clock, turns }
    }
}

impl Htb {
    /// An empty scheduler.
    pub fn new(discipline: &Discipline) -> Self {
        Self {
            variant: Settings::of(discipline).variant,
            classes: Slab::default(),
            own: Order::default(),
            borrowed: Order::default(),
            wakes: BTreeSet::new(),
            now: Nanos::ZERO,
            len: 0,
            backlog: 0,
            counts: [0; 3],
        }
    }

    /// Determines the state of a class anew.
    fn refresh(&mut self, slot: u32) {
        let class = self.classes.at(slot);
        let (before, priority) = (class.state, class.priority);
        self.lift(slot);
        self.place(self.now, slot);
        if self.classes.at(slot).state != before {
            self.update_turn(before, priority, slot);
        }
    }

    /// Handles the turn of a class that has left the order of its state `before`. With round robin,
    /// a turn in the order of classes within their own rates passes to the next class. In the order
    /// of borrowing classes, the turn stays at the number of the class, as in Linux.
    fn update_turn(&mut self, before: State, priority: u8, slot: u32) {
        let takes_turns = self.variant == Variant::Linux && before == State::Sends;
        if takes_turns && self.own.turns[usize::from(priority)] == slot {
            self.own.pass_turn(priority, slot);
        }
    }

    /// The length that counts against the tokens when the state of a class is determined.
    fn counted(&self, len: u32) -> u32 {
        match self.variant {
            Variant::Exact => len,
            Variant::Linux => 0,
        }
    }

    /// Removes a class from its order and from [`Self::wakes`].
    fn lift(&mut self, slot: u32) {
        let class = self.classes.at_mut(slot);
        match class.state {
            State::Sends => self.own.ready.remove(&(class.priority, class.own_start, slot)),
            State::Borrows => self.borrowed.ready.remove(&(class.priority, class.start, slot)),
            State::Idle | State::Waits => false,
        };
        class.state = State::Idle;
        let wake = core::mem::replace(&mut class.wake, Nanos::MAX);
        if wake != Nanos::MAX {
            self.wakes.remove(&(wake, slot));
        }
    }

    /// Determines the state of a class at `now`, and adds it to the order of that state. The class
    /// must be in no order.
    fn place(&mut self, now: Nanos, slot: u32) {
        let len = self.counted(self.classes.at(slot).list.front_len());
        let class = self.classes.at_mut(slot);
        if class.list.is_empty() {
            return;
        }
        for bucket in [&mut class.own, &mut class.ceil].into_iter().flatten() {
            bucket.fill(now);
        }
        if let Some(ceil) = class.ceil.filter(|bucket| !bucket.allows(len)) {
            (class.state, class.wake) = (State::Waits, ceil.allows_at(len));
            self.counts[2] += 1;
        } else if class.own.is_some_and(|bucket| bucket.allows(len)) {
            class.state = State::Sends;
            self.own.ready.insert((class.priority, class.own_start, slot));
        } else {
            class.state = State::Borrows;
            class.wake = class.own.map_or(Nanos::MAX, |bucket| bucket.allows_at(len));
            self.borrowed.ready.insert((class.priority, class.start, slot));
        }
        if class.wake != Nanos::MAX {
            self.wakes.insert((class.wake, slot));
        }
    }

    /// Updates the state of the classes that are due by `now`.
    fn wake(&mut self, now: Nanos) {
        while let Some(&(time, slot)) = self.wakes.first() {
            if time > now {
                return;
            }
            self.refresh(slot);
        }
    }

    /// Removes the first packet of a class that is in no order.
    fn pop<P: Store>(&mut self, store: &mut P, slot: u32) -> Option<PacketId> {
        let class = self.classes.at_mut(slot);
        let len = class.list.front_len();
        let packet = class.list.pop_front(store)?;
        self.len -= 1;
        self.backlog -= u64::from(len);
        Some(packet)
    }

    /// Removes the next packet regardless of the buckets, and takes no tokens.
    fn drain<P: Store>(&mut self, store: &mut P) -> Option<PacketId> {
        let first = self.own.ready.first().or(self.borrowed.ready.first()).map(|entry| entry.2);
        // A class that waits beyond the end of time is in no order and not in `wakes`.
        let waits = || self.wakes.first().map(|entry| entry.1);
        let forgotten = || {
            (0..self.classes.bound())
                .find(|&slot| self.classes.get(slot).is_some_and(|class| !class.list.is_empty()))
        };
        let slot = first.or_else(waits).or_else(forgotten)?;
        self.lift(slot);
        let packet = self.pop(store, slot);
        self.place(self.now, slot);
        packet
    }
}

impl Order {
    /// The next class. Advances the virtual time to its start.
    fn first(&mut self) -> Option<u32> {
        let &(priority, start, slot) = self.ready.first()?;
        let clock = &mut self.clock[usize::from(priority)];
        *clock = start.max(*clock);
        Some(slot)
    }

    /// The class that has the turn.
    fn next(&mut self) -> Option<u32> {
        let &(priority, _, first) = self.ready.first()?;
        let turn = &mut self.turns[usize::from(priority)];
        let found = self.ready.range((priority, 0, *turn)..=(priority, 0, u32::MAX)).next();
        *turn = found.map_or(first, |class| class.2);
        Some(*turn)
    }

    /// Gives the turn of a class to the next class.
    fn pass_turn(&mut self, priority: u8, slot: u32) {
        let after = (priority, 0, slot.saturating_add(1))..=(priority, 0, u32::MAX);
        let next = self.ready.range(after).next().map_or(0, |class| class.2);
        self.turns[usize::from(priority)] = next;
    }

    fn clock(&self, priority: u8) -> u128 {
        self.clock[usize::from(priority)]
    }
}

impl Scheduler for Htb {
    fn add_flow(&mut self, now: Nanos, spec: &FlowSpec) -> FlowSlot {
        self.now = self.now.max(now);
        let class = Class {
            list: PacketList::default(),
            own: None,
            ceil: None,
            own_pace: 0,
            own_start: 0,
            pace: 0,
            start: 0,
            deficits: [0; 2],
            quantum: 0,
            priority: 0,
            state: State::Idle,
            wake: Nanos::MAX,
        };
        let slot = self.classes.insert(class);
        self.classes.at_mut(slot).configure(self.variant, self.now, spec);
        FlowSlot(slot)
    }

    fn change_flow<P: Store>(
        &mut self,
        now: Nanos,
        _store: &mut P,
        slot: FlowSlot,
        spec: &FlowSpec,
    ) {
        self.now = self.now.max(now);
        let before = self.classes.at(slot.0).state;
        self.lift(slot.0);
        let class = self.classes.at_mut(slot.0);
        let old = class.priority;
        class.configure(self.variant, self.now, spec);
        let new = class.priority;
        // The class stays ahead of the virtual time of its priority by the same amount.
        class.own_start = class.own_start.saturating_sub(self.own.clock(old)) + self.own.clock(new);
        class.start =
            class.start.saturating_sub(self.borrowed.clock(old)) + self.borrowed.clock(new);
        self.place(self.now, slot.0);
        if self.classes.at(slot.0).state != before || new != old {
            self.update_turn(before, old, slot.0);
        }
    }

    fn remove_flow<P: Store>(
        &mut self,
        _now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        _flow: u32,
    ) -> PacketList {
        let Some(class) = self.classes.get(slot.0) else { return PacketList::default() };
        let (before, priority) = (class.state, class.priority);
        self.lift(slot.0);
        self.update_turn(before, priority, slot.0);
        let list = self.classes.remove(slot.0).map(|class| class.list).unwrap_or_default();
        let (packets, bytes) = list.measure(store);
        self.len -= packets;
        self.backlog -= bytes;
        list
    }

    fn enqueue<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId> {
        self.now = self.now.max(now);
        let len = store.len(packet);
        self.len += 1;
        self.backlog += u64::from(len);
        let class = self.classes.at_mut(slot.0);
        let was_empty = class.list.is_empty();
        class.list.push_back_of(store, packet, len);
        if was_empty {
            class.own_start = class.own_start.max(self.own.clock(class.priority));
            class.start = class.start.max(self.borrowed.clock(class.priority));
            self.place(self.now, slot.0);
        }
        None
    }

    fn dequeue<P: Store>(&mut self, now: Nanos, store: &mut P) -> Option<PacketId> {
        if now == Nanos::MAX {
            return self.drain(store);
        }
        self.now = self.now.max(now);
        self.wake(self.now);
        let exact = self.variant == Variant::Exact;
        let first = |order: &mut Order| if exact { order.first() } else { order.next() };
        let from_own = first(&mut self.own);
        let slot = from_own.or_else(|| first(&mut self.borrowed))?;
        let class = self.classes.at_mut(slot);
        let (before, priority) = (class.state, class.priority);
        let len = class.list.front_len();
        let borrows = before == State::Borrows;
        if !exact && class.uses_up_turn(borrows, len) {
            let order = if borrows { &mut self.borrowed } else { &mut self.own };
            order.pass_turn(priority, slot);
        }
        self.lift(slot);
        let class = self.classes.at_mut(slot);
        if let Some(ceil) = &mut class.ceil {
            ceil.fill(self.now);
            ceil.take(len);
        }
        match &mut class.own {
            Some(own) if from_own.is_some() => {
                own.fill(self.now);
                own.take(len);
                class.own_start += class.own_pace * u128::from(len);
                self.counts[0] += 1;
            }
            _ => {
                class.start += class.pace * u128::from(len);
                self.counts[1] += 1;
            }
        }
        let packet = self.pop(store, slot);
        self.place(self.now, slot);
        if self.classes.at(slot).state != before {
            self.update_turn(before, priority, slot);
        }
        packet
    }

    fn next_event(&self) -> Option<Nanos> {
        if self.own.ready.is_empty() && self.borrowed.ready.is_empty() {
            self.wakes.first().map(|wake| wake.0)
        } else {
            Some(self.now)
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn backlog(&self) -> u64 {
        self.backlog
    }

    fn variables(&self) -> Vec<(&'static str, u64)> {
        ["own", "borrowed", "waits"].into_iter().zip(self.counts).collect()
    }
}

impl Class {
    /// Charges a packet to the class's turn, which is in the order of borrowing classes if
    /// `borrows` and otherwise in the order of classes within their own rates. Returns whether the
    /// turn ends.
    fn uses_up_turn(&mut self, borrows: bool, len: u32) -> bool {
        let deficit = &mut self.deficits[usize::from(borrows)];
        *deficit -= i64::from(len);
        let ends = *deficit < 0;
        if ends {
            *deficit += self.quantum;
        }
        ends
    }

    /// Applies a flow's settings. Existing buckets keep their tokens; new ones are full.
    fn configure(&mut self, variant: Variant, now: Nanos, spec: &FlowSpec) {
        let lmax = spec.max_packet.clamp(MIN_PACKET, MAX_PACKET);
        let depth = |rate: u64| match spec.burst {
            0 => 2 * u64::from(lmax) + rate / 800,
            burst => u64::from(burst.max(lmax)),
        };
        let (rate, ceil) = (spec.rate.min(MAX_RATE), spec.ceil.min(MAX_RATE));
        let rate = if ceil == 0 { rate } else { rate.min(ceil) };
        for (bucket, rate) in [(&mut self.own, rate), (&mut self.ceil, ceil)] {
            match bucket {
                _ if rate == 0 => *bucket = None,
                Some(bucket) => bucket.configure(now, rate, depth(rate)),
                None => *bucket = Some(Bucket::new(now, rate, depth(rate))),
            }
        }
        if variant == Variant::Exact {
            self.own_pace = UNIT / u128::from(rate.max(1));
            self.pace = UNIT / u128::from(spec.weight.clamp(1, MAX_WEIGHT));
        }
        self.quantum = (rate / RATE_TO_QUANTUM).clamp(1000, 200_000) as i64;
        self.priority = spec.priority.min(MAX_PRIORITY) as u8;
    }
}

/// The virtual time of a byte at a weight or rate of 1. Times do not wrap: a packet of 4 MiB takes
/// 2^86 of the range of 2^128.
const UNIT: u128 = 1 << 64;
const LEVELS: usize = MAX_PRIORITY as usize + 1;
/// The divisor that converts a rate in bit/s to a quantum: 8 times 10, Linux's default `r2q`.
const RATE_TO_QUANTUM: u64 = 80;
const MAX_RATE: u64 = Rate::MAX.bps();

const RATE: Parameter = Parameter {
    name: "rate",
    domain: Domain::Number { least: 0, most: MAX_RATE, unit: "bit/s" },
    default: 0,
    summary: "guaranteed rate of the flow; 0 for none",
};

pub(super) const CEIL: Parameter =
    Parameter { name: "ceil", summary: "rate that the flow never exceeds; 0 for no bound", ..RATE };

pub(super) const BURST: Parameter = Parameter {
    name: "burst",
    domain: Domain::Number { least: 0, most: u32::MAX as u64, unit: "bytes" },
    default: 0,
    summary: "bytes that the flow may send at once after a pause; 0 for 10 ms at its rate and two \
              packets",
};

pub(super) const ROW: Row = Row {
    name: "htb",
    aliases: &[],
    summary: "token buckets: each flow has a guaranteed rate and a bound, and borrows between \
              them by priority and weight",
    source: "Devera 2002",
    parameters: Settings::PARAMETERS,
    traits: Traits {
        complexity: "O(log N)",
        weighted: true,
        work_conserving: false,
        classifies: false,
        flow: &[RATE, CEIL, BURST, PRIORITY, WEIGHT, LMAX],
    },
};
