//! A TAP device that Weir creates: it receives the frames that its namespace sends, and sends
//! frames to the namespace.
//!
//! A TAP device saves one copy compared with a packet socket on a veth pair, and disappears when
//! its descriptor closes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

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
    name: String,
    slots: Slots,
    /// The largest frame, from the link-layer header on, that the port writes to the device if the
    /// frame is not a train. The kernel does not check the size.
    limit: usize,
    /// Whether the port writes frames of any size.
    unlimited: bool,
}

impl TapPort {
    /// Creates a TAP device in the calling thread's network namespace. `name` may contain `%d` for
    /// a number that the kernel chooses. The device is switched off and has an MTU of 1500. The
    /// port notices a change of the MTU within a second.
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
            name,
            slots: Slots::new(),
            limit: DEFAULT_MTU + LINK_HEADER,
            unlimited: false,
        })
    }

    /// Makes the port write frames of any size, for a device behind which a program of the kernel
    /// sends the frames on to another device.
    pub fn set_unlimited(&mut self) {
        self.unlimited = true;
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the device's MTU. The port refuses larger frames, except trains.
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

    pub(super) fn losses(&mut self) -> Losses {
        Losses::default()
    }
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

const DEFAULT_MTU: usize = 1500;
/// Bytes of an Ethernet header and one VLAN tag, which an MTU does not include.
const LINK_HEADER: usize = 18;
/// The most reads in one batch. Each is a system call, during which packets that are due wait.
const READS: usize = 32;
