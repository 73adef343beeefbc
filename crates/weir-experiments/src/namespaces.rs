//! Namespaces for experiments on the kernel's own queues and on live links. No namespace has a
//! name, so all of them vanish with the process, however it ends.

use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use weir_linux::netlink::{Mac, Netlink};
use weir_linux::netns::{NetNs, write_setting};

/// Makes a namespace without background traffic.
pub(crate) fn quiet() -> io::Result<NetNs> {
    let place = NetNs::create()?;
    place.enter(|| {
        // A kernel without IPv6 does not need the setting.
        let _ = write_setting("ipv6/conf/default/disable_ipv6", "1");
        Ok::<_, io::Error>(())
    })?;
    Ok(place)
}

/// Connects two namespaces by a veth pair. `name` and `index` are those of the end in `near`.
pub(crate) fn join(
    near: &NetNs,
    (name, index, mtu): (&str, u32, u32),
    far: &NetNs,
    far_name: &str,
) -> io::Result<()> {
    near.enter(|| {
        let mac: Mac = [2, 0x57, 0, (index >> 8) as u8, index as u8, far_name.len() as u8];
        let mut net = Netlink::open().map_err(io::Error::other)?;
        net.create_veth((name, index), far_name, far.descriptor(), mac, mtu)
            .map_err(io::Error::other)?;
        net.set_up(index).map_err(io::Error::other)
    })
}

/// Sets up a device in this thread's namespace with an address and, if `gateway` is given, a
/// default route. Returns the device's Ethernet address.
pub(crate) fn address(device: &str, own: Ipv4Addr, gateway: Option<Ipv4Addr>) -> io::Result<Mac> {
    let work = || {
        let mut net = Netlink::open()?;
        let link = net.link(device)?;
        net.set_up(link.index)?;
        net.add_address(link.index, own.into(), 24)?;
        if let Some(gateway) = gateway {
            net.add_default_route(link.index, gateway.into())?;
        }
        Ok(link.mac.unwrap_or_default())
    };
    work().map_err(|error: weir_linux::netlink::NetlinkError| io::Error::other(error))
}

/// Runs all lines with a single `ip` or `tc` process in this thread's namespace.
pub(crate) fn batch(program: &str, lines: &str) -> io::Result<()> {
    let mut child = Command::new(program)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(lines.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("{program}: {}", words.trim())))
    }
}

/// Whether a test may make namespaces. If not, reports the test as skipped.
#[cfg(test)]
pub(crate) fn may_make(test: &str) -> bool {
    if rustix::process::geteuid().is_root() {
        return true;
    }
    let line = format!("SKIPPED: {test}: namespaces need root");
    eprintln!("{line}");
    if let Some(log) = std::env::var_os("WEIR_SKIP_LOG")
        && let Ok(mut log) = std::fs::OpenOptions::new().append(true).create(true).open(log)
    {
        let _ = writeln!(log, "{line}");
    }
    false
}
