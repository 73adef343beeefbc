//! Traces as files: a table with a row for each event of a packet, or a packet capture.
//!
//! Both kinds of file are written during the run, in blocks of records. The frames of a capture are
//! synthetic: addresses, ports, sequence numbers and the ECN field are those of the simulated
//! packet, and the payload is left out.

use std::io::{self, Write};

use weir_core::key::FlowKey;
use weir_core::packet::Ecn;
use weir_core::stats::DropReason;
use weir_measure::scenario::{LinkName, Names};
use weir_sim::measure::{Event, Record};
use weir_sim::packet::{Flags, Packet};

use super::parquet::{Column, Table, TableError, TableWriter};
use crate::pcap::{self, CaptureWriter, Interface, LinkType, Meta};

/// Writes records as a Parquet file, one group of rows per block. Columns: `t_ns`, `event`
/// (`entered`, `left`, `dropped`, `arrived`), `link` (empty at the endpoint), `flow`, `back` (1
/// towards the flow's source), `seq`, `ack`, `len`, `ecn`, `label`, `queue_ns`, `total_ns`,
/// `reason`.
#[derive(Debug)]
pub struct TraceTable<W: Write + Send> {
    writer: TableWriter<W>,
    flows: Vec<String>,
    links: Vec<String>,
}

impl<W: Write + Send> TraceTable<W> {
    /// Starts the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(writer: W, names: &Names) -> Result<Self, TableError> {
        let (flows, links) = all_names(names);
        let writer = TableWriter::new(writer, &rows(&[], &flows, &links))?;
        Ok(Self { writer, flows, links })
    }

    /// Writes a block of records.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, records: &[Record]) -> Result<(), TableError> {
        self.writer.write(&rows(records, &self.flows, &self.links))
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self) -> Result<(), TableError> {
        self.writer.finish()
    }
}

/// A block of records as rows, with the columns of [`TraceTable`].
pub fn trace_rows(records: &[Record], names: &Names) -> Table {
    let (flows, links) = all_names(names);
    rows(records, &flows, &links)
}

/// The names of flows and links. The last name of each list is empty, for flows and links without a
/// name.
fn all_names(names: &Names) -> (Vec<String>, Vec<String>) {
    let named = |all: Vec<&String>| -> Vec<String> {
        all.into_iter().cloned().chain([String::new()]).collect()
    };
    (
        named(names.flows.iter().map(|flow| &flow.name).collect()),
        named(names.links.iter().map(|link| &link.name).collect()),
    )
}

fn rows(records: &[Record], flows: &[String], links: &[String]) -> Table {
    let int = |of: fn(&Record) -> u64| Column::Int(records.iter().map(of).collect());
    let some = |of: fn(&Record) -> Option<u64>| Column::SomeInt(records.iter().map(of).collect());
    let number =
        |n: Option<u32>, names: &[String]| n.unwrap_or(u32::MAX).min(names.len() as u32 - 1);
    let name = |names: &[String], of: &dyn Fn(&Record) -> u32| {
        Column::Name(names.to_vec(), records.iter().map(of).collect())
    };
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<String>>();
    let reasons: Vec<&str> =
        DropReason::ALL.iter().map(|reason| reason.name()).chain([""]).collect();
    Table {
        columns: vec![
            ("t_ns", int(|r| r.time.0)),
            (
                "event",
                name(&words(&["entered", "left", "dropped", "arrived"]), &|r| {
                    event_number(&r.event)
                }),
            ),
            ("link", name(links, &|r| number(r.port.map(|port| port.0), links))),
            ("flow", name(flows, &|r| number(Some(r.group), flows))),
            ("back", int(|r| u64::from(r.packet.flags.has(Flags::BACK)))),
            ("seq", int(|r| r.packet.seq)),
            ("ack", int(|r| r.packet.ack)),
            ("len", int(|r| r.packet.len.into())),
            ("ecn", name(&words(&["not-ect", "ect1", "ect0", "ce"]), &|r| r.packet.ecn as u32)),
            ("label", int(|r| r.packet.label)),
            (
                "queue_ns",
                some(|r| if let Event::Left { queue_ns, .. } = r.event { queue_ns } else { None }),
            ),
            ("total_ns", some(total)),
            (
                "reason",
                name(&words(&reasons), &|r| {
                    if let Event::Dropped(reason) = r.event {
                        reason as u32
                    } else {
                        reasons.len() as u32 - 1
                    }
                }),
            ),
        ],
    }
}

