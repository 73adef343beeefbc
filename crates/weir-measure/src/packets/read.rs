//! Reads recordings of packets. A recording may come from an untrusted source, so every entry is
//! checked.

use alloc::string::{String, ToString as _};

use super::{
    CHANGED, CHECK, END, ENTRY, End, Entry, FORMAT, Fate, Head, IN_TRAIN, KIND, LOST, MARKED,
    MAX_BYTES, MAX_TIME, Packet, START, hash,
};

/// Why bytes are not a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// The first line is not the head of a recording.
    Head(String),
    /// The recording has another version.
    Version(String),
    /// An entry is invalid. The values are its number, from 1, and the reason.
    Entry(u64, &'static str),
    /// The bytes end before the recording does. The value is the number of complete entries.
    Truncated(u64),
}

impl core::fmt::Display for FormatError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Head(reason) => write!(
                f,
                "this is no recording of packets ({reason}); `weir watch DEV --record FILE` \
                 writes one"
            ),
            Self::Version(found) => write!(
                f,
                "the recording has the format `{found}`, and this weir reads {FORMAT}: record \
                 again, or use the weir that recorded it"
            ),
            Self::Entry(number, reason) => write!(
                f,
                "entry {number} is damaged: {reason}; copy the recording again, or record again"
            ),
            Self::Truncated(entries) => write!(
                f,
                "the recording ends after {entries} entries, without its end: copy it again, or \
                 record again"
            ),
        }
    }
}

impl core::error::Error for FormatError {}

/// Reads the head and the entries of a recording, which the caller splits into a line and parts of
/// [`ENTRY`] bytes. The decoder stores no entries.
#[derive(Clone, Debug)]
pub struct Decoder {
    check: u32,
    /// The time of the previous entry.
    last: u64,
    entries: u64,
    packets: u64,
    /// Whether the last entry was the end.
    over: bool,
}

impl Decoder {
    /// Reads the head from the first line, without or with its line break.
    ///
    /// # Errors
    /// The line is not a head, or has another version.
    pub fn begin(line: &[u8]) -> Result<(Head, Self), FormatError> {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let value: serde_json::Value = serde_json::from_slice(text)
            .map_err(|_| FormatError::Head("its first line is not JSON".to_string()))?;
        match value["format"].as_str() {
            Some(FORMAT) => {}
            Some(other) if other.starts_with("weir.packets/") => {
                return Err(FormatError::Version(other.chars().take(40).collect()));
            }
            _ => return Err(FormatError::Head("its first line names no format".to_string())),
        }
        let head: Head = serde_json::from_value(value)
            .map_err(|error| FormatError::Head(error.to_string().chars().take(200).collect()))?;
        let check = hash(hash(START, text), b"\n");
        Ok((head, Self { check, last: 0, entries: 0, packets: 0, over: false }))
    }

    /// Reads the next entry. An entry after the end is invalid.
    ///
    /// # Errors
    /// The entry is invalid.
    pub fn entry(&mut self, bytes: &[u8; ENTRY]) -> Result<Entry, FormatError> {
        self.entries += 1;
        let entry = self.read(bytes).map_err(|reason| FormatError::Entry(self.entries, reason))?;
        self.check = hash(self.check, bytes);
        self.packets += u64::from(matches!(entry, Entry::Packet(_)));
        self.over = matches!(entry, Entry::End(_));
        Ok(entry)
    }

    /// Ends reading after the last byte.
    ///
    /// # Errors
    /// The recording has no end.
    pub fn finish(&self) -> Result<(), FormatError> {
        if self.over { Ok(()) } else { Err(FormatError::Truncated(self.entries)) }
    }

    /// The error for bytes after the end that are not a whole entry.
    pub fn surplus(&self) -> FormatError {
        FormatError::Entry(self.entries + 1, AFTER_END)
    }

    fn read(&mut self, bytes: &[u8; ENTRY]) -> Result<Entry, &'static str> {
        if self.over {
            return Err(AFTER_END);
        }
        let (time, second) = (long(bytes, 0), long(bytes, 8));
        let (third, fourth, last) = (short(bytes, 16), short(bytes, 20), short(bytes, 28));
        let [kind, tos, bits, unused] = [bytes[KIND], bytes[25], bytes[26], bytes[27]];
        if time > MAX_TIME {
            return Err("its time is more than 366 days after the beginning");
        }
        if time < self.last {
            return Err("its time is before that of the previous entry");
        }
        let is_end = kind == END;
        // Only packets have a traffic class and bits.
        let no_tos_or_bits = (tos, bits) == (0, 0);
        if unused != 0 || !is_end && last != 0 || kind >= LOST && !no_tos_or_bits {
            return Err("an unused byte is not zero");
        }
        self.last = time;
        match kind {
            LOST | CHANGED if (third, fourth) != (0, 0) => Err("an unused byte is not zero"),
            LOST => Ok(Entry::Lost { time, events: second }),
            CHANGED => Ok(Entry::Changed(time)),
            END if third != self.check_with(bytes) => {
                Err("the checksum of the recording does not fit its content")
            }
            END if second != self.packets => {
                Err("its number of packets differs from that of the recording")
            }
            END => {
                Ok(Entry::End(End { time, packets: second, strays: fourth, kernel_drops: last }))
            }
            _ => packet(kind, time, second, (third, fourth), (tos, bits)).map(Entry::Packet),
        }
    }

    /// The checksum of a recording that ends with these bytes.
    fn check_with(&self, bytes: &[u8; ENTRY]) -> u32 {
        let mut end = *bytes;
        end[CHECK].fill(0);
        hash(self.check, &end)
    }
}

