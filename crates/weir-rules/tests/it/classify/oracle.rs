//! A naive interpreter of rules. It tries every rule in order, performs every test on the packet as
//! documented, and searches tables by trying all prefix lengths. It is slow, and simple enough to
//! be evidently correct.

use std::collections::HashMap;
use std::net::IpAddr;

use weir_core::rng::{Purpose, Stream};
use weir_rules::classify::{Fate, Pass, Place, Resume};
use weir_rules::rule::{
    Address, Interface, LookupField, Rule, RuleAction, Span16, TableMatch, Target, Test,
};
use weir_rules::ruleset::Ruleset;
use weir_rules::table::{FlowFields, TableKey, TableKind};
use weir_wire::builder::{PacketBuilder, Transport};

/// The rules with the state that the interpreter needs.
pub(crate) struct Oracle<'a> {
    pub(crate) ruleset: &'a Ruleset,
    pub(crate) place: &'a Place,
    streams: HashMap<u32, Stream>,
    /// The number of packets by rule identity; 0 is the default rule.
    pub(crate) packets: HashMap<u32, u64>,
    pub(crate) tags: Vec<u16>,
}

/// A packet during its examination.
struct Case<'a> {
    packet: &'a PacketBuilder,
    pass: Pass,
    dscp: u8,
    /// The value of the last look-up.
    found: Option<u32>,
}

impl<'a> Oracle<'a> {
    pub(crate) fn new(ruleset: &'a Ruleset, place: &'a Place) -> Self {
        Self { ruleset, place, streams: HashMap::new(), packets: HashMap::new(), tags: Vec::new() }
    }

    pub(crate) fn verdict(
        &mut self,
        packet: &PacketBuilder,
        pass: Pass,
        from: Option<Resume>,
    ) -> (Fate, Option<u8>) {
        self.tags.clear();
        let rules = &self.ruleset.rules;
        let mut case = Case { packet, pass, dscp: packet.dscp, found: None };
        let (mut dscp, mut calls, mut jumps) = (None, Vec::new(), 0);
        let mut at =
            from.map_or(0, |from| match rules.iter().position(|entry| entry.id == from.id) {
                Some(at) => at + 1,
                None => rules.iter().take_while(|entry| entry.rule.number <= from.number).count(),
            });
        while let Some(entry) = rules.get(at) {
            let rule = &*entry.rule;
            at += 1;
            if !self.matches(entry.id, rule, &mut case) {
                continue;
            }
            *self.packets.entry(entry.id).or_default() += 1;
            self.retag(rule, case.found);
            let value = |target| argument(target, case.found).unwrap();
            let resume =
                (!self.ruleset.one_pass).then_some(Resume { number: rule.number, id: entry.id });
            let to = match &rule.action {
                RuleAction::Allow => return (Fate::Allow, dscp),
                RuleAction::Deny => return (Fate::Deny, dscp),
                RuleAction::Pipe(target) => {
                    return (Fate::Pipe(value(*target) as u16, resume), dscp);
                }
                RuleAction::Queue(target) => {
                    return (Fate::Queue(value(*target) as u16, resume), dscp);
                }
                RuleAction::Count => continue,
                RuleAction::SetDscp(target) => {
                    if !matches!(packet.transport, Transport::Arp) {
                        case.dscp = value(*target) as u8 & 63;
                        dscp = Some(case.dscp);
                    }
                    continue;
                }
                RuleAction::SkipTo(target) => {
                    self.position_of(value(*target).max(u32::from(rule.number) + 1))
                }
                RuleAction::Call(target) if calls.len() < 16 => {
                    calls.push(at);
                    self.position_of(value(*target))
                }
                RuleAction::Return if !calls.is_empty() => calls.pop().unwrap(),
                RuleAction::Call(_) | RuleAction::Return => continue,
                RuleAction::CheckState(_) => unreachable!("the oracle remembers no flows"),
            };
            jumps += 1;
            if jumps > weir_rules::classify::JUMPS {
                return (Fate::Deny, dscp);
            }
            at = to;
        }
        *self.packets.entry(0).or_default() += 1;
        (Fate::Allow, dscp)
    }

    fn position_of(&self, number: u32) -> usize {
        self.ruleset.rules.iter().take_while(|entry| u32::from(entry.rule.number) < number).count()
    }

