//! The common parts of sessions that shape existing sites. An interface of a site has two ends and
//! two links, and is shaped while heartbeats arrive.

use std::borrow::Borrow;

use weir_attach::Heartbeat;
use weir_core::Nanos;
use weir_linux::clock;
use weir_linux::live::{Gso, LaneConfig};
use weir_linux::topology::End;
use weir_rules::LinkSpec;

use super::config::{Lanes, Link, NamedLink};

/// The ends of an interface's links: the site, which `label` names, and the network.
pub(super) fn ends(label: &str, interface: &str) -> [End; 2] {
    [label, "network"].map(|name| End {
        name: name.to_owned(),
        interface: interface.to_owned(),
        ipv4: None,
        ipv6: None,
    })
}

/// Adds the links `up` and `down` of the next interface. Each interface has two links and two ends,
/// so the number of links so far is also the index of the interface's first end. `link` makes a
/// link from its name and its specification.
pub(super) fn add_links(
    lanes: &mut Lanes,
    up: &LinkSpec,
    down: &LinkSpec,
    link: impl Fn(&str, LinkSpec) -> Link,
) {
    let site = lanes.links.len();
    let network = site + 1;
    for (name, spec, from, to) in [("up", up, site, network), ("down", down, network, site)] {
        let link = link(name, spec.clone());
        let id = lanes.links.len() as u16 + 1;
        lanes.lanes.push(LaneConfig {
            name: link.name.clone(),
            from,
            to,
            pipe: id,
            passes: Vec::new(),
            gso: match spec.gso {
                weir_rules::Gso::Split => Gso::Split,
                weir_rules::Gso::Whole => Gso::Whole,
            },
        });
        lanes.links.push(NamedLink { link, id, scheduler: None, ends: Default::default() });
    }
}

/// Keeps the packets of these interfaces redirected until the time `alive` has passed.
pub(super) fn beat(hearts: impl IntoIterator<Item = impl Borrow<Heartbeat>>, alive: Nanos) {
    let until = Nanos(clock::now().0 + alive.0);
    hearts.into_iter().for_each(|heart| heart.borrow().beat(until));
}
