//! The cost of a command: how much of a configuration it visits.
//!
//! Most commands visit little, but some visit all rules or all queues. A request may have hundreds
//! of thousands of such commands, so the daemon adds up their costs.

use super::{Outcome, Ruleset};
use crate::command::{Command, Numbers, RuleSelection, TableCommand};

impl Ruleset {
    /// The approximate number of times that the command visits an object of this configuration.
    /// Printing an object counts as hundreds of visits.
    #[must_use]
    pub fn cost(&self, command: &Command) -> u64 {
        let rules = self.rules.len();
        let objects = self.pipes.len() + self.scheds.len() + self.queues.len();
        let ranges = |which: &[Numbers]| which.len() + 1;
        let entries = |table: &crate::table::Table| table.entries.len();
        let cost = match command {
            // Later rules move.
            Command::Add(_) => rules / MOVED,
            Command::ConfigPipe(number, _) if !self.scheds.contains_key(number) => 1,
            Command::ConfigPipe(..) | Command::ConfigSched(..) | Command::ConfigQueue(..) => {
                objects * SCANS
            }
            Command::DeleteObjects(_, which) => (objects + rules) * ranges(which),
            Command::DeleteRules(RuleSelection::Numbers(which, _)) => rules * ranges(which),
            Command::DeleteRules(RuleSelection::Set(_)) | Command::FlushRules | Command::Set(_) => {
                rules
            }
            Command::Zero(which) => rules * (ranges(which) + LISTED),
            Command::FlushObjects(_) => objects + rules,
            Command::ShowObjects(_, which) => objects * (ranges(which) + PRINTED),
            Command::ListRules { which, .. } => rules * (ranges(which) + PRINTED),
            Command::Table(name, command) => {
                let own = self.tables.get(name).map_or(0, |table| entries(table));
                match command {
                    TableCommand::Destroy | TableCommand::Swap(_) => own + rules * SCANS,
                    TableCommand::Flush => own,
                    TableCommand::List => own * PRINTED,
                    TableCommand::Add { entries, .. } => entries.len() * SCANS,
                    TableCommand::Delete(keys) => keys.len() * SCANS,
                    _ => 1,
                }
            }
            Command::AllTables(_) => {
                let all: usize = self.tables.values().map(|table| entries(table) + 1).sum();
                all * PRINTED + self.tables.len() * rules
            }
            Command::NetConfig(_) => self.netconfigs.len() * PRINTED + rules,
            Command::OnePass(_) | Command::Nothing => 0,
        };
        cost as u64 + 1
    }
}

impl Outcome {
    /// The cost of the warnings, which adds to that of the command.
    #[must_use]
    pub fn cost(&self) -> u64 {
        (self.warnings.len() * PRINTED) as u64
    }
}

/// Moves of objects in memory that count as one visit.
const MOVED: usize = 16;
/// Visits that count for an object if a command searches it several times.
const SCANS: usize = 4;
/// Visits that count for adding an object to a list without duplicates.
const LISTED: usize = 512;
/// Visits that count for printing an object.
const PRINTED: usize = 256;
