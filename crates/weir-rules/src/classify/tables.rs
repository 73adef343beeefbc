//! The tables of a classifier, by the numbers that compiled rules use.

use std::collections::BTreeMap;
use std::ops::Index;
use std::sync::Arc;

use super::lookup::Lookup;
use super::place::Place;
use crate::rule::Name;
use crate::ruleset::Ruleset;
use crate::table::{Table, TableKey};

/// Compiled tables. A name keeps its number until the rules change. The number of a destroyed table
/// refers to no table.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    numbers: Arc<BTreeMap<Name, u32>>,
    slots: Vec<Slot>,
}

/// A compiled table, with its source.
#[derive(Clone, Debug)]
struct Slot {
    /// The table from which `lookup` was compiled; `None` if no such table exists.
    table: Option<Arc<Table>>,
    lookup: Arc<Lookup>,
}

impl Slot {
    fn new(table: Option<&Arc<Table>>, place: &Place) -> Self {
        let lookup = table.map_or(Lookup::Missing, |table| Lookup::new(table, place));
        Self { table: table.cloned(), lookup: Arc::new(lookup) }
    }

    /// Whether the slot was compiled from this version of the table.
    fn is_of(&self, table: Option<&Arc<Table>>) -> bool {
        match (&self.table, table) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        }
    }
}

impl Tables {
    /// Compiles the tables with these names and no others. Unchanged tables are taken from
    /// `before`.
    pub(super) fn new<'a>(
        names: impl Iterator<Item = &'a Name>,
        ruleset: &Ruleset,
        place: &Place,
        before: Option<&Self>,
    ) -> Self {
        let mut numbers = BTreeMap::new();
        let mut slots = Vec::new();
        for name in names {
            if numbers.contains_key(name) {
                continue;
            }
            numbers.insert(name.clone(), slots.len() as u32);
            let table = ruleset.tables.get(name);
            let old = before
                .and_then(|before| before.slots.get(*before.numbers.get(name)? as usize))
                .filter(|slot| slot.is_of(table));
            slots.push(old.cloned().unwrap_or_else(|| Slot::new(table, place)));
        }
        Self { numbers: Arc::new(numbers), slots }
    }

    /// The number of a table.
    pub(super) fn number(&self, name: &Name) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// Replaces each changed table by a newly compiled one. The names keep their numbers.
    pub(super) fn refresh(&mut self, ruleset: &Ruleset, place: &Place) {
        for (name, &number) in self.numbers.iter() {
            let (slot, table) = (&mut self.slots[number as usize], ruleset.tables.get(name));
            if !slot.is_of(table) {
                *slot = Slot::new(table, place);
            }
        }
    }

    /// Applies entries of one table that were added, removed or changed.
    pub(super) fn update(
        &mut self,
        name: &Name,
        keys: &[TableKey],
        ruleset: &Ruleset,
        place: &Place,
    ) {
        let Some(number) = self.number(name) else { return };
        let slot = &mut self.slots[number as usize];
        *slot = match ruleset.tables.get(name) {
            Some(table) => Slot {
                table: Some(Arc::clone(table)),
                lookup: Arc::new(slot.lookup.update(table, keys, place)),
            },
            None => Slot::new(None, place),
        };
    }
}

impl Index<u32> for Tables {
    type Output = Lookup;

    #[inline]
    fn index(&self, number: u32) -> &Lookup {
        &self.slots[number as usize].lookup
    }
}
