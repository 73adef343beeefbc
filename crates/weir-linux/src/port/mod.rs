//! Ports: the sockets and devices that receive and send frames.
//!
//! A port receives and sends whole batches. Each frame comes with a virtio-net header, which states
//! its offload (partial checksum, train). Constructors act in the calling thread's network
//! namespace; after that the port works from any thread and namespace.

mod absent;
mod packet;
mod slots;
mod stamps;
mod tap;

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use weir_core::Nanos;

pub use absent::AbsentPort;
pub use packet::PacketPort;
pub use tap::TapPort;

pub(crate) use stamps::LONGEST_QUEUED;

use crate::arena::{Buffer, BufferPool};
pub use crate::sys::mmsg::{BATCH, Message, VNET_LEN};

/// A port of any kind.
#[derive(Debug)]
pub enum AnyPort {
    /// A packet socket on an existing interface.
    Packet(PacketPort),
    /// A TAP device that Weir creates.
    Tap(TapPort),
    /// An interface that does not currently exist.
    Absent(AbsentPort),
}

impl AnyPort {
    /// The interface's name in the namespace where the port was opened.
    pub fn name(&self) -> &str {
        match self {
            Self::Packet(port) => port.name(),
            Self::Tap(port) => port.name(),
            Self::Absent(port) => port.name(),
        }
    }

    /// Opens another port on the same interface. From now on both share the arriving frames; see
    /// [`PacketPort::share`].
    ///
    /// # Errors
    /// The kernel refuses, or the port is not a packet socket.
    pub fn share(&mut self) -> Result<Self, OpenError> {
        match self {
            Self::Packet(port) => port.share().map(Self::Packet),
            Self::Tap(port) => Err(OpenError::NotShared { name: port.name().to_owned() }),
            Self::Absent(port) => Err(OpenError::NoInterface { name: port.name().to_owned() }),
        }
    }

    /// Receives up to [`BATCH`] frames without waiting and appends them to `out`. Returns whether
    /// there may be more; `false` when the port is empty.
    ///
    /// # Errors
    /// The port is down or gone; frames received before that are in `out`.
    pub fn receive(
        &mut self,
        pool: &mut BufferPool,
        out: &mut Vec<Ingress>,
    ) -> Result<bool, Fault> {
        match self {
            Self::Packet(port) => port.receive(pool, out),
            Self::Tap(port) => port.receive(pool, out),
            Self::Absent(_) => Err(Fault::Vanished),
        }
    }

    /// Sends up to [`BATCH`] frames without waiting. Returns the number of frames that were
    /// accepted, and the error that stopped the sending, if there was one.
    pub fn send(&mut self, messages: &[Message<'_>]) -> (usize, Option<SendError>) {
        match self {
            Self::Packet(port) => port.send(messages),
            Self::Tap(port) => port.send(messages),
            Self::Absent(_) => (0, Some(SendError::Fault(Fault::Vanished))),
        }
    }

    /// Reads the interface's changeable properties again. Call it about once a second.
    pub fn refresh(&mut self) {
        match self {
            Self::Packet(port) => port.refresh(),
            Self::Tap(port) => port.refresh(),
            Self::Absent(_) => {}
        }
    }

    /// Number of frames lost before they were received, since the port was opened.
    pub fn losses(&mut self) -> Losses {
        match self {
            Self::Packet(port) => port.losses(),
            Self::Tap(port) => port.losses(),
            Self::Absent(_) => Losses::default(),
        }
    }
}

impl AsFd for AnyPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Packet(port) => port.as_fd(),
            Self::Tap(port) => port.as_fd(),
            Self::Absent(port) => port.as_fd(),
        }
    }
}

impl From<PacketPort> for AnyPort {
    fn from(port: PacketPort) -> Self {
        Self::Packet(port)
    }
}

impl From<TapPort> for AnyPort {
    fn from(port: TapPort) -> Self {
        Self::Tap(port)
    }
}

/// A received frame.
#[derive(Debug)]
pub struct Ingress {
    /// The memory that holds the frame.
    pub buffer: Buffer,
    /// Offset of the frame in the buffer.
    pub start: usize,
    /// Bytes of the frame.
    pub len: usize,
    /// The virtio-net header.
    pub vnet: [u8; VNET_LEN],
    /// Whether the frame was longer than any buffer, so that its end is missing.
    pub truncated: bool,
    /// When the frame arrived at the interface, on the monotonic clock; `None` if the port has no
    /// timestamp.
    pub arrived: Option<Nanos>,
}

/// Frames that a port lost before the loop received them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Frames that the kernel dropped because they were not read in time.
    pub kernel_drops: u64,
    /// Frames that the kernel refused to pass on, because their offload has no form that a program
    /// can read.
    pub unreadable: u64,
}

/// A fault of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The interface was set down; it may come up again.
    #[error("the interface is down; set it up to go on")]
    Down,
    /// The interface was deleted, or moved to another namespace.
    #[error("the interface is gone: it was deleted or moved to another network namespace")]
    Vanished,
    /// Another error occurred.
    #[error("the interface cannot be read or written ({0})")]
    System(Errno),
}

/// Why a port stopped sending at a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The port has no room now; the same frame may be sent later.
    Busy,
    /// The interface refuses this frame, which is malformed.
    Refused,
    /// This frame is longer than the interface's MTU allows.
    TooLong,
    /// The port is down or gone.
    Fault(Fault),
}

/// Why a port could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no such interface.
    #[error("there is no interface called {name}; `ip link` lists those there are")]
    NoInterface {
        /// The requested name.
        name: String,
    },
    /// The name is taken.
    #[error("there is already an interface called {name}; choose another name or delete it")]
    NameTaken {
        /// The requested name.
        name: String,
    },
    /// A privilege is missing.
    #[error("{what} on {name} needs {capability}; run as root, or let Weir make a user namespace")]
    NotAllowed {
        /// The attempted step.
        what: &'static str,
        /// The interface.
        name: String,
        /// The missing capability.
        capability: &'static str,
    },
    /// `/dev/net/tun` is missing or cannot be opened.
    #[error("/dev/net/tun cannot be opened ({0}); load the `tun` module or use packet sockets")]
    NoTun(Errno),
    /// The interface does not carry Ethernet frames.
    #[error("{name} does not carry Ethernet frames; Weir needs an interface that does")]
    NotEthernet {
        /// The interface.
        name: String,
    },
    /// The interface cannot be shared among several workers.
    #[error(
        "{name} is a TAP device, which one thread serves; take packet sockets for several workers \
         (--backend packet)"
    )]
    NotShared {
        /// The interface.
        name: String,
    },
    /// Another system call failed.
    #[error("{what} failed on {name} ({errno})")]
    System {
        /// The attempted step.
        what: &'static str,
        /// The interface.
        name: String,
        /// The error.
        errno: Errno,
    },
}
