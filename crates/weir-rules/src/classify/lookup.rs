//! Compiled tables: the form in which the search looks up the fields of a packet.
//!
//! Each table is compiled separately, and all classifiers that use it share it. A changed entry
//! does not rebuild a table of addresses, numbers or flows, because tables of customers change all
//! the time. A changed entry rebuilds a table of interfaces, which is small.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

use weir_core::key::FlowKey;

use super::place::Place;
use super::prefixes::{Prefix, Prefixes, Source};
use crate::table::{FlowFields, Table, TableKey, TableKind};

/// A compiled table.
#[derive(Clone, Debug)]
pub(super) enum Lookup {
    /// A table that rules name but that does not exist: no key is found.
    Missing,
    Address {
        v4: Prefixes<u32>,
        v6: Prefixes<u128>,
    },
    /// The place's interfaces that are in the table: the number and the value of each.
    Interface(Vec<(u16, u32)>),
    Number(Shards<u32>),
    Flow(FlowFields, Shards<Flow>),
}

impl Lookup {
    pub(super) fn new(table: &Table, place: &Place) -> Self {
        let entries = table.entries.iter();
        match table.kind {
            TableKind::Address => {
                let (mut v4, mut v6) = (Vec::new(), Vec::new());
                for (key, &value) in entries {
                    match *key {
                        TableKey::V4 { address, len } => v4.push(Prefix { address, len, value }),
                        TableKey::V6 { address, len } => v6.push(Prefix { address, len, value }),
                        _ => {}
                    }
                }
                Self::Address { v4: Prefixes::new(&v4), v6: Prefixes::new(&v6) }
            }
            TableKind::Interface => Self::Interface(interfaces(table, place)),
            TableKind::Number => Self::Number(Shards::new(
                entries.filter_map(|(key, &value)| Some((number(key)?, value))),
            )),
            TableKind::Flow(fields) => Self::Flow(
                fields,
                Shards::new(
                    entries.filter_map(|(key, &value)| Some((Flow::of_entry(key)?, value))),
                ),
            ),
        }
    }

    /// The compiled form after the entries with `keys` were added, removed or changed. `table`
    /// already contains the changes.
    pub(super) fn update(&self, table: &Table, keys: &[TableKey], place: &Place) -> Self {
        match (self, table.kind) {
            (Self::Address { v4, v6 }, TableKind::Address) => {
                let (mut v4, mut v6) = (v4.clone(), v6.clone());
                for key in keys {
                    match *key {
                        TableKey::V4 { address, len } => v4 = v4.update(address, len, table),
                        TableKey::V6 { address, len } => v6 = v6.update(address, len, table),
                        _ => {}
                    }
                }
                Self::Address { v4, v6 }
            }
            (Self::Number(shards), TableKind::Number) => Self::Number(shards.update(
                keys.iter().filter_map(|key| Some((number(key)?, table.entries.get(key).copied()))),
            )),
            (Self::Flow(fields, shards), TableKind::Flow(now)) if *fields == now => {
                let changes = keys.iter().filter_map(|key| {
                    Some((Flow::of_entry(key)?, table.entries.get(key).copied()))
                });
                Self::Flow(now, shards.update(changes))
            }
            _ => Self::new(table, place),
        }
    }

    /// The value for an IPv4 address.
    #[inline]
    pub(super) fn v4(&self, address: u32) -> Option<u32> {
        if let Self::Address { v4, .. } = self { v4.get(address) } else { None }
    }

    /// The value for an IPv6 address.
    #[inline]
    pub(super) fn v6(&self, address: u128) -> Option<u32> {
        if let Self::Address { v6, .. } = self { v6.get(address) } else { None }
    }

    /// The value for a number.
    #[inline]
    pub(super) fn number(&self, number: u32) -> Option<u32> {
        if let Self::Number(shards) = self { shards.get(&number) } else { None }
    }

    /// The value for an interface.
    #[inline]
    pub(super) fn interface(&self, number: u16) -> Option<u32> {
        let Self::Interface(known) = self else { return None };
        known.iter().find(|(known, _)| *known == number).map(|(_, value)| *value)
    }

    /// The value for a packet's flow.
    #[inline]
    pub(super) fn flow(&self, key: &FlowKey) -> Option<u32> {
        if let Self::Flow(fields, shards) = self {
            shards.get(&Flow::of_packet(key, *fields))
        } else {
            None
        }
    }
}

fn interfaces(table: &Table, place: &Place) -> Vec<(u16, u32)> {
    let value = |name| table.entries.get(&TableKey::Interface(name)).copied();
    place.interfaces.iter().filter_map(|i| Some((i.number, value(i.name.clone())?))).collect()
}

fn number(key: &TableKey) -> Option<u32> {
    if let TableKey::Number(number) = key { Some(*number) } else { None }
}

