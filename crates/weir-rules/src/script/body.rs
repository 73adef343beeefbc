//! A rule's body: `PROTO from A PORTS to B PORTS OPTIONS`, or only options.
//!
//! A body with `from … to …` matches IP packets. A body of options matches other frames too,
//! such as ARP, if it tests the link layer and tests nothing of IP. `ip from any to any` with an
//! option about the link layer means the same as that option alone.

use crate::diagnostic::Code;
use crate::diagnostic::shorten;
use crate::lex::Word;
use crate::rule::{Address, Clause, Term, Test};
use crate::suggest::closest;

use super::cursor::{Cursor, Read};
use super::names;
use super::options::{OPTIONS, is_number};
use super::refused::refusal;
use super::row::Row;
use super::values::protocol;

/// Reads a body until the end of the line.
pub(crate) fn body(cursor: &mut Cursor<'_>) -> Read<Vec<Clause>> {
    prepare(cursor);
    let mut clauses = Vec::new();
    protocols(cursor, &mut clauses)?;
    if cursor.take("from") {
        let any_protocol = clauses.is_empty();
        endpoint(cursor, &mut clauses, Side::Source)?;
        if !cursor.take("to") {
            return Err(match cursor.peek() {
                None => cursor.missing("`to`", EXAMPLE),
                Some(word) => {
                    let error = cursor.error(
                        Code::UnknownKeyword,
                        &word.span,
                        format!("expected `to`, found `{}`", shorten(&word.text)),
                    );
                    Box::new(error.label("expected `to`").help(format!("for example `{EXAMPLE}`")))
                }
            });
        }
        endpoint(cursor, &mut clauses, Side::Destination)?;
        let before_options = clauses.len();
        options(cursor, &mut clauses)?;
        let all = any_protocol && before_options == 2 && clauses[..2].iter().all(is_any);
        if all && clauses[2..].iter().any(about_frames) {
            clauses.drain(..2);
        }
        return Ok(clauses);
    }
    if let Some(word) = cursor.peek().filter(|w| w.text == "to" && !w.quoted) {
        let error = cursor
            .error(Code::UnknownKeyword, &word.span, "`to` without a `from`")
            .label("no `from` before it");
        return Err(Box::new(error.help(format!("for example `{EXAMPLE}`"))));
    }
    if let Some(word) = cursor.peek().filter(|w| !w.quoted && is_misspelt_from(&w.text)) {
        let error = cursor.error(
            Code::UnknownKeyword,
            &word.span,
            format!("expected `from`, found `{}`", shorten(&word.text)),
        );
        return Err(Box::new(
            error.label("did you mean `from`?").help(format!("for example `{EXAMPLE}`")),
        ));
    }
    options(cursor, &mut clauses)?;
    Ok(clauses)
}

/// Whether a word is closer to `from` than to any option.
fn is_misspelt_from(word: &str) -> bool {
    let options = OPTIONS.iter().flat_map(Row::words);
    !OPTIONS.iter().any(|row| row.is(word))
        && closest(word, options.chain(["from"])) == Some("from")
}

/// Whether a clause is an address test that holds for every IP packet.
pub(crate) fn is_any(clause: &Clause) -> bool {
    match clause.0.as_slice() {
        [Term { not: false, test: Test::SrcAddress(all) | Test::DstAddress(all) }] => {
            all == &[Address::Any]
        }
        _ => false,
    }
}

/// Whether a clause is about the link layer.
pub(crate) fn about_frames(clause: &Clause) -> bool {
    clause.0.iter().any(|term| {
        matches!(term.test, Test::Layer2 | Test::Mac { .. } | Test::MacType(_) | Test::Vlan(_))
    })
}

/// Joins lists with spaces beside their commas, and separates brackets from other words.
fn prepare(cursor: &mut Cursor<'_>) {
    let mut words: Vec<Word> = Vec::new();
    for word in cursor.take_rest() {
        match words.last_mut() {
            Some(last)
                if !last.quoted
                    && !word.quoted
                    && (last.text.ends_with(',') || word.text.starts_with(',')) =>
            {
                last.text += &word.text;
                last.span.end = word.span.end;
            }
            _ => words.push(word),
        }
    }
    let start = cursor.at;
    for word in words {
        brackets(word, &mut cursor.words);
    }
    cursor.at = start;
}

