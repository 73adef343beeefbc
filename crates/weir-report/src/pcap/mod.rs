//! Captures of the packets of links as pcapng. Each direction of a link is an interface, and times
//! are in nanoseconds. The comment on a departure states its delays; the comment on a drop states
//! the drop reason.
//!
//! The block formats are those of the pcapng specification (draft-ietf-opsawg-pcapng): section
//! header, interface description with `if_tsresol` 9, enhanced packet blocks with `opt_comment` and
//! `epb_flags`.

mod file;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness, PcapError};
use weir_core::stats::DropReason;

pub use file::{CaptureError, CaptureFile, CaptureReport};

/// The first header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// An Ethernet header.
    Ethernet,
    /// An IPv4 or IPv6 header.
    RawIp,
}

/// One direction of a link, as a capture interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Short name, such as `up`.
    pub name: String,
    /// A description, such as `program → network, bw 4Mbit/s delay 20ms`.
    pub description: String,
    /// The first header of the frames.
    pub link_type: LinkType,
}

/// The event that a captured packet records. The packet's flags are *inbound* for arrivals and
/// drops, and *outbound* for departures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The packet arrived at the link.
    Arrived,
    /// The packet departed from the link.
    Left {
        /// Queueing delay, ns.
        queue_ns: u64,
        /// Time from arrival to departure, ns.
        total_ns: u64,
        /// The packet was marked with congestion experienced.
        marked: bool,
        /// The packet is a duplicate made by the link.
        duplicate: bool,
        /// The number of the inverted bit, from the start of the network-layer header; `None` if
        /// the packet was not corrupted.
        corrupted: Option<u32>,
    },
    /// The packet was dropped.
    Dropped {
        /// The drop reason.
        reason: DropReason,
    },
}

impl Event {
    /// The comment of the captured packet; `None` for an arrival.
    pub fn comment(&self) -> Option<String> {
        match *self {
            Self::Arrived => None,
            Self::Dropped { reason } => Some(format!("dropped: {}", reason.name())),
            Self::Left { queue_ns, total_ns, marked, duplicate, corrupted } => {
                let mut text = format!("queue {}, total {}", Millis(queue_ns), Millis(total_ns));
                if marked {
                    text.push_str(", marked");
                }
                if duplicate {
                    text.push_str(", duplicate");
                }
                if let Some(bit) = corrupted {
                    // Writing to a String cannot fail.
                    let _ = write!(text, ", corrupted bit {bit}");
                }
                Some(text)
            }
        }
    }

    /// The direction bits of `epb_flags`.
    fn flags(&self) -> u32 {
        match self {
            Self::Arrived | Self::Dropped { .. } => FLAG_INBOUND,
            Self::Left { .. } => FLAG_OUTBOUND,
        }
    }
}

/// The metadata of a captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The index of the interface.
    pub interface: u32,
    /// The time of the event, ns since 1970-01-01 00:00 UTC.
    pub unix_ns: u64,
    /// The length of the packet in bytes before truncation.
    pub original_len: u32,
    /// The event.
    pub event: Event,
}

/// Encodes a capture and writes it to `W`.
pub struct CaptureWriter<W: Write> {
    inner: PcapNgWriter<W>,
}

impl<W: Write> std::fmt::Debug for CaptureWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaptureWriter")
            .field("interfaces", &self.inner.interfaces().len())
            .finish_non_exhaustive()
    }
}

