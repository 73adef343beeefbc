//! Builds packets for the tests of every crate and for fuzzing corpora. Every field is valid unless
//! the caller changes it.
//!
//! Etherparse provides the header bytes and transport checksums, so that the tests compare this
//! crate's parser and checksums with another implementation. Invalid use (a transport of 70,000
//! bytes, ARP with ports) panics, because only tests use the builder.

use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use etherparse::{
    ArpHardwareId, ArpOperation, ArpPacket, EtherType, Ethernet2Header, IcmpEchoHeader,
    Icmpv4Header, Icmpv4Type, Icmpv6Header, Icmpv6Type, IpDscp, IpEcn, IpFragOffset, IpNumber,
    Ipv4Header, Ipv6FlowLabel, Ipv6Header, SingleVlanHeader, TcpHeader, UdpHeader, VlanId, VlanPcp,
};
use weir_core::packet::Ecn;

use crate::header::{ethertype, protocol};
use crate::vnet::{Gso, VnetHeader};

/// A packet to build: start with one of the constructors, change the relevant fields, then call
/// [`Self::frame`] or [`Self::packet`]. Every field may also be set directly.
#[derive(Clone, Debug)]
pub struct PacketBuilder {
    /// Source MAC address.
    pub src_mac: [u8; 6],
    /// Destination MAC address.
    pub dst_mac: [u8; 6],
    /// VLAN tags from the outermost on: EtherType of the tag, and VLAN identifier.
    pub tags: Vec<(u16, u16)>,
    /// Source address, of the same IP version as the destination.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// The transport layer.
    pub transport: Transport,
    /// Payload of the transport layer.
    pub payload: Vec<u8>,
    /// DSCP, 6 bits.
    pub dscp: u8,
    /// ECN field.
    pub ecn: Ecn,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// IPv4 identification.
    pub id: u16,
    /// IPv4 options, padded with "end of options" to a multiple of four bytes.
    pub options: Vec<u8>,
    /// For an IPv4 fragment: its offset in units of eight bytes, and whether more fragments follow.
    /// `payload` is then the payload of the fragment.
    pub fragment: Option<(u16, bool)>,
    /// IPv6 flow label.
    pub flow_label: u32,
    /// IPv6 extension headers: kind, and the bytes after the next-header and length bytes.
    pub extensions: Vec<(u8, Vec<u8>)>,
    /// Number of zero bytes after the packet, like the padding of short Ethernet frames.
    pub padding: usize,
}

/// The transport layer of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP.
    Udp {
        /// Source port.
        src_port: u16,
        /// Destination port.
        dst_port: u16,
    },
    /// TCP.
    Tcp {
        /// Source port.
        src_port: u16,
        /// Destination port.
        dst_port: u16,
        /// Sequence number.
        sequence: u32,
        /// Flags, FIN in the lowest bit.
        flags: u8,
        /// Options, padded with "end of options" to a multiple of four bytes.
        options: Vec<u8>,
    },
    /// ICMP or ICMPv6 echo request.
    Echo {
        /// Identifier.
        id: u16,
        /// Sequence number.
        sequence: u16,
    },
    /// An ARP request for the destination address, in place of an IP packet.
    Arp,
    /// No transport header: only the payload, with this IP protocol number.
    Raw(u8),
}

impl PacketBuilder {
    /// A packet from `src` to `dst`.
    pub fn new(src: impl Into<IpAddr>, dst: impl Into<IpAddr>, transport: Transport) -> Self {
        Self {
            src_mac: [2, 0, 0, 0, 0, 1],
            dst_mac: [2, 0, 0, 0, 0, 2],
            tags: Vec::new(),
            src: src.into(),
            dst: dst.into(),
            transport,
            payload: Vec::new(),
            dscp: 0,
            ecn: Ecn::NotEct,
            ttl: 64,
            id: 0,
            options: Vec::new(),
            fragment: None,
            flow_label: 0,
            extensions: Vec::new(),
            padding: 0,
        }
    }

    /// A UDP datagram.
    pub fn udp(
        src: impl Into<IpAddr>,
        dst: impl Into<IpAddr>,
        src_port: u16,
        dst_port: u16,
    ) -> Self {
        Self::new(src, dst, Transport::Udp { src_port, dst_port })
    }

    /// A TCP segment with ACK set.
    pub fn tcp(
        src: impl Into<IpAddr>,
        dst: impl Into<IpAddr>,
        src_port: u16,
        dst_port: u16,
    ) -> Self {
        Self::new(
            src,
            dst,
            Transport::Tcp { src_port, dst_port, sequence: 1, flags: 0x10, options: Vec::new() },
        )
    }

