//! The system calls of the proxy: reading the original destination of a redirected connection, and
//! filtering frames.

use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use super::check;

/// One instruction of a classic BPF program: operation, jump if true, jump if false, operand.
pub type Instruction = (u16, u8, u8, u32);

/// The destination of a connection before address translation redirected it to this socket.
///
/// # Errors
/// `ENOENT` when the connection was not translated.
pub fn original_destination(socket: BorrowedFd<'_>, ipv6: bool) -> Result<SocketAddr, Errno> {
    let fd = socket.as_raw_fd();
    if ipv6 {
        // SAFETY: sockaddr_in6 is plain data, for which all zeros is a valid value.
        let mut address: libc::sockaddr_in6 = unsafe { zeroed() };
        let mut length = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
        let target = (&raw mut address).cast();
        // SAFETY: the kernel writes at most `length` bytes into the structure, which is ours for
        // the call.
        check(unsafe {
            libc::getsockopt(
                fd,
                libc::SOL_IPV6,
                libc::IP6T_SO_ORIGINAL_DST,
                target,
                &raw mut length,
            )
        })?;
        return Ok(
            (Ipv6Addr::from(address.sin6_addr.s6_addr), u16::from_be(address.sin6_port)).into()
        );
    }
    // SAFETY: sockaddr_in is plain data, for which all zeros is a valid value.
    let mut address: libc::sockaddr_in = unsafe { zeroed() };
    let mut length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    let target = (&raw mut address).cast();
    // SAFETY: the kernel writes at most `length` bytes into the structure, which is ours for the
    // call.
    check(unsafe {
        libc::getsockopt(fd, libc::SOL_IP, libc::SO_ORIGINAL_DST, target, &raw mut length)
    })?;
    Ok((Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)), u16::from_be(address.sin_port))
        .into())
}

/// Makes a socket receive only frames that `program` accepts. Attach it before the socket is bound.
///
/// # Errors
/// `EINVAL` for a program that the kernel refuses.
pub fn attach_filter(socket: BorrowedFd<'_>, program: &[Instruction]) -> Result<(), Errno> {
    let mut code: Vec<libc::sock_filter> =
        program.iter().map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k }).collect();
    let len = u16::try_from(code.len()).map_err(|_| Errno::INVAL)?;
    let filter = libc::sock_fprog { len, filter: code.as_mut_ptr() };
    let length = size_of::<libc::sock_fprog>() as libc::socklen_t;
    let source = (&raw const filter).cast();
    // SAFETY: `filter` refers to `len` instructions that outlive the call; the kernel copies and
    // checks them.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            source,
            length,
        )
    })?;
    Ok(())
}