fn brackets(word: Word, out: &mut Vec<Word>) {
    if word.quoted || word.text.len() < 2 {
        return out.push(word);
    }
    let mut inner = word.clone();
    if word.text.starts_with(['{', '(']) {
        out.push(Word { text: word.text[..1].to_owned(), span: word.part(0, 1), quoted: false });
        inner = Word {
            text: word.text[1..].to_owned(),
            span: word.part(1, word.text.len() - 1),
            quoted: false,
        };
    }
    let count = |signs: [char; 2]| inner.text.matches(signs).count();
    if inner.text.len() > 1
        && inner.text.ends_with(['}', ')'])
        && count(['}', ')']) > count(['{', '('])
    {
        let len = inner.text.len() - 1;
        out.push(Word {
            text: inner.text[..len].to_owned(),
            span: inner.part(0, len),
            quoted: false,
        });
        out.push(Word {
            text: inner.text[len..].to_owned(),
            span: inner.part(len, 1),
            quoted: false,
        });
    } else {
        out.push(inner);
    }
}

/// Reads the protocols at the beginning, if any.
fn protocols(cursor: &mut Cursor<'_>, clauses: &mut Vec<Clause>) -> Read<()> {
    let mut ahead = cursor.words[cursor.at..]
        .iter()
        .filter(|w| !w.quoted)
        .map(|w| w.text.as_str())
        .filter(|w| !["{", "(", "not"].contains(w));
    let Some(first) = ahead.next() else { return Ok(()) };
    let is_option = OPTIONS.iter().any(|row| row.is(first));
    // `ip4` and `ip6` are also options; they are protocols only before `from` or `or`.
    let followed = ahead.next().is_some_and(|w| ["from", "or"].contains(&w));
    if protocol(first).is_none() || is_option && !followed {
        return unknown_protocol(cursor, first);
    }
    let opened = open(cursor);
    let mut terms = Vec::new();
    loop {
        let not = cursor.take("not");
        let word = cursor.expect("a protocol", EXAMPLE)?;
        let Some(test) = protocol(&word.text) else {
            return Err(cursor.unknown(
                &word,
                "protocol",
                PROTOCOL_WORDS.iter().copied().chain(names::PROTOCOLS.iter().map(|(n, _)| *n)),
            ));
        };
        match test {
            Some(test) => terms.push(Term { not, test }),
            None if not || opened.is_some() => {
                let error = cursor.error(
                    Code::Contradiction,
                    &word.span,
                    format!("`{}` is every protocol", word.text),
                );
                return Err(Box::new(
                    error
                        .label("neither a choice nor to be negated")
                        .help("leave it out, or name protocols"),
                ));
            }
            None => return Ok(()),
        }
        if !next_choice(cursor, opened.as_ref())? {
            break;
        }
    }
    clauses.push(Clause(terms));
    Ok(())
}

/// Refuses an unknown word in place of the protocol before `from`.
fn unknown_protocol(cursor: &Cursor<'_>, first: &str) -> Read<()> {
    let from = cursor.words.get(cursor.at + 1).is_some_and(|w| w.text == "from" && !w.quoted);
    let word = cursor.peek().filter(|w| from && w.text == first);
    match word {
        Some(word) if !["not", "from"].contains(&first) => Err(cursor.unknown(
            word,
            "protocol",
            PROTOCOL_WORDS.iter().copied().chain(names::PROTOCOLS.iter().map(|(n, _)| *n)),
        )),
        _ => Ok(()),
    }
}

/// Takes an opening bracket of a choice, if it follows.
fn open(cursor: &mut Cursor<'_>) -> Option<Word> {
    let word = cursor.peek().filter(|w| !w.quoted && (w.text == "{" || w.text == "(")).cloned()?;
    cursor.at += 1;
    Some(word)
}

/// Whether another term of a choice follows. Without a bracket, none does.
fn next_choice(cursor: &mut Cursor<'_>, opened: Option<&Word>) -> Read<bool> {
    let Some(opened) = opened else {
        let Some(word) = cursor.peek().filter(|w| !w.quoted && w.text == "or") else {
            return Ok(false);
        };
        let error = cursor
            .error(Code::Unexpected, &word.span, "`or` outside brackets")
            .label("what it joins is not clear");
        return Err(Box::new(error.help("write choices as `{ a or b }`")));
    };
    if cursor.take("or") {
        return Ok(true);
    }
    if cursor.take_any(&["}", ")"]) {
        return Ok(false);
    }
    let close = if opened.text == "{" { "}" } else { ")" };
    let error = cursor
        .error(Code::MissingValue, &opened.span, "the bracket is not closed")
        .label("opened here");
    let found =
        cursor.peek().map_or_else(|| "the end".to_owned(), |w| format!("`{}`", shorten(&w.text)));
    Err(Box::new(error.help(format!("expected `or` or `{close}`, found {found}"))))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Destination,
}

