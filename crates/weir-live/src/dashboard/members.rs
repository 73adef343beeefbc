//! The members of large groups: the instances of a mask, or all pipes, schedulers or queues.

use std::fmt::Write as _;
use std::net::IpAddr;

use weir_control::dashboard::{Group, Kind, Member, Object};
use weir_core::key::FlowKey;
use weir_linux::live::NoAnswer;
use weir_rules::command::ObjectKind;
use weir_rules::ruleset::Ruleset;

use crate::daemon::instances;
use crate::session::Control;

pub(super) fn members(
    control: &Control,
    rules: &Ruleset,
    group: Group,
) -> Result<Vec<Member>, NoAnswer> {
    match group {
        Group::Instances(kind, number) => {
            let read = instances::totals(control.engine(), kind.into(), number, MOST_MEMBERS)?;
            let member = |(key, hash, totals): (FlowKey, u64, weir_core::Totals)| Member {
                id: hash,
                name: name_of(&key),
                addresses: addresses_of(&key),
                object: None,
                packets_in: totals.packets,
                bytes_in: totals.bytes,
                drops: totals.drops,
                queue_packets: totals.queued_packets,
                queue_bytes: totals.queued_bytes,
            };
            Ok(read.into_iter().map(member).collect())
        }
        Group::All(kind) => all(control, rules, kind),
    }
}

/// All pipes, schedulers or queues of the rules.
fn all(control: &Control, rules: &Ruleset, kind: Kind) -> Result<Vec<Member>, NoAnswer> {
    let (numbers, object): (Vec<u16>, fn(u16) -> Object) = match kind {
        Kind::Pipe => (rules.pipes.keys().copied().collect(), Object::Pipe),
        Kind::Sched => (rules.scheds.keys().copied().collect(), Object::Sched),
        Kind::Queue => (rules.queues.keys().copied().collect(), Object::Queue),
    };
    let is_queue = ObjectKind::from(kind) == ObjectKind::Queue;
    let mut members = Vec::with_capacity(numbers.len());
    for portion in numbers.chunks(if is_queue { QUEUES } else { LINKS }) {
        let wanted = portion.to_vec();
        let parts = control.engine().with_engines(move |engine, _| {
            let one = |&id: &u16| {
                // Packets and bytes that arrived, drops, packets and bytes in the queue.
                let mut sum = [0u64; 5];
                if is_queue {
                    for flow in engine.flows_of(id, None, MOST_FLOWS) {
                        let totals = &flow.totals;
                        let own = [
                            totals.packets,
                            totals.bytes,
                            totals.drops,
                            totals.queued_packets,
                            totals.queued_bytes,
                        ];
                        add(&mut sum, &own);
                    }
                } else if let Some(stats) = engine.stats(id) {
                    let (packets, bytes) = engine.queue_length(id);
                    let counters = &stats.counters;
                    let drops = counters.total_drops();
                    sum = [counters.packets_in, counters.bytes_in, drops, packets, bytes];
                }
                sum
            };
            wanted.iter().map(one).collect::<Vec<_>>()
        })?;
        for (index, &number) in portion.iter().enumerate() {
            let mut sum = [0u64; 5];
            parts.iter().for_each(|worker| add(&mut sum, &worker[index]));
            let [packets_in, bytes_in, drops, queue_packets, queue_bytes] = sum;
            let object = object(number);
            members.push(Member {
                id: number.into(),
                name: object.name(),
                addresses: Vec::new(),
                object: Some(object),
                packets_in,
                bytes_in,
                drops,
                queue_packets,
                queue_bytes,
            });
        }
    }
    Ok(members)
}

fn add(sum: &mut [u64; 5], other: &[u64; 5]) {
    sum.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
}

/// The fields of a key that are not 0, as a name for users.
pub(super) fn name_of(key: &FlowKey) -> String {
    let mut name = String::new();
    let end = |bits: u128, port: u16| {
        let address = match (bits, key.ipv6) {
            (0, _) => "*".to_owned(),
            (bits, true) if port > 0 => format!("[{}]", IpAddr::V6(bits.into())),
            (bits, true) => IpAddr::V6(bits.into()).to_string(),
            (bits, false) => IpAddr::V4((bits as u32).into()).to_string(),
        };
        if port > 0 { format!("{address}:{port}") } else { address }
    };
    if key.src != 0 || key.dst != 0 || key.src_port != 0 || key.dst_port != 0 {
        // Writing to a string cannot fail.
        let _ = write!(name, "{} → {}", end(key.src, key.src_port), end(key.dst, key.dst_port));
    }
    let mac = |bits: u64| {
        let bytes = bits.to_be_bytes();
        let pairs: Vec<String> = bytes[2..].iter().map(|byte| format!("{byte:02x}")).collect();
        pairs.join(":")
    };
    let numbers = [
        ("proto", u64::from(key.proto)),
        ("vlan", u64::from(key.vlan)),
        ("dscp", u64::from(key.dscp)),
        ("flow", u64::from(key.flow_id)),
    ];
    for (what, value) in numbers.into_iter().filter(|(_, value)| *value > 0) {
        let _ = write!(name, " {what} {value}");
    }
    for (what, bits) in [("from", key.src_mac), ("to", key.dst_mac)] {
        if bits > 0 {
            let _ = write!(name, " {what} {}", mac(bits));
        }
    }
    if name.is_empty() { "all".to_owned() } else { name.trim_start().to_owned() }
}

fn addresses_of(key: &FlowKey) -> Vec<IpAddr> {
    let address = |bits: u128| match (bits, key.ipv6) {
        (0, _) => None,
        (bits, true) => Some(IpAddr::V6(bits.into())),
        (bits, false) => Some(IpAddr::V4((bits as u32).into())),
    };
    [key.src, key.dst].into_iter().filter_map(address).collect()
}

/// Maximum number of members of a group.
const MOST_MEMBERS: usize = 65_536;
/// Number of links for which a worker reads the counters between two turns of its loop.
const LINKS: usize = 128;
/// Number of queues for which a worker adds up the flows between two turns of its loop.
const QUEUES: usize = 16;
/// Maximum number of flows of a queue that are added up, because packets wait meanwhile.
const MOST_FLOWS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_fields_that_distinguish() {
        let key = FlowKey { src: 0x0a00_0307, ..FlowKey::default() };
        assert_eq!(name_of(&key), "10.0.3.7 → *");
        let key = FlowKey { dst: 1, dst_port: 443, ipv6: true, proto: 6, ..FlowKey::default() };
        assert_eq!(name_of(&key), "* → [::1]:443 proto 6");
        assert_eq!(name_of(&FlowKey { vlan: 7, ..FlowKey::default() }), "vlan 7");
        assert_eq!(
            name_of(&FlowKey { src_mac: 0x0102, ..key }).split(" from ").nth(1),
            Some("00:00:00:00:01:02")
        );
        assert_eq!(name_of(&FlowKey::default()), "all");
    }
}
