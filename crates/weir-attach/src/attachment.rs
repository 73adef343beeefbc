//! Attachments: the selected packets of one interface pass through Weir.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_core::Nanos;
use weir_linux::netlink::{Link, LinkNews, Netlink};
use weir_linux::netns::{NetNs, write_setting};
use weir_linux::port::{AnyPort, TapPort};
use weir_linux::sys::shared::SharedWords;

use crate::error::AttachError;
use crate::find::Site;
use crate::programs::{self, ALIVE_UNTIL, Devices, MISSED, Programs};
use crate::selection::Selection;

/// The redirection of an interface's selected packets to two ports. Dropping this ends the
/// redirection.
pub struct Attachment {
    // Dropped first, so that the redirection ends before the other fields are dropped.
    _programs: Programs,
    settings: Arc<SharedWords>,
    netlink: Netlink,
    news: LinkNews,
    /// Whether [`Attachment::is_intact`] must list the interfaces: they may have changed since the
    /// last list, or one was missing or down in that list.
    is_unsure: bool,
    /// Whether the interfaces may have changed since the last [`Attachment::has_news`].
    is_news: bool,
    /// The interface indexes of the interface, the target's TAP device and the network's TAP
    /// device.
    devices: [u32; 3],
}

impl Attachment {
    /// Redirects the selected packets of an interface. They still pass unshaped until the first
    /// [`Heartbeat::beat`]. The first port is the target's side: it receives what the target sends.
    /// The second is the network's side.
    ///
    /// # Errors
    /// The reason. The traffic then flows as before.
    pub fn open(
        site: &Site,
        interface: &str,
        selection: &Selection,
    ) -> Result<(Attachment, [AnyPort; 2]), AttachError> {
        inside(site.netns(), || {
            let mut netlink = Netlink::open()?;
            let news = LinkNews::open()?;
            let links = netlink.links()?;
            let Some(link) = links.iter().find(|link| link.name == interface) else {
                return Err(AttachError::NoInterface {
                    target: site.name().to_owned(),
                    name: interface.to_owned(),
                    known: names(&links),
                });
            };
            let scope = if selection.is_everything() { WHOLE } else { PART };
            let alias = format!("{ALIAS}{interface} {scope} {}", std::process::id());
            let (target, target_tap) = tap(&mut netlink, link, &alias)?;
            let (network, network_tap) = tap(&mut netlink, link, &alias)?;
            if let Some(other) = other_owner(&netlink.links()?, interface, scope, target_tap) {
                return Err(AttachError::Taken {
                    target: site.name().to_owned(),
                    interface: interface.to_owned(),
                    other: format!("process {other}"),
                });
            }
            let devices = Devices {
                interface: link.index,
                is_loopback: link.loopback,
                target: target_tap,
                network: network_tap,
            };
            let (programs, settings) = programs::attach(devices, selection)?;
            let attachment = Attachment {
                _programs: programs,
                settings: Arc::new(settings),
                netlink,
                news,
                is_unsure: true,
                is_news: true,
                devices: [link.index, target_tap, network_tap],
            };
            Ok((attachment, [AnyPort::Tap(target), AnyPort::Tap(network)]))
        })
    }

    /// The heartbeat of the redirection.
    #[must_use]
    pub fn heartbeat(&self) -> Heartbeat {
        Heartbeat { settings: Arc::clone(&self.settings) }
    }

    /// Whether an interface of the namespace may have appeared, changed or vanished since the
    /// previous call. This costs much less than a list of the interfaces.
    pub fn has_news(&mut self) -> bool {
        self.read_news();
        std::mem::take(&mut self.is_news)
    }

    fn read_news(&mut self) {
        if self.news.any() {
            (self.is_unsure, self.is_news) = (true, true);
        }
    }

    /// Whether the interface still exists, and both TAP devices exist and are up.
    pub fn is_intact(&mut self) -> bool {
        self.read_news();
        if !self.is_unsure {
            return true;
        }
        // A refused request is no reason to end a redirection that may work.
        let Ok(links) = self.netlink.links() else { return true };
        let [interface, taps @ ..] = &self.devices;
        let is_up = |tap: &u32| links.iter().any(|link| link.index == *tap && link.up);
        let is_intact = links.iter().any(|link| link.index == *interface) && taps.iter().all(is_up);
        self.is_unsure = !is_intact;
        is_intact
    }
}

impl std::fmt::Debug for Attachment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attachment").field("devices", &self.devices).finish_non_exhaustive()
    }
}

/// Keeps a redirection in force. Without a recent heartbeat, packets pass unshaped.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    settings: Arc<SharedWords>,
}

impl Heartbeat {
    /// Keeps the redirection in force until this time of the monotonic clock.
    pub fn beat(&self, until: Nanos) {
        self.settings[ALIVE_UNTIL].store(until.0, Relaxed);
    }

    /// Lets all packets pass from now on.
    pub fn stop(&self) {
        self.settings[ALIVE_UNTIL].store(0, Relaxed);
    }

    /// Number of packets (or offload trains) of the interface, selected or not, that passed because
    /// the heartbeat was late.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.settings[MISSED].load(Relaxed)
    }
}