fn event_number(event: &Event) -> u32 {
    match event {
        Event::Entered => 0,
        Event::Left { .. } => 1,
        Event::Dropped(_) => 2,
        Event::Arrived { .. } => 3,
    }
}

/// For a departure, the time in the port; for an arrival at the endpoint, the end-to-end delay;
/// `None` for other events.
fn total(record: &Record) -> Option<u64> {
    match record.event {
        Event::Left { total_ns, .. } => Some(total_ns),
        Event::Arrived { delay_ns } => Some(delay_ns),
        Event::Entered | Event::Dropped(_) => None,
    }
}

/// Writes records as a packet capture with an interface for each direction of a link.
#[derive(Debug)]
pub struct TraceCapture<W: Write> {
    writer: CaptureWriter<W>,
    links: u32,
}

impl<W: Write> TraceCapture<W> {
    /// Starts the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(writer: W, names: &Names) -> io::Result<Self> {
        let interface = |link: &LinkName| Interface {
            name: link.name.clone(),
            description: format!("{} → {}, {}", link.from, link.to, link.spec),
            link_type: LinkType::RawIp,
        };
        let interfaces: Vec<Interface> = names.links.iter().map(interface).collect();
        Ok(Self {
            writer: CaptureWriter::new(writer, "weir", &interfaces)?,
            links: interfaces.len() as u32,
        })
    }

    /// Writes a block of records. Events at endpoints and at ports without a name are left out.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, records: &[Record]) -> io::Result<()> {
        for record in records {
            let Some(interface) = record.port.map(|port| port.0).filter(|&port| port < self.links)
            else {
                continue;
            };
            let event = match record.event {
                Event::Entered => pcap::Event::Arrived,
                Event::Left { queue_ns, total_ns } => {
                    let marked = record.packet.ecn == Ecn::Ce;
                    let queue_ns = queue_ns.unwrap_or(0);
                    pcap::Event::Left {
                        queue_ns,
                        total_ns,
                        marked,
                        duplicate: false,
                        corrupted: None,
                    }
                }
                Event::Dropped(reason) => pcap::Event::Dropped { reason },
                Event::Arrived { .. } => continue,
            };
            let meta =
                Meta { interface, unix_ns: record.time.0, original_len: record.packet.len, event };
            let mut frame = headers(&record.key, &record.packet);
            frame.truncate(record.packet.len as usize);
            self.writer.write(&meta, &frame)?;
        }
        Ok(())
    }

    /// Returns the underlying writer.
    pub fn into_inner(self) -> W {
        self.writer.into_inner()
    }
}

/// The headers of the packet: IPv4 or IPv6, and TCP if that is the flow's protocol, otherwise UDP.
/// Transport checksums are 0.
fn headers(key: &FlowKey, packet: &Packet) -> Vec<u8> {
    let mut out = Vec::with_capacity(60);
    let (ecn, ip) = (packet.ecn as u8, if key.ipv6 { 40 } else { 20 });
    let len = u16::try_from(packet.len).unwrap_or(u16::MAX);
    let is_tcp = key.proto == TCP;
    let proto = if is_tcp { TCP } else { UDP };
    if key.ipv6 {
        out.extend((6 << 28 | u32::from(key.dscp << 2 | ecn) << 20 | key.flow_id).to_be_bytes());
        out.extend(len.saturating_sub(ip).to_be_bytes());
        out.extend([proto, 64]);
        out.extend(key.src.to_be_bytes());
        out.extend(key.dst.to_be_bytes());
    } else {
        out.extend([0x45, key.dscp << 2 | ecn]);
        out.extend(len.to_be_bytes());
        out.extend([0, 0, 0x40, 0, 64, proto, 0, 0]);
        out.extend((key.src as u32).to_be_bytes());
        out.extend((key.dst as u32).to_be_bytes());
        let sum: u32 = out.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        let check = !((folded & 0xffff) + (folded >> 16)) as u16;
        out[10..12].copy_from_slice(&check.to_be_bytes());
    }
    out.extend(key.src_port.to_be_bytes());
    out.extend(key.dst_port.to_be_bytes());
    if is_tcp {
        out.extend((packet.seq as u32).to_be_bytes());
        out.extend((packet.ack as u32).to_be_bytes());
        let words = (u16::from(packet.header).saturating_sub(ip) / 4).clamp(5, 15) as u8;
        out.extend([words << 4, tcp_flags(packet.flags)]);
        // The window, scaled by 2^7, is followed by checksum, urgent pointer and padding in place
        // of options.
        out.extend(u16::try_from(packet.window >> 7).unwrap_or(u16::MAX).to_be_bytes());
        out.extend([0; 4]);
        out.resize(usize::from(ip) + usize::from(words) * 4, 1);
    } else {
        out.extend(len.saturating_sub(ip).to_be_bytes());
        out.extend([0, 0]);
    }
    out
}