impl Side {
    fn addresses(self, all: Vec<Address>) -> Test {
        if self == Self::Source { Test::SrcAddress(all) } else { Test::DstAddress(all) }
    }
}

/// Reads addresses, and ports if any.
fn endpoint(cursor: &mut Cursor<'_>, clauses: &mut Vec<Clause>, side: Side) -> Read<()> {
    let opened = open(cursor);
    let mut terms = Vec::new();
    loop {
        let not = cursor.take("not");
        let word = cursor.expect("an address", EXAMPLE)?;
        terms.push(Term { not, test: side.addresses(cursor.addresses_in(&word)?) });
        if !next_choice(cursor, opened.as_ref())? {
            break;
        }
    }
    clauses.push(Clause(terms));
    let negated = cursor.plain() == Some("not");
    let Some(word) =
        cursor.words.get(cursor.at + usize::from(negated)).filter(|w| is_ports(w, side)).cloned()
    else {
        return Ok(());
    };
    cursor.at += 1 + usize::from(negated);
    if word.text == "any" {
        return Ok(());
    }
    let is_word = word.text.starts_with(|c: char| c.is_ascii_alphabetic());
    if is_word && !word.text.contains(',') && !ports_begin(&word.text) {
        return Err(cursor.unknown(
            &word,
            "port",
            names::SERVICES.iter().map(|(name, _)| *name).chain(["to"]),
        ));
    }
    let ports = cursor.spans_in(&word, "port", u16::MAX, names::service)?;
    let test = if side == Side::Source { Test::SrcPort(ports) } else { Test::DstPort(ports) };
    clauses.push(Clause(vec![Term { not: negated, test }]));
    Ok(())
}

/// Whether a word after an address is a list of ports.
fn is_ports(word: &Word, side: Side) -> bool {
    if word.quoted || OPTIONS.iter().any(|row| row.is(&word.text)) {
        return false;
    }
    let known = ports_begin(&word.text) || word.text == "any";
    // Before `to`, any other word can only be a list of ports.
    known || side == Side::Source && !["to", "{", "(", "not", "or"].contains(&word.text.as_str())
}

/// Whether a text begins with a port, by number or name.
fn ports_begin(text: &str) -> bool {
    let first = text.split([',', '-']).next().unwrap_or_default();
    is_number(first) || names::service(first).is_some() || names::service(text).is_some()
}

fn options(cursor: &mut Cursor<'_>, clauses: &mut Vec<Clause>) -> Read<()> {
    while !cursor.at_end() {
        let opened = open(cursor);
        let mut terms = Vec::new();
        loop {
            let not = cursor.take("not");
            let word = cursor.expect("an option", "add pipe 1 ip from any to any out")?;
            let test = option(cursor, &word)?;
            if (not || opened.is_some())
                && matches!(test, Test::KeepState(_) | Test::RecordState(_) | Test::Limit { .. })
            {
                let error = cursor.error(
                    Code::Contradiction,
                    &word.span,
                    format!("`{}` is no condition", word.text),
                );
                return Err(Box::new(
                    error
                        .label("neither a choice nor to be negated")
                        .help("write it at the end of the rule"),
                ));
            }
            terms.push(Term { not, test });
            if !next_choice(cursor, opened.as_ref())? {
                break;
            }
        }
        clauses.push(Clause(terms));
    }
    Ok(())
}

fn option(cursor: &mut Cursor<'_>, word: &Word) -> Read<Test> {
    if let Some(row) = OPTIONS.iter().find(|row| row.is(&word.text) && !word.quoted) {
        return (row.take)(cursor);
    }
    if let Some(error) = refusal(cursor, word) {
        return Err(error);
    }
    Err(cursor.unknown(word, "option", OPTIONS.iter().flat_map(Row::words)))
}

const EXAMPLE: &str = "add pipe 1 tcp from 10.0.0.0/8 to any 80";
/// Words in the place of a protocol that are not protocols themselves.
const PROTOCOL_WORDS: [&str; 4] = ["ip", "all", "ip4", "ip6"];
