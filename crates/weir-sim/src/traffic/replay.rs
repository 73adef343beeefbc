//! Packets from a capture or a table.
//!
//! A table has lines `time_s,bytes`: seconds from the start, and network-layer bytes. From a
//! capture (pcap, pcapng), the replay uses only the time of each packet, and its length on the wire
//! without the headers below the network layer. It sends the first packet of a capture at the
//! start. Addresses and responses in the capture are ignored: this is open-loop traffic with the
//! same lengths at the same times.

use std::io::Cursor;
use std::sync::Arc;

use pcap_file::DataLink;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use weir_core::Nanos;
use weir_rules::decimal::Decimal;

use crate::random::{Draws, nanos};

use super::source::Process;

/// Why a file is not a trace of packets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line does not contain a time and a length.
    #[error("line {0}: not `time_s,bytes`, such as `0.25,1500`")]
    Line(usize),
    /// A time is before that of the previous line.
    #[error("line {0}: earlier than the line above; times must not decrease")]
    Order(usize),
    /// A length is not possible for a packet.
    #[error("line {0}: a packet has from 20 to 65535 bytes")]
    Length(usize),
    /// The file is not a capture.
    #[error("not a capture: {0}")]
    Capture(String),
    /// The length of link-layer headers is unknown.
    #[error(
        "link type {0} is not known; known are Ethernet, raw IP, Linux cooked and loopback captures"
    )]
    Link(String),
    /// There are no packets.
    #[error("no packet in it")]
    Empty,
    /// There are too many packets.
    #[error("more than {MAX_PACKETS} packets")]
    Many,
}

/// Times since the start, and lengths, in order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace(Arc<[(Nanos, u32)]>);

impl Trace {
    /// Parses a table.
    ///
    /// # Errors
    /// The text is not a table of packets.
    pub fn csv(text: &str) -> Result<Self, TraceError> {
        let mut packets: Vec<(Nanos, u32)> = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            let titles = packets.is_empty() && line.starts_with(|c: char| c.is_ascii_alphabetic());
            if line.is_empty() || line.starts_with('#') || titles {
                continue;
            }
            let fields = line.split_once([',', ' ', '\t', ';']).ok_or(TraceError::Line(number))?;
            let time = match Decimal::prefix(fields.0.trim()) {
                Ok((time, "")) => time.scaled(1_000_000_000).map(Nanos),
                _ => None,
            };
            let (Some(time), Ok(len)) = (time, fields.1.trim().parse::<u32>()) else {
                return Err(TraceError::Line(number));
            };
            if packets.last().is_some_and(|&(before, _)| time < before) {
                return Err(TraceError::Order(number));
            }
            if !(20..=65_535).contains(&len) {
                return Err(TraceError::Length(number));
            }
            packets.push((time, len));
        }
        Self::of(packets)
    }

    /// Parses a capture, pcap or pcapng.
    ///
    /// # Errors
    /// The bytes are not a capture, or its link layer is unknown.
    pub fn capture(bytes: &[u8]) -> Result<Self, TraceError> {
        let mut packets = if bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) {
            pcapng(bytes)?
        } else {
            pcap(bytes)?
        };
        packets.sort_by_key(|&(time, _)| time);
        let first = packets.first().map_or(0, |&(time, _)| time);
        let packets = packets
            .into_iter()
            .map(|(time, len)| (Nanos(u64::try_from(time - first).unwrap_or(u64::MAX)), len))
            .collect();
        Self::of(packets)
    }

    fn of(packets: Vec<(Nanos, u32)>) -> Result<Self, TraceError> {
        match packets.len() {
            0 => Err(TraceError::Empty),
            1..=MAX_PACKETS => Ok(Self(packets.into())),
            _ => Err(TraceError::Many),
        }
    }

    /// Time since the start and network-layer bytes of each packet.
    pub fn packets(&self) -> &[(Nanos, u32)] {
        &self.0
    }

    /// The period of repetition: the time of the last packet, plus the mean interval between
    /// packets, or plus 1 s if there is only one packet.
    fn period(&self) -> u64 {
        let first = self.0.first().map_or(0, |packet| packet.0.0);
        let last = self.0.last().map_or(0, |packet| packet.0.0);
        let gaps = self.0.len() as u64 - 1;
        last + if gaps == 0 { 1_000_000_000 } else { (last - first).div_ceil(gaps).max(1) }
    }
}

/// The packets of a pcap file: nanoseconds and network-layer bytes.
fn pcap(bytes: &[u8]) -> Result<Vec<(i128, u32)>, TraceError> {
    let bad = |error: pcap_file::PcapError| TraceError::Capture(error.to_string());
    let mut reader = PcapReader::new(Cursor::new(bytes)).map_err(bad)?;
    let header = reader.header();
    let unit = if header.ts_resolution == pcap_file::TsResolution::NanoSecond { 1 } else { 1000 };
    let link = link_header(header.datalink)?;
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_raw_packet() {
        let packet = packet.map_err(bad)?;
        let time = i128::from(packet.ts_sec) * 1_000_000_000 + i128::from(packet.ts_frac) * unit;
        packets.push((time, network_bytes(packet.orig_len, link)));
    }
    Ok(packets)
}

