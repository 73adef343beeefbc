//! Parses the text of a scenario file into its keys. Each table is parsed separately, so that an
//! error in one table does not hide errors in the next.

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Error, ValueDeserializer};
use weir_rules::{Code, Span, closest};

use super::collector::Collector;
use super::{Axis, raw};

/// The parts of a file.
#[derive(Debug)]
pub(super) struct Document<'a> {
    pub(super) head: raw::Head,
    pub(super) nodes: Vec<Entry<'a, raw::Node>>,
    pub(super) links: Vec<Spanned<raw::Link>>,
    pub(super) routes: Vec<Spanned<raw::Route>>,
    pub(super) traffic: Vec<Entry<'a, raw::Traffic>>,
    pub(super) measure: Option<raw::Measure>,
    pub(super) sweep: Vec<(Axis, Span)>,
}

/// A table that has a kind: the keys that all kinds share, and the settings of its kind.
#[derive(Debug)]
pub(super) struct Entry<'a, T> {
    pub(super) common: T,
    pub(super) settings: Spanned<DeValue<'a>>,
}

pub(super) fn document<'a>(collector: &mut Collector<'a>) -> Option<Document<'a>> {
    let root = match DeTable::parse(collector.text) {
        Ok(root) => root,
        Err(error) => {
            collector.add_toml_error(&error, None);
            return None;
        }
    };
    let first_line = 0..collector.text.find('\n').unwrap_or(collector.text.len());
    let mut head = DeTable::new();
    let mut sections: [Vec<Spanned<DeValue<'a>>>; 4] = Default::default();
    let (mut measure, mut sweep) = (None, Vec::new());
    for (key, value) in root.into_inner() {
        let name = key.get_ref().as_ref().to_owned();
        match name.as_str() {
            "measure" => measure = one_table(collector, "measure", value),
            "sweep" => sweep = axes(collector, value),
            name => match SECTIONS.iter().position(|section| *section == name) {
                Some(at) => sections[at] = tables(collector, name, value),
                None if HEAD.contains(&name) => drop(head.insert(key, value)),
                None => {
                    let label =
                        closest(name, HEAD.into_iter().chain(SECTIONS).chain(["measure", "sweep"]));
                    let label = label.map_or("no key of a scenario".to_owned(), |meant| {
                        format!("did you mean `{meant}`?")
                    });
                    let allowed = format!(
                        "allowed: {}, {}, measure, sweep",
                        HEAD.join(", "),
                        SECTIONS.join(", ")
                    );
                    collector.error(
                        Code::UnknownKeyword,
                        &key.span(),
                        format!("`{name}` is no key"),
                        label,
                        &allowed,
                    );
                }
            },
        }
    }
    let [nodes, links, routes, traffic] = sections;
    let head = item(collector, Spanned::new(first_line, DeValue::Table(head)));
    let nodes =
        nodes.into_iter().filter_map(|value| split(collector, value, &raw::NODE_KEYS)).collect();
    let links = items(collector, links);
    let routes = items(collector, routes);
    let traffic = traffic
        .into_iter()
        .filter_map(|value| split(collector, value, &raw::TRAFFIC_KEYS))
        .collect();
    Some(Document { head: head?, nodes, links, routes, traffic, measure, sweep })
}

/// Parses a table into a `T`, which has a field for each key of the table.
pub(super) fn item<T: DeserializeOwned>(
    collector: &mut Collector<'_>,
    value: Spanned<DeValue<'_>>,
) -> Option<T> {
    let span = value.span();
    accept(collector, &span, T::deserialize(ValueDeserializer::from(value)))
}

/// Returns the result of parsing the table at `span`. If parsing failed, adds a diagnostic.
pub(super) fn accept<T>(
    collector: &mut Collector<'_>,
    span: &Span,
    parsed: Result<T, Error>,
) -> Option<T> {
    match parsed {
        Ok(item) => Some(item),
        Err(error) => {
            collector.add_toml_error(&error, Some(span));
            None
        }
    }
}

/// Parses a table that a file has at most once.
fn one_table<T: DeserializeOwned>(
    collector: &mut Collector<'_>,
    name: &str,
    value: Spanned<DeValue<'_>>,
) -> Option<T> {
    if value.get_ref().is_table() {
        return item(collector, value);
    }
    let span = collector.first_line(value.span());
    collector.error(
        Code::BadValue,
        &span,
        format!("`{name}` is one table for the whole scenario"),
        format!("expected `[{name}]`"),
        "write it once, with one bracket on each side",
    );
    None
}

/// Parses tables, each into a `T`. Tables with errors are left out.
fn items<T: DeserializeOwned>(
    collector: &mut Collector<'_>,
    values: Vec<Spanned<DeValue<'_>>>,
) -> Vec<Spanned<T>> {
    let parse = |value: Spanned<DeValue<'_>>| {
        let span = value.span();
        Some(Spanned::new(span, item(collector, value)?))
    };
    values.into_iter().filter_map(parse).collect()
}

