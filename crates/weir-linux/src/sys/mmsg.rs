//! Receives and sends many frames in one system call. Each frame is in several pieces of memory.

use std::mem::{MaybeUninit, size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use super::{check, last_error};

/// Maximum number of frames in one call.
pub const BATCH: usize = 64;
/// Bytes of the virtio-net header in front of each frame.
pub const VNET_LEN: usize = 10;

/// A frame to send: virtio-net header, headers, payload. Headers or payload may be empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Message<'a> {
    /// The virtio-net header.
    pub vnet: [u8; VNET_LEN],
    /// Link, network and transport headers, or the whole frame.
    pub head: &'a [u8],
    /// The bytes that follow `head`.
    pub payload: &'a [u8],
}

impl Message<'_> {
    /// Bytes of the frame.
    pub fn frame_len(&self) -> usize {
        self.head.len() + self.payload.len()
    }
}

/// The memory into which a frame is received.
#[derive(Debug)]
pub struct Target<'a> {
    /// Receives the beginning of the frame.
    pub first: &'a mut [u8],
    /// Receives the part of the frame that does not fit into `first`.
    pub rest: &'a mut [u8],
}

/// The report of a receive call about one frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received {
    /// Bytes of the frame that were written to the target.
    pub len: usize,
    /// The virtio-net header.
    pub vnet: [u8; VNET_LEN],
    /// Whether the frame was longer than the target.
    pub truncated: bool,
    /// The VLAN tag that the kernel removed from the frame: protocol and tag control information.
    pub vlan: Option<(u16, u16)>,
    /// When the kernel received the frame, in ns since 1970; 0 if the socket does not request
    /// timestamps.
    pub wall_ns: u64,
}

/// Receives up to [`BATCH`] frames from a packet socket with virtio-net headers and auxiliary data,
/// without waiting.
///
/// Writes the report of frame `i` to `out[i]`; returns the number of frames.
///
/// # Errors
/// `EAGAIN` when no frame is available; `ENETDOWN` once after the interface went down; `EINVAL` for
/// one frame that has an offload without a virtio-net form (the kernel has discarded the frame).
pub fn receive<'a>(
    socket: BorrowedFd<'_>,
    targets: impl Iterator<Item = Target<'a>>,
    out: &mut [Received; BATCH],
) -> Result<usize, Errno> {
    let mut count = 0;
    let mut room = [0usize; BATCH];
    let mut vnet = [[0u8; VNET_LEN]; BATCH];
    let mut control = [const { MaybeUninit::<Control>::uninit() }; BATCH];
    let mut pieces = [const { MaybeUninit::<[libc::iovec; 3]>::uninit() }; BATCH];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; BATCH];
    for (i, target) in targets.take(BATCH).enumerate() {
        room[i] = target.first.len() + target.rest.len();
        count = i + 1;
        let iov = pieces[i].write([
            libc::iovec { iov_base: vnet[i].as_mut_ptr().cast(), iov_len: VNET_LEN },
            libc::iovec { iov_base: target.first.as_mut_ptr().cast(), iov_len: target.first.len() },
            libc::iovec { iov_base: target.rest.as_mut_ptr().cast(), iov_len: target.rest.len() },
        ]);
        // SAFETY: mmsghdr is plain data, for which all zeros (null pointers, no lengths) is a valid
        // value.
        let mut header: libc::mmsghdr = unsafe { zeroed() };
        header.msg_hdr.msg_iov = iov.as_mut_ptr();
        header.msg_hdr.msg_iovlen = 3;
        header.msg_hdr.msg_control = control[i].as_mut_ptr().cast();
        header.msg_hdr.msg_controllen = size_of::<Control>() as _;
        headers[i].write(header);
    }
    // SAFETY: the first `count` headers are initialised; each points to three iovecs over memory
    // that is mutably borrowed or on this stack for the whole call, and to a control buffer of the
    // stated length.
    let received = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr().cast(),
            count as libc::c_uint,
            libc::MSG_DONTWAIT as _,
            std::ptr::null_mut(),
        )
    };
    let received = check(received)? as usize;
    for i in 0..received.min(count) {
        // SAFETY: `i < count`, so the header was initialised above; the kernel has only changed its
        // lengths and flags.
        let header = unsafe { headers[i].assume_init_ref() };
        let len = (header.msg_len as usize).saturating_sub(VNET_LEN);
        let truncated = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
        let Annotations { vlan, wall_ns } = annotations(&header.msg_hdr);
        out[i] = Received {
            len: len.min(room[i]),
            vnet: vnet[i],
            truncated: truncated || len > room[i],
            vlan,
            wall_ns,
        };
    }
    Ok(received)
}

/// Sends up to [`BATCH`] frames, each with a virtio-net header, without waiting. Returns the number
/// of frames that the kernel accepted.
///
/// # Errors
/// The kernel's error for the first frame, if it accepted none; see packet(7).
pub fn send(socket: BorrowedFd<'_>, messages: &[Message<'_>]) -> Result<usize, Errno> {
    let count = messages.len().min(BATCH);
    let mut pieces = [const { MaybeUninit::<[libc::iovec; 3]>::uninit() }; BATCH];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; BATCH];
    for (i, message) in messages.iter().take(count).enumerate() {
        let iov = pieces[i].write(gather(message));
        // SAFETY: mmsghdr is plain data, for which all zeros (null pointers, no lengths) is a valid
        // value.
        let mut header: libc::mmsghdr = unsafe { zeroed() };
        header.msg_hdr.msg_iov = iov.as_mut_ptr();
        header.msg_hdr.msg_iovlen = if message.payload.is_empty() { 2 } else { 3 };
        headers[i].write(header);
    }
    // SAFETY: the first `count` headers are initialised; each points to iovecs over memory borrowed
    // for the whole call, which the kernel only reads.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr().cast(),
            count as libc::c_uint,
            libc::MSG_DONTWAIT as _,
        )
    };
    Ok(check(sent)? as usize)
}