/// The packets of a pcapng file: nanoseconds and network-layer bytes. The reader returns each time
/// as a `Duration` whose "nanoseconds" are in fact units of the interface's resolution.
fn pcapng(bytes: &[u8]) -> Result<Vec<(i128, u32)>, TraceError> {
    let bad = |error: pcap_file::PcapError| TraceError::Capture(error.to_string());
    let mut reader = PcapNgReader::new(Cursor::new(bytes)).map_err(bad)?;
    let mut interfaces: Vec<(u32, Ticks)> = Vec::new();
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        match block.map_err(bad)? {
            Block::SectionHeader(_) => interfaces.clear(),
            Block::InterfaceDescription(interface) => {
                interfaces.push((link_header(interface.linktype)?, Ticks::of(&interface)));
            }
            Block::EnhancedPacket(packet) => {
                let interface = interfaces.get(packet.interface_id as usize);
                let &(link, ticks) = interface.ok_or_else(|| {
                    TraceError::Capture("a packet of an interface that is not there".into())
                })?;
                packets.push((
                    ticks.nanos(packet.timestamp.as_nanos()),
                    network_bytes(packet.original_len, link),
                ));
            }
            _ => {}
        }
    }
    Ok(packets)
}

/// The unit of an interface's times, as the number of units per second, and the offset of these
/// times in seconds.
#[derive(Clone, Copy)]
struct Ticks {
    per_second: u128,
    offset_s: i64,
}

impl Ticks {
    fn of(interface: &InterfaceDescriptionBlock<'_>) -> Self {
        let mut ticks = Self { per_second: 1_000_000, offset_s: 0 };
        for option in &interface.options {
            match *option {
                InterfaceDescriptionOption::IfTsResol(resolution) if resolution & 0x80 != 0 => {
                    ticks.per_second = 1 << (resolution & 0x7f).min(63);
                }
                InterfaceDescriptionOption::IfTsResol(resolution) => {
                    ticks.per_second = 10u128.pow(u32::from(resolution.min(18)));
                }
                InterfaceDescriptionOption::IfTsOffset(offset) => {
                    ticks.offset_s = offset.cast_signed();
                }
                _ => {}
            }
        }
        ticks
    }

    fn nanos(self, time: u128) -> i128 {
        let nanos = (time & u128::from(u64::MAX)) * 1_000_000_000 / self.per_second;
        nanos.cast_signed() + i128::from(self.offset_s) * 1_000_000_000
    }
}

/// Number of bytes before the network layer.
fn link_header(link: DataLink) -> Result<u32, TraceError> {
    Ok(match link {
        DataLink::ETHERNET => 14,
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => 0,
        DataLink::NULL | DataLink::LOOP => 4,
        DataLink::LINUX_SLL => 16,
        DataLink::LINUX_SLL2 => 20,
        // Some systems use these numbers for raw IP.
        DataLink::Unknown(12 | 14) => 0,
        other => return Err(TraceError::Link(format!("{other:?}"))),
    })
}

/// Network-layer bytes of a captured packet of `len` bytes with a link-layer header of `link`
/// bytes: at least 20 and at most 65535.
fn network_bytes(len: u32, link: u32) -> u32 {
    len.saturating_sub(link).clamp(20, 65_535)
}

/// Sends the packets of a trace.
#[derive(Clone, Debug)]
pub struct Replay {
    trace: Trace,
    /// Speed relative to the recording; 1 gives exact times.
    speed: f64,
    repeat: bool,
    index: usize,
    /// When the current pass through the trace began, ns, at the recorded speed.
    base: u64,
    /// When the previous packet was sent, ns, at the speed of the replay.
    last: u64,
}

impl Replay {
    /// Sends the packets of `trace` at `speed` times the recorded speed, once or repeatedly.
    pub fn new(trace: Trace, speed: f64, repeat: bool) -> Self {
        Self { trace, speed, repeat, index: 0, base: 0, last: 0 }
    }
}

impl Process for Replay {
    fn next(&mut self, _draws: &mut Draws) -> Option<(Nanos, u32)> {
        if self.index == self.trace.0.len() {
            if !self.repeat {
                return None;
            }
            self.index = 0;
            self.base = self.base.saturating_add(self.trace.period());
        }
        let (time, len) = self.trace.0[self.index];
        self.index += 1;
        let mut at = self.base.saturating_add(time.0);
        if self.speed != 1.0 {
            at = nanos(at as f64 / self.speed).0;
        }
        let gap = Nanos(at.saturating_sub(self.last));
        self.last = at;
        Some((gap, len))
    }
}

