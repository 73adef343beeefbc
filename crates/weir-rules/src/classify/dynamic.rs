//! Dynamic rules: the flows that `keep-state`, `limit` and `record-state` remember, in both
//! directions.
//!
//! # Model
//! A flow consists of two ends and a protocol. An entry belongs to the rule that created it. A
//! packet of the flow, in either direction, is treated as if that rule had matched. Each packet
//! restarts the entry's lifetime. The lifetime depends on the protocol and, for TCP, on the flags
//! that both ends have sent; the values are those of ipfw. No keep-alive packets are sent.
//!
//! # Bounds
//! There are at most [`MOST`] entries. Further flows are refused and counted. Expired entries are
//! removed when a packet next uses the table.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use weir_core::key::FlowKey;
use weir_core::units::Nanos;
use weir_wire::protocol;

use crate::rule::{LimitMask, Name};

/// The dynamic rules, which all workers share.
#[derive(Debug, Default)]
pub struct Dynamic {
    flows: HashMap<Ends, Vec<Flow>>,
    /// The number of entries of each `limit`, by rule and by the fields that its flows share.
    limits: HashMap<LimitKey, u32>,
    /// When to check each entry for expiry: at or before the end of its lifetime.
    due: BinaryHeap<Reverse<(Nanos, u64, Ends)>>,
    entries: usize,
    /// The number of entries created so far, which is the serial number of the next one.
    created: u64,
    refused: u64,
}

/// A dynamic rule in the form in which it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicEntry {
    /// The number of the rule that created the entry.
    pub number: u16,
    /// The identity of the rule that created the entry.
    pub id: u32,
    /// The flow, in the direction of its first packet.
    pub key: FlowKey,
    /// The state name; `None` for the default name.
    pub name: Option<Name>,
    /// Whether `limit` created the entry.
    pub limited: bool,
    /// The value that the look-up of the rule found, if it made one.
    pub argument: Option<u32>,
    /// Packets of both directions.
    pub packets: u64,
    /// Network-layer bytes of these packets.
    pub bytes: u64,
    /// When the entry expires unless a further packet arrives.
    pub expires: Nanos,
}

/// The rule that created an entry, with the data that its action needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) number: u16,
    pub(super) id: u32,
    pub(super) argument: Option<u32>,
}

/// A flow without its direction: its two ends, each an address and a port, with the lower end
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Ends {
    low: (u128, u16),
    high: (u128, u16),
    proto: u8,
    ipv6: bool,
}

/// An entry, with the table's own data about it.
#[derive(Debug)]
struct Flow {
    entry: DynamicEntry,
    parent: Parent,
    /// A number that no other entry has.
    serial: u64,
    /// Whether the first packet went from the lower end to the higher end.
    upwards: bool,
    /// TCP flags seen so far: those of the first packet's direction in the low byte, those of the
    /// other direction in the high byte.
    seen: u16,
    /// The time of the entry's earliest element in [`Dynamic::due`].
    due: Nanos,
    /// The limit that counts the entry; `None` if no `limit` created the entry.
    limit: Option<LimitKey>,
}

/// The flows that one `limit` counts together: those of rule `id` with the same fields. Fields
/// outside the mask of the limit are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct LimitKey {
    id: u32,
    src: (u128, u16),
    dst: (u128, u16),
    ipv6: bool,
}

/// What dynamic rules need of a packet or an offload train.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) key: &'a FlowKey,
    /// TCP flags; 0 for other protocols.
    pub(super) flags: u8,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) now: Nanos,
}

impl Dynamic {
    /// The entries that have not expired, ordered by rule number, then by age.
    pub fn entries(&self, now: Nanos) -> Vec<DynamicEntry> {
        let mut alive: Vec<&Flow> =
            self.flows.values().flatten().filter(|flow| flow.entry.expires > now).collect();
        alive.sort_by_key(|flow| (flow.entry.number, flow.serial));
        alive.into_iter().map(|flow| flow.entry.clone()).collect()
    }

    /// The number of flows that were refused because [`MOST`] entries existed.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Finds the entry of a packet, counts the packet in it, and returns the rule that created it.
    ///
    /// `name` selects the entries with this state name; `any` selects all entries.
    pub(super) fn find(&mut self, name: Option<&Name>, seen: Seen<'_>) -> Option<Parent> {
        self.expire(seen.now);
        let (ends, upwards) = Ends::of(seen.key);
        let any = name.is_some_and(|name| **name == *"any");
        let flow = self
            .flows
            .get_mut(&ends)?
            .iter_mut()
            .find(|flow| any || flow.entry.name.as_ref() == name)?;
        flow.touch(seen, upwards);
        if flow.entry.expires < flow.due {
            flow.due = flow.entry.expires;
            self.due.push(Reverse((flow.due, flow.serial, ends)));
        }
        Some(flow.parent)
    }