    fn matches(&mut self, id: u32, rule: &Rule, case: &mut Case<'_>) -> bool {
        case.found = None;
        let tests: Vec<&Test> =
            rule.body.iter().flat_map(|clause| &clause.0).map(|term| &term.test).collect();
        let link = |test: &&Test| {
            matches!(test, Test::Layer2 | Test::Mac { .. } | Test::MacType(_) | Test::Vlan(_))
        };
        let neutral = |test: &&Test| {
            matches!(
                test,
                Test::In
                    | Test::Out
                    | Test::Bridged
                    | Test::Via(_)
                    | Test::Recv(_)
                    | Test::Xmit(_)
                    | Test::Tagged(_)
            )
        };
        let any_address = |test: &&Test| match test {
            Test::SrcAddress(list) | Test::DstAddress(list) => list.contains(&Address::Any),
            _ => false,
        };
        let frames = tests.iter().any(link)
            && tests.iter().all(|test| link(test) || neutral(test) || any_address(test));
        let leaving = rule.body.iter().flat_map(|clause| &clause.0).any(|term| match term.test {
            Test::Out | Test::Xmit(_) => !term.not,
            Test::In => term.not,
            _ => false,
        });
        if self.ruleset.enabled_sets >> rule.set & 1 == 0
            || matches!(case.packet.transport, Transport::Arp) && !frames
            || case.pass.bridged && case.pass.out && !leaving
        {
            return false;
        }
        for clause in &rule.body {
            if !clause.0.iter().any(|term| self.holds(&term.test, case) != term.not) {
                return false;
            }
        }
        let small = |target: Target| {
            argument(target, case.found).is_some_and(|value| (1..65536).contains(&value))
        };
        let there = match rule.action {
            RuleAction::Pipe(target) | RuleAction::Queue(target) => small(target),
            RuleAction::SkipTo(target) | RuleAction::Call(target) | RuleAction::SetDscp(target) => {
                argument(target, case.found).is_some()
            }
            _ => true,
        };
        there
            && rule.tag.is_none_or(small)
            && rule.untag.is_none_or(small)
            && rule.probability.is_none_or(|p| {
                self.streams
                    .entry(id)
                    .or_insert_with(|| Stream::new(1, id.into(), Purpose::Classifier))
                    .happens(p)
            })
    }

    fn holds(&self, test: &Test, case: &mut Case<'_>) -> bool {
        let packet = case.packet;
        let ip = !matches!(packet.transport, Transport::Arp);
        match test {
            Test::Ip4 => ip && packet.src.is_ipv4(),
            Test::Ip6 => ip && packet.src.is_ipv6(),
            Test::Protocol(number) => protocol(packet) == Some(*number),
            Test::SrcAddress(list) => list.iter().any(|wanted| {
                *wanted == Address::Any || ip && self.address(wanted, packet.src, case)
            }),
            Test::DstAddress(list) => list.iter().any(|wanted| {
                *wanted == Address::Any || ip && self.address(wanted, packet.dst, case)
            }),
            Test::SrcPort(spans) => ports(packet).is_some_and(|(port, _)| within(spans, port)),
            Test::DstPort(spans) => ports(packet).is_some_and(|(_, port)| within(spans, port)),
            Test::In => !case.pass.out,
            Test::Out => case.pass.out,
            Test::Bridged => case.pass.bridged,
            Test::Layer2 => true,
            Test::Via(wanted) => self.interface(
                wanted,
                if case.pass.out { case.pass.xmit } else { case.pass.recv },
                case,
            ),
            Test::Recv(wanted) => self.interface(wanted, case.pass.recv, case),
            Test::Xmit(wanted) => {
                self.interface(wanted, if case.pass.out { case.pass.xmit } else { None }, case)
            }
            Test::Vlan(spans) => within(spans, packet.tags.first().map_or(0, |(_, id)| *id)),
            Test::Dscp(points) => ip && points >> case.dscp & 1 == 1,
            Test::IpTtl(spans) => ip && within(spans, packet.ttl.into()),
            Test::TcpFlags { set, clear } => match packet.transport {
                Transport::Tcp { flags, .. } => flags & set == *set && flags & clear == 0,
                _ => false,
            },
            Test::Tagged(spans) => {
                self.tags.iter().any(|tag| spans.is_empty() || within(spans, *tag))
            }
            Test::Lookup { field, table } => {
                let key = match field {
                    LookupField::SrcIp => {
                        return ip
                            && self.address(&Address::Table(table.clone()), packet.src, case);
                    }
                    LookupField::DstIp => {
                        return ip
                            && self.address(&Address::Table(table.clone()), packet.dst, case);
                    }
                    LookupField::SrcPort => ports(packet).map(|(port, _)| port.into()),
                    LookupField::DstPort => ports(packet).map(|(_, port)| port.into()),
                    LookupField::Dscp => ip.then_some(case.dscp.into()),
                };
                self.wanted(
                    table,
                    key.and_then(|key| self.entry(table, &TableKey::Number(key))),
                    case,
                )
            }
            Test::Flow(table) => self.wanted(table, self.flow(table, packet), case),
            other => unreachable!("not drawn: {other:?}"),
        }
    }