/// Maximum number of packets in a trace. Each takes 16 bytes of memory.
const MAX_PACKETS: usize = 50_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn played(mut replay: Replay, packets: usize) -> Vec<(u64, u32)> {
        let (mut draws, mut time) = (Draws::new(1, 1, 1), 0);
        let mut next = || {
            replay.next(&mut draws).map(|(gap, len)| {
                time += gap.0;
                (time, len)
            })
        };
        (0..packets).map_while(|_| next()).collect()
    }

    #[test]
    fn a_table_is_played_to_the_nanosecond() {
        let trace =
            Trace::csv("time_s,bytes\n# two at once\n0.5,1500\n0.5,40\n1.000000001,576").unwrap();
        let once = vec![(500_000_000, 1500), (500_000_000, 40), (1_000_000_001, 576)];
        assert_eq!(played(Replay::new(trace.clone(), 1.0, false), 9), once);
        let again = played(Replay::new(trace.clone(), 1.0, true), 4);
        // The mean interval is 250.0000005 ms.
        assert_eq!(again[3], (1_000_000_001 + 250_000_001 + 500_000_000, 1500));
        assert_eq!(played(Replay::new(trace, 2.0, false), 1), [(250_000_000, 1500)]);
    }

    #[test]
    fn a_line_that_is_no_packet_is_named() {
        assert_eq!(Trace::csv("0,1500\nsoon,40"), Err(TraceError::Line(2)));
        assert_eq!(Trace::csv("1,1500\n0.5,40"), Err(TraceError::Order(2)));
        assert_eq!(Trace::csv("-1,1500"), Err(TraceError::Line(1)));
        assert_eq!(Trace::csv("1,9"), Err(TraceError::Length(1)));
        assert_eq!(Trace::csv("# nothing\n"), Err(TraceError::Empty));
    }

    /// A pcap file of Ethernet frames that contains only the first bytes of each.
    fn pcap_file(magic: u32, frames: &[(u32, u32, u32)]) -> Vec<u8> {
        let mut bytes = magic.to_le_bytes().to_vec();
        bytes.extend([2, 0, 4, 0]);
        bytes.extend([0; 8]);
        bytes.extend(64u32.to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
        for &(seconds, fraction, len) in frames {
            let kept = len.min(64);
            bytes.extend([seconds, fraction, kept, len].map(u32::to_le_bytes).concat());
            bytes.extend(vec![0; kept as usize]);
        }
        bytes
    }

    #[test]
    fn a_capture_gives_times_and_lengths_on_the_wire() {
        let frames = [(1_700_000_000, 5, 1514), (1_700_000_000, 9, 60), (1_700_000_001, 5, 590)];
        let micros = Trace::capture(&pcap_file(0xa1b2_c3d4, &frames)).unwrap();
        assert_eq!(
            micros.packets(),
            [(Nanos(0), 1500), (Nanos(4_000), 46), (Nanos(1_000_000_000), 576)]
        );
        let nanos = Trace::capture(&pcap_file(0xa1b2_3c4d, &frames)).unwrap();
        assert_eq!(nanos.packets()[1], (Nanos(4), 46));
        assert!(matches!(
            Trace::capture(b"not a capture at all, whatever it is called"),
            Err(TraceError::Capture(_))
        ));
        assert!(matches!(
            Trace::capture(&pcap_file(0xa1b2_c3d4, &frames)[..70]),
            Err(TraceError::Capture(_))
        ));
    }

    /// A pcapng file with one interface; its times have the resolution `tsresol`.
    fn pcapng_file(link: u16, tsresol: Option<u8>, packets: &[(u64, u32)]) -> Vec<u8> {
        let block = |kind: u32, body: &[u8]| {
            let len = (12 + body.len() as u32).to_le_bytes();
            [&kind.to_le_bytes()[..], &len, body, &len].concat()
        };
        let section =
            [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &u64::MAX.to_le_bytes()].concat();
        let option =
            tsresol.map_or(Vec::new(), |tsresol| vec![9, 0, 1, 0, tsresol, 0, 0, 0, 0, 0, 0, 0]);
        let interface = [&link.to_le_bytes()[..], &[0; 6], &option].concat();
        let mut bytes = [block(0x0a0d_0d0a, &section), block(1, &interface)].concat();
        for &(time, len) in packets {
            let words = [0, (time >> 32) as u32, time as u32, 4, len, 0];
            bytes.extend(block(6, &words.map(u32::to_le_bytes).concat()));
        }
        bytes
    }

    #[test]
    fn times_of_a_pcapng_capture_are_in_units_of_their_interface() {
        let packets = [(5_000_000_000, 1520), (5_000_000_250, 60)];
        for (tsresol, second_at) in [
            (None, 250_000),
            (Some(9), 250),
            (Some(3), 250_000_000),
            (Some(0x80 | 10), 244_140_625),
        ] {
            let trace = Trace::capture(&pcapng_file(276, tsresol, &packets)).unwrap();
            assert_eq!(trace.packets(), [(Nanos(0), 1500), (Nanos(second_at), 40)], "{tsresol:?}");
        }
        assert!(matches!(
            Trace::capture(&pcapng_file(105, None, &packets)),
            Err(TraceError::Link(_))
        ));
    }
}
