//! Names of nodes, links and traffic, and the diagnostics about them.

use std::collections::BTreeMap;

use weir_rules::{Code, Span};

use super::model::Node;
use super::raw;
use super::read::Say;
use crate::topology::PathError;

/// Refuses names that cannot be used in keys or results.
pub(super) fn check_name(name: &raw::Text, what: &str, said: &mut Say<'_>) {
    let text = name.get_ref();
    let fits = |c: char| c.is_alphanumeric() || "-_+".contains(c);
    if text.is_empty() || !text.chars().all(fits) || text.len() > LONGEST_NAME {
        let help =
            format!("a {what}'s name has 1 to {LONGEST_NAME} letters, digits, `-`, `_` and `+`");
        said.error(
            Code::BadValue,
            &name.span(),
            format!("this is no name for a {what}"),
            "not allowed here",
            &help,
        );
    }
}

/// The node with a name.
pub(super) fn node(
    name: &str,
    span: &Span,
    numbers: &BTreeMap<String, usize>,
    said: &mut Say<'_>,
) -> Option<usize> {
    let number = numbers.get(name).copied();
    if number.is_none() {
        let help =
            format!("nodes are not made by being named: add `[[node]]` with `name = \"{name}\"`");
        said.unknown(span, "node", name, numbers.keys().map(String::as_str), &help);
    }
    number
}

/// Reports that there is no path.
pub(super) fn unreachable(
    error: &PathError,
    span: &Span,
    [from, to]: [usize; 2],
    nodes: &[Node],
    said: &mut Say<'_>,
) {
    let [from, to] = [from, to].map(|node| nodes[node].name.as_str());
    let message = format!("`{to}` cannot be reached from `{from}`");
    let (label, help) = match error {
        PathError::Same => {
            ("the same node".to_owned(), "source and destination are different nodes".to_owned())
        }
        PathError::NoLinks => (
            "no chain of links leads to it".to_owned(),
            format!("add a `[[link]]` on the way from `{from}` to `{to}`"),
        ),
        PathError::OverHost(host) => {
            let host = nodes[*host].name.as_str();
            let help = format!("hosts do not forward: give `{host}` the line `kind = \"router\"`");
            (format!("the way leads through the host `{host}`"), help)
        }
    };
    said.error(Code::Contradiction, span, message, label, &help);
}

/// Bytes of the longest name.
const LONGEST_NAME: usize = 64;
