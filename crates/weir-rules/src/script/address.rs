//! Addresses: single ones, prefixes, masks, sets, tables, and lists of them.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::diagnostic::Span;
use crate::diagnostic::shorten;
use crate::lex::Word;
use crate::rule::{Address, Interface, MacMatch, TableMatch};

use super::cursor::{Cursor, Read};
use super::values::integer;

impl Cursor<'_> {
    /// Parses a word as a list of addresses.
    pub(crate) fn addresses_in(&self, word: &Word) -> Read<Vec<Address>> {
        let mut all = Vec::new();
        for (at, item) in items(&word.text) {
            all.push(self.address(word, &word.part(at, item.len()), item)?);
        }
        Ok(all)
    }

    fn address(&self, word: &Word, place: &Span, item: &str) -> Read<Address> {
        match item {
            "any" => return Ok(Address::Any),
            "me" => return Ok(Address::Me),
            "me6" => return Ok(Address::Me6),
            _ => {}
        }
        if let Some(table) = self.table_match(word, item)? {
            return Ok(Address::Table(table));
        }
        let end = item.find(['/', ':', '{']).unwrap_or(item.len());
        if let Ok(address) = item[..end].parse::<Ipv4Addr>() {
            return v4(address.into(), &item[end..]).ok_or_else(|| {
                self.bad(place, format!("`{}` is no set of addresses", shorten(item)), V4_FORMS)
            });
        }
        let (head, mask) =
            item.split_once('/').map_or((item, None), |(head, mask)| (head, Some(mask)));
        if let Ok(address) = head.parse::<Ipv6Addr>() {
            return v6(address.into(), mask).ok_or_else(|| {
                self.bad(
                    place,
                    format!("`{}` is no IPv6 prefix", shorten(item)),
                    "a length of 0 to 128, or a mask such as /ffff::",
                )
            });
        }
        let error = self.bad(
            place,
            format!("`{}` is no address", shorten(item)),
            "an address, a prefix, `any`, `me`, or `table(NAME)`",
        );
        let is_name = item.contains(|c: char| c.is_alphabetic()) && !item.contains(':');
        Err(if is_name {
            Box::new(error.help("names of hosts are not looked up: write the address"))
        } else {
            error
        })
    }

    /// Parses `table(NAME[,VALUE])`; `None` for any other word.
    pub(crate) fn table_match(&self, word: &Word, item: &str) -> Read<Option<TableMatch>> {
        let Some(inside) = item.strip_prefix("table(").and_then(|rest| rest.strip_suffix(')'))
        else {
            return Ok(None);
        };
        self.table_and_value(word, inside).map(Some)
    }

    /// Parses `NAME[,VALUE]`.
    pub(crate) fn table_and_value(&self, word: &Word, text: &str) -> Read<TableMatch> {
        let (name, value) =
            text.split_once(',').map_or((text, None), |(name, value)| (name, Some(value)));
        let table = self.table_name(word, name.trim())?;
        let value = value.map(|value| self.table_value(word, value.trim())).transpose()?;
        Ok(TableMatch { table, value })
    }

    /// Parses the value of an entry: a number, or four bytes in the form of an address.
    pub(crate) fn table_value(&self, word: &Word, text: &str) -> Read<u32> {
        let number = integer(text)
            .map(|n| u32::try_from(n).ok())
            .or_else(|| text.parse::<Ipv4Addr>().ok().map(|a| Some(a.into())));
        match number {
            Some(Some(value)) => Ok(value),
            Some(None) => {
                Err(self.out_of_range(&word.span, text, "a table's value", "0 to 4294967295"))
            }
            None => Err(self.bad(
                &word.span,
                format!("`{}` is no value of a table", shorten(text)),
                "a number, 0 to 4294967295",
            )),
        }
    }

    /// Reads the interface that must follow.
    pub(crate) fn interface(&mut self, example: &str) -> Read<Interface> {
        let word = self.expect("an interface", example)?;
        if let Some(table) = self.table_match(&word, &word.text)? {
            return Ok(Interface::Table(table));
        }
        let text = word.text.as_str();
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Interface::V4(address.into()));
        }
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Ok(Interface::V6(address.into()));
        }
        let fits = !text.is_empty()
            && text.len() <= LONGEST_INTERFACE
            && !text.contains(|c: char| c.is_whitespace() || c.is_control() || "/,()".contains(c));
        match text {
            "any" | "*" if !word.quoted => Ok(Interface::Any),
            _ if fits => Ok(Interface::Name(text.into())),
            _ => {
                let message = format!("`{}` is no interface", shorten(text));
                Err(self.bad(
                    &word.span,
                    message,
                    "a name of up to 15 letters, with `*` and `?` \
                                                   for any; an address; or `table(NAME)`",
                ))
            }
        }
    }

    /// Reads the MAC address that must follow: `any`, `ADDRESS`, `ADDRESS/BITS` or `ADDRESS&MASK`.
    pub(crate) fn mac(&mut self, example: &str) -> Read<MacMatch> {
        let word = self.expect("a MAC address", example)?;
        if word.text == "any" {
            return Ok(MacMatch::default());
        }
        let end = word.text.find(['/', '&']).unwrap_or(word.text.len());
        let (address, rest) = word.text.split_at(end);
        let mask = match rest.split_at_checked(1) {
            None => Some(MAC_BITS),
            Some(("/", bits)) => {
                integer(bits).filter(|&bits| bits <= 48).map(|bits| MAC_BITS & !(MAC_BITS >> bits))
            }
            Some((_, mask)) => mac(mask),
        };
        match (mac(address), mask) {
            (Some(address), Some(mask)) => Ok(MacMatch { address: address & mask, mask }),
            _ => {
                let message = format!("`{}` is no MAC address", shorten(&word.text));
                Err(self.bad(
                    &word.span,
                    message,
                    "`any`, or six bytes such as 00:11:22:33:44:55, then `/BITS` or `&MASK`",
                ))
            }
        }
    }
}

