//! Tables: entries, locks, limits and look-ups.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::{ApplyError, Effect, Outcome, Query, Ruleset, Warning};
use crate::command::{AllTablesCommand, TableCommand};
use crate::rule::{Address, Interface, Name, Rule, Test};
use crate::table::{FlowFields, Table, TableKey, TableKind};

impl Ruleset {
    pub(super) fn table(
        &mut self,
        name: &Name,
        command: &TableCommand,
    ) -> Result<Outcome, ApplyError> {
        match command {
            TableCommand::Create { kind, limit, missing_only } => {
                self.create_table(name, *kind, *limit, *missing_only)
            }
            TableCommand::Destroy => {
                self.may_destroy(name)?;
                Arc::make_mut(&mut self.tables).remove(name);
                Ok(Outcome::changed(true))
            }
            TableCommand::Add { entries, atomic, update } => {
                self.add_entries(name, entries, *atomic, *update)
            }
            TableCommand::Delete(keys) => self.delete_entries(name, keys),
            TableCommand::Flush => {
                let changed = !self.unlocked(name)?.entries.is_empty();
                if changed {
                    self.table_mut(name).entries.clear();
                }
                Ok(Outcome::changed(changed))
            }
            TableCommand::Swap(other) => self.swap_tables(name, other),
            TableCommand::Lock(lock) => {
                let changed = self.find_table(name)?.locked != *lock;
                if changed {
                    self.table_mut(name).locked = *lock;
                }
                Ok(Outcome::changed(changed))
            }
            TableCommand::List => self.find_table(name).map(|_| Query::Table(name.clone()).into()),
            TableCommand::Info => {
                self.find_table(name).map(|_| Query::TableInfo(name.clone()).into())
            }
            TableCommand::Lookup(key) => {
                let table = self.find_table(name)?;
                let key = fitting(name, table, key)?;
                let found = table.lookup(&key);
                Ok(Query::Lookup { name: name.clone(), key, found }.into())
            }
        }
    }

    pub(super) fn all_tables(&mut self, command: AllTablesCommand) -> Outcome {
        let names: Vec<Name> = self.tables.keys().cloned().collect();
        let one = match command {
            AllTablesCommand::List => return Query::AllTables.into(),
            AllTablesCommand::Info => return Query::AllTablesInfo.into(),
            AllTablesCommand::Flush => TableCommand::Flush,
            AllTablesCommand::Destroy => TableCommand::Destroy,
        };
        let mut all = Outcome::changed(false);
        for name in names {
            match self.table(&name, &one) {
                Ok(outcome) if outcome.effect == Effect::Changed => all.effect = Effect::Changed,
                Ok(_) => {}
                Err(reason) => all.warnings.push(Warning::TableKept { name, reason }),
            }
        }
        all
    }

    fn create_table(
        &mut self,
        name: &Name,
        kind: TableKind,
        limit: Option<u32>,
        missing_only: bool,
    ) -> Result<Outcome, ApplyError> {
        match self.tables.get(name) {
            Some(table) if missing_only && table.kind == kind => {
                return Ok(Outcome::changed(false));
            }
            Some(table) if missing_only => {
                return Err(ApplyError::TableKind {
                    name: name.clone(),
                    has: table.kind.word(),
                    given: kind.word(),
                });
            }
            Some(_) => return Err(ApplyError::TableExists { name: name.clone() }),
            None => {}
        }
        let table = Table { kind, limit, ..Table::default() };
        Arc::make_mut(&mut self.tables).insert(name.clone(), Arc::new(table));
        Ok(Outcome::changed(true))
    }