    /// Creates an entry of rule `parent` for the flow of a packet, unless the rule has one for this
    /// flow and name already. Returns whether there is an entry now; there is none if the limit is
    /// reached or the table is full.
    pub(super) fn install(
        &mut self,
        parent: Parent,
        name: Option<&Name>,
        limit: Option<(LimitMask, u32)>,
        seen: Seen<'_>,
    ) -> bool {
        self.expire(seen.now);
        let (ends, upwards) = Ends::of(seen.key);
        if self.flows.get(&ends).is_some_and(|flows| {
            flows.iter().any(|f| f.parent.id == parent.id && f.entry.name.as_ref() == name)
        }) {
            return true;
        }
        let limit = limit.map(|(mask, most)| (LimitKey::new(parent.id, mask, seen.key), most));
        if limit.is_some_and(|(key, most)| self.limits.get(&key).copied().unwrap_or(0) >= most) {
            return false;
        }
        if self.entries >= MOST {
            self.refused += 1;
            return false;
        }
        let limit = limit.map(|(key, _)| key);
        if let Some(key) = limit {
            *self.limits.entry(key).or_default() += 1;
        }
        let entry = DynamicEntry {
            number: parent.number,
            id: parent.id,
            key: *seen.key,
            name: name.cloned(),
            limited: limit.is_some(),
            argument: parent.argument,
            packets: 0,
            bytes: 0,
            expires: Nanos::ZERO,
        };
        let mut flow =
            Flow { entry, parent, serial: self.created, upwards, seen: 0, due: Nanos::ZERO, limit };
        flow.touch(seen, upwards);
        flow.due = flow.entry.expires;
        self.due.push(Reverse((flow.due, flow.serial, ends)));
        self.flows.entry(ends).or_default().push(flow);
        self.entries += 1;
        self.created += 1;
        true
    }

    /// Adds a copy of an entry of another table, unless this table is full. `mask` is the mask of
    /// the limit that created the entry, if a limit created it.
    pub(super) fn restore(&mut self, entry: &DynamicEntry, mask: Option<LimitMask>) {
        if self.entries >= MOST {
            return;
        }
        let DynamicEntry { number, id, argument, key, expires, .. } = *entry;
        let (ends, upwards) = Ends::of(&key);
        let limit = mask.filter(|_| entry.limited).map(|mask| LimitKey::new(id, mask, &key));
        if let Some(key) = limit {
            *self.limits.entry(key).or_default() += 1;
        }
        let (entry, parent) = (entry.clone(), Parent { number, id, argument });
        let serial = self.created;
        let flow = Flow { entry, parent, serial, upwards, seen: 0, due: expires, limit };
        self.due.push(Reverse((expires, serial, ends)));
        self.flows.entry(ends).or_default().push(flow);
        self.entries += 1;
        self.created += 1;
    }

    /// Removes the entries of rules that no longer exist.
    pub(super) fn keep_rules(&mut self, exists: impl Fn(u16, u32) -> bool) {
        let (limits, mut remaining) = (&mut self.limits, 0);
        self.flows.retain(|_, flows| {
            flows.retain(|flow| {
                let keep = exists(flow.parent.number, flow.parent.id);
                if !keep {
                    release(limits, flow.limit);
                }
                keep
            });
            remaining += flows.len();
            !flows.is_empty()
        });
        self.entries = remaining;
    }

    /// Removes expired entries.
    fn expire(&mut self, now: Nanos) {
        while let Some(&Reverse((due, serial, ends))) = self.due.peek()
            && due <= now
        {
            self.due.pop();
            // Skips entries that were removed already, or that are due at another time.
            let Some(flows) = self.flows.get_mut(&ends) else { continue };
            let Some(at) = flows.iter().position(|flow| flow.serial == serial && flow.due == due)
            else {
                continue;
            };
            if flows[at].entry.expires > now {
                flows[at].due = flows[at].entry.expires;
                self.due.push(Reverse((flows[at].due, serial, ends)));
                continue;
            }
            let gone = flows.remove(at);
            if flows.is_empty() {
                self.flows.remove(&ends);
            }
            release(&mut self.limits, gone.limit);
            self.entries -= 1;
        }
    }
}