impl Source<u32> for Table {
    fn within(&self, first: u32, last: u32) -> Vec<Prefix<u32>> {
        let range =
            TableKey::V4 { address: first, len: 0 }..=TableKey::V4 { address: last, len: u8::MAX };
        let prefix = |(key, &value): (&TableKey, &u32)| match *key {
            TableKey::V4 { address, len } => Some(Prefix { address, len, value }),
            _ => None,
        };
        self.entries.range(range).filter_map(prefix).collect()
    }

    fn exactly(&self, address: u32, len: u8) -> Option<u32> {
        self.entries.get(&TableKey::V4 { address, len }).copied()
    }
}

impl Source<u128> for Table {
    fn within(&self, first: u128, last: u128) -> Vec<Prefix<u128>> {
        let range =
            TableKey::V6 { address: first, len: 0 }..=TableKey::V6 { address: last, len: u8::MAX };
        let prefix = |(key, &value): (&TableKey, &u32)| match *key {
            TableKey::V6 { address, len } => Some(Prefix { address, len, value }),
            _ => None,
        };
        self.entries.range(range).filter_map(prefix).collect()
    }

    fn exactly(&self, address: u128, len: u8) -> Option<u32> {
        self.entries.get(&TableKey::V6 { address, len }).copied()
    }
}

/// The fields of a flow; fields that the table does not use are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flow {
    src: u128,
    dst: u128,
    /// The source port in the upper 16 bits, the destination port in the lower ones.
    ports: u32,
    proto: u8,
    ipv6: bool,
}

impl Flow {
    fn of_entry(key: &TableKey) -> Option<Self> {
        let &TableKey::Flow { ipv6, src, dst, proto, src_port, dst_port } = key else {
            return None;
        };
        Some(Self { src, dst, ports: join(src_port, dst_port), proto, ipv6 })
    }

    fn of_packet(key: &FlowKey, fields: FlowFields) -> Self {
        Self {
            src: if fields.src_ip { key.src } else { 0 },
            dst: if fields.dst_ip { key.dst } else { 0 },
            ports: join(
                if fields.src_port { key.src_port } else { 0 },
                if fields.dst_port { key.dst_port } else { 0 },
            ),
            proto: if fields.proto { key.proto } else { 0 },
            // A flow without addresses matches both IP versions.
            ipv6: key.ipv6 && (fields.src_ip || fields.dst_ip),
        }
    }
}

fn join(src: u16, dst: u16) -> u32 {
    u32::from(src) << 16 | u32::from(dst)
}

type Shard<K> = HashMap<K, u32, BuildHasherDefault<Fold>>;

/// A hash table that is divided into shards, so that a change of one entry copies only one shard.
#[derive(Clone, Debug)]
pub(super) struct Shards<K>(Vec<Arc<Shard<K>>>);

impl<K: Copy + Eq + Hash> Shards<K> {
    fn new(entries: impl Iterator<Item = (K, u32)>) -> Self {
        let mut shards = vec![Shard::default(); SHARDS];
        for (key, value) in entries {
            shards[shard(&key)].insert(key, value);
        }
        Self(shards.into_iter().map(Arc::new).collect())
    }

    fn update(&self, changes: impl Iterator<Item = (K, Option<u32>)>) -> Self {
        let mut new = self.clone();
        for (key, value) in changes {
            let shard = Arc::make_mut(&mut new.0[shard(&key)]);
            match value {
                Some(value) => shard.insert(key, value),
                None => shard.remove(&key),
            };
        }
        new
    }

    #[inline]
    fn get(&self, key: &K) -> Option<u32> {
        self.0[shard(key)].get(key).copied()
    }
}

fn shard(key: &impl Hash) -> usize {
    let mut fold = Fold::default();
    key.hash(&mut fold);
    // The map inside a shard uses other bits of the hash: the lowest for the bucket, the highest
    // for the tag.
    (fold.finish() >> 40) as usize % SHARDS
}

/// Number of shards of a hash table.
const SHARDS: usize = 256;

/// A multiplicative hash of words. Only the owner of the machine configures keys, so an attacker
/// cannot cause collisions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fold(u64);

impl Fold {
    #[inline(always)]
    fn word(&mut self, word: u64) {
        let product =
            u128::from(self.0 ^ word ^ 0x243f_6a88_85a3_08d3) * 0x9e37_79b9_7f4a_7c15_u128;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.word(byte.into()));
    }

    fn write_u8(&mut self, n: u8) {
        self.word(n.into());
    }

    fn write_u32(&mut self, n: u32) {
        self.word(n.into());
    }

    fn write_u64(&mut self, n: u64) {
        self.word(n);
    }

    fn write_u128(&mut self, n: u128) {
        self.word(n as u64);
        self.word((n >> 64) as u64);
    }
}
