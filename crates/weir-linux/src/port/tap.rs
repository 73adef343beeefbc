//! A TAP device that Weir creates: it receives the frames that its namespace sends, and sends
//! frames to the namespace.
//!
//! A TAP device saves one copy compared with a packet socket on a veth pair, and disappears when
//! its descriptor closes.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::slots::Slots;
use super::{Fault, Ingress, Losses, OpenError, SendError};
use crate::arena::BufferPool;
use crate::sys::mmsg::{Message, read, write};
use crate::sys::{interface_mtu, tun};

/// A TAP device.
#[derive(Debug)]
pub struct TapPort {
    device: OwnedFd,
    /// A socket in the device's namespace, for reading the device's MTU.
    control: OwnedFd,
    /// The counters of all interfaces of the device's namespace; `None` if `/proc` is not mounted.
    counters: Option<File>,
    name: String,
    /// One slot, because a read returns one frame.
    slots: Slots,
    losses: Losses,
    /// The largest frame that the port writes to the device, in bytes from the link-layer header
    /// on. The limit does not apply to trains. The kernel does not check the size.
    limit: usize,
    /// Whether the port writes frames of any size.
    unlimited: bool,
}

impl TapPort {
    /// Creates a TAP device in the calling thread's network namespace. `name` may contain `%d` for
    /// a number that the kernel chooses. The device is switched off and has an MTU of 1500. The
    /// live loop notices a change of the MTU after about a second.
    ///
    /// # Errors
    /// `/dev/net/tun` cannot be opened, CAP_NET_ADMIN is missing, or the name is taken.
    pub fn create(name: &str) -> Result<Self, OpenError> {
        let (device, name) = tun::create_tap(name).map_err(|errno| match errno {
            Errno::NOENT | Errno::ACCESS | Errno::NXIO | Errno::NODEV => OpenError::NoTun(errno),
            Errno::PERM => OpenError::NotAllowed {
                what: "making a TAP device",
                name: name.to_owned(),
                capability: "CAP_NET_ADMIN",
            },
            Errno::BUSY => OpenError::NameTaken { name: name.to_owned() },
            errno => {
                OpenError::System { what: "making a TAP device", name: name.to_owned(), errno }
            }
        })?;
        tun::set_offload(device.as_fd());
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let control =
            socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None).map_err(|errno| {
                OpenError::System { what: "making a socket", name: name.clone(), errno }
            })?;
        Ok(Self {
            device,
            control,
            counters: File::open(COUNTERS).ok(),
            losses: Losses::default(),
            name,
            slots: Slots::new(1),
            limit: DEFAULT_MTU + LINK_HEADER,
            unlimited: false,
        })
    }

    /// Makes the port write frames of any size, for a device from which a BPF program forwards the
    /// frames to another device.
    pub fn set_unlimited(&mut self) {
        self.unlimited = true;
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the device's MTU, on which the limit of the frame size depends.
    pub(super) fn refresh(&mut self) {
        if let Ok(mtu) = interface_mtu(&self.control, &self.name) {
            self.limit = mtu as usize + LINK_HEADER;
        }
    }

    pub(super) fn receive(
        &mut self,
        pool: &mut BufferPool,
        out: &mut Vec<Ingress>,
    ) -> Result<bool, Fault> {
        for _ in 0..READS {
            let Some(mut target) = self.slots.targets(1).next() else {
                return Ok(false);
            };
            match read(self.device.as_fd(), &mut target) {
                Ok(received) => out.push(self.slots.take(0, &received, pool)),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => return Ok(true),
                Err(errno) => return Err(fault(errno)),
            }
        }
        Ok(true)
    }

    pub(super) fn send(&mut self, messages: &[Message<'_>]) -> (usize, Option<SendError>) {
        for (sent, message) in messages.iter().enumerate() {
            let train = message.vnet[1] != 0;
            if !train && !self.unlimited && message.frame_len() > self.limit {
                return (sent, Some(SendError::TooLong));
            }
            let result = loop {
                match write(self.device.as_fd(), message) {
                    Err(Errno::INTR) => {}
                    result => break result,
                }
            };
            match result {
                Ok(()) => {}
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => {
                    return (sent, Some(SendError::Busy));
                }
                Err(Errno::MSGSIZE) => return (sent, Some(SendError::TooLong)),
                Err(Errno::INVAL) => return (sent, Some(SendError::Refused)),
                Err(errno) => return (sent, Some(SendError::Fault(fault(errno)))),
            }
        }
        (messages.len(), None)
    }

    /// Frames that the device dropped. Its queue holds 500 frames, and it drops further frames
    /// until the port reads some.
    pub(super) fn losses(&mut self) -> Losses {
        let text = self.counters.as_ref().map(read_all).unwrap_or_default();
        if let Some(drops) = transmit_drops(&text, &self.name) {
            self.losses.kernel_drops = drops;
        }
        self.losses
    }
}

/// The text of a file of the kernel, as far as it can be read.
fn read_all(file: &File) -> String {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        match file.read_at(&mut part, bytes.len() as u64) {
            Ok(count @ 1..) if bytes.len() < LARGEST_COUNTERS => {
                bytes.extend_from_slice(&part[..count]);
            }
            _ => return String::from_utf8(bytes).unwrap_or_default(),
        }
    }
}

/// The number of frames that the kernel dropped instead of sending them on the interface called
/// `name`. `text` is the content of `/proc/net/dev`: after an interface's name follow eight
/// counters of received frames, and then eight of sent frames, the fourth of which counts drops. To
/// the kernel, frames for a TAP device are frames that it sends.
fn transmit_drops(text: &str, name: &str) -> Option<u64> {
    let line =
        text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'));
    line?.split_whitespace().nth(8 + 3)?.parse().ok()
}

impl AsFd for TapPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

fn fault(errno: Errno) -> Fault {
    match errno {
        Errno::IO => Fault::Down,
        Errno::BADFD | Errno::NODEV | Errno::NXIO => Fault::Vanished,
        errno => Fault::System(errno),
    }
}

/// The counters of the interfaces in the calling thread's namespace.
const COUNTERS: &str = "/proc/thread-self/net/dev";
/// Maximum number of bytes that are read from the file of counters.
const LARGEST_COUNTERS: usize = 4 << 20;
const DEFAULT_MTU: usize = 1500;
/// Bytes of an Ethernet header and one VLAN tag, which an MTU does not include.
const LINK_HEADER: usize = 18;
/// Maximum number of reads in one batch. Due packets wait for the batch.
const READS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_found_in_the_line_of_the_interface() {
        let text = "Inter-|   Receive    |  Transmit\n \
                    face |bytes packets errs drop fifo frame compressed multicast|bytes\n   \
                    weir1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  \
                    weir10:    1 2 3 4 5 6 7 8 9 10 11 99 13 14 15 16\n     bad: 1 2\n";
        assert_eq!(transmit_drops(text, "weir1"), Some(12));
        assert_eq!(transmit_drops(text, "weir10"), Some(99));
        for name in ["weir", "weir2", "bad", "1", ""] {
            assert_eq!(transmit_drops(text, name), None, "{name}");
        }
    }
}