    fn address(&self, wanted: &Address, address: IpAddr, case: &mut Case<'_>) -> bool {
        let me = || self.place.interfaces.iter();
        match (wanted, address) {
            (Address::Any, _) => true,
            (Address::Me, IpAddr::V4(a)) => me().any(|interface| interface.v4.contains(&a.into())),
            (Address::Me | Address::Me6, IpAddr::V6(a)) => {
                me().any(|interface| interface.v6.contains(&a.into()))
            }
            (Address::V4 { address, mask }, IpAddr::V4(a)) => u32::from(a) & mask == *address,
            (Address::V6 { address, mask }, IpAddr::V6(a)) => u128::from(a) & mask == *address,
            (Address::Set { base, members }, IpAddr::V4(a)) => (0..256).any(|n| {
                members[n / 64] >> (n % 64) & 1 == 1 && base.checked_add(n as u32) == Some(a.into())
            }),
            (Address::Table(table), _) => {
                let longest = match address {
                    IpAddr::V4(a) => (0..=32u8).rev().find_map(|len| {
                        let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
                        self.entry(table, &TableKey::V4 { address: u32::from(a) & mask, len })
                    }),
                    IpAddr::V6(a) => (0..=128u8).rev().find_map(|len| {
                        let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
                        self.entry(table, &TableKey::V6 { address: u128::from(a) & mask, len })
                    }),
                };
                self.wanted(table, longest, case)
            }
            _ => false,
        }
    }

    fn entry(&self, table: &TableMatch, key: &TableKey) -> Option<u32> {
        self.ruleset.tables.get(&table.table)?.entries.get(key).copied()
    }

    fn wanted(&self, table: &TableMatch, value: Option<u32>, case: &mut Case<'_>) -> bool {
        let value = value.filter(|value| table.value.is_none_or(|wanted| wanted == *value));
        if value.is_some() {
            case.found = value;
        }
        value.is_some()
    }

    fn flow(&self, table: &TableMatch, packet: &PacketBuilder) -> Option<u32> {
        let TableKind::Flow(FlowFields { src_ip, proto, src_port, dst_ip, dst_port }) =
            self.ruleset.tables.get(&table.table)?.kind
        else {
            return None;
        };
        let bits = |address, used| match address {
            IpAddr::V4(a) if used => u32::from(a).into(),
            IpAddr::V6(a) if used => a.into(),
            _ => 0u128,
        };
        let (sport, dport) = ports(packet).unwrap_or((0, 0));
        let key = TableKey::Flow {
            ipv6: packet.src.is_ipv6() && (src_ip || dst_ip),
            src: bits(packet.src, src_ip),
            dst: bits(packet.dst, dst_ip),
            proto: if proto { protocol(packet)? } else { 0 },
            src_port: if src_port { sport } else { 0 },
            dst_port: if dst_port { dport } else { 0 },
        };
        protocol(packet).and_then(|_| self.entry(table, &key))
    }

    fn interface(&self, wanted: &Interface, number: Option<u16>, case: &mut Case<'_>) -> bool {
        let Some(number) = number else { return false };
        let interface = &self.place.interfaces[usize::from(number)];
        match wanted {
            Interface::Any => true,
            Interface::Name(name) => match name.strip_suffix('*') {
                Some(start) => interface.name.starts_with(start),
                None => interface.name == *name,
            },
            Interface::V4(address) => interface.v4.contains(address),
            Interface::V6(address) => interface.v6.contains(address),
            Interface::Table(table) => {
                let value = self.entry(table, &TableKey::Interface(interface.name.clone()));
                self.wanted(table, value, case)
            }
        }
    }

    fn retag(&mut self, rule: &Rule, found: Option<u32>) {
        let value =
            |target: Option<Target>| target.map(|target| argument(target, found).unwrap() as u16);
        if let Some(tag) = value(rule.untag) {
            self.tags.retain(|other| *other != tag);
        }
        if let Some(tag) = value(rule.tag).filter(|tag| !self.tags.contains(tag)) {
            self.tags.push(tag);
        }
    }
}

fn argument(target: Target, found: Option<u32>) -> Option<u32> {
    match target {
        Target::Number(number) => Some(number.into()),
        Target::TableArg => found,
    }
}

fn within(spans: &[Span16], number: u16) -> bool {
    spans.iter().any(|span| span.first <= number && number <= span.last)
}

fn protocol(packet: &PacketBuilder) -> Option<u8> {
    match packet.transport {
        Transport::Udp { .. } => Some(17),
        Transport::Tcp { .. } => Some(6),
        Transport::Echo { .. } if packet.src.is_ipv4() => Some(1),
        Transport::Echo { .. } => Some(58),
        _ => None,
    }
}

fn ports(packet: &PacketBuilder) -> Option<(u16, u16)> {
    match packet.transport {
        Transport::Udp { src_port, dst_port } | Transport::Tcp { src_port, dst_port, .. } => {
            Some((src_port, dst_port))
        }
        _ => None,
    }
}