/// The interfaces of a site to shape: those in `wanted`, or, if `wanted` is empty, all interfaces
/// that are up and carry Ethernet frames, except `lo` and Weir's own. In this process's own
/// namespace, these are only the interfaces with a default route, because most other interfaces
/// there lead to containers and the like.
///
/// # Errors
/// An interface in `wanted` does not exist, or no interface is suitable.
pub fn interfaces(site: &Site, wanted: &[String]) -> Result<Vec<String>, AttachError> {
    inside(site.netns(), || {
        let mut netlink = Netlink::open()?;
        let links = netlink.links()?;
        let target = || site.name().to_owned();
        for name in wanted {
            if !links.iter().any(|link| link.name == *name) {
                return Err(AttachError::NoInterface {
                    target: target(),
                    name: name.clone(),
                    known: names(&links),
                });
            }
        }
        if !wanted.is_empty() {
            return Ok(wanted.to_vec());
        }
        let routes = netlink.routes()?;
        let leads_out = |link: &Link| {
            routes.iter().any(|route| route.to.is_none() && route.interface == Some(link.index))
        };
        let usable =
            |link: &&Link| link.up && !link.loopback && link.mac.is_some() && !is_ours(link);
        let mut chosen: Vec<&Link> = links.iter().filter(usable).collect();
        if site.is_on_host() {
            chosen.retain(|link| leads_out(link));
        }
        if chosen.is_empty() {
            return Err(AttachError::NoInterfaces {
                target: target(),
                known: format!("; it has {}", names(&links)),
            });
        }
        Ok(chosen.into_iter().map(|link| link.name.clone()).collect())
    })
}

/// Attaches to an interface of a new namespace and detaches at once, to find out whether this
/// machine allows it.
///
/// # Errors
/// The reason why this machine does not allow it.
pub fn try_out() -> Result<(), AttachError> {
    let site = Site::new_namespace()?;
    Attachment::open(&site, "lo", &Selection::default()).map(drop)
}

fn inside<T: Send>(
    netns: &NetNs,
    work: impl FnOnce() -> Result<T, AttachError> + Send,
) -> Result<T, AttachError> {
    netns.enter(work).map_err(|error| match error {
        AttachError::Io(source) => AttachError::of("entering the target's namespace", source),
        AttachError::Port(weir_linux::port::OpenError::NotAllowed { .. }) => {
            AttachError::Rights { what: "making a TAP device in the target's namespace".into() }
        }
        error => error,
    })
}

/// Creates a TAP device without addresses, with the MTU of `link`, and switches it on. Also returns
/// the device's interface index.
fn tap(netlink: &mut Netlink, link: &Link, alias: &str) -> Result<(TapPort, u32), AttachError> {
    let mut port = TapPort::create("weir%d")?;
    port.set_unlimited();
    let index = netlink.link(port.name())?.index;
    netlink.describe_link(index, link.mtu.clamp(LEAST_MTU, MOST_MTU), alias)?;
    // This is optional, because the programs drop what the kernel itself sends on the device.
    let _ = write_setting(&format!("ipv6/conf/{}/disable_ipv6", port.name()), "1");
    netlink.set_up(index)?;
    Ok((port, index))
}

/// The number of another process of Weir that already shapes packets of the interface. `None` if
/// there is none, or if both processes shape only a part of the packets. `own` is the interface
/// index of this attachment's TAP device. Of two attachments that begin at the same time, the one
/// with the lower index stays.
fn other_owner(links: &[Link], interface: &str, scope: &str, own: u32) -> Option<u32> {
    links.iter().filter(|link| link.index < own).find_map(|link| {
        let words = link.alias.as_deref()?.strip_prefix(ALIAS)?;
        let [name, other, process] = words.split(' ').collect::<Vec<_>>()[..] else { return None };
        let conflicts = name == interface && (scope == WHOLE || other == WHOLE);
        conflicts.then(|| process.parse().ok()).flatten()
    })
}

fn is_ours(link: &Link) -> bool {
    link.alias.as_deref().is_some_and(|alias| alias.starts_with(ALIAS))
}

/// The names of interfaces without those of Weir, separated by commas.
fn names(links: &[Link]) -> String {
    let names: Vec<&str> =
        links.iter().filter(|link| !is_ours(link)).map(|link| link.name.as_str()).collect();
    names.join(", ")
}

/// The start of a TAP device's alias. The interface, the scope and the process number follow.
const ALIAS: &str = "weir attach: ";
/// The scope of an attachment that shapes all packets, and of one that shapes selected packets.
const WHOLE: &str = "whole";
const PART: &str = "part";
const LEAST_MTU: u32 = 68;
const MOST_MTU: u32 = 65_521;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_attachment_is_refused_unless_both_shape_a_part() {
        let link = |index, alias: &str| Link {
            index,
            name: format!("weir{index}"),
            mtu: 1500,
            mac: None,
            up: true,
            running: true,
            loopback: false,
            master: None,
            base: None,
            alias: Some(alias.to_owned()),
        };
        let links = [
            link(7, "a description"),
            link(8, "weir attach: eth0 whole 4711"),
            link(9, "weir attach: eth1 part 4712"),
            link(10, "weir attach: eth1 whole 1"),
        ];
        assert_eq!(other_owner(&links, "eth0", PART, 10), Some(4711));
        assert_eq!(other_owner(&links, "eth1", WHOLE, 10), Some(4712));
        assert_eq!(other_owner(&links, "eth1", PART, 10), None);
        assert_eq!(other_owner(&links, "eth2", WHOLE, 10), None);
        assert_eq!(other_owner(&links, "eth0", WHOLE, 8), None);
    }
}