    /// An echo request.
    pub fn echo(src: impl Into<IpAddr>, dst: impl Into<IpAddr>, id: u16, sequence: u16) -> Self {
        Self::new(src, dst, Transport::Echo { id, sequence })
    }

    /// An ARP request from `src` for `dst`, both IPv4.
    pub fn arp(src: impl Into<IpAddr>, dst: impl Into<IpAddr>) -> Self {
        let mut arp = Self::new(src, dst, Transport::Arp);
        arp.dst_mac = [0xff; 6];
        arp
    }

    /// Adds an 802.1Q tag inside the existing tags.
    pub fn vlan(mut self, id: u16) -> Self {
        self.tags.push((ethertype::VLAN, id));
        self
    }

    /// Adds an 802.1ad service tag inside the existing tags.
    pub fn service_vlan(mut self, id: u16) -> Self {
        self.tags.push((ethertype::SERVICE_VLAN, id));
        self
    }

    /// Sets the ECN field.
    pub fn ecn(mut self, ecn: Ecn) -> Self {
        self.ecn = ecn;
        self
    }

    /// Sets the DSCP.
    pub fn dscp(mut self, dscp: u8) -> Self {
        self.dscp = dscp;
        self
    }

    /// Sets the payload.
    pub fn payload(mut self, payload: impl Into<Vec<u8>>) -> Self {
        self.payload = payload.into();
        self
    }

    /// Sets a payload of `len` bytes that contains `number` (see [`payload_number`]) and then a
    /// pattern.
    pub fn numbered(mut self, number: u64, len: usize) -> Self {
        self.payload =
            number.to_be_bytes().into_iter().chain((8..len).map(|i| i as u8)).take(len).collect();
        self
    }

    /// Adds an IPv6 extension header of `kind` with `body` after its next-header and length bytes,
    /// padded to a multiple of eight bytes.
    pub fn extension(mut self, kind: u8, body: &[u8]) -> Self {
        self.extensions.push((kind, body.to_vec()));
        self
    }

    /// Makes the packet an IPv4 fragment with an offset in units of eight bytes; `more` says
    /// whether more fragments follow.
    pub fn fragment(mut self, offset: u16, more: bool) -> Self {
        self.fragment = Some((offset, more));
        self
    }

    /// The Ethernet frame.
    pub fn frame(&self) -> Vec<u8> {
        let network = self.network_type();
        let first = self.tags.first().map_or(network, |&(tag, _)| tag);
        let header = Ethernet2Header {
            source: self.src_mac,
            destination: self.dst_mac,
            ether_type: EtherType(first),
        };
        let mut frame = header.to_bytes().to_vec();
        for (i, &(_, id)) in self.tags.iter().enumerate() {
            let inner = self.tags.get(i + 1).map_or(network, |&(tag, _)| tag);
            let tag = SingleVlanHeader {
                pcp: VlanPcp::ZERO,
                drop_eligible_indicator: false,
                vlan_id: VlanId::try_new(id).expect("a VLAN identifier has 12 bits"),
                ether_type: EtherType(inner),
            };
            frame.extend_from_slice(&tag.to_bytes());
        }
        frame.extend(self.packet());
        frame.resize(frame.len() + self.padding, 0);
        frame
    }