/// Reads one frame from a TAP device with virtio-net headers, without waiting.
///
/// # Errors
/// `EAGAIN` when no frame is available; `EBADFD` when the device is gone.
pub fn read(device: BorrowedFd<'_>, target: &mut Target<'_>) -> Result<Received, Errno> {
    let mut vnet = [0u8; VNET_LEN];
    let room = target.first.len() + target.rest.len();
    let pieces = [
        libc::iovec { iov_base: vnet.as_mut_ptr().cast(), iov_len: VNET_LEN },
        libc::iovec { iov_base: target.first.as_mut_ptr().cast(), iov_len: target.first.len() },
        libc::iovec { iov_base: target.rest.as_mut_ptr().cast(), iov_len: target.rest.len() },
    ];
    // SAFETY: the three iovecs cover memory that is mutably borrowed or on this stack for the whole
    // call.
    let read = unsafe { libc::readv(device.as_raw_fd(), pieces.as_ptr(), 3) };
    if read < 0 {
        return Err(last_error());
    }
    let len = (read as usize).saturating_sub(VNET_LEN);
    // A TAP device reports at most the length of the pieces, even if it truncated the frame, so
    // `truncated` stays false. The target must have room for the longest frame.
    Ok(Received { len: len.min(room), vnet, truncated: len > room, vlan: None, wall_ns: 0 })
}

/// Writes one frame to a TAP device with virtio-net headers, without waiting.
///
/// # Errors
/// `EAGAIN` when the device has no room now; `EIO` when it is down; `EBADFD` when it is gone;
/// `EINVAL` for a frame that it refuses.
pub fn write(device: BorrowedFd<'_>, message: &Message<'_>) -> Result<(), Errno> {
    let pieces = gather(message);
    let count = if message.payload.is_empty() { 2 } else { 3 };
    // SAFETY: the iovecs cover memory borrowed for the whole call, which the kernel only reads.
    let written = unsafe { libc::writev(device.as_raw_fd(), pieces.as_ptr(), count) };
    if written < 0 { Err(last_error()) } else { Ok(()) }
}

/// The pieces of a message for the kernel to read.
fn gather(message: &Message<'_>) -> [libc::iovec; 3] {
    // The kernel's type has no const pointer; these calls do not write through the pointer.
    [&message.vnet[..], message.head, message.payload].map(|piece| libc::iovec {
        iov_base: piece.as_ptr().cast_mut().cast(),
        iov_len: piece.len(),
    })
}

/// The control messages that the kernel delivers with a frame.
#[derive(Default)]
struct Annotations {
    vlan: Option<(u16, u16)>,
    wall_ns: u64,
}

fn annotations(header: &libc::msghdr) -> Annotations {
    let mut found = Annotations::default();
    // SAFETY: the header's control pointer and length describe what the kernel wrote into our
    // control buffer.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !message.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give null or a header within the control buffer,
        // which is aligned for it.
        let (level, kind, len) =
            unsafe { ((*message).cmsg_level, (*message).cmsg_type, (*message).cmsg_len as usize) };
        if level == libc::SOL_PACKET
            && kind == libc::PACKET_AUXDATA
            && len >= length_of::<Auxdata>()
        {
            // SAFETY: the message holds at least an Auxdata, which is plain data; the read allows
            // for any alignment.
            let data = unsafe { libc::CMSG_DATA(message).cast::<Auxdata>().read_unaligned() };
            let protocol = if data.status & STATUS_VLAN_TPID_VALID != 0 {
                data.vlan_tpid
            } else {
                libc::ETH_P_8021Q as u16
            };
            found.vlan =
                (data.status & STATUS_VLAN_VALID != 0).then_some((protocol, data.vlan_tci));
        } else if level == libc::SOL_SOCKET
            && kind == libc::SCM_TIMESTAMPNS
            && len >= length_of::<libc::timespec>()
        {
            // SAFETY: the message holds at least a timespec, which is plain data; the read allows
            // for any alignment.
            let time =
                unsafe { libc::CMSG_DATA(message).cast::<libc::timespec>().read_unaligned() };
            found.wall_ns =
                time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs();
        }
        // SAFETY: `message` is a header within the control buffer of `header`.
        message = unsafe { libc::CMSG_NXTHDR(header, message) };
    }
    found
}

/// The length field of a control message that carries a `T`.
fn length_of<T>() -> usize {
    // SAFETY: CMSG_LEN computes a length; it reads nothing.
    unsafe { libc::CMSG_LEN(size_of::<T>() as u32) as usize }
}

/// Room for the control messages of one frame, with the alignment that they need.
#[repr(C, align(8))]
struct Control([u8; CONTROL_LEN]);

/// `struct tpacket_auxdata` of packet(7).
#[repr(C)]
#[derive(Clone, Copy)]
struct Auxdata {
    status: u32,
    len: u32,
    snaplen: u32,
    mac: u16,
    net: u16,
    vlan_tci: u16,
    vlan_tpid: u16,
}

/// Bytes of the control messages: two headers (16 bytes each), an [`Auxdata`] (20 bytes, rounded up
/// to 24) and a `timespec` (16 bytes).
const CONTROL_LEN: usize = 72;
const STATUS_VLAN_VALID: u32 = 1 << 4;
const STATUS_VLAN_TPID_VALID: u32 = 1 << 6;