    fn add_entries(
        &mut self,
        name: &Name,
        entries: &[(TableKey, u32)],
        atomic: bool,
        update: bool,
    ) -> Result<Outcome, ApplyError> {
        let made = match self.tables.get(name) {
            Some(_) => None,
            // In older versions of ipfw numbered tables always existed; scripts rely on this.
            None if name.parse::<u16>().is_ok() => {
                let kind =
                    entries.first().map_or(TableKind::Address, |(key, _)| key.natural_kind());
                Some(Table { kind, ..Table::default() })
            }
            None => return Err(ApplyError::NoTable { name: name.clone() }),
        };
        let table = match &made {
            Some(table) => table,
            None => self.unlocked(name)?,
        };
        let mut new = Vec::with_capacity(entries.len());
        let mut kept = None;
        for (key, value) in entries {
            let key = fitting(name, table, key)?;
            match table.entries.get(&key) {
                Some(_) if !update => {
                    // The entry keeps its value, so that a script can run twice. An existing entry
                    // is an error only if no entry of the command is new, or if all must be added.
                    let (count, first) = kept.unwrap_or((0, key));
                    kept = Some((count + 1, first));
                }
                _ => new.push((key, *value)),
            }
        }
        if let Some((_, key)) = kept.as_ref().filter(|_| atomic || new.is_empty()) {
            return Err(ApplyError::EntryExists { name: name.clone(), key: key.to_string() });
        }
        let fresh =
            new.iter().filter(|(key, _)| !table.entries.contains_key(key)).map(|(key, _)| key);
        let wanted = table.entries.len() + fresh.collect::<std::collections::BTreeSet<_>>().len();
        if let Some(limit) = table.limit.filter(|&limit| wanted > limit as usize) {
            return Err(ApplyError::TableFull { name: name.clone(), limit, wanted });
        }
        let changed =
            made.is_some() || new.iter().any(|(key, value)| table.entries.get(key) != Some(value));
        let warnings = made.is_some().then(|| Warning::TableMade { name: name.clone() });
        if let Some(table) = made {
            Arc::make_mut(&mut self.tables).insert(name.clone(), Arc::new(table));
        }
        if changed {
            self.table_mut(name).entries.extend(new);
        }
        let kept = kept.map(|(count, ..)| Warning::EntriesKept { name: name.clone(), count });
        Ok(Outcome::changed(changed).warn(warnings).warn(kept))
    }

    fn delete_entries(&mut self, name: &Name, keys: &[TableKey]) -> Result<Outcome, ApplyError> {
        let table = self.unlocked(name)?;
        let mut missing = 0;
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let key = fitting(name, table, key)?;
            if table.entries.contains_key(&key) {
                found.push(key);
            } else if keys.len() == 1 {
                return Err(ApplyError::NoEntry { name: name.clone(), key: key.to_string() });
            } else {
                missing += 1;
            }
        }
        let changed = !found.is_empty();
        if changed {
            let entries = &mut self.table_mut(name).entries;
            for key in found {
                entries.remove(&key);
            }
        }
        let missing =
            (missing > 0).then(|| Warning::EntriesMissing { name: name.clone(), count: missing });
        Ok(Outcome::changed(changed).warn(missing))
    }

    fn swap_tables(&mut self, name: &Name, other: &Name) -> Result<Outcome, ApplyError> {
        let (a, b) = (self.unlocked(name)?, self.unlocked(other)?);
        if a.kind != b.kind {
            return Err(ApplyError::TableKind {
                name: name.clone(),
                has: a.kind.word(),
                given: b.kind.word(),
            });
        }
        for (name, table, from) in [(name, a, b), (other, b, a)] {
            if let Some(limit) = table.limit.filter(|&limit| from.entries.len() > limit as usize) {
                return Err(ApplyError::TableFull {
                    name: name.clone(),
                    limit,
                    wanted: from.entries.len(),
                });
            }
        }
        if name == other || a.entries == b.entries {
            return Ok(Outcome::changed(false));
        }
        let taken = std::mem::take(&mut self.table_mut(name).entries);
        let given = std::mem::replace(&mut self.table_mut(other).entries, taken);
        self.table_mut(name).entries = given;
        Ok(Outcome::changed(true))
    }

    fn may_destroy(&self, name: &Name) -> Result<(), ApplyError> {
        self.unlocked(name)?;
        let user = self.users_of(name).next();
        user.map_or(Ok(()), |rule| {
            Err(ApplyError::TableInUse { name: name.clone(), rule: rule.number })
        })
    }

    /// Rules that use a table.
    pub fn users_of(&self, name: &str) -> impl Iterator<Item = &Rule> {
        self.rules
            .iter()
            .map(|entry| &*entry.rule)
            .filter(move |rule| tables_of(rule).any(|used| **used == *name))
    }

    fn find_table(&self, name: &Name) -> Result<&Table, ApplyError> {
        self.tables
            .get(name)
            .map(|table| &**table)
            .ok_or_else(|| ApplyError::NoTable { name: name.clone() })
    }

    fn unlocked(&self, name: &Name) -> Result<&Table, ApplyError> {
        let table = self.find_table(name)?;
        if table.locked { Err(ApplyError::TableLocked { name: name.clone() }) } else { Ok(table) }
    }

    /// Returns a table that must exist.
    fn table_mut(&mut self, name: &Name) -> &mut Table {
        match Arc::make_mut(&mut self.tables).get_mut(name) {
            Some(table) => Arc::make_mut(table),
            None => unreachable!("the table was looked up before"),
        }
    }
}