    /// The packet from the network layer on, without padding.
    pub fn packet(&self) -> Vec<u8> {
        if self.transport == Transport::Arp {
            return self.arp_packet();
        }
        let body = self.transport_bytes();
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => self.v4_packet(src.octets(), dst.octets(), &body),
            (IpAddr::V6(src), IpAddr::V6(dst)) => self.v6_packet(src.octets(), dst.octets(), &body),
            _ => panic!("both addresses must be of one IP version"),
        }
    }

    /// The Ethernet frame with a partial transport checksum, and the virtio-net header that
    /// declares it.
    pub fn partial(&self) -> (VnetHeader, Vec<u8>) {
        let mut frame = self.frame();
        let start = frame.len() - self.padding - self.transport_bytes().len();
        let vnet = self.leave_partial(&mut frame, start);
        (vnet, frame)
    }

    /// The Ethernet frame as an offload train, in the form in which Linux delivers it. Each packet
    /// of the train except the last has `gso_size` bytes of payload.
    pub fn train(&self, gso_size: u16) -> (VnetHeader, Vec<u8>) {
        let (mut vnet, frame) = self.partial();
        let kind = match (&self.transport, self.src) {
            (Transport::Tcp { .. }, IpAddr::V4(_)) => Gso::TcpV4,
            (Transport::Tcp { .. }, IpAddr::V6(_)) => Gso::TcpV6,
            (Transport::Udp { .. }, _) => Gso::UdpL4,
            _ => panic!("only TCP and UDP come in trains"),
        };
        let ecn = matches!(self.transport, Transport::Tcp { flags, .. } if flags & 0x80 != 0);
        vnet.gso_type = kind.number() | if ecn { VnetHeader::GSO_ECN } else { 0 };
        vnet.gso_size = gso_size;
        (vnet, frame)
    }

    /// Replaces the transport checksum by its seed. The transport layer begins at `start`.
    fn leave_partial(&self, frame: &mut [u8], start: usize) -> VnetHeader {
        let (number, offset, header) = match &self.transport {
            Transport::Udp { .. } => (protocol::UDP, 6, 8),
            Transport::Tcp { options, .. } => (protocol::TCP, 16, 20 + padded(options, 4).len()),
            _ => panic!("only TCP and UDP have partial checksums"),
        };
        let len = frame.len() - self.padding - start;
        // The crate's own functions are not used here, because tests compare them with this sum.
        let mut total = len as u64 + u64::from(number);
        let addresses = match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => [src.octets(), dst.octets()].concat(),
            (IpAddr::V6(src), IpAddr::V6(dst)) => [src.octets(), dst.octets()].concat(),
            _ => panic!("both addresses must be of one IP version"),
        };
        total += addresses
            .chunks(2)
            .map(|pair| u64::from(pair[0]) * 256 + u64::from(pair[1]))
            .sum::<u64>();
        while total > 0xffff {
            total = (total >> 16) + (total & 0xffff);
        }
        frame[start + offset..start + offset + 2].copy_from_slice(&(total as u16).to_be_bytes());
        VnetHeader {
            flags: VnetHeader::NEEDS_CSUM,
            hdr_len: (start + header) as u16,
            csum_start: start as u16,
            csum_offset: offset as u16,
            ..VnetHeader::default()
        }
    }

    /// The EtherType of the network layer.
    fn network_type(&self) -> u16 {
        match (&self.transport, self.src) {
            (Transport::Arp, _) => ethertype::ARP,
            (_, IpAddr::V4(_)) => ethertype::IPV4,
            (_, IpAddr::V6(_)) => ethertype::IPV6,
        }
    }

    fn protocol(&self) -> u8 {
        match (&self.transport, self.src) {
            (Transport::Udp { .. }, _) => protocol::UDP,
            (Transport::Tcp { .. }, _) => protocol::TCP,
            (Transport::Echo { .. }, IpAddr::V4(_)) => protocol::ICMP,
            (Transport::Echo { .. }, IpAddr::V6(_)) => protocol::ICMPV6,
            (&Transport::Raw(number), _) => number,
            (Transport::Arp, _) => panic!("ARP is not carried by IP"),
        }
    }

    /// The transport header and the payload.
    fn transport_bytes(&self) -> Vec<u8> {
        // Only the first fragment has a transport header.
        if self.fragment.is_some_and(|(offset, _)| offset != 0) {
            return self.payload.clone();
        }
        let header = match &self.transport {
            &Transport::Udp { src_port, dst_port } => self.udp_header(src_port, dst_port),
            Transport::Tcp { src_port, dst_port, sequence, flags, options } => {
                self.tcp_header(*src_port, *dst_port, *sequence, *flags, options)
            }
            &Transport::Echo { id, sequence } => {
                let echo = IcmpEchoHeader { id, seq: sequence };
                match (self.src, self.dst) {
                    (IpAddr::V6(src), IpAddr::V6(dst)) => Icmpv6Header::with_checksum(
                        Icmpv6Type::EchoRequest(echo),
                        src.octets(),
                        dst.octets(),
                        &self.payload,
                    )
                    .expect("an ICMPv6 message fits its packet")
                    .to_bytes()
                    .to_vec(),
                    _ => Icmpv4Header::with_checksum(Icmpv4Type::EchoRequest(echo), &self.payload)
                        .to_bytes()
                        .to_vec(),
                }
            }
            Transport::Raw(_) | Transport::Arp => Vec::new(),
        };
        [header.as_slice(), &self.payload].concat()
    }

    fn udp_header(&self, source_port: u16, destination_port: u16) -> Vec<u8> {
        let length =
            u16::try_from(8 + self.payload.len()).expect("a UDP datagram has at most 65,535 bytes");
        let mut header = UdpHeader { source_port, destination_port, length, checksum: 0 };
        header.checksum = match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                header.calc_checksum_ipv4_raw(src.octets(), dst.octets(), &self.payload)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                header.calc_checksum_ipv6_raw(src.octets(), dst.octets(), &self.payload)
            }
            _ => panic!("both addresses must be of one IP version"),
        }
        .expect("a UDP datagram has at most 65,535 bytes");
        header.to_bytes().to_vec()
    }

    fn tcp_header(
        &self,
        src_port: u16,
        dst_port: u16,
        sequence: u32,
        flags: u8,
        options: &[u8],
    ) -> Vec<u8> {
        let mut header = TcpHeader::new(src_port, dst_port, sequence, 8192);
        let bit = |n: u8| flags & (1 << n) != 0;
        (header.fin, header.syn, header.rst, header.psh) = (bit(0), bit(1), bit(2), bit(3));
        (header.ack, header.urg, header.ece, header.cwr) = (bit(4), bit(5), bit(6), bit(7));
        header.set_options_raw(&padded(options, 4)).expect("TCP options have at most 40 bytes");
        header.checksum = match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                header.calc_checksum_ipv4_raw(src.octets(), dst.octets(), &self.payload)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                header.calc_checksum_ipv6_raw(src.octets(), dst.octets(), &self.payload)
            }
            _ => panic!("both addresses must be of one IP version"),
        }
        .expect("a TCP segment has at most 65,535 bytes");
        header.to_bytes().to_vec()
    }

    fn v4_packet(&self, source: [u8; 4], destination: [u8; 4], body: &[u8]) -> Vec<u8> {
        let options = padded(&self.options, 4);
        let (offset, more) = self.fragment.unwrap_or((0, false));
        let mut header = Ipv4Header {
            dscp: IpDscp::try_new(self.dscp).expect("a DSCP has 6 bits"),
            ecn: IpEcn::try_new(self.ecn as u8).expect("an ECN field has 2 bits"),
            total_len: u16::try_from(20 + options.len() + body.len())
                .expect("an IPv4 packet has at most 65,535 bytes"),
            identification: self.id,
            dont_fragment: self.fragment.is_none(),
            more_fragments: more,
            fragment_offset: IpFragOffset::try_new(offset)
                .expect("a fragment's offset has 13 bits"),
            time_to_live: self.ttl,
            protocol: IpNumber(self.protocol()),
            header_checksum: 0,
            source,
            destination,
            options: options.as_slice().try_into().expect("IPv4 options have at most 40 bytes"),
        };
        header.header_checksum = header.calc_header_checksum();
        [header.to_bytes().as_slice(), body].concat()
    }

    /// `body` follows the extension headers.
    fn v6_packet(&self, source: [u8; 16], destination: [u8; 16], body: &[u8]) -> Vec<u8> {
        let mut chain = Vec::new();
        for (i, (kind, body)) in self.extensions.iter().enumerate() {
            let next = self.extensions.get(i + 1).map_or(self.protocol(), |&(kind, _)| kind);
            let mut header = padded(&[&[next, 0], body.as_slice()].concat(), 8);
            header[1] = match *kind {
                protocol::FRAGMENT => 0,
                protocol::AUTHENTICATION => (header.len() / 4 - 2) as u8,
                _ => (header.len() / 8 - 1) as u8,
            };
            chain.extend(header);
        }
        let header = Ipv6Header {
            traffic_class: (self.dscp << 2) | self.ecn as u8,
            flow_label: Ipv6FlowLabel::try_new(self.flow_label).expect("a flow label has 20 bits"),
            payload_length: u16::try_from(chain.len() + body.len())
                .expect("an IPv6 payload has at most 65,535 bytes"),
            next_header: IpNumber(
                self.extensions.first().map_or(self.protocol(), |&(kind, _)| kind),
            ),
            hop_limit: self.ttl,
            source,
            destination,
        };
        [header.to_bytes().as_slice(), &chain, body].concat()
    }

    fn arp_packet(&self) -> Vec<u8> {
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (self.src, self.dst) else {
            panic!("ARP is for IPv4")
        };
        ArpPacket::new(
            ArpHardwareId::ETHERNET,
            EtherType::IPV4,
            ArpOperation::REQUEST,
            &self.src_mac,
            &src.octets(),
            &[0; 6],
            &dst.octets(),
        )
        .expect("the addresses have the sizes of their kind")
        .to_bytes()
        .to_vec()
    }
}

/// The number that [`PacketBuilder::numbered`] put into a payload.
pub fn payload_number(payload: &[u8]) -> Option<u64> {
    payload.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

/// `bytes` with zeros up to a multiple of `word`.
fn padded(bytes: &[u8], word: usize) -> Vec<u8> {
    let mut all = vec![0; bytes.len().next_multiple_of(word)];
    all[..bytes.len()].copy_from_slice(bytes);
    all
}
