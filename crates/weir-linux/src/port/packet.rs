//! A packet socket on an existing interface.
//!
//! Frames have virtio-net headers, so trains arrive whole and checksums may be partial. The kernel
//! removes the VLAN tag from a frame, and the port inserts it again. The port does not receive
//! frames that the socket itself or other programs send on the interface. Sending bypasses the
//! interface's queueing discipline, because the engine has the queue.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::slots::Slots;
use super::stamps::{Reading, Stamps};
use super::{BATCH, Fault, Ingress, Losses, OpenError, SendError};
use crate::arena::BufferPool;
use crate::clock;
use crate::netns::NetNs;
use crate::sys::mmsg::{Message, Received, receive, send};
use crate::sys::packet::{self, Buffer};

/// A packet socket on an interface.
#[derive(Debug)]
pub struct PacketPort {
    socket: OwnedFd,
    name: String,
    interface: u32,
    slots: Slots,
    /// The reports of a receive call. A field only to reuse the memory.
    received: Box<[Received; BATCH]>,
    /// The number of frames to request in the next receive call. It adapts to the number of frames
    /// that the last call received, so that a call on an idle interface does not prepare 64
    /// messages.
    ask: usize,
    losses: Losses,
    stamps: Stamps,
    promiscuous: bool,
    /// The group of sockets among which the kernel distributes the interface's frames, if the port
    /// is shared.
    group: Option<u16>,
}

impl PacketPort {
    /// Opens the interface called `name` in the calling thread's network namespace.
    ///
    /// # Errors
    /// There is no such interface, it carries no Ethernet frames, or CAP_NET_RAW is missing.
    pub fn open(name: &str) -> Result<Self, OpenError> {
        let owned = || name.to_owned();
        let failed = |what| move |errno| OpenError::System { what, name: name.to_owned(), errno };
        let socket = packet::open().map_err(|errno| match errno {
            Errno::PERM | Errno::ACCESS => OpenError::NotAllowed {
                what: "opening a packet socket",
                name: owned(),
                capability: "CAP_NET_RAW",
            },
            errno => OpenError::System { what: "opening a packet socket", name: owned(), errno },
        })?;
        let interface = rustix::net::netdevice::name_to_index(&socket, name)
            .map_err(|_| OpenError::NoInterface { name: owned() })?;
        if !packet::carries_ethernet(socket.as_fd(), name)
            .map_err(failed("asking for the kind of link"))?
        {
            return Err(OpenError::NotEthernet { name: owned() });
        }
        let set = |option, what| packet::set_option(&socket, option, 1).map_err(failed(what));
        set(libc::PACKET_VNET_HDR, "turning on virtio-net headers")?;
        set(libc::PACKET_AUXDATA, "turning on auxiliary data")?;
        set(libc::PACKET_IGNORE_OUTGOING, "leaving out outgoing frames")?;
        set(libc::PACKET_QDISC_BYPASS, "sending past the queueing discipline")?;
        packet::ask_for_times(socket.as_fd()).map_err(failed("asking for arrival times"))?;
        packet::set_buffer(socket.as_fd(), Buffer::Receive, RECEIVE_BUFFER)
            .map_err(failed("sizing the receive buffer"))?;
        packet::set_buffer(socket.as_fd(), Buffer::Send, SEND_BUFFER)
            .map_err(failed("sizing the send buffer"))?;
        packet::bind(socket.as_fd(), interface).map_err(failed("binding a packet socket"))?;
        Ok(Self {
            socket,
            name: owned(),
            interface,
            slots: Slots::new(BATCH),
            received: Box::new([Received::default(); BATCH]),
            ask: MIN_ASK,
            losses: Losses::default(),
            stamps: Stamps::new(read_clocks),
            promiscuous: false,
            group: None,
        })
    }

