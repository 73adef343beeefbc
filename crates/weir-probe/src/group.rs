//! The targets of one namespace: the matching devices, and the kernel's notices of changed devices.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd as _;

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use weir_linux::netlink::Netlink;
use weir_linux::netns::NetNs;

use crate::catalogue::Catalogue;
use crate::error::ProbeError;
use crate::target::{Namespace, Target};
use weir_measure::watch::Sink;

/// The netlink multicast group that reports new, removed and changed devices.
const LINK_NEWS: u32 = 1;

pub(crate) struct Group {
    namespace: Namespace,
    netns: NetNs,
    targets: Vec<Target>,
    /// Receives the kernel's notices of changed devices.
    news: Socket,
    links: Netlink,
    /// Names of the matching devices, by index.
    pub(crate) devices: BTreeMap<u32, String>,
    pub(crate) catalogue: Catalogue,
    /// The number of devices at the last call of [`Group::new_excess`] if there were too many;
    /// otherwise 0.
    excess: usize,
}

impl Group {
    /// One group for each namespace that the targets name, in the order of the targets.
    ///
    /// # Errors
    /// A namespace cannot be opened, or a device that was named without a pattern does not exist.
    pub(crate) fn of(targets: &[Target]) -> Result<Vec<Group>, ProbeError> {
        let mut groups: Vec<Group> = Vec::new();
        for target in targets {
            if let Some(group) = groups.iter_mut().find(|group| group.namespace == target.namespace)
            {
                group.targets.push(target.clone());
            } else {
                groups.push(Group::open(target)?);
            }
        }
        for group in &mut groups {
            group.list()?;
            group.demand_named()?;
        }
        Ok(groups)
    }

    fn open(target: &Target) -> Result<Group, ProbeError> {
        let netns = target.namespace.open()?;
        let sockets = within(&target.namespace, &netns, || {
            let mut news = Socket::new(NETLINK_ROUTE)?;
            news.bind(&SocketAddr::new(0, LINK_NEWS))?;
            news.set_non_blocking(true)?;
            Ok((news, Netlink::open().map_err(io::Error::other)?))
        });
        let (news, links) = sockets.map_err(|source| target.namespace.refused(source))?;
        let (namespace, targets) = (target.namespace.clone(), vec![target.clone()]);
        Ok(Group {
            namespace,
            netns,
            targets,
            news,
            links,
            devices: BTreeMap::new(),
            catalogue: Catalogue::default(),
            excess: 0,
        })
    }

    fn list(&mut self) -> Result<(), ProbeError> {
        let links = self
            .links
            .links()
            .map_err(io::Error::other)
            .map_err(ProbeError::system("list the devices"))?;
        let fitting = links
            .into_iter()
            .filter(|link| self.targets.iter().any(|target| target.fits(&link.name)));
        self.devices = fitting.map(|link| (link.index, link.name)).collect();
        Ok(())
    }

    /// Refuses a target that is the name of a device which does not exist.
    fn demand_named(&mut self) -> Result<(), ProbeError> {
        let missing = |target: &&Target| {
            target.is_name() && !self.devices.values().any(|name| *name == target.device)
        };
        let Some(target) = self.targets.iter().find(missing).cloned() else { return Ok(()) };
        let links = self.links.links().unwrap_or_default();
        let there = links.into_iter().map(|link| link.name).collect();
        Err(ProbeError::Device {
            device: target.device,
            namespace: self.namespace.to_string(),
            there,
        })
    }

    /// The namespace in the user's notation; `None` for the caller's own.
    pub(crate) fn netns(&self) -> Option<String> {
        match &self.namespace {
            Namespace::Own => None,
            Namespace::Name(name) => Some(name.clone()),
            Namespace::Process(pid) => Some(pid.to_string()),
        }
    }

    /// Whether this is the namespace in which the caller opened the group.
    pub(crate) fn is_own(&self) -> bool {
        self.namespace == Namespace::Own
    }

    /// Runs `work` inside the namespace. The calling thread stays in its own namespace.
    ///
    /// # Errors
    /// The error of `work`, or the reason why the namespace cannot be entered.
    pub(crate) fn within<T: Send>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        within(&self.namespace, &self.netns, work)
    }

    /// Runs `work` inside the namespace on a new thread. `work` may therefore change per-thread
    /// state.
    ///
    /// # Errors
    /// The error of `work`, or the reason why the namespace cannot be entered.
    pub(crate) fn apart<T: Send>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        self.netns.enter(work)
    }

    /// Moves the calling thread into the namespace.
    ///
    /// # Errors
    /// The caller lacks the privilege.
    pub(crate) fn enter(&self) -> Result<(), ProbeError> {
        move_into_link_name_space(self.netns.descriptor().as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|errno| self.namespace.refused(errno.into()))
    }

    /// The number of devices if it exceeds `most` and has changed since the last call.
    pub(crate) fn new_excess(&mut self, most: usize) -> Option<usize> {
        let now = if self.devices.len() > most { self.devices.len() } else { 0 };
        let before = std::mem::replace(&mut self.excess, now);
        (now > 0 && now != before).then_some(now)
    }

    /// Reports new, removed and renamed devices to the sink. Returns whether the devices have
    /// changed since the last call.
    ///
    /// # Errors
    /// The devices cannot be listed.
    pub(crate) fn follow(&mut self, time: u64, sink: &mut dyn Sink) -> Result<bool, ProbeError> {
        if !self.has_news() {
            return Ok(false);
        }
        let before = self.devices.clone();
        self.list()?;
        for (index, name) in &before {
            match self.devices.get(index) {
                None => sink.remark(time, &format!("{name} is gone")),
                Some(now) if now != name => {
                    sink.remark(time, &format!("{name} is called {now} now"));
                }
                Some(_) => {}
            }
        }
        for (_, name) in self.devices.iter().filter(|(index, _)| !before.contains_key(index)) {
            sink.remark(time, &format!("{name} is there"));
        }
        Ok(before != self.devices)
    }

    /// Reads the pending notices. An overflow of the socket also counts as a notice.
    fn has_news(&mut self) -> bool {
        let mut buffer = [0u8; 8192];
        let mut any = false;
        loop {
            match self.news.recv(&mut &mut buffer[..], 0) {
                Ok(_) => any = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return any,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return true,
            }
        }
    }
}

/// Runs `work` inside a namespace. Entering a namespace takes privileges even if it is the current
/// namespace, so for the caller's own namespace `work` runs directly.
fn within<T: Send>(
    namespace: &Namespace,
    netns: &NetNs,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    if *namespace == Namespace::Own { work() } else { netns.enter(work) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_of_too_many_devices_is_returned_once() {
        let target = Target { device: "lo".to_owned(), namespace: Namespace::Own };
        let mut group = Group::open(&target).unwrap();
        let mut with = |devices: u32| {
            group.devices = (0..devices).map(|index| (index, String::new())).collect();
            group.new_excess(64)
        };
        let told = [64, 70, 70, 71, 64, 71].map(&mut with);
        assert_eq!(told, [None, Some(70), None, Some(71), None, Some(71)]);
    }
}
