//! A configuration as the commands that create it.

use std::sync::Arc;

use super::netconfig::{is_netconfig_pipe, is_netconfig_rule, pipes_of};
use super::{NetLink, Ruleset};
use crate::command::{Command, NetConfigCommand, SetCommand, TableCommand};
use crate::rule::{Name, RuleAction, Target};
use crate::script;
use crate::table::Table;

impl Ruleset {
    /// The commands that create this configuration from an empty one, in canonical form, one per
    /// line.
    ///
    /// The resulting configuration treats packets in the same manner. Rules get new identities,
    /// `netconfig` links get new slots, and the lifetimes of links start again.
    pub fn script(&self) -> String {
        let mut text = String::new();
        for command in self.commands() {
            text.push_str(&script::print(&command));
            text.push('\n');
        }
        text
    }

    /// The commands of [`Self::script`].
    pub fn commands(&self) -> Vec<Command> {
        let mut commands = Vec::new();
        if !self.one_pass {
            commands.push(Command::OnePass(false));
        }
        for (name, table) in self.tables.iter() {
            table_commands(name, table, &mut commands);
        }
        let pipes = self.pipes.iter().filter(|(number, _)| !is_netconfig_pipe(**number));
        commands.extend(
            pipes.map(|(&number, spec)| Command::ConfigPipe(number, Box::new((**spec).clone()))),
        );
        commands.extend(
            self.scheds
                .iter()
                .map(|(&number, spec)| Command::ConfigSched(number, Box::new((**spec).clone()))),
        );
        commands.extend(
            self.queues
                .iter()
                .map(|(&number, spec)| Command::ConfigQueue(number, Box::new((**spec).clone()))),
        );
        if self.enabled_sets != u32::MAX {
            commands
                .push(Command::Set(SetCommand::Switch { enable: 0, disable: !self.enabled_sets }));
        }
        for entry in self.rules.iter() {
            match entry.rule.action {
                // The first of a link's two rules represents the link.
                RuleAction::Pipe(Target::Number(pipe)) if is_netconfig_rule(&entry.rule) => {
                    let link = self.netconfigs.iter().find(|link| pipes_of(link.slot)[0] == pipe);
                    commands.extend(link.map(config_command));
                }
                _ => commands.push(Command::Add(Box::new((*entry.rule).clone()))),
            }
        }
        commands
    }

    /// The links that `netconfig` created, as commands.
    pub fn netconfig_lines(&self) -> Vec<String> {
        self.netconfigs.iter().map(|link| script::print(&config_command(link))).collect()
    }
}

fn config_command(link: &NetLink) -> Command {
    Command::NetConfig(NetConfigCommand::Config(Box::new((*link.config).clone())))
}

fn table_commands(name: &Name, table: &Arc<Table>, commands: &mut Vec<Command>) {
    let create = TableCommand::Create { kind: table.kind, limit: table.limit, missing_only: false };
    commands.push(Command::Table(name.clone(), create));
    let entries: Vec<_> = table.entries.iter().map(|(key, &value)| (key.clone(), value)).collect();
    for part in entries.chunks(ENTRIES_A_LINE) {
        let add = TableCommand::Add { entries: part.to_vec(), atomic: false, update: false };
        commands.push(Command::Table(name.clone(), add));
    }
    if table.locked {
        commands.push(Command::Table(name.clone(), TableCommand::Lock(true)));
    }
}

/// Maximum number of entries in one line of a script.
const ENTRIES_A_LINE: usize = 100;