/// The tables under the name `name`, which are written `[[name]]`.
fn tables<'a>(
    collector: &mut Collector<'a>,
    name: &str,
    value: Spanned<DeValue<'a>>,
) -> Vec<Spanned<DeValue<'a>>> {
    let span = collector.first_line(value.span());
    match value.into_inner() {
        DeValue::Array(values) => values.into_iter().collect(),
        _ => {
            let label = format!("expected tables `[[{name}]]`");
            collector.error(
                Code::BadValue,
                &span,
                format!("`{name}` is a list of tables"),
                label,
                "write each one as a table, with two brackets on each side",
            );
            Vec::new()
        }
    }
}

/// Splits a table into the keys that all kinds share and those of its kind.
fn split<'a, T: DeserializeOwned>(
    collector: &mut Collector<'a>,
    value: Spanned<DeValue<'a>>,
    keys: &[&str],
) -> Option<Entry<'a, T>> {
    let span = value.span();
    let DeValue::Table(table) = value.into_inner() else {
        collector.error(
            Code::BadValue,
            &span,
            "this is no table",
            "expected a table of its own",
            "",
        );
        return None;
    };
    let (common, settings): (DeTable<'a>, DeTable<'a>) =
        table.into_iter().partition(|(key, _)| keys.contains(&key.get_ref().as_ref()));
    let Some(common) = item(collector, Spanned::new(span.clone(), DeValue::Table(common))) else {
        // A key that seems to be missing may be present under a misspelled name.
        for key in settings.keys() {
            if let Some(meant) = closest(key.get_ref(), keys.iter().copied()) {
                let message = format!("`{}` is no key", key.get_ref());
                collector.error(
                    Code::UnknownKeyword,
                    &key.span(),
                    message,
                    format!("did you mean `{meant}`?"),
                    "",
                );
            }
        }
        return None;
    };
    Some(Entry { common, settings: Spanned::new(span, DeValue::Table(settings)) })
}

/// Parses the axes of a sweep: `[sweep] "key" = [values]` or
/// `[[sweep]] key = "…" values = […]`.
fn axes(collector: &mut Collector<'_>, value: Spanned<DeValue<'_>>) -> Vec<(Axis, Span)> {
    let span = collector.first_line(value.span());
    match value.into_inner() {
        DeValue::Table(table) => {
            let axes = table
                .into_iter()
                .map(|(key, value)| (key.get_ref().as_ref().to_owned(), key.span(), value));
            axes.collect::<Vec<_>>()
                .into_iter()
                .filter_map(|(key, span, value)| axis(collector, key, span, &value))
                .collect()
        }
        DeValue::Array(tables) => {
            tables.into_iter().filter_map(|table| axis_table(collector, table)).collect()
        }
        _ => {
            collector.error(
                Code::BadValue,
                &span,
                "`sweep` is a table",
                "expected `[sweep]` or `[[sweep]]`",
                SWEEP_EXAMPLE,
            );
            Vec::new()
        }
    }
}

fn axis_table(collector: &mut Collector<'_>, value: Spanned<DeValue<'_>>) -> Option<(Axis, Span)> {
    let span = collector.first_line(value.span());
    let DeValue::Table(mut table) = value.into_inner() else {
        collector.error(
            Code::BadValue,
            &span,
            "a sweep is a table",
            "expected `key` and `values`",
            SWEEP_EXAMPLE,
        );
        return None;
    };
    let (key, values) = (table.remove("key"), table.remove("values"));
    if let Some((other, _)) = table.into_iter().next() {
        let message = format!("`{}` is no key", other.get_ref());
        collector.error(
            Code::UnknownKeyword,
            &other.span(),
            message,
            "no key of a sweep",
            "allowed: key, values",
        );
    }
    let (Some(key), Some(values)) = (key, values) else {
        collector.error(
            Code::MissingValue,
            &span,
            "a sweep needs `key` and `values`",
            "one of them is missing",
            SWEEP_EXAMPLE,
        );
        return None;
    };
    let Some(name) = key.get_ref().as_str().map(str::to_owned) else {
        collector.error(
            Code::BadValue,
            &key.span(),
            "a key is a text",
            "expected a key's name",
            SWEEP_EXAMPLE,
        );
        return None;
    };
    axis(collector, name, key.span(), &values)
}

fn axis(
    collector: &mut Collector<'_>,
    key: String,
    span: Span,
    values: &Spanned<DeValue<'_>>,
) -> Option<(Axis, Span)> {
    let list = values.get_ref().as_array().filter(|list| !list.is_empty());
    let Some(list) = list else {
        collector.error(
            Code::BadValue,
            &values.span(),
            format!("`{key}` needs a list of values"),
            "expected a list with one value or more",
            SWEEP_EXAMPLE,
        );
        return None;
    };
    let values = list.iter().map(|value| collector.text[value.span()].to_owned()).collect();
    Some((Axis { key, values }, span))
}

/// Keys at the top of the file, outside tables.
pub(super) const HEAD: [&str; 5] = ["name", "duration", "warmup", "seed", "runs"];
/// Lists of tables.
pub(super) const SECTIONS: [&str; 4] = ["node", "link", "route", "traffic"];
const SWEEP_EXAMPLE: &str =
    "for example `[[sweep]] key = \"traffic.f1.rate\" values = [\"1Mbit/s\", \"2Mbit/s\"]`";