impl<W: Write> CaptureWriter<W> {
    /// Writes the headers: the name of the capturing program (`application`, such as `weir 0.1.0`),
    /// and the interfaces.
    pub fn new(writer: W, application: &str, interfaces: &[Interface]) -> io::Result<Self> {
        let section = SectionHeaderBlock {
            // The byte order is fixed, so that equal captures are equal files on every machine.
            endianness: Endianness::Little,
            options: vec![SectionHeaderOption::UserApplication(Cow::Owned(option_text(
                application,
            )))],
            ..SectionHeaderBlock::default()
        };
        let mut inner = PcapNgWriter::with_section_header(writer, section).map_err(io_error)?;
        for interface in interfaces {
            let linktype = match interface.link_type {
                LinkType::Ethernet => DataLink::ETHERNET,
                LinkType::RawIp => DataLink::RAW,
            };
            let options = vec![
                InterfaceDescriptionOption::IfName(Cow::Owned(option_text(&interface.name))),
                InterfaceDescriptionOption::IfDescription(Cow::Owned(option_text(
                    &interface.description,
                ))),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ];
            let block = InterfaceDescriptionBlock { linktype, snaplen: 0, options };
            inner.write_pcapng_block(block).map_err(io_error)?;
        }
        Ok(Self { inner })
    }

    /// Writes one packet. An unknown interface is an error of kind `InvalidInput`.
    pub fn write(&mut self, meta: &Meta, frame: &[u8]) -> io::Result<()> {
        let mut options = Vec::with_capacity(2);
        options.extend(meta.event.comment().map(|c| EnhancedPacketOption::Comment(Cow::Owned(c))));
        options.push(EnhancedPacketOption::Flags(meta.event.flags()));
        let block = EnhancedPacketBlock {
            interface_id: meta.interface,
            timestamp: Duration::from_nanos(meta.unix_ns),
            original_len: meta.original_len,
            data: Cow::Borrowed(frame),
            options,
        };
        self.inner.write_pcapng_block(block).map_err(io_error)?;
        Ok(())
    }

    /// The underlying writer.
    pub fn get_mut(&mut self) -> &mut W {
        self.inner.get_mut()
    }

    /// Returns the underlying writer.
    pub fn into_inner(self) -> W {
        self.inner.into_inner()
    }
}

/// Nanoseconds displayed as milliseconds with microsecond precision.
struct Millis(u64);

impl std::fmt::Display for Millis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03} ms", self.0 / 1_000_000, self.0 / 1_000 % 1_000)
    }
}

/// Cuts a text at a character boundary, so that its length, rounded up to a multiple of 4, fits
/// into the 16 bits of an option's length.
fn option_text(text: &str) -> String {
    let mut end = text.len().min(usize::from(u16::MAX) - 3);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

fn io_error(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(e) => e,
        other => io::Error::new(io::ErrorKind::InvalidInput, other),
    }
}

/// The value of `if_tsresol` for nanoseconds: the exponent of 10, negated.
const NANOSECONDS: u8 = 9;
/// The direction values of `epb_flags`, in bits 0 and 1.
const FLAG_INBOUND: u32 = 1;
const FLAG_OUTBOUND: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_say_what_happened() {
        let left = Event::Left {
            queue_ns: 1_234_567,
            total_ns: 21_300_000,
            marked: false,
            duplicate: false,
            corrupted: None,
        };
        assert_eq!(left.comment().as_deref(), Some("queue 1.234 ms, total 21.300 ms"));
        let odd = Event::Left {
            queue_ns: 0,
            total_ns: 999,
            marked: true,
            duplicate: true,
            corrupted: Some(123),
        };
        assert_eq!(
            odd.comment().as_deref(),
            Some("queue 0.000 ms, total 0.000 ms, marked, duplicate, corrupted bit 123")
        );
        assert_eq!(
            Event::Dropped { reason: DropReason::QueueFull }.comment().as_deref(),
            Some("dropped: queue_full")
        );
        assert_eq!(Event::Arrived.comment(), None);
    }

    #[test]
    fn an_unknown_interface_is_refused() {
        let mut w = CaptureWriter::new(Vec::new(), "weir", &[]).unwrap();
        let meta = Meta { interface: 0, unix_ns: 0, original_len: 1, event: Event::Arrived };
        assert_eq!(w.write(&meta, &[0]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        let cut = option_text(&"é".repeat(40_000));
        assert!(cut.len() <= usize::from(u16::MAX) && cut.ends_with('é'));
    }
}