impl Flow {
    /// Counts packets of the flow and restarts the lifetime of the entry.
    fn touch(&mut self, seen: Seen<'_>, upwards: bool) {
        let flags = u16::from(seen.flags & (FIN | SYN | RST));
        self.seen |= if upwards == self.upwards { flags } else { flags << 8 };
        self.entry.packets += seen.packets;
        self.entry.bytes += seen.bytes;
        let life = match self.entry.key.proto {
            protocol::TCP => tcp_life(self.seen),
            protocol::UDP | protocol::UDP_LITE => UDP_LIFE,
            _ => SHORT_LIFE,
        };
        self.entry.expires = seen.now.saturating_add(life);
    }
}

/// Subtracts a removed entry from the count of its limit.
fn release(limits: &mut HashMap<LimitKey, u32>, key: Option<LimitKey>) {
    if let Some(key) = key
        && let Some(count) = limits.get_mut(&key)
    {
        *count -= 1;
        if *count == 0 {
            limits.remove(&key);
        }
    }
}

/// The lifetime of a TCP flow with these flags.
fn tcp_life(seen: u16) -> Nanos {
    const FLAGS: [u16; 3] = [FIN as u16, SYN as u16, RST as u16];
    let [fin, syn, rst] = FLAGS;
    if seen & (rst | rst << 8) != 0 {
        return RST_LIFE;
    }
    match (seen & (syn | syn << 8), seen & (fin | fin << 8)) {
        (both, closed) if both == syn | syn << 8 && closed == fin | fin << 8 => FIN_LIFE,
        (both, _) if both == syn | syn << 8 => ACK_LIFE,
        (forth, 0) if forth == syn => SYN_LIFE,
        // The first end sent no SYN, or a FIN arrived before the other end's SYN.
        _ => RST_LIFE,
    }
}

impl Ends {
    /// The flow of a packet, and whether the packet goes from the lower end to the higher.
    fn of(key: &FlowKey) -> (Self, bool) {
        let (src, dst) = ((key.src, key.src_port), (key.dst, key.dst_port));
        let upwards = src <= dst;
        let (low, high) = if upwards { (src, dst) } else { (dst, src) };
        (Self { low, high, proto: key.proto, ipv6: key.ipv6 }, upwards)
    }
}

impl LimitKey {
    fn new(id: u32, mask: LimitMask, key: &FlowKey) -> Self {
        let end = |address, port, with_address, with_port| {
            (if with_address { address } else { 0 }, if with_port { port } else { 0 })
        };
        Self {
            id,
            src: end(key.src, key.src_port, mask.src_addr, mask.src_port),
            dst: end(key.dst, key.dst_port, mask.dst_addr, mask.dst_port),
            ipv6: key.ipv6,
        }
    }
}

/// Maximum number of dynamic rules: ipfw's default.
pub const MOST: usize = 16_384;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;

