//! `netconfig`: two pipes and the rules that lead to them, configured by one line.
//!
//! Each link has a slot, 0 to 499, with two pipes (64001 + 2·slot inwards, the next number
//! outwards) and two rules with the number 1 in set 31. The rules therefore precede all rules with
//! larger numbers, and `flush` does not delete them. A repeated command with the same mode, ports
//! and peers changes only the pipes: queued packets and the counters of the rules are kept.

use std::sync::Arc;

use super::{ApplyError, MAX_NETCONFIGS, NetLink, Outcome, Ruleset};
use crate::command::{NetConfig, NetConfigCommand, NetConfigMode};
use crate::rule::{Clause, RESERVED_SET, Rule, RuleAction, Target, Term, Test};

impl Ruleset {
    pub(super) fn netconfig(&mut self, command: &NetConfigCommand) -> Result<Outcome, ApplyError> {
        match command {
            NetConfigCommand::Config(config) => self.set_netconfig(config),
            NetConfigCommand::Delete(mode, ports) => {
                let meant =
                    |link: &NetLink| link.config.mode == *mode && link.config.ports == *ports;
                self.netconfigs.iter().find(|link| meant(link)).ok_or(ApplyError::NoNetConfig)?;
                Ok(Outcome::changed(self.drop_netconfigs(meant) > 0))
            }
            NetConfigCommand::Flush => Ok(Outcome::changed(self.drop_netconfigs(|_| true) > 0)),
            NetConfigCommand::List => Ok(super::Query::NetConfigs.into()),
        }
    }

    fn set_netconfig(&mut self, config: &NetConfig) -> Result<Outcome, ApplyError> {
        let same = |link: &NetLink| {
            link.config.mode == config.mode
                && link.config.ports == config.ports
                && link.config.peers == config.peers
        };
        let slot = match self.netconfigs.iter_mut().find(|link| same(link)) {
            Some(link) => {
                // A repeated command restarts the lifetime of the link.
                link.deadline_s = None;
                if *link.config == *config {
                    return Ok(Outcome::changed(config.expires_s.is_some()));
                }
                link.config = Arc::new(config.clone());
                link.slot
            }
            None => {
                let free = (0..MAX_NETCONFIGS)
                    .find(|&slot| self.netconfigs.iter().all(|link| link.slot != slot));
                let slot = free.ok_or(ApplyError::TooManyNetConfigs)?;
                self.netconfigs.push(NetLink {
                    config: Arc::new(config.clone()),
                    slot,
                    deadline_s: None,
                });
                for rule in rules(config, slot) {
                    self.insert_rule(rule);
                }
                slot
            }
        };
        let [inwards, outwards] = pipes_of(slot);
        let pipes = Arc::make_mut(&mut self.pipes);
        pipes.insert(inwards, Arc::new(config.inbound.clone()));
        pipes.insert(outwards, Arc::new(config.outbound.clone()));
        Ok(Outcome::changed(true))
    }

    /// Deletes the links with an expired lifetime, and returns their number.
    ///
    /// The lifetime of a link starts at the first call after the link was configured. `now_s` is in
    /// seconds of any clock that never goes back.
    pub fn expire(&mut self, now_s: u64) -> usize {
        for link in &mut self.netconfigs {
            if let (None, Some(seconds)) = (link.deadline_s, link.config.expires_s) {
                link.deadline_s = Some(now_s.saturating_add(seconds.into()));
            }
        }
        self.drop_netconfigs(|link| link.deadline_s.is_some_and(|deadline| deadline <= now_s))
    }

    /// When the next link expires, in seconds of the clock that [`Self::expire`] uses.
    pub fn next_expiry_s(&self) -> Option<u64> {
        self.netconfigs.iter().filter_map(|link| link.deadline_s).min()
    }

    fn drop_netconfigs(&mut self, meant: impl Fn(&NetLink) -> bool) -> usize {
        let gone: Vec<u16> = self
            .netconfigs
            .iter()
            .filter(|link| meant(link))
            .flat_map(|link| pipes_of(link.slot))
            .collect();
        if gone.is_empty() {
            return 0;
        }
        self.netconfigs.retain(|link| !meant(link));
        Arc::make_mut(&mut self.pipes).retain(|number, _| !gone.contains(number));
        Arc::make_mut(&mut self.rules).retain(|entry| match entry.rule.action {
            RuleAction::Pipe(Target::Number(pipe)) => {
                !(is_netconfig_rule(&entry.rule) && gone.contains(&pipe))
            }
            _ => true,
        });
        gone.len() / 2
    }
}

/// The rules that lead to the pipes of a link.
fn rules(config: &NetConfig, slot: u16) -> [Rule; 2] {
    let [inwards, outwards] = pipes_of(slot);
    let port = |src: bool| {
        if src { Test::SrcPort(config.ports.clone()) } else { Test::DstPort(config.ports.clone()) }
    };
    let peers = |src: bool| {
        let list = config.peers.clone();
        if list.is_empty() {
            None
        } else if src {
            Some(Test::SrcAddress(list))
        } else {
            Some(Test::DstAddress(list))
        }
    };
    let direction = |out: bool| {
        // The service's port is the destination port of packets towards the service, and the source
        // port of packets from it.
        let ports = match config.mode {
            NetConfigMode::Client => vec![port(!out)],
            NetConfigMode::Server => vec![port(out)],
            NetConfigMode::Service => vec![port(true), port(false)],
        };
        let tests = [
            Some(vec![if out { Test::Out } else { Test::In }]),
            Some(ports),
            peers(!out).map(|test| vec![test]),
        ];
        let clause = |tests: Vec<Test>| {
            Clause(tests.into_iter().map(|test| Term { not: false, test }).collect())
        };
        Rule {
            number: NETCONFIG_RULE,
            set: RESERVED_SET,
            probability: None,
            action: RuleAction::Pipe(Target::Number(if out { outwards } else { inwards })),
            tag: None,
            untag: None,
            log: false,
            body: tests.into_iter().flatten().map(clause).collect(),
            comment: None,
        }
    };
    [direction(false), direction(true)]
}

/// The pipes of a slot: inwards and outwards.
pub(crate) fn pipes_of(slot: u16) -> [u16; 2] {
    [FIRST_NETCONFIG_PIPE + 2 * slot, FIRST_NETCONFIG_PIPE + 2 * slot + 1]
}

/// Whether a pipe's number is one of those that `netconfig` assigns.
pub(crate) fn is_netconfig_pipe(number: u16) -> bool {
    (FIRST_NETCONFIG_PIPE..FIRST_NETCONFIG_PIPE + 2 * MAX_NETCONFIGS).contains(&number)
}

/// Whether `netconfig` created a rule.
pub(crate) fn is_netconfig_rule(rule: &Rule) -> bool {
    let its_pipe =
        matches!(rule.action, RuleAction::Pipe(Target::Number(pipe)) if is_netconfig_pipe(pipe));
    its_pipe && rule.number == NETCONFIG_RULE && rule.set == RESERVED_SET
}

/// The number of the rules that `netconfig` creates; they are in set 31.
pub const NETCONFIG_RULE: u16 = 1;
/// The lowest number of the pipes that `netconfig` creates.
pub const FIRST_NETCONFIG_PIPE: u16 = 64_001;