/// The items of a list with their places. Commas inside `()` and `{}` do not separate items.
fn items(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut depth = 0usize;
    let mut start = 0;
    text.split(move |c: char| {
        match c {
            '(' | '{' => depth += 1,
            ')' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(move |item| {
        let at = start;
        start += item.len() + 1;
        (at, item)
    })
}

/// Combines an IPv4 address with its suffix: a length, a mask, or a set of last bytes.
fn v4(address: u32, rest: &str) -> Option<Address> {
    let (mask, set) = match rest.split_once('{') {
        Some((mask, set)) => (mask, Some(set.strip_suffix('}')?)),
        None => (rest, None),
    };
    let mask = match mask.split_at_checked(1) {
        None => None,
        Some(("/", len)) => Some(prefix_mask(u32::try_from(integer(len)?).ok()?)?),
        Some((_, mask)) => Some(mask.parse::<Ipv4Addr>().ok()?.into()),
    };
    let Some(set) = set else {
        let mask = mask.unwrap_or(u32::MAX);
        return Some(Address::V4 { address: address & mask, mask });
    };
    let mask = mask.unwrap_or(SET_MASK);
    // The bits outside the mask, which must be the lowest ones. The last byte is from `low` to
    // `high`.
    let open = u8::try_from(!mask).ok().filter(|open| open.wrapping_add(1) & open == 0)?;
    let (low, high) = ((address & mask) as u8, (address & mask) as u8 | open);
    let mut members = [0u64; 4];
    for item in set.split(',') {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let (first, last) = (integer(first.trim())?, integer(last.trim())?);
        if first > last || first < low.into() || last > high.into() {
            return None;
        }
        (first..=last).for_each(|n| members[n as usize / 64] |= 1 << (n % 64));
    }
    Some(Address::Set { base: address & SET_MASK, members })
}

fn v6(address: u128, mask: Option<&str>) -> Option<Address> {
    let mask = match mask {
        None => u128::MAX,
        Some(len) if integer(len).is_some() && !len.contains(['x', 'X']) => match integer(len)? {
            0 => 0,
            len @ 1..=128 => u128::MAX << (128 - len),
            _ => return None,
        },
        Some(mask) => mask.parse::<Ipv6Addr>().ok()?.into(),
    };
    Some(Address::V6 { address: address & mask, mask })
}

/// The mask of an IPv4 prefix of `len` bits.
pub(crate) fn prefix_mask(len: u32) -> Option<u32> {
    match len {
        0 => Some(0),
        1..=32 => Some(u32::MAX << (32 - len)),
        _ => None,
    }
}

/// Parses six bytes in hexadecimal.
fn mac(text: &str) -> Option<u64> {
    u64::try_from(crate::mask::mac(text)?).ok()
}

const V4_FORMS: &str = "1.2.3.4, 1.2.3.0/24, 1.2.3.0:255.255.255.0 or 1.2.3.0/24{1,3-5} with last \
                        bytes inside the prefix";
/// The mask of the addresses in a set of last bytes.
const SET_MASK: u32 = 0xffff_ff00;
/// All bits of a MAC address.
pub(crate) const MAC_BITS: u64 = (1 << 48) - 1;
/// Length of the longest interface name on Linux and BSD.
const LONGEST_INTERFACE: usize = 15;