fn tcp_flags(flags: Flags) -> u8 {
    let bits = [
        (Flags::FIN, 0x01),
        (Flags::SYN, 0x02),
        (Flags::ACK, 0x10),
        (Flags::ECE, 0x40),
        (Flags::CWR, 0x80),
    ];
    bits.into_iter().filter(|(flag, _)| flags.has(*flag)).map(|(_, bit)| bit).sum()
}

/// Protocol numbers.
const TCP: u8 = 6;
const UDP: u8 = 17;

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    use weir_core::Nanos;
    use weir_measure::scenario::FlowName;
    use weir_sim::network::PortId;

    use super::*;

    fn names() -> Names {
        let flow = FlowName { name: "f".into(), ..FlowName::default() };
        let link = LinkName {
            name: "up".into(),
            from: "a".into(),
            to: "b".into(),
            spec: "bw 1M".into(),
            ..LinkName::default()
        };
        Names { scenario: "s".into(), flows: vec![flow], links: vec![link] }
    }

    fn records() -> Vec<Record> {
        let mut packet = Packet::default();
        (packet.len, packet.header, packet.seq, packet.ecn) = (1500, 28, 7, Ecn::Ect0);
        let key = FlowKey {
            src: 0x0a00_0001,
            dst: 0x0a00_0002,
            src_port: 1000,
            dst_port: 2000,
            proto: UDP,
            ..FlowKey::default()
        };
        let record = |t, event, port| Record { time: Nanos(t), event, port, group: 0, key, packet };
        vec![
            record(10, Event::Entered, Some(PortId(0))),
            record(30, Event::Left { queue_ns: Some(5), total_ns: 20 }, Some(PortId(0))),
            record(30, Event::Arrived { delay_ns: 20 }, None),
            record(40, Event::Dropped(DropReason::QueueFull), Some(PortId(9))),
        ]
    }

    #[test]
    fn a_trace_is_read_back_with_names() {
        let mut bytes = Vec::new();
        let mut trace = TraceTable::new(&mut bytes, &names()).unwrap();
        trace.write(&records()[..2]).unwrap();
        trace.write(&records()[2..]).unwrap();
        trace.finish().unwrap();
        let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        let text = |row: &parquet::record::Row| {
            [1, 2, 3, 8, 12].map(|i| row.get_string(i).unwrap().clone()).join(",")
        };
        assert_eq!(
            rows.iter().map(text).collect::<Vec<_>>(),
            [
                "entered,up,f,ect0,",
                "left,up,f,ect0,",
                "arrived,,f,ect0,",
                "dropped,,f,ect0,queue_full"
            ]
        );
        assert_eq!(
            rows.iter().map(|r| (r.get_long(0).unwrap(), r.get_long(11).ok())).collect::<Vec<_>>(),
            [(10, None), (30, Some(20)), (30, Some(20)), (40, None)]
        );
    }

    #[test]
    fn a_capture_has_headers_that_fit_the_packet() {
        let mut capture = TraceCapture::new(Vec::new(), &names()).unwrap();
        capture.write(&records()).unwrap();
        assert!(capture.into_inner().len() > 200);
        let Record { key, packet, .. } = records()[0];
        let frame = headers(&key, &packet);
        assert_eq!(frame.len(), 28);
        assert_eq!(frame[..4], [0x45, 2, 1500u16.to_be_bytes()[0], 1500u16.to_be_bytes()[1]]);
        let sum: u32 =
            frame[..20].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "the checksum makes the sum all ones");
        let tcp = FlowKey { proto: TCP, ipv6: true, ..key };
        let mut segment = packet;
        (segment.header, segment.flags) = (72, Flags::ACK.with(Flags::CWR));
        let frame = headers(&tcp, &segment);
        assert_eq!((frame.len(), frame[52], frame[53]), (72, 8 << 4, 0x90));
    }
}
