//! The machine's side of [`super::run`]: the interface, and the processes that connect it to other
//! networks. They end with the session.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use super::address::{Range, mac};
use super::{Note, SetupError};
use crate::helper::{Forward, Janitor, Proxy};
use crate::nat::OwnedTable;
use crate::netlink::Netlink;
use crate::netns::NetNs;
use crate::process::{NETNS_FILE, Program, ProgramSpec, find_tool};

/// The interface of a session on the machine, and the processes that connect the session to other
/// networks. Dropping this ends them and undoes their changes.
#[derive(Debug, Default)]
pub(super) struct Outside {
    pub(super) interface: Option<HostInterface>,
    pub(super) translation: Option<OwnedTable>,
    /// Keeps the machine's IP stack off the ports of a bridge.
    pub(super) silence: Option<OwnedTable>,
    pub(super) janitor: Option<Janitor>,
    pub(super) proxy: Option<Proxy>,
    pub(super) forward: Option<Forward>,
    pub(super) pasta: Option<Program>,
}

impl Outside {
    /// Ends all processes; returns a note for each unexpected finding.
    pub(super) fn close(self) -> Vec<Note> {
        let mut notes = Vec::new();
        if let Some(mut interface) = self.interface
            && let Err(why) = interface.remove()
        {
            notes.push(Note::new(format!(
                "interface {} is still there, and the kernel removes it later: {why}",
                interface.name
            )));
        }
        drop(self.translation);
        drop(self.silence);
        drop(self.janitor);
        drop(self.proxy);
        drop(self.forward);
        if let Some(pasta) = self.pasta {
            pasta.kill();
        }
        notes
    }
}

/// An interface that the session created on the machine. The kernel removes it some time after the
/// session's last descriptor is closed, even if this process is killed. Dropping this value removes
/// it at once, so that the next command finds the machine as before.
#[derive(Debug)]
pub(super) struct HostInterface {
    netns: NetNs,
    name: String,
    /// The interface's number; `None` after its removal.
    index: Option<u32>,
}

impl HostInterface {
    /// The interface `name` in `netns`, which the caller has created.
    pub(super) fn new(netns: NetNs, name: &str) -> Result<Self, SetupError> {
        let index = netns.enter(|| Ok::<_, SetupError>(Netlink::open()?.link(name)?.index))?;
        Ok(Self { netns, name: name.to_owned(), index: Some(index) })
    }

    /// Removes the interface and waits until it is gone, at most for [`REMOVAL_TIME`].
    fn remove(&mut self) -> Result<(), SetupError> {
        let Some(index) = self.index.take() else { return Ok(()) };
        let deadline = Instant::now() + REMOVAL_TIME;
        self.netns.enter(|| {
            let mut netlink = Netlink::open()?;
            loop {
                let links = netlink.links()?;
                if !links.iter().any(|link| link.index == index && link.name == self.name) {
                    return Ok(());
                }
                let deleted = netlink.delete_link(index);
                if Instant::now() >= deadline {
                    return Ok(deleted?);
                }
                thread::sleep(POLL);
            }
        })
    }
}

impl Drop for HostInterface {
    fn drop(&mut self) {
        // On failure the kernel removes the interface somewhat later.
        let _ = self.remove();
    }
}

/// Why pasta could not connect the link.
#[derive(Debug, thiserror::Error)]
pub(super) enum PastaError {
    #[error("pasta is not installed")]
    Missing,
    #[error("pasta does not work here: {0}")]
    Failed(String),
}

/// Starts pasta on the machine's network, with its interface `interface` in `netns`. pasta acts as
/// a router at the address of side 1, and uses the machine's networks as an ordinary program of
/// this user.
///
/// With `forward_dns`, pasta forwards the DNS queries that it receives to the machine's resolver.
/// Set it only if programs send queries to pasta: pasta of 2023 then replaces the source address of
/// every answer of that resolver by its own address. A program that had sent its query to the
/// resolver directly would not accept such an answer.
pub(super) fn start_pasta(
    netns: &NetNs,
    interface: &str,
    range: Range,
    mtu: u32,
    ipv6: bool,
    forward_dns: bool,
) -> Result<Program, PastaError> {
    let path = find_tool("pasta").ok_or(PastaError::Missing)?;
    let failed = |error: io::Error| PastaError::Failed(error.to_string());
    let mut words: Vec<OsString> = vec![path.into()];
    let mac = mac(0).map(|byte| format!("{byte:02x}")).join(":");
    let (mtu, inside, router) = (mtu.to_string(), range.ipv4(0), range.ipv4(1));
    let (inside4, prefix, router4) =
        (inside.0.to_string(), inside.1.to_string(), router.0.to_string());
    let fixed = [
        "--foreground",
        "--quiet",
        "--netns",
        NETNS_FILE,
        "--netns-only",
        "--ns-ifname",
        interface,
        "--ns-mac-addr",
        &mac,
    ];
    let addresses =
        ["--mtu", &mtu, "--address", &inside4, "--netmask", &prefix, "--gateway", &router4];
    // No port of the namespace is reachable from the machine. On the namespace's loopback
    // interface, no port of the machine is reachable.
    let closed = [
        "-t",
        "none",
        "-u",
        "none",
        "-T",
        "none",
        "-U",
        "none",
        "--no-dhcp",
        "--no-dhcpv6",
        "--no-ra",
    ];
    words.extend(fixed.iter().chain(&addresses).chain(&closed).map(OsString::from));
    let (inside6, router6) = (range.ipv6(0).0.to_string(), range.ipv6(1).0.to_string());
    if forward_dns {
        words.extend(["--dns-forward", &router4].map(OsString::from));
    }
    if ipv6 {
        words.extend(["--address", &inside6, "--gateway", &router6].map(OsString::from));
    } else {
        words.push("--ipv4-only".into());
    }
    let (mut errors, theirs) = UnixStream::pair().map_err(failed)?;
    let mut spec = ProgramSpec::new(&words);
    spec.keep_capabilities = true;
    spec.target = Some(netns.raw());
    spec.quiet = Some(theirs);
    let (mut program, _) =
        Program::start(&spec, None).map_err(|error| PastaError::Failed(error.to_string()))?;
    drop(spec);
    let up = netns.enter(|| wait_for(interface, || program.is_over()));
    match up {
        Ok(true) => Ok(program),
        Ok(false) | Err(_) => {
            program.kill();
            let mut messages = String::new();
            // The messages of pasta are left out if they are not UTF-8.
            let _ = errors.read_to_string(&mut messages);
            let last = messages
                .lines()
                .rev()
                .find(|line| !line.starts_with("Failed to send"))
                .unwrap_or("it ended without a word");
            Err(PastaError::Failed(last.to_owned()))
        }
    }
}

/// Waits for an interface and switches it on. Returns `false` when `failed` reports that the
/// interface will not appear.
fn wait_for(name: &str, mut failed: impl FnMut() -> bool) -> Result<bool, SetupError> {
    let mut netlink = Netlink::open()?;
    let deadline = Instant::now() + START_TIME;
    while Instant::now() < deadline {
        if let Some(link) = netlink.links()?.into_iter().find(|link| link.name == name) {
            netlink.set_up(link.index)?;
            return Ok(true);
        }
        if failed() {
            return Ok(false);
        }
        thread::sleep(POLL);
    }
    Ok(false)
}

/// The longest time that pasta may take to start; it needs some twenty milliseconds.
const START_TIME: Duration = Duration::from_secs(3);
/// The longest wait for the removal of an interface. The kernel needs some ten milliseconds, and
/// more while other interfaces are removed.
const REMOVAL_TIME: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(5);
