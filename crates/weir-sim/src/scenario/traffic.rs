//! Traffic of a scenario: its hosts and its kind.

use std::collections::{BTreeMap, BTreeSet};

use toml::Spanned;
use toml::de::{DeValue, ValueDeserializer};
use weir_rules::{Code, Files, Span, closest};

use super::collector::Collector;
use super::names::{check_name, node, unreachable};
use super::read;
use super::{Node, NodeKind, Traffic, raw};
use crate::topology::Topology;
use crate::traffic::{KINDS, Plan, Spec};

/// Checks all traffic. If links have errors, there is no `topology`, and paths are not checked.
pub(super) fn check(
    raw: Vec<read::Entry<'_, raw::Traffic>>,
    numbers: &BTreeMap<String, usize>,
    nodes: &[Node],
    mut topology: Option<&mut Topology>,
    files: &dyn Files,
    collector: &mut Collector<'_>,
) -> Vec<Traffic> {
    let mut taken = BTreeSet::new();
    let mut all = Vec::new();
    for (number, read::Entry { common, settings }) in raw.into_iter().enumerate() {
        let spec = spec(settings, files, collector);
        let name = match &common.name {
            Some(name) => {
                check_name(name, "traffic", collector);
                name.get_ref().clone()
            }
            None => format!("traffic{}", number + 1),
        };
        if !taken.insert(name.clone()) {
            let span = common.name.as_ref().map_or(0..0, Spanned::span);
            let help = "each needs a name of its own; `count` makes several flows, and `group` \
                        combines their statistics";
            collector.error(
                Code::Repeated,
                &span,
                format!("there are two kinds of traffic `{name}`"),
                "the second one",
                help,
            );
        }
        let [from, to] =
            [&common.from, &common.to].map(|names| hosts(names, numbers, nodes, collector));
        let count =
            collector.number(common.count.as_ref(), "a count", 1, 1, super::MAX_FLOWS as i64)
                as u32;
        let class =
            collector.number(common.class.as_ref(), "a class", 0, 0, u16::MAX.into()) as u16;
        let group = common.group.map(Spanned::into_inner);
        let Some((spec, plan)) = spec else { continue };
        let traffic = Traffic { name, from, to, count, class, group, spec, plan };
        if let Some(topology) = topology.as_deref_mut() {
            reachable(&traffic, &common.to, nodes, topology, collector);
        }
        all.push(traffic);
    }
    all
}

/// Checks the settings of a kind. Returns them and the plan that follows from them.
fn spec(
    settings: Spanned<DeValue<'_>>,
    files: &dyn Files,
    collector: &mut Collector<'_>,
) -> Option<(Spec, Plan)> {
    let head = collector.first_line(settings.span());
    let span = settings.span();
    let DeValue::Table(mut table) = settings.into_inner() else { return None };
    let allowed = || {
        format!("allowed: {}", KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", "))
    };
    let Some(kind) = table.remove("kind") else {
        collector.error(
            Code::MissingValue,
            &head,
            "`kind` is missing",
            "which traffic it is",
            &allowed(),
        );
        return None;
    };
    let name = kind.get_ref().as_str().unwrap_or_default().to_owned();
    let places: BTreeMap<String, Span> =
        table.iter().map(|(key, value)| (key.get_ref().to_string(), value.span())).collect();
    let read =
        Spec::read(&name, ValueDeserializer::from(Spanned::new(span, DeValue::Table(table))));
    let Some(read) = read else {
        let label = closest(&name, KINDS.iter().map(|kind| kind.name));
        let label =
            label.map_or("expected a kind".to_owned(), |meant| format!("did you mean `{meant}`?"));
        collector.error(
            Code::BadValue,
            &kind.span(),
            format!("`{name}` is no kind of traffic"),
            label,
            &allowed(),
        );
        return None;
    };
    let spec = read::accept(collector, &head, read)?;
    match spec.check(files) {
        Ok(plan) => Some((spec, plan)),
        Err(error) => {
            let message = error.to_string();
            let (message, help) = message.split_once("; ").unwrap_or((&message, ""));
            let (span, label) = match places.get(error.setting) {
                Some(span) => (span, "not allowed here".to_owned()),
                None => (&head, format!("about `{}`", error.setting)),
            };
            collector.error(Code::BadValue, span, message, label, help);
            None
        }
    }
}

fn hosts(
    names: &Spanned<raw::OneOrMore>,
    numbers: &BTreeMap<String, usize>,
    nodes: &[Node],
    collector: &mut Collector<'_>,
) -> Vec<usize> {
    let span = names.span();
    let mut hosts = Vec::new();
    for name in names.get_ref().names() {
        let Some(number) = node(name, &span, numbers, collector) else { continue };
        if nodes[number].kind != NodeKind::Host {
            let help = "traffic begins and ends at hosts: link one to it";
            collector.error(
                Code::Contradiction,
                &span,
                format!("`{name}` is no host"),
                "sends and receives nothing itself",
                help,
            );
        } else if hosts.contains(&number) {
            let help = "`count` makes several flows between two hosts";
            collector.error(
                Code::Repeated,
                &span,
                format!("`{name}` is named twice"),
                "the same host again",
                help,
            );
        } else {
            hosts.push(number);
        }
    }
    if names.get_ref().names().is_empty() {
        collector.error(
            Code::MissingValue,
            &span,
            "no host is named",
            "expected a host or more",
            "",
        );
    }
    hosts
}

/// Reports traffic between two hosts if one of the two directions has no path.
fn reachable(
    traffic: &Traffic,
    to: &Spanned<raw::OneOrMore>,
    nodes: &[Node],
    topology: &mut Topology,
    collector: &mut Collector<'_>,
) {
    let pairs = traffic.from.iter().flat_map(|&from| traffic.to.iter().map(move |&to| [from, to]));
    for [from, to_node] in pairs.flat_map(|[from, to]| [[from, to], [to, from]]) {
        if let Err(error) = topology.path(from, to_node) {
            unreachable(&error, &to.span(), [from, to_node], nodes, collector);
            return;
        }
    }
}
