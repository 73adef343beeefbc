//! Netlink messages of nftables as bytes: headers, attributes, and the kernel's answers.
//!
//! ```text
//! message:    length u32 | type u16 | flags u16 | sequence u32 | port u32
//!             | family u8 | version u8 | resource be16 | attributes
//! attribute:  length u16 | type u16 | value, padded to a multiple of four bytes
//! ```
//! Numbers in values are in network byte order. The value of a nested attribute is a list of
//! attributes.

use std::io;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    /// Appends an attribute with these bytes as its value.
    pub(super) fn bytes(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let length = (ATTRIBUTE + value.len()) as u16;
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(ALIGNMENT), 0);
        self
    }

    /// Appends an attribute with a number.
    pub(super) fn number(&mut self, kind: u16, value: u32) -> &mut Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// Appends an attribute with a text and a zero byte.
    pub(super) fn text(&mut self, kind: u16, value: &str) -> &mut Self {
        self.bytes(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// Appends an attribute with a list of attributes, which `fill` fills.
    pub(super) fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let mut inner = Self::default();
        fill(&mut inner);
        self.bytes(kind | NESTED, &inner.0)
    }
}

/// Messages that are sent together.
#[derive(Debug, Default)]
pub(super) struct Messages {
    bytes: Vec<u8>,
    /// The sequence number of the last message.
    last: u32,
}

impl Messages {
    /// Appends a message with the next sequence number.
    pub(super) fn add(&mut self, head: Head, attributes: &Attributes) {
        self.last += 1;
        let length = (HEADER + FAMILY_HEADER + attributes.0.len()) as u32;
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&head.kind.to_ne_bytes());
        self.bytes.extend_from_slice(&(head.flags | REQUEST).to_ne_bytes());
        self.bytes.extend_from_slice(&self.last.to_ne_bytes());
        self.bytes.extend_from_slice(&0u32.to_ne_bytes());
        self.bytes.extend_from_slice(&[head.family, 0]);
        self.bytes.extend_from_slice(&head.resource.to_be_bytes());
        self.bytes.extend_from_slice(&attributes.0);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn last(&self) -> u32 {
        self.last
    }
}

/// The variable fields of a message's headers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Head {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) family: u8,
    /// The subsystem in a message that begins or ends a batch; 0 in other messages.
    pub(super) resource: u16,
}

/// A message of the kernel.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    /// A request was executed, or a dump is complete.
    Done,
    /// The kernel refused a request with this error number.
    Refused(i32),
    /// An object of this family, described by attributes.
    Object { kind: u16, family: u8, attributes: &'a [u8] },
}

/// The messages in a datagram, with their sequence numbers. Ends at a message with an impossible
/// length.
pub(super) fn answers(datagram: &[u8]) -> impl Iterator<Item = (u32, Answer<'_>)> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        loop {
            let length = usize::try_from(u32::from_ne_bytes(*rest.first_chunk()?)).ok()?;
            let (header, body) = record(&mut rest, length)?.split_at_checked(HEADER)?;
            let kind = u16::from_ne_bytes([header[4], header[5]]);
            let sequence = u32::from_ne_bytes([header[8], header[9], header[10], header[11]]);
            let answer = match kind {
                DONE => Answer::Done,
                ERROR => match body.first_chunk().map(|code| i32::from_ne_bytes(*code))? {
                    0 => Answer::Done,
                    code => Answer::Refused(code.saturating_neg()),
                },
                _ => match body.split_at_checked(FAMILY_HEADER) {
                    Some((family, attributes)) => {
                        Answer::Object { kind, family: family[0], attributes }
                    }
                    None => continue,
                },
            };
            return Some((sequence, answer));
        }
    })
}

/// The attributes of a list, with their types. Ends at an attribute with an impossible length.
pub(super) fn attributes(list: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = list;
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let (header, value) = record(&mut rest, length)?.split_at_checked(ATTRIBUTE)?;
        let kind = u16::from_ne_bytes([header[2], header[3]]) & !NESTED;
        Some((kind, value))
    })
}

/// Cuts a message or an attribute of `length` bytes off the front of `rest`. The next one begins at
/// a multiple of four bytes. `None` if `rest` is shorter.
fn record<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let record = rest.get(..length)?;
    *rest = rest.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
    Some(record)
}

pub(super) fn number(value: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(value.try_into().ok()?))
}

/// A value that is a text, which may end with a zero byte.
pub(super) fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

/// The first error in a datagram.
pub(super) fn refusal(datagram: &[u8]) -> io::Result<()> {
    let first = answers(datagram).find_map(|(_, answer)| match answer {
        Answer::Refused(errno) => Some(io::Error::from_raw_os_error(errno)),
        _ => None,
    });
    first.map_or(Ok(()), Err)
}

/// Bytes of a message's header.
const HEADER: usize = 16;
/// Bytes of the nfnetlink header, which follows the message's header.
const FAMILY_HEADER: usize = 4;
/// Bytes of an attribute's header.
const ATTRIBUTE: usize = 4;
/// Attributes and messages are padded to a multiple of this many bytes.
const ALIGNMENT: usize = 4;
/// `NLA_F_NESTED`.
const NESTED: u16 = 1 << 15;
/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// `NLMSG_ERROR`, which is also an acknowledgement.
const ERROR: u16 = 2;
/// `NLMSG_DONE`.
const DONE: u16 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_were_written() {
        let mut list = Attributes::default();
        list.text(1, "abc").number(2, 7).nest(4, |inner| {
            inner.bytes(1, &[1, 2, 3, 4, 5]);
        });
        let read: Vec<_> = attributes(&list.0).collect();
        assert_eq!((read.len(), read[0], read[1].0), (3, (1, &b"abc\0"[..]), 2));
        assert_eq!((text(read[0].1), number(read[1].1)), ("abc".to_owned(), Some(7)));
        let inner: Vec<_> = attributes(read[2].1).collect();
        assert_eq!(inner, [(1, &[1, 2, 3, 4, 5][..])]);
    }

    #[test]
    fn damaged_answers_end_the_reading() {
        let mut messages = Messages::default();
        messages.add(Head { kind: 0xa03, family: 2, ..Head::default() }, &Attributes::default());
        let whole = messages.bytes();
        let object = Answer::Object { kind: 0xa03, family: 2, attributes: &[] };
        assert_eq!(answers(whole).collect::<Vec<_>>(), [(1, object)]);
        for cut in 0..whole.len() {
            assert_eq!(answers(&whole[..cut]).count(), 0, "{cut} bytes");
        }
        for length in [0u32, 3, 15, 17, u32::MAX] {
            let damaged = [&length.to_ne_bytes(), &whole[4..]].concat();
            assert_eq!(answers(&damaged).count(), 0, "a length of {length}");
        }
        assert_eq!(attributes(&[3, 0, 1, 0]).count() + attributes(&[9, 0, 1, 0, 5]).count(), 0);
    }
}
