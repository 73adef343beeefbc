//! Creates TAP devices and sets their offloads.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::mmsg::VNET_LEN;
use super::{check, interface_request};

/// The offloads of the frames that a TAP device gives its reader and accepts from its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// Partial checksums, TCP trains and UDP trains.
    All,
    /// Partial checksums and TCP trains (kernels before 6.2).
    Tcp,
    /// No offload: every frame has a complete checksum and fits into the MTU.
    None,
}

/// Creates a TAP device with virtio-net headers, which exists until the descriptor closes. `name`
/// may contain `%d`. Returns the descriptor (non-blocking, closed on exec) and the name that the
/// kernel chose.
///
/// # Errors
/// `ENOENT` or `EACCES` when `/dev/net/tun` is missing or may not be opened; `EPERM` without
/// CAP_NET_ADMIN; `EBUSY` when the name is taken.
pub fn create_tap(name: &str) -> Result<(OwnedFd, String), Errno> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
    let mut request = interface_request(name)?;
    request.ifr_ifru.ifru_flags =
        (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    // SAFETY: TUNSETIFF reads the name and the flags of the ifreq and writes the name back. The
    // ifreq is valid and ours for the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
    let length = libc::c_int::try_from(VNET_LEN).unwrap_or(10);
    // SAFETY: TUNSETVNETHDRSZ reads an int through the pointer, which is valid for the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const length) })?;
    let chosen =
        request.ifr_name.iter().take_while(|&&c| c != 0).map(|&c| c as u8 as char).collect();
    Ok((device, chosen))
}

/// Turns on as many offloads as the kernel supports; returns those that it accepted.
pub fn set_offload(device: BorrowedFd<'_>) -> Offload {
    let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    for (level, flags) in
        [(Offload::All, tcp | libc::TUN_F_USO4 | libc::TUN_F_USO6), (Offload::Tcp, tcp)]
    {
        // SAFETY: TUNSETOFFLOAD takes its flags by value.
        if check(unsafe {
            libc::ioctl(device.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(flags))
        })
        .is_ok()
        {
            return level;
        }
    }
    Offload::None
}
