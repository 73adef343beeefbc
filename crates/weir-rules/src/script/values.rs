//! Numbers, lists of numbers, and lists of flags.

use crate::command::Numbers;
use crate::diagnostic::Code;
use crate::diagnostic::shorten;
use crate::lex::Word;
use crate::rule::{Name, Span16, Target, Test};

use super::cursor::{Cursor, Read};
use super::names;

/// Parses a whole number in decimal, or in hexadecimal after `0x`. A number that does not fit into
/// 64 bits becomes the largest one that does.
pub(crate) fn integer(text: &str) -> Option<u64> {
    let (digits, radix) = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .map_or((text, 10), |hex| (hex, 16));
    let valid = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    valid.then(|| u64::from_str_radix(digits, radix).unwrap_or(u64::MAX))
}

impl Cursor<'_> {
    /// Reads the number that must follow.
    pub(crate) fn number(&mut self, what: &str, least: u64, most: u64, example: &str) -> Read<u64> {
        let word = self.expect(what, example)?;
        self.number_in(&word, what, least, most)
    }

    /// Parses a word as a number.
    pub(crate) fn number_in(&self, word: &Word, what: &str, least: u64, most: u64) -> Read<u64> {
        let range = format!("{least} to {most}");
        let Some(number) = integer(&word.text) else {
            let what = what.strip_prefix("a ").unwrap_or(what);
            return Err(self.bad(
                &word.span,
                format!("`{}` is no {what}", shorten(&word.text)),
                &format!("a number, {range}"),
            ));
        };
        if (least..=most).contains(&number) {
            Ok(number)
        } else {
            Err(self.out_of_range(&word.span, &word.text, what, &range))
        }
    }

    /// Reads the number or `tablearg` that must follow.
    pub(crate) fn target(
        &mut self,
        what: &str,
        least: u16,
        most: u16,
        example: &str,
    ) -> Read<Target> {
        if self.take("tablearg") {
            return Ok(Target::TableArg);
        }
        let number = self.number(what, least.into(), most.into(), example)?;
        Ok(Target::Number(u16::try_from(number).unwrap_or(u16::MAX)))
    }

    /// Reads the list of numbers and ranges that must follow: `80,443,1000-2000`.
    pub(crate) fn spans(
        &mut self,
        what: &str,
        most: u16,
        named: fn(&str) -> Option<u16>,
        example: &str,
    ) -> Read<Vec<Span16>> {
        let word = self.expect(what, example)?;
        self.spans_in(&word, what, most, named)
    }

    /// Parses a word as a list of numbers and ranges.
    pub(crate) fn spans_in(
        &self,
        word: &Word,
        what: &str,
        most: u16,
        named: fn(&str) -> Option<u16>,
    ) -> Read<Vec<Span16>> {
        let mut spans = Vec::new();
        let mut at = 0;
        for item in word.text.split(',') {
            let place = word.part(at, item.len());
            at += item.len() + 1;
            let number = |text: &str| named(text).map(u64::from).or_else(|| integer(text));
            // A name may contain a `-`, so the whole item is tried as a name first.
            let range = match number(item) {
                Some(one) => Some((one, one)),
                None => item
                    .match_indices('-')
                    .find_map(|(i, _)| Some((number(&item[..i])?, number(&item[i + 1..])?))),
            };
            let Some((first, last)) = range else {
                let message = format!("`{}` is no {what}", shorten(item));
                return Err(self.bad(
                    &place,
                    message,
                    "a number, a range such as 1-5, or several with commas between them",
                ));
            };
            let highest = u64::from(most);
            if first > highest || last > highest {
                return Err(self.out_of_range(&place, item, what, &format!("0 to {most}")));
            }
            if first > last {
                let message = format!("the range `{}` is empty", shorten(item));
                return Err(self.bad(&place, message, "the smaller number first"));
            }
            spans.push(Span16 { first: first as u16, last: last as u16 });
        }
        Ok(spans)
    }

    /// Reads numbers of objects or rules until the end: `3`, `3-7`, `3,5 9`.
    pub(crate) fn numbers(&mut self, what: &str, least: u16, most: u16) -> Read<Vec<Numbers>> {
        let mut all = Vec::new();
        while let Some(word) = self.next() {
            let word = Word { text: word.text.trim_end_matches(',').to_owned(), ..word };
            for span in self.spans_in(&word, what, most, |_| None)? {
                if span.first < least {
                    return Err(self.out_of_range(
                        &word.span,
                        &word.text,
                        what,
                        &format!("{least} to {most}"),
                    ));
                }
                all.push(Numbers { first: span.first, last: span.last });
            }
        }
        Ok(all)
    }

    /// Parses flags that must be set, and flags after `!` that must be clear: `syn,!ack`. Returns
    /// both as bits. A flag may be a hexadecimal number: `0x40`.
    pub(crate) fn flag_list(&self, word: &Word, what: &str, known: &[&str]) -> Read<(u8, u8)> {
        let (mut set, mut clear, mut at) = (0u8, 0u8, 0);
        for item in word.text.split(',') {
            let place = word.part(at, item.len());
            at += item.len() + 1;
            let (negative, name) =
                item.strip_prefix('!').map_or((false, item), |name| (true, name));
            let by_name =
                known.iter().position(|&k| k == name && !k.is_empty()).map(|bit| 1u8 << bit);
            let by_number =
                || integer(name).filter(|&n| n <= 0xff && name.starts_with("0x")).map(|n| n as u8);
            let Some(bits) = by_name.or_else(by_number) else {
                let place = Word { text: name.to_owned(), span: place, quoted: false };
                return Err(self.unknown(
                    &place,
                    what,
                    known.iter().copied().filter(|k| !k.is_empty()),
                ));
            };
            if negative { clear |= bits } else { set |= bits }
        }
        if set & clear != 0 {
            let error = self.error(
                Code::Contradiction,
                &word.span,
                format!("a {what} cannot be set and not set at once"),
            );
            return Err(Box::new(error.label("never holds").help("remove one of the two")));
        }
        Ok((set, clear))
    }

    /// Parses the name of a table or a state.
    pub(crate) fn name_in(&self, word: &Word, text: &str, what: &str) -> Read<Name> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if !text.is_empty()
            && text.len() <= LONGEST_NAME
            && text.chars().all(fits)
            && !RESERVED.contains(&text)
        {
            return Ok(text.into());
        }
        let message = format!("`{}` is no name for a {what}", shorten(text));
        Err(self.bad(
            &word.span,
            message,
            "up to 63 letters, digits, `_`, `-` and `.`, but not `all`, `any` or `tablearg`",
        ))
    }

    /// Parses the name of a table. A number loses its leading zeros.
    pub(crate) fn table_name(&self, word: &Word, text: &str) -> Read<Name> {
        let name = self.name_in(word, text, "table")?;
        if !name.bytes().all(|b| b.is_ascii_digit()) {
            return Ok(name);
        }
        match integer(text) {
            Some(number) if number <= u64::from(u16::MAX) => Ok(number.to_string().into()),
            _ => Err(self.out_of_range(&word.span, text, "a table's number", "0 to 65535")),
        }
    }
}

/// Parses a word as a protocol: `None` if the word is no protocol, `Some(None)` if it means any
/// protocol.
pub(crate) fn protocol(text: &str) -> Option<Option<Test>> {
    Some(match text {
        "ip" | "all" => None,
        "ip4" | "ipv4" => Some(Test::Ip4),
        "ip6" | "ipv6" => Some(Test::Ip6),
        text => {
            let number = integer(text).and_then(|n| u8::try_from(n).ok());
            Some(Test::Protocol(names::protocol(text).or(number)?))
        }
    })
}

/// Maximum length of a name in bytes.
const LONGEST_NAME: usize = 63;
/// Words that cannot be names.
const RESERVED: [&str; 3] = ["all", "tablearg", "any"];
