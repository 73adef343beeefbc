//! `netconfig`: a link for one service in both directions, modelled on PlanetLab's command.

use weir_core::units::Nanos;

use crate::command::{Command, NetConfig, NetConfigCommand, NetConfigMode};
use crate::diagnostic::Code;
use crate::lex::Word;
use crate::link::LinkSpec;
use crate::quantity;
use crate::rule::Span16;

use super::cursor::{Cursor, Read};
use super::names;
use super::objects::link;

/// Reads the words after `netconfig`.
pub(crate) fn netconfig(cursor: &mut Cursor<'_>) -> Read<Vec<Command>> {
    let verb = cursor.expect("a verb", EXAMPLE)?;
    Ok(vec![Command::NetConfig(match verb.text.as_str() {
        "config" => config(cursor)?,
        "list" | "show" => NetConfigCommand::List,
        "delete" => {
            let (mode, ports) = service(cursor)?;
            NetConfigCommand::Delete(mode, ports)
        }
        "flush" => NetConfigCommand::Flush,
        _ => {
            return Err(cursor.unknown(
                &verb,
                "verb of `netconfig`",
                ["config", "list", "delete", "flush"].into_iter(),
            ));
        }
    })])
}

fn service(cursor: &mut Cursor<'_>) -> Read<(NetConfigMode, Vec<Span16>)> {
    let word = cursor.expect("`client`, `server` or `service`", EXAMPLE)?;
    let mode = MODES.iter().find(|(name, _)| *name == word.text).map(|&(_, mode)| mode);
    let mode = mode.ok_or_else(|| {
        cursor.unknown(&word, "mode of `netconfig`", MODES.iter().map(|(name, _)| *name))
    })?;
    Ok((mode, cursor.spans("port", u16::MAX, names::service, EXAMPLE)?))
}

fn config(cursor: &mut Cursor<'_>) -> Read<NetConfigCommand> {
    let (mode, ports) = service(cursor)?;
    let mut peers = Vec::new();
    while let Some(word) = cursor.peek().filter(|w| part(w).is_none()).cloned() {
        cursor.at += 1;
        peers.extend(cursor.addresses_in(&word)?);
    }
    let (mut inbound, mut outbound, mut expires_s) = (None, None, None);
    while let Some(word) = cursor.next() {
        let Some(which) = part(&word) else { return Err(cursor.unexpected(&word)) };
        if which == Part::Expire {
            set(cursor, &word, &mut expires_s, seconds)?;
            continue;
        }
        let direction = if which == Part::In { &mut inbound } else { &mut outbound };
        set(cursor, &word, direction, |cursor| Ok(one_link(cursor)))?;
    }
    let (Some(inbound), Some(outbound)) = (inbound, outbound) else {
        return Err(cursor.missing("`IN SPEC` and `OUT SPEC`", EXAMPLE));
    };
    Ok(NetConfigCommand::Config(Box::new(NetConfig {
        mode,
        ports,
        peers,
        inbound,
        outbound,
        expires_s,
    })))
}

/// Reads a part that may be given only once.
fn set<T>(
    cursor: &mut Cursor<'_>,
    word: &Word,
    to: &mut Option<T>,
    read: impl FnOnce(&mut Cursor<'_>) -> Read<T>,
) -> Read<()> {
    if to.is_some() {
        let error =
            cursor.error(Code::Repeated, &word.span, format!("`{}` is given twice", word.text));
        return Err(Box::new(error.label("the second time").help("remove one of the two")));
    }
    *to = Some(read(cursor)?);
    Ok(())
}

/// Reads the words up to the next part as a link.
fn one_link(cursor: &mut Cursor<'_>) -> LinkSpec {
    let end = cursor.words[cursor.at..]
        .iter()
        .position(|w| part(w).is_some())
        .map_or(cursor.words.len(), |i| cursor.at + i);
    let words = cursor.words[cursor.at..end].to_vec();
    cursor.at = end;
    link(cursor, &words)
}

fn seconds(cursor: &mut Cursor<'_>) -> Read<u32> {
    let word = cursor
        .expect("a time", "netconfig config client 80 IN delay 1ms OUT delay 1ms expire 1h")?;
    let (number, factor) = match word.text.strip_suffix(['m', 'h', 'd']) {
        Some(number) => (
            number.to_owned() + "s",
            if word.text.ends_with('m') {
                60
            } else if word.text.ends_with('h') {
                3600
            } else {
                86_400
            },
        ),
        None if word.text.ends_with(|c: char| c.is_ascii_digit()) => (word.text.clone() + "s", 1),
        None => (word.text.clone(), 1),
    };
    let seconds = quantity::time(&number, Nanos::from_secs(u32::MAX.into()))
        .ok()
        .map(|time| time.0.saturating_mul(factor).div_ceil(1_000_000_000));
    match seconds.and_then(|s| u32::try_from(s).ok()).filter(|&s| s > 0) {
        Some(seconds) => Ok(seconds),
        None => Err(cursor.bad(
            &word.span,
            format!("`{}` is no time to expire after", crate::diagnostic::shorten(&word.text)),
            "seconds, or a number with s, m, h or d",
        )),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    In,
    Out,
    Expire,
}

/// The part that a word begins.
fn part(word: &Word) -> Option<Part> {
    match word.text.as_str() {
        _ if word.quoted => None,
        "IN" | "in" => Some(Part::In),
        "OUT" | "out" => Some(Part::Out),
        "expire" => Some(Part::Expire),
        _ => None,
    }
}

pub(crate) const MODES: [(&str, NetConfigMode); 3] = [
    ("client", NetConfigMode::Client),
    ("server", NetConfigMode::Server),
    ("service", NetConfigMode::Service),
];
const EXAMPLE: &str = "netconfig config client 80 IN delay 100ms OUT bw 1Mbit/s";