/// Checks and decodes the fields of a packet.
fn packet(
    kind: u8,
    time: u64,
    wait: u64,
    (flow, bytes): (u32, u32),
    (tos, bits): (u8, u8),
) -> Result<Packet, &'static str> {
    let fate = [Fate::Departed, Fate::Dropped, Fate::Inside, Fate::Unknown, Fate::Bypassed]
        .into_iter()
        .find(|fate| *fate as u8 == kind)
        .ok_or("it is of an unknown kind")?;
    if bytes == 0 || bytes > MAX_BYTES {
        return Err("a packet has 1 to 1048576 bytes");
    }
    if bits & !(IN_TRAIN | MARKED) != 0 {
        return Err("an unused bit is not zero");
    }
    let ends = !matches!(fate, Fate::Inside | Fate::Unknown);
    let wait = match wait {
        u64::MAX if !ends => None,
        0..=MAX_TIME if ends => Some(wait),
        _ => return Err("its waiting time does not fit its kind"),
    };
    let (in_train, marked) = (bits & IN_TRAIN != 0, bits & MARKED != 0);
    Ok(Packet { time, wait, flow, bytes, fate, tos, in_train, marked })
}

/// The 64-bit number at offset `at`.
fn long(bytes: &[u8; ENTRY], at: usize) -> u64 {
    u64::from(short(bytes, at)) | u64::from(short(bytes, at + 4)) << 32
}

/// The 32-bit number at offset `at`.
fn short(bytes: &[u8; ENTRY], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

const AFTER_END: &str = "it is after the end of the recording";

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::super::Encoder;
    use super::*;

    const PACKET: Packet = Packet {
        time: 5,
        wait: Some(7),
        flow: 0xdead_beef,
        bytes: 1514,
        fate: Fate::Departed,
        tos: 0x2e,
        in_train: true,
        marked: false,
    };

    fn bytes(entries: &[Entry]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::begin(&Head::default(), &mut out);
        entries.iter().for_each(|entry| encoder.put(entry, &mut out));
        out
    }

    fn read(bytes: &[u8]) -> Result<Vec<Entry>, FormatError> {
        let line = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len() - 1) + 1;
        let (_, mut decoder) = Decoder::begin(&bytes[..line])?;
        let (whole, _) = bytes[line..].as_chunks();
        let entries =
            whole.iter().map(|part| decoder.entry(part)).collect::<Result<Vec<_>, _>>()?;
        decoder.finish().map(|()| entries)
    }

    fn reason(entries: &[Entry]) -> &'static str {
        match read(&bytes(entries)) {
            Err(FormatError::Entry(_, reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        let inside = Packet { wait: None, fate: Fate::Inside, marked: true, time: 9, ..PACKET };
        let entries = [
            Entry::Packet(PACKET),
            Entry::Lost { time: 6, events: 3 },
            Entry::Changed(8),
            Entry::Packet(inside),
            Entry::End(End { time: 10, packets: 2, strays: 4, kernel_drops: 5 }),
        ];
        assert_eq!(read(&bytes(&entries)).unwrap(), entries);
    }

    #[test]
    fn damaged_entries_are_refused_with_their_fault() {
        let one = |change: fn(&mut Packet)| {
            let mut packet = PACKET;
            change(&mut packet);
            reason(&[Entry::Packet(packet)])
        };
        assert!(one(|p| p.bytes = 0).contains("1 to 1048576"));
        assert!(one(|p| p.bytes = MAX_BYTES + 1).contains("1 to 1048576"));
        assert!(one(|p| p.time = MAX_TIME + 1).contains("more than 366 days"));
        assert!(one(|p| p.wait = Some(MAX_TIME + 1)).contains("does not fit its kind"));
        assert!(one(|p| p.wait = None).contains("does not fit its kind"));
        assert!(one(|p| p.fate = Fate::Unknown).contains("does not fit its kind"));
        let earlier = Entry::Packet(Packet { time: 4, ..PACKET });
        assert!(reason(&[Entry::Packet(PACKET), earlier]).contains("before that of the previous"));
        let end = Entry::End(End { time: 9, ..End::default() });
        assert!(reason(&[end, end]).contains("after the end"));
    }

    #[test]
    fn a_recording_without_its_end_is_truncated() {
        let cut = bytes(&[Entry::Packet(PACKET)]);
        assert_eq!(read(&cut), Err(FormatError::Truncated(1)));
    }

    #[test]
    fn other_files_and_versions_are_named() {
        let text = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        assert!(text(&[0; 64]).contains("no recording of packets"));
        assert!(text(b"{\"format\":\"weir.packets/9\"}\n").contains("weir.packets/9"));
        assert!(text(b"{\"format\":\"weir.packets/1\"}\n").contains("missing field"));
    }

    proptest! {
        /// Any change of a byte is found, by a check of an entry or by the checksum.
        #[test]
        fn a_changed_byte_is_found(at in 0usize..10_000, flip in 1u8..) {
            let end = Entry::End(End { time: 9, ..End::default() });
            let mut all = bytes(&[Entry::Packet(PACKET), Entry::Changed(7), end]);
            let positions = all.len();
            all[at % positions] ^= flip;
            prop_assert!(read(&all).is_err());
        }
    }
}
