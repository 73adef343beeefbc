//! Names of nodes, links and traffic, and the diagnostics about them.

use std::collections::{BTreeMap, BTreeSet};

use weir_rules::{Code, Span};

use super::collector::Collector;
use super::model::Node;
use super::raw;
use crate::topology::PathError;

/// Reports a name that cannot be used in keys or results.
pub(super) fn check_name(name: &raw::Text, what: &str, collector: &mut Collector<'_>) {
    let text = name.get_ref();
    let fits = |c: char| c.is_alphanumeric() || "-_+".contains(c);
    if text.is_empty() || !text.chars().all(fits) || text.len() > LONGEST_NAME {
        let help =
            format!("a {what}'s name has 1 to {LONGEST_NAME} letters, digits, `-`, `_` and `+`");
        collector.error(
            Code::BadValue,
            &name.span(),
            format!("this is no name for a {what}"),
            "not allowed here",
            &help,
        );
    }
}

/// The first of `plain`, `plain+2`, `plain+3`, … that is not taken.
pub(super) fn free_name(plain: &str, taken: &BTreeSet<String>) -> String {
    let mut names = (1u64..).map(|n| if n == 1 { plain.into() } else { format!("{plain}+{n}") });
    names.find(|name| !taken.contains(name)).unwrap_or_default()
}

/// The index of the node with a name.
pub(super) fn node(
    name: &str,
    span: &Span,
    numbers: &BTreeMap<String, usize>,
    collector: &mut Collector<'_>,
) -> Option<usize> {
    let number = numbers.get(name).copied();
    if number.is_none() {
        let help = format!("each node must be declared: add `[[node]]` with `name = \"{name}\"`");
        collector.unknown(span, "node", name, numbers.keys().map(String::as_str), &help);
    }
    number
}

pub(super) fn unreachable(
    error: &PathError,
    span: &Span,
    [from, to]: [usize; 2],
    nodes: &[Node],
    collector: &mut Collector<'_>,
) {
    let [from, to] = [from, to].map(|node| nodes[node].name.as_str());
    let message = format!("`{to}` cannot be reached from `{from}`");
    let (label, help) = match error {
        PathError::Same => {
            ("the same node".to_owned(), "source and destination are different nodes".to_owned())
        }
        PathError::NoLinks => (
            "no chain of links leads to it".to_owned(),
            format!("add a `[[link]]` on the path from `{from}` to `{to}`"),
        ),
        PathError::OverHost(host) => {
            let host = nodes[*host].name.as_str();
            let help = format!("hosts do not forward: give `{host}` the line `kind = \"router\"`");
            (format!("the path leads through the host `{host}`"), help)
        }
    };
    collector.error(Code::Contradiction, span, message, label, &help);
}

/// Bytes of the longest permitted name.
const LONGEST_NAME: usize = 64;
