//! Packet sockets: their options and statistics.

use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use super::{check, interface_request};

/// Counters of a packet socket since they were last read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Statistics {
    /// Frames that the socket accepted or dropped.
    pub packets: u32,
    /// Frames that the kernel dropped because the socket's buffer was full.
    pub drops: u32,
}

/// Opens a raw packet socket. It is bound to no protocol and therefore receives nothing yet. It is
/// non-blocking and closed on exec.
///
/// # Errors
/// `EPERM` without CAP_NET_RAW in the user namespace that owns the network namespace.
pub fn open() -> Result<OwnedFd, Errno> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: socket takes plain integers.
    let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: the descriptor was just made and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds the socket to all protocols of one interface, so that it receives from now on.
pub fn bind(socket: BorrowedFd<'_>, interface: u32) -> Result<(), Errno> {
    // SAFETY: sockaddr_ll is plain data, for which all zeros is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = i32::try_from(interface).map_err(|_| Errno::NODEV)?;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address is a valid sockaddr_ll of the length given, and lives for the call.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(())
}

/// Sets an integer option at the packet level.
pub fn set_option(socket: impl AsFd, option: libc::c_int, value: libc::c_int) -> Result<(), Errno> {
    set(socket.as_fd(), libc::SOL_PACKET, option, &value)
}

/// Creates a group with this socket as its first member. The kernel distributes the frames of the
/// interface among the members: frames of a flow, in both directions, always go to the same member.
/// Returns the group's number. The socket must be bound.
pub fn make_group(socket: BorrowedFd<'_>) -> Result<u16, Errno> {
    join(socket, 0, libc::PACKET_FANOUT_FLAG_UNIQUEID)?;
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into the integer, which is valid and ours
    // for the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_FANOUT,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    check(result)?;
    // The group's number is in the lower half; the kind is in the upper half.
    Ok(value as u16)
}

/// Makes a bound socket a member of a group on the same interface.
pub fn join_group(socket: BorrowedFd<'_>, group: u16) -> Result<(), Errno> {
    join(socket, group, 0)
}

fn join(socket: BorrowedFd<'_>, group: u16, flags: libc::c_uint) -> Result<(), Errno> {
    // A group does not inherit its members' option to ignore outgoing frames.
    let kind = libc::PACKET_FANOUT_HASH | flags | FANOUT_IGNORE_OUTGOING;
    set(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &(u32::from(group) | kind << 16))
}

/// The network namespace of a socket.
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN in that namespace.
pub fn namespace(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    // SAFETY: SIOCGSKNS takes no argument and returns a new descriptor.
    let fd = check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGSKNS) })?;
    // SAFETY: the descriptor was just made and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// PACKET_FANOUT_FLAG_IGNORE_OUTGOING.
const FANOUT_IGNORE_OUTGOING: libc::c_uint = 0x4000;
/// From `linux/sockios.h`.
const SIOCGSKNS: libc::Ioctl = 0x894c;

/// Turns on timestamps, which give the time at which the kernel received each frame.
pub fn ask_for_times(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1)
}

/// Whether the interface called `name` carries Ethernet frames, as the loopback interface also
/// does.
pub fn carries_ethernet(socket: BorrowedFd<'_>, name: &str) -> Result<bool, Errno> {
    let mut request = interface_request(name)?;
    // SAFETY: SIOCGIFHWADDR reads the name in the ifreq and writes an address into it. The ifreq is
    // valid and ours for the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) })?;
    // SAFETY: the call succeeded, so the kernel has filled in `ifru_hwaddr`; any bit pattern is a
    // valid family.
    let family = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
    Ok(family == libc::ARPHRD_ETHER || family == libc::ARPHRD_LOOPBACK)
}

/// Makes the interface promiscuous until the socket closes.
pub fn set_promiscuous(socket: BorrowedFd<'_>, interface: u32) -> Result<(), Errno> {
    // SAFETY: packet_mreq is plain data, for which all zeros is a valid value.
    let mut request: libc::packet_mreq = unsafe { std::mem::zeroed() };
    request.mr_ifindex = i32::try_from(interface).map_err(|_| Errno::NODEV)?;
    request.mr_type = libc::PACKET_MR_PROMISC as u16;
    set(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Sets the size of the receive or send buffer. Exceeding the system's limit needs CAP_NET_ADMIN;
/// without it the size is that limit at most.
pub fn set_buffer(socket: BorrowedFd<'_>, direction: Buffer, bytes: usize) -> Result<(), Errno> {
    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX / 2);
    let (force, plain) = match direction {
        Buffer::Receive => (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        Buffer::Send => (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    };
    set(socket, libc::SOL_SOCKET, force, &value)
        .or_else(|_| set(socket, libc::SOL_SOCKET, plain, &value))
}

/// A socket's two buffers.
#[derive(Clone, Copy, Debug)]
pub enum Buffer {
    /// Holds frames that were received and not yet read.
    Receive,
    /// Holds frames that were written and not yet sent.
    Send,
}

/// Reads and resets the socket's counters.
pub fn statistics(socket: BorrowedFd<'_>) -> Result<Statistics, Errno> {
    // struct tpacket_stats: two unsigned ints, packets and drops.
    let mut stats = [0u32; 2];
    let mut length = size_of::<[u32; 2]>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into the array, which is valid and ours for
    // the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            stats.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    check(result)?;
    Ok(Statistics { packets: stats[0], drops: stats[1] })
}

/// Sets an option of any plain type.
fn set<T: Copy>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> Result<(), Errno> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes from `value`, a live reference to exactly that many.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            length,
        )
    })?;
    Ok(())
}
