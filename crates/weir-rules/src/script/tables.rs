//! `table`: commands that create, fill and show tables.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::command::{AllTablesCommand, Command, TableCommand};
use crate::diagnostic::Code;
use crate::diagnostic::shorten;
use crate::lex::Word;
use crate::rule::Name;
use crate::table::{FlowFields, TableKey, TableKind};

use super::address::prefix_mask;
use super::cursor::{Cursor, Read};
use super::names;
use super::values::integer;

/// Reads the words after `table`.
pub(crate) fn table(cursor: &mut Cursor<'_>) -> Read<Vec<Command>> {
    let word = cursor.expect("a table's name", EXAMPLE)?;
    if word.text == "all" && !word.quoted {
        return all(cursor);
    }
    let name = cursor.table_name(&word, &word.text)?;
    let atomic = cursor.take("atomic");
    let verb = cursor.expect("a verb", EXAMPLE)?;
    let command = match verb.text.as_str() {
        "add" => add(cursor, &name, atomic)?,
        "delete" => TableCommand::Delete(keys(cursor, &name)?),
        "create" => create(cursor, &name)?,
        "destroy" => TableCommand::Destroy,
        "flush" => TableCommand::Flush,
        "swap" => {
            let other = cursor.expect("a table's name", "table new swap old")?;
            TableCommand::Swap(cursor.table_name(&other, &other.text)?)
        }
        "lock" => TableCommand::Lock(true),
        "unlock" => TableCommand::Lock(false),
        "list" | "show" => TableCommand::List,
        "info" | "detail" => TableCommand::Info,
        "lookup" => {
            let word = cursor.expect("a key", "table customers lookup 10.0.0.1")?;
            TableCommand::Lookup(key(cursor, &word, &name)?)
        }
        "modify" => {
            let error = cursor.error(
                Code::NotYet,
                &verb.span,
                "the limit of a table is set when it is created",
            );
            return Err(Box::new(
                error
                    .label("not offered")
                    .help("create another table with the limit, and `swap` the two"),
            ));
        }
        _ => return Err(cursor.unknown(&verb, "verb of `table`", VERBS.into_iter())),
    };
    if atomic && !matches!(command, TableCommand::Add { .. }) {
        let error = cursor.error(
            Code::Unexpected,
            &verb.span,
            format!("`atomic` does not go with `{}`", verb.text),
        );
        return Err(Box::new(error.label("only `add` has it").help("leave `atomic` out")));
    }
    Ok(vec![Command::Table(name, command)])
}

fn all(cursor: &mut Cursor<'_>) -> Read<Vec<Command>> {
    let verb = cursor.expect("a verb", "table all list")?;
    Ok(vec![Command::AllTables(match verb.text.as_str() {
        "flush" => AllTablesCommand::Flush,
        "destroy" => AllTablesCommand::Destroy,
        "list" | "show" => AllTablesCommand::List,
        "info" | "detail" => AllTablesCommand::Info,
        _ => {
            return Err(cursor.unknown(
                &verb,
                "verb of `table all`",
                ["flush", "destroy", "list", "info"].into_iter(),
            ));
        }
    })])
}

fn create(cursor: &mut Cursor<'_>, name: &Name) -> Read<TableCommand> {
    let (mut kind, mut limit, mut missing_only) = (TableKind::default(), None, false);
    while let Some(word) = cursor.next() {
        match word.text.as_str() {
            "type" => kind = table_kind(cursor)?,
            "limit" => {
                limit = Some(cursor.number(
                    "number of entries",
                    1,
                    u32::MAX.into(),
                    "table t create limit 1000",
                )? as u32);
            }
            "missing" => missing_only = true,
            "valtype" | "algo" => {
                cursor.expect("a name", "table t create valtype pipe")?;
                let why = if word.text == "algo" {
                    "the structure of a table follows from its type"
                } else {
                    "a value means what the rule that finds it does with it"
                };
                cursor.ignore(&word.span, &format!("`{}`", word.text), why);
            }
            _ => {
                return Err(cursor.unknown(
                    &word,
                    "option of `table create`",
                    ["type", "limit", "missing", "valtype", "algo"].into_iter(),
                ));
            }
        }
    }
    match kind {
        TableKind::Flow(fields) => cursor.context.flow_tables.insert(name.clone(), fields),
        _ => cursor.context.flow_tables.remove(name),
    };
    Ok(TableCommand::Create { kind, limit, missing_only })
}