/// The key in the form that the table stores; fields of a flow that the table does not use are 0.
fn fitting(name: &Name, table: &Table, key: &TableKey) -> Result<TableKey, ApplyError> {
    match (table.kind, key) {
        (TableKind::Flow(fields), TableKey::Flow { ipv6, src, dst, proto, src_port, dst_port }) => {
            Ok(TableKey::Flow {
                ipv6: *ipv6 && (fields.src_ip || fields.dst_ip),
                src: if fields.src_ip { *src } else { 0 },
                dst: if fields.dst_ip { *dst } else { 0 },
                proto: if fields.proto { *proto } else { 0 },
                src_port: if fields.src_port { *src_port } else { 0 },
                dst_port: if fields.dst_port { *dst_port } else { 0 },
            })
        }
        // An IPv4 address may be written as a number.
        (TableKind::Address, TableKey::Number(number)) => {
            Ok(TableKey::V4 { address: *number, len: 32 })
        }
        // An interface may have a number as its name.
        (TableKind::Interface, TableKey::Number(number)) => {
            Ok(TableKey::Interface(number.to_string().into()))
        }
        (kind, key) if kind == key.natural_kind() => Ok(key.clone()),
        (kind, key) => Err(ApplyError::TableKind {
            name: name.clone(),
            has: kind.word(),
            given: key.natural_kind().word(),
        }),
    }
}

/// Tables that a rule uses.
pub(super) fn tables_of(rule: &Rule) -> impl Iterator<Item = &Name> {
    rule.body.iter().flat_map(|clause| &clause.0).flat_map(|term| -> Vec<&Name> {
        match &term.test {
            Test::SrcAddress(list) | Test::DstAddress(list) => list
                .iter()
                .filter_map(|a| if let Address::Table(t) = a { Some(&t.table) } else { None })
                .collect(),
            Test::Via(Interface::Table(t))
            | Test::Recv(Interface::Table(t))
            | Test::Xmit(Interface::Table(t)) => vec![&t.table],
            Test::Lookup { table, .. } | Test::Flow(table) => vec![&table.table],
            _ => Vec::new(),
        }
    })
}

impl Table {
    /// The entry that matches a key: the longest prefix that contains it, or the equal key.
    pub fn lookup(&self, key: &TableKey) -> Option<(TableKey, u32)> {
        let at = |key: TableKey| self.entries.get(&key).map(|&value| (key, value));
        match *key {
            TableKey::V4 { address, len } => (0..=len).rev().find_map(|len| {
                let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
                at(TableKey::V4 { address: address & mask, len })
            }),
            TableKey::V6 { address, len } => (0..=len).rev().find_map(|len| {
                let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
                at(TableKey::V6 { address: address & mask, len })
            }),
            _ => at(key.clone()),
        }
    }
}

impl TableKind {
    /// The word for the type in the language.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Address => "addr",
            Self::Interface => "iface",
            Self::Number => "number",
            Self::Flow(_) => "flow",
        }
    }
}

impl TableKey {
    /// The type of table that fits a key. For a flow, the type has every field.
    fn natural_kind(&self) -> TableKind {
        match self {
            Self::V4 { .. } | Self::V6 { .. } => TableKind::Address,
            Self::Interface(_) => TableKind::Interface,
            Self::Number(_) => TableKind::Number,
            Self::Flow { .. } => TableKind::Flow(FlowFields {
                src_ip: true,
                proto: true,
                src_port: true,
                dst_ip: true,
                dst_port: true,
            }),
        }
    }
}

/// The form in the language: `10.0.0.0/8`, `eth0`, `80`, `10.0.0.1,6,1025,10.0.0.2,80`.
impl fmt::Display for TableKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4 { address, len } => write!(f, "{}/{len}", Ipv4Addr::from(*address)),
            Self::V6 { address, len } => write!(f, "{}/{len}", Ipv6Addr::from(*address)),
            Self::Interface(name) => f.write_str(name),
            Self::Number(number) => write!(f, "{number}"),
            Self::Flow { ipv6: true, src, dst, proto, src_port, dst_port } => {
                write!(
                    f,
                    "{},{proto},{src_port},{},{dst_port}",
                    Ipv6Addr::from(*src),
                    Ipv6Addr::from(*dst)
                )
            }
            Self::Flow { ipv6: false, src, dst, proto, src_port, dst_port } => {
                let (src, dst) = (Ipv4Addr::from(*src as u32), Ipv4Addr::from(*dst as u32));
                write!(f, "{src},{proto},{src_port},{dst},{dst_port}")
            }
        }
    }
}