    /// Opens another port on the same interface. From now on the kernel distributes the frames
    /// among the ports: all frames of a flow, in both directions, arrive at the same port. The
    /// later fragments of a packet form a separate flow.
    ///
    /// # Errors
    /// The kernel refuses, or the interface is gone.
    pub fn share(&mut self) -> Result<Self, OpenError> {
        let name = self.name.clone();
        let failed = |what| {
            let name = name.clone();
            move |errno| OpenError::System { what, name, errno }
        };
        let group = match self.group {
            Some(group) => group,
            None => packet::make_group(self.socket.as_fd())
                .map_err(failed("sharing a packet socket's frames"))?,
        };
        self.group = Some(group);
        let open = || Self::open(&name);
        let mut port = match packet::namespace(self.socket.as_fd()) {
            Ok(place) => match NetNs::of(place).enter(|| Ok::<_, std::io::Error>(open())) {
                Ok(opened) => opened?,
                // A thread that may not change its namespace has never left it, so it is still in
                // the port's namespace.
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => open()?,
                Err(error) => {
                    return Err(failed("entering the namespace of")(
                        Errno::from_io_error(&error).unwrap_or(Errno::IO),
                    ));
                }
            },
            // A process that may not read the socket's namespace has created no namespace, so the
            // interface is in the caller's namespace.
            Err(_) => open()?,
        };
        packet::join_group(port.socket.as_fd(), group)
            .map_err(failed("sharing a packet socket's frames"))?;
        port.group = Some(group);
        port.discard();
        if self.promiscuous {
            port.set_promiscuous()?;
        }
        Ok(port)
    }

    /// Discards the frames received so far. Before the socket joined the group, the other members
    /// received the same frames.
    fn discard(&mut self) {
        let mut pool = BufferPool::default();
        let mut frames = Vec::new();
        while self.receive(&mut pool, &mut frames).is_ok() && !frames.is_empty() {
            for frame in frames.drain(..) {
                pool.give(frame.buffer);
            }
        }
        self.losses = Losses::default();
    }

    /// Makes the port receive frames for any station, not only for the interface's own address. The
    /// effect ends with the port. A bridge needs this.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_promiscuous(&mut self) -> Result<(), OpenError> {
        self.promiscuous = true;
        packet::set_promiscuous(self.socket.as_fd(), self.interface).map_err(|errno| {
            OpenError::System {
                what: "turning on promiscuous mode",
                name: self.name.clone(),
                errno,
            }
        })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn receive(
        &mut self,
        pool: &mut BufferPool,
        out: &mut Vec<Ingress>,
    ) -> Result<bool, Fault> {
        let count =
            match receive(self.socket.as_fd(), self.slots.targets(self.ask), &mut self.received) {
                Ok(count) => count,
                Err(Errno::AGAIN) => {
                    self.ask = MIN_ASK;
                    return Ok(false);
                }
                Err(Errno::INTR | Errno::NOBUFS) => return Ok(true),
                Err(Errno::INVAL) => {
                    // The offload of this frame has no virtio-net form. The kernel has removed the
                    // frame from the queue.
                    self.losses.unreadable += 1;
                    return Ok(true);
                }
                Err(errno) => return Err(self.fault(errno)),
            };
        let more = count == self.ask;
        self.ask = if more {
            (2 * self.ask).min(BATCH)
        } else {
            (count + 1).next_power_of_two().clamp(MIN_ASK, BATCH)
        };
        if count > 0 {
            self.stamps.check(read_clocks);
        }
        for i in 0..count {
            let received = self.received[i];
            let mut frame = self.slots.take(i, &received, pool);
            frame.arrived = self.stamps.arrival(received.wall_ns);
            if let Some(tag) = received.vlan {
                insert_tag(&mut frame, tag);
            }
            out.push(frame);
        }
        Ok(more)
    }