fn table_kind(cursor: &mut Cursor<'_>) -> Read<TableKind> {
    let word = cursor.expect("a type", "table t create type iface")?;
    let (kind, fields) = word
        .text
        .split_once(':')
        .map_or((word.text.as_str(), None), |(kind, fields)| (kind, Some(fields)));
    match (kind, fields) {
        ("addr" | "cidr", None) => Ok(TableKind::Address),
        ("iface", None) => Ok(TableKind::Interface),
        ("number", None) => Ok(TableKind::Number),
        ("flow", None) => Ok(TableKind::Flow(ALL_FIELDS)),
        ("flow", Some(list)) => {
            let mut fields = FlowFields::default();
            for item in list.split(',') {
                let field = match item {
                    "src-ip" => &mut fields.src_ip,
                    "proto" => &mut fields.proto,
                    "src-port" => &mut fields.src_port,
                    "dst-ip" => &mut fields.dst_ip,
                    "dst-port" => &mut fields.dst_port,
                    _ => {
                        let part = Word { text: item.to_owned(), ..word.clone() };
                        return Err(cursor.unknown(
                            &part,
                            "field of a flow table",
                            FLOW_FIELDS.into_iter(),
                        ));
                    }
                };
                *field = true;
            }
            Ok(TableKind::Flow(fields))
        }
        _ => Err(cursor.unknown(
            &word,
            "type of table",
            ["addr", "iface", "number", "flow"].into_iter(),
        )),
    }
}

/// Reads `KEY`, or one or more pairs `KEY VALUE`.
fn add(cursor: &mut Cursor<'_>, name: &Name, atomic: bool) -> Read<TableCommand> {
    let words = cursor.take_rest();
    if words.is_empty() {
        return Err(cursor.missing("a key", EXAMPLE));
    }
    let mut entries = Vec::with_capacity(words.len().div_ceil(2));
    for pair in words.chunks(2) {
        let key = key(cursor, &pair[0], name)?;
        let value = match pair.get(1) {
            Some(word) => cursor.table_value(word, &word.text)?,
            None if words.len() == 1 => 0,
            None => {
                let error =
                    cursor.error(Code::MissingValue, &pair[0].span, "the last key has no value");
                return Err(Box::new(
                    error
                        .label("expected a value after it")
                        .help("of several entries each has a key and a value"),
                ));
            }
        };
        entries.push((key, value));
    }
    Ok(TableCommand::Add { entries, atomic, update: cursor.flags.quiet })
}

fn keys(cursor: &mut Cursor<'_>, name: &Name) -> Read<Vec<TableKey>> {
    let words = cursor.take_rest();
    if words.is_empty() {
        return Err(cursor.missing("a key", "table customers delete 10.0.0.0/24"));
    }
    words.iter().map(|word| key(cursor, word, name)).collect()
}

fn key(cursor: &Cursor<'_>, word: &Word, table: &Name) -> Read<TableKey> {
    let text = word.text.as_str();
    let bad = |expected| {
        cursor.bad(&word.span, format!("`{}` is no key of a table", shorten(text)), expected)
    };
    // The key of a flow table with a single field has no comma.
    let single = |f: &FlowFields| {
        [f.src_ip, f.proto, f.src_port, f.dst_ip, f.dst_port].iter().filter(|used| **used).count()
            == 1
    };
    if text.contains(',') || cursor.context.flow_tables.get(table).is_some_and(single) {
        return flow(cursor, word, table);
    }
    if let Some(number) = integer(text) {
        return u32::try_from(number).map(TableKey::Number).map_err(|_| {
            cursor.out_of_range(&word.span, text, "a table's key", "0 to 4294967295")
        });
    }
    let (address, len) =
        text.split_once('/').map_or((text, None), |(address, len)| (address, Some(len)));
    let len = |full: u8| {
        len.map_or(Some(full), |len| {
            integer(len).and_then(|n| u8::try_from(n).ok()).filter(|&n| n <= full)
        })
    };
    if let Ok(address) = address.parse::<Ipv4Addr>() {
        let len = len(32).ok_or_else(|| bad("a prefix with a length of 0 to 32"))?;
        return Ok(TableKey::V4 {
            address: u32::from(address) & prefix_mask(len.into()).unwrap_or(u32::MAX),
            len,
        });
    }
    if let Ok(address) = address.parse::<Ipv6Addr>() {
        let len = len(128).ok_or_else(|| bad("a prefix with a length of 0 to 128"))?;
        let mask = if len == 0 { 0 } else { u128::MAX << (128 - len) };
        return Ok(TableKey::V6 { address: u128::from(address) & mask, len });
    }
    let fits = !text.is_empty()
        && text.len() <= 15
        && text.chars().all(|c| !c.is_whitespace() && !c.is_control() && !"/:".contains(c));
    if fits {
        Ok(TableKey::Interface(text.into()))
    } else {
        Err(bad("a prefix, a number, an interface's name, or a flow's fields with commas"))
    }
}

