//! The canonical form of commands: each command has exactly one, and it reads back as the same
//! command.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::command::{
    AllTablesCommand, Command, NetConfig, NetConfigCommand, NetConfigMode, Numbers, QueueSpec,
    RuleSelection, SchedSpec, SetCommand, TableCommand,
};
use crate::lex::quote;
use crate::print::{canonical, canonical_queue};
use crate::quantity::write_probability;
use crate::rule::{Clause, Rule, RuleAction};
use crate::table::{FlowFields, TableKey, TableKind};

use super::lex::tidy_comment;
use super::names::{write_dscp, write_protocol};
use super::netconfig::MODES;
use super::objects::kind_name;
use super::options::write_number_or_tablearg;
use super::scheduler;
use super::tables::FLOW_FIELDS;

mod body;

/// The command in canonical form. Reading it gives the same command if the files that it names are
/// the same.
pub fn print(command: &Command) -> String {
    match command {
        Command::ConfigPipe(number, link) => {
            words(&[&format!("pipe {number} config"), &canonical(link)])
        }
        Command::ConfigSched(number, spec) => sched(*number, spec),
        Command::ConfigQueue(number, spec) => config_queue(*number, spec),
        Command::DeleteObjects(kind, numbers) => {
            format!("{} delete{}", kind_name(*kind), list(numbers))
        }
        Command::FlushObjects(kind) => format!("{} flush", kind_name(*kind)),
        Command::ShowObjects(kind, numbers) => {
            format!("{} show{}", kind_name(*kind), list(numbers))
        }
        Command::Add(rule) => add(rule),
        Command::DeleteRules(RuleSelection::Set(set)) => format!("delete set {set}"),
        Command::DeleteRules(RuleSelection::Numbers(numbers, set)) => {
            format!(
                "delete{}{}",
                set.map_or_else(String::new, |set| format!(" set {set}")),
                list(numbers)
            )
        }
        Command::ListRules { which, counters } => {
            format!("{}{}", if *counters { "show" } else { "list" }, list(which))
        }
        Command::Zero(numbers) => format!("zero{}", list(numbers)),
        Command::FlushRules => "flush".to_owned(),
        Command::Set(command) => set(command),
        Command::Table(name, command) => table(name, command),
        Command::AllTables(command) => format!(
            "table all {}",
            match command {
                AllTablesCommand::Flush => "flush",
                AllTablesCommand::Destroy => "destroy",
                AllTablesCommand::List => "list",
                AllTablesCommand::Info => "info",
            }
        ),
        Command::OnePass(on) => format!("{} one_pass", if *on { "enable" } else { "disable" }),
        Command::NetConfig(command) => netconfig(command),
        Command::Nothing => ":".to_owned(),
    }
}

/// A clause of a rule, such as `dst-port 443`.
pub fn print_clause(clause: &Clause) -> String {
    body::write(std::slice::from_ref(clause))
}

/// The words joined by spaces, without the empty ones.
fn words(words: &[&str]) -> String {
    let words: Vec<&str> = words.iter().copied().filter(|w| !w.is_empty()).collect();
    words.join(" ")
}

fn list(numbers: &[Numbers]) -> String {
    let one = |n: &Numbers| {
        if n.first == n.last { format!(" {}", n.first) } else { format!(" {}-{}", n.first, n.last) }
    };
    numbers.iter().map(one).collect()
}

fn sched(number: u16, spec: &SchedSpec) -> String {
    let mask = &spec.scheduler.mask;
    let mask =
        if mask.is_empty() { String::new() } else { format!("mask {}", crate::mask::write(mask)) };
    let most =
        spec.scheduler.max_instances.map_or_else(String::new, |most| format!("max_flows {most}"));
    let parent =
        spec.scheduler.parent.map_or_else(String::new, |parent| format!("parent {parent}"));
    words(&[
        &format!("sched {number} config {}", scheduler::write(&spec.scheduler.discipline)),
        &parent,
        &mask,
        &most,
        &canonical(&spec.link),
    ])
}

fn config_queue(number: u16, spec: &QueueSpec) -> String {
    let head = format!("queue {number} config sched {}", spec.scheduler);
    words(&[&head, &canonical_queue(&spec.flowset)])
}

fn add(rule: &Rule) -> String {
    let mut out = "add".to_owned();
    let mut word = |text: String| {
        out.push(' ');
        out += &text;
    };
    if rule.number != 0 {
        word(rule.number.to_string());
    }
    if rule.set != 0 {
        word(format!("set {}", rule.set));
    }
    if let Some(probability) = rule.probability {
        word(format!("prob {}", write_probability(probability)));
    }
    word(action(&rule.action));
    if rule.log {
        word("log".to_owned());
    }
    for (name, target) in [("tag", rule.tag), ("untag", rule.untag)] {
        if let Some(target) = target {
            word(format!("{name} {}", write_number_or_tablearg(target)));
        }
    }
    let body = body::write(&rule.body);
    if !body.is_empty() {
        word(body);
    }
    if let Some(comment) = rule.comment.as_deref().and_then(tidy_comment) {
        word(format!("// {comment}"));
    }
    out
}