    pub(super) fn send(&mut self, messages: &[Message<'_>]) -> (usize, Option<SendError>) {
        let mut sent = 0;
        while sent < messages.len() {
            match send(self.socket.as_fd(), &messages[sent..]) {
                Ok(count) => sent += count.max(1),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => {
                    return (sent, Some(SendError::Busy));
                }
                Err(Errno::MSGSIZE) => return (sent, Some(SendError::TooLong)),
                Err(Errno::INVAL) => return (sent, Some(SendError::Refused)),
                Err(errno) => return (sent, Some(SendError::Fault(self.fault(errno)))),
            }
        }
        (sent, None)
    }

    /// Adapts to small changes of the wall clock, on which the kernel's timestamps are based.
    pub(super) fn refresh(&mut self) {
        self.stamps.follow(read_clocks);
    }

    pub(super) fn losses(&mut self) -> Losses {
        if let Ok(statistics) = packet::statistics(self.socket.as_fd()) {
            self.losses.kernel_drops += u64::from(statistics.drops);
        }
        self.losses
    }

    /// Distinguishes an interface that is down from one that is gone.
    fn fault(&self, errno: Errno) -> Fault {
        match errno {
            Errno::NETDOWN | Errno::NXIO | Errno::NODEV => {
                match rustix::net::netdevice::index_to_name(&self.socket, self.interface) {
                    Err(Errno::NXIO | Errno::NODEV) => Fault::Vanished,
                    // The interface still exists, or it is unknown whether it does.
                    _ => Fault::Down,
                }
            }
            errno => Fault::System(errno),
        }
    }
}

impl AsFd for PacketPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn read_clocks() -> Reading {
    let wall = clock::wall();
    Reading { wall, monotonic: clock::now() }
}

/// Inserts a VLAN tag after the two addresses, and moves the offsets in the offload header that
/// point beyond the addresses.
fn insert_tag(frame: &mut Ingress, (protocol, control): (u16, u16)) {
    if frame.len < ADDRESSES || frame.start < TAG {
        return;
    }
    let start = frame.start - TAG;
    let bytes = frame.buffer.bytes_mut();
    bytes.copy_within(frame.start..frame.start + ADDRESSES, start);
    let tag = start + ADDRESSES;
    bytes[tag..tag + 2].copy_from_slice(&protocol.to_be_bytes());
    bytes[tag + 2..tag + 4].copy_from_slice(&control.to_be_bytes());
    frame.start = start;
    frame.len += TAG;
    // struct virtio_net_hdr: flags, gso_type, hdr_len, gso_size, csum_start, csum_offset; in native
    // byte order.
    let shift = |field: &mut [u8]| {
        let value = u16::from_ne_bytes([field[0], field[1]]);
        field.copy_from_slice(&value.saturating_add(TAG as u16).to_ne_bytes());
    };
    if frame.vnet[1] != 0 {
        shift(&mut frame.vnet[2..4]);
    }
    if frame.vnet[0] & NEEDS_CSUM != 0 {
        shift(&mut frame.vnet[6..8]);
    }
}

/// Bytes of the two link-layer addresses.
const ADDRESSES: usize = 12;
/// Bytes of a VLAN tag.
const TAG: usize = 4;
/// VIRTIO_NET_HDR_F_NEEDS_CSUM: the checksum is partial.
const NEEDS_CSUM: u8 = 1;
/// The fewest frames to request in a receive call.
const MIN_ASK: usize = 8;
/// Size of the receive buffer. The kernel also charges its overhead for each frame, so the buffer
/// holds some 25,000 small frames: 40 ms at 600,000 per second.
const RECEIVE_BUFFER: usize = 16 << 20;
/// Size of the send buffer, enough for the largest batch of trains.
const SEND_BUFFER: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::HEADROOM;

    #[test]
    fn a_removed_tag_is_inserted_again_at_its_position() {
        let mut pool = BufferPool::default();
        let mut buffer = pool.take(64);
        for (i, byte) in buffer.bytes_mut()[HEADROOM..HEADROOM + 20].iter_mut().enumerate() {
            *byte = i as u8;
        }
        let mut vnet = [0; 10];
        vnet[0] = NEEDS_CSUM;
        vnet[6..8].copy_from_slice(&34u16.to_ne_bytes());
        let mut frame =
            Ingress { buffer, start: HEADROOM, len: 20, vnet, truncated: false, arrived: None };
        insert_tag(&mut frame, (0x8100, 0x2005));
        let bytes = &frame.buffer.bytes()[frame.start..frame.start + frame.len];
        assert_eq!(
            bytes,
            [
                0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0x81, 0, 0x20, 5, 12, 13, 14, 15, 16, 17, 18,
                19
            ]
        );
        assert_eq!(u16::from_ne_bytes([frame.vnet[6], frame.vnet[7]]), 38);
    }
}