/// Parses `SRC,PROTO,SRC-PORT,DST,DST-PORT`, or only the fields with which the table was created.
fn flow(cursor: &Cursor<'_>, word: &Word, table: &Name) -> Read<TableKey> {
    let parts: Vec<&str> = word.text.split(',').map(str::trim).collect();
    let fields = if parts.len() == 5 {
        ALL_FIELDS
    } else {
        cursor.context.flow_tables.get(table).copied().unwrap_or(ALL_FIELDS)
    };
    let used = [fields.src_ip, fields.proto, fields.src_port, fields.dst_ip, fields.dst_port];
    let bad = |text: &str| {
        cursor.bad(&word.span, format!("`{}` is no part of a flow", shorten(text)), FLOW_FORM)
    };
    if used.iter().filter(|used| **used).count() != parts.len() {
        return Err(cursor.bad(
            &word.span,
            format!("`{}` has {} fields", shorten(&word.text), parts.len()),
            FLOW_FORM,
        ));
    }
    let mut parts = parts.into_iter();
    let mut part = |used: bool| if used { parts.next().unwrap_or("*") } else { "*" };
    let [src, proto, src_port, dst, dst_port] = used.map(&mut part);
    let port = |text: &str| match text {
        "*" => Ok(0),
        text => names::service(text)
            .map(u64::from)
            .or_else(|| integer(text))
            .and_then(|n| u16::try_from(n).ok())
            .ok_or_else(|| bad(text)),
    };
    let number = match proto {
        "*" => 0,
        text => names::protocol(text)
            .or_else(|| integer(text).and_then(|n| u8::try_from(n).ok()))
            .ok_or_else(|| bad(text))?,
    };
    let (src_v6, src) = flow_address(src).ok_or_else(|| bad(src))?;
    let (dst_v6, dst) = flow_address(dst).ok_or_else(|| bad(dst))?;
    if src_v6.is_some() && dst_v6.is_some() && src_v6 != dst_v6 {
        return Err(cursor.bad(
            &word.span,
            "the addresses are of different IP versions".to_owned(),
            "both IPv4 or both IPv6",
        ));
    }
    let ipv6 = src_v6.or(dst_v6).unwrap_or(false);
    Ok(TableKey::Flow {
        ipv6,
        src,
        dst,
        proto: number,
        src_port: port(src_port)?,
        dst_port: port(dst_port)?,
    })
}

/// Parses an address of a flow: whether it is IPv6 (`None` for `*`), and its bits.
fn flow_address(text: &str) -> Option<(Option<bool>, u128)> {
    if text == "*" {
        return Some((None, 0));
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Some((Some(false), u32::from(address).into()));
    }
    text.parse::<Ipv6Addr>().ok().map(|address| (Some(true), address.into()))
}

const EXAMPLE: &str = "table customers add 10.0.0.0/24 5";
const FLOW_FORM: &str = "SRC,PROTO,SRC-PORT,DST,DST-PORT, with `*` for what the table does not use";
const VERBS: [&str; 11] = [
    "add", "delete", "create", "destroy", "flush", "swap", "lock", "unlock", "list", "info",
    "lookup",
];
/// The fields of flow tables, in the order in which keys contain them.
pub(crate) const FLOW_FIELDS: [&str; 5] = ["src-ip", "proto", "src-port", "dst-ip", "dst-port"];
/// The fields of a flow table if its command names none.
const ALL_FIELDS: FlowFields =
    FlowFields { src_ip: true, proto: true, src_port: true, dst_ip: true, dst_port: true };