fn action(action: &RuleAction) -> String {
    match action {
        RuleAction::Allow => "allow".to_owned(),
        RuleAction::Deny => "deny".to_owned(),
        RuleAction::Count => "count".to_owned(),
        RuleAction::Pipe(to) => format!("pipe {}", write_number_or_tablearg(*to)),
        RuleAction::Queue(to) => format!("queue {}", write_number_or_tablearg(*to)),
        RuleAction::SkipTo(to) => format!("skipto {}", write_number_or_tablearg(*to)),
        RuleAction::Call(to) => format!("call {}", write_number_or_tablearg(*to)),
        RuleAction::Return => "return".to_owned(),
        RuleAction::SetDscp(crate::rule::Target::Number(code)) => {
            format!("setdscp {}", write_dscp(*code as u8))
        }
        RuleAction::SetDscp(to) => format!("setdscp {}", write_number_or_tablearg(*to)),
        RuleAction::CheckState(name) => format!("check-state{}", body::state(name.as_ref())),
    }
}

fn set(command: &SetCommand) -> String {
    match command {
        SetCommand::Switch { enable, disable } => {
            let bits = |name: &str, bits: u32| {
                let numbers: String =
                    (0..32).filter(|n| bits >> n & 1 == 1).map(|n| format!(" {n}")).collect();
                if numbers.is_empty() { String::new() } else { format!(" {name}{numbers}") }
            };
            format!("set{}{}", bits("disable", *disable), bits("enable", *enable))
        }
        SetCommand::MoveRule { rule, to } => format!("set move rule {rule} to {to}"),
        SetCommand::MoveSet { from, to } => format!("set move {from} to {to}"),
        SetCommand::Swap(a, b) => format!("set swap {a} {b}"),
        SetCommand::Show => "set show".to_owned(),
    }
}

fn table(name: &str, command: &TableCommand) -> String {
    let mut prefix = "";
    let rest = match command {
        TableCommand::Create { kind, limit, missing_only } => {
            let limit = limit.map_or_else(String::new, |n| format!(" limit {n}"));
            format!(
                "create type {}{limit}{}",
                table_kind(*kind),
                if *missing_only { " missing" } else { "" }
            )
        }
        TableCommand::Destroy => "destroy".to_owned(),
        TableCommand::Add { entries, atomic, update } => {
            prefix = if *update { "-q " } else { "" };
            let pairs: String =
                entries.iter().map(|(k, value)| format!(" {} {value}", key(k))).collect();
            format!("{}add{pairs}", if *atomic { "atomic " } else { "" })
        }
        TableCommand::Delete(keys) => {
            format!("delete{}", keys.iter().map(|k| format!(" {}", key(k))).collect::<String>())
        }
        TableCommand::Flush => "flush".to_owned(),
        TableCommand::Swap(other) => format!("swap {other}"),
        TableCommand::Lock(true) => "lock".to_owned(),
        TableCommand::Lock(false) => "unlock".to_owned(),
        TableCommand::List => "list".to_owned(),
        TableCommand::Info => "info".to_owned(),
        TableCommand::Lookup(k) => format!("lookup {}", key(k)),
    };
    format!("{prefix}table {name} {rest}")
}

fn table_kind(kind: TableKind) -> String {
    match kind {
        TableKind::Address => "addr".to_owned(),
        TableKind::Interface => "iface".to_owned(),
        TableKind::Number => "number".to_owned(),
        TableKind::Flow(FlowFields { src_ip, proto, src_port, dst_ip, dst_port }) => {
            let used = [src_ip, proto, src_port, dst_ip, dst_port];
            let fields: Vec<&str> = FLOW_FIELDS
                .iter()
                .zip(used)
                .filter(|(_, used)| *used)
                .map(|(name, _)| *name)
                .collect();
            format!("flow:{}", fields.join(","))
        }
    }
}

pub(crate) fn key(key: &TableKey) -> String {
    match key {
        TableKey::V4 { address, len } => format!("{}/{len}", Ipv4Addr::from(*address)),
        TableKey::V6 { address, len } => format!("{}/{len}", Ipv6Addr::from(*address)),
        TableKey::Interface(name) => quote(name, |_| false),
        TableKey::Number(number) => number.to_string(),
        TableKey::Flow { ipv6, src, dst, proto, src_port, dst_port } => {
            let address = |bits: u128| match (bits, ipv6) {
                (0, false) => "*".to_owned(),
                (bits, true) => Ipv6Addr::from(bits).to_string(),
                (bits, false) => Ipv4Addr::from(bits as u32).to_string(),
            };
            let port = |port: u16| if port == 0 { "*".to_owned() } else { port.to_string() };
            let proto = if *proto == 0 { "*".to_owned() } else { write_protocol(*proto) };
            format!(
                "{},{proto},{},{},{}",
                address(*src),
                port(*src_port),
                address(*dst),
                port(*dst_port)
            )
        }
    }
}

fn netconfig(command: &NetConfigCommand) -> String {
    match command {
        NetConfigCommand::Config(config) => netconfig_line(config),
        NetConfigCommand::List => "netconfig list".to_owned(),
        NetConfigCommand::Delete(mode, ports) => {
            format!("netconfig delete {} {}", mode_name(*mode), body::spans(ports))
        }
        NetConfigCommand::Flush => "netconfig flush".to_owned(),
    }
}

fn netconfig_line(config: &NetConfig) -> String {
    let peers =
        if config.peers.is_empty() { String::new() } else { body::addresses(&config.peers) };
    let expire = config.expires_s.map_or_else(String::new, |s| format!("expire {s}"));
    let head =
        format!("netconfig config {} {}", mode_name(config.mode), body::spans(&config.ports));
    words(&[
        &head,
        &peers,
        "IN",
        &canonical(&config.inbound),
        "OUT",
        &canonical(&config.outbound),
        &expire,
    ])
}

fn mode_name(mode: NetConfigMode) -> &'static str {
    MODES.iter().find(|(_, m)| *m == mode).map_or("service", |(name, _)| name)
}