/// Lifetime of a TCP flow that one end has opened.
const SYN_LIFE: Nanos = Nanos::from_secs(20);
/// Lifetime of a TCP flow that both ends have opened.
const ACK_LIFE: Nanos = Nanos::from_secs(300);
/// Lifetime of a TCP flow that both ends have closed.
const FIN_LIFE: Nanos = Nanos::from_secs(1);
/// Lifetime of a TCP flow that was reset or never opened.
const RST_LIFE: Nanos = Nanos::from_secs(1);
/// Lifetime of a UDP flow.
const UDP_LIFE: Nanos = Nanos::from_secs(10);
/// Lifetime of a flow of any other protocol.
const SHORT_LIFE: Nanos = Nanos::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn key(src_port: u16, proto: u8) -> FlowKey {
        FlowKey { src: 1, dst: 2, src_port, dst_port: 80, proto, ..FlowKey::default() }
    }

    fn back(key: &FlowKey) -> FlowKey {
        FlowKey {
            src: key.dst,
            dst: key.src,
            src_port: key.dst_port,
            dst_port: key.src_port,
            ..*key
        }
    }

    fn seen(key: &FlowKey, flags: u8, ms: u64) -> Seen<'_> {
        Seen { key, flags, packets: 1, bytes: 100, now: Nanos::from_millis(ms) }
    }

    const PARENT: Parent = Parent { number: 100, id: 7, argument: None };

    #[test]
    fn a_flow_is_found_in_both_directions_and_by_its_name_only() {
        let mut table = Dynamic::default();
        let flow = key(1000, 17);
        assert!(table.install(PARENT, Some(&"a".into()), None, seen(&flow, 0, 0)));
        assert_eq!(table.find(Some(&"a".into()), seen(&back(&flow), 0, 1)), Some(PARENT));
        assert_eq!(table.find(Some(&"any".into()), seen(&flow, 0, 1)), Some(PARENT));
        assert_eq!(table.find(None, seen(&flow, 0, 1)), None);
        assert_eq!(table.find(Some(&"a".into()), seen(&key(1001, 17), 0, 1)), None);
        let listed = table.entries(Nanos::from_millis(1));
        assert_eq!(listed.len(), 1);
        assert_eq!(
            (listed[0].packets, listed[0].bytes, listed[0].expires),
            (3, 300, Nanos::from_millis(10_001))
        );
    }

    #[test]
    fn each_protocol_has_its_lifetime() {
        for (proto, life) in [(17, 10_000), (1, 5000), (6, 1000)] {
            let (mut table, flow) = (Dynamic::default(), key(1, proto));
            assert!(table.install(PARENT, None, None, seen(&flow, 0, 0)));
            assert_eq!(table.entries(Nanos::from_millis(life - 1)).len(), 1);
            assert_eq!(table.entries(Nanos::from_millis(life)).len(), 0);
            assert_eq!(table.find(None, seen(&flow, 0, life)), None);
        }
    }

    #[test]
    fn the_tcp_lifetime_depends_on_the_flags_of_both_ends() {
        let (mut table, forth) = (Dynamic::default(), key(1, 6));
        let back = back(&forth);
        let life = |table: &Dynamic, ms: u64| {
            table.entries(Nanos::ZERO)[0].expires.since(Nanos::from_millis(ms)).0 / 1_000_000_000
        };
        assert!(table.install(PARENT, None, None, seen(&forth, SYN, 0)));
        assert_eq!(life(&table, 0), 20);
        for (at, packet, flags, seconds) in
            [(1, &back, SYN | 16, 300), (2, &forth, 16 | FIN, 300), (3, &back, 16 | FIN, 1)]
        {
            assert!(table.find(None, seen(packet, flags, at)).is_some());
            assert_eq!(life(&table, at), seconds, "after {flags}");
        }
        // The last FIN shortened the lifetime, so the entry has expired although its first due time
        // has not passed.
        assert_eq!(table.find(None, seen(&forth, 16, 1004)), None);
        assert!(table.install(PARENT, None, None, seen(&forth, SYN, 2000)));
        assert!(table.find(None, seen(&back, RST, 2001)).is_some());
        assert_eq!(life(&table, 2001), 1);
    }

    #[test]
    fn a_limit_counts_flows_with_the_same_fields_until_they_end() {
        let mut table = Dynamic::default();
        let limit = Some((LimitMask { src_addr: true, ..LimitMask::default() }, 2));
        let add = |table: &mut Dynamic, port, ms| {
            table.install(PARENT, None, limit, seen(&key(port, 17), 0, ms))
        };
        assert!(add(&mut table, 1, 0) && add(&mut table, 2, 5000));
        assert!(!add(&mut table, 3, 5000));
        assert!(add(&mut table, 2, 5000), "a flow that has an entry does not count again");
        let other = FlowKey { src: 9, ..key(3, 17) };
        assert!(table.install(PARENT, None, limit, seen(&other, 0, 5000)));
        assert!(add(&mut table, 3, 10_000), "the first flow has ended");
        table.keep_rules(|_, id| id != 7);
        assert!(table.entries(Nanos::ZERO).is_empty() && table.limits.is_empty());
        assert!(add(&mut table, 1, 10_000));
    }

    #[test]
    fn flows_beyond_the_maximum_are_refused_and_counted() {
        let mut table = Dynamic::default();
        let flow = |n: usize| FlowKey { src: n as u128, ..key(1, 17) };
        for n in 0..MOST {
            assert!(table.install(PARENT, None, None, seen(&flow(n), 0, 0)));
        }
        assert!(!table.install(PARENT, None, None, seen(&flow(MOST), 0, 0)));
        assert_eq!(table.refused(), 1);
        assert!(table.install(PARENT, None, None, seen(&flow(MOST), 0, 10_000)));
        assert_eq!((table.entries, table.flows.len()), (1, 1));
    }
}
