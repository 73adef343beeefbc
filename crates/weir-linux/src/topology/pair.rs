//! A session of two programs with one emulated link between them. Each has its own namespaces
//! and no access to other networks.

use super::address::{Range, mac};
use super::names;
use super::place::{
    Attachment, Place, attach, check_mtu, has_ipv6, quiet_netns, settle, switch_for,
};
use super::run::become_privileged;
use super::{End, PairSetup, Session, SetupError};
use crate::process::Stopper;

/// Sets up two namespaces and the ports of a link between them. In both namespaces, the names
/// `left` and `right` resolve.
///
/// Without root this process enters a user namespace permanently.
///
/// # Errors
/// The reason. The machine is unchanged after an error.
pub fn pair(setup: &PairSetup) -> Result<Session, SetupError> {
    check_mtu(setup.mtu)?;
    become_privileged()?;
    let ipv6 = has_ipv6(setup.mtu);
    let switch = switch_for(setup.backend)?;
    let range = Range::private();
    let ends = ["left", "right"].map(|name| {
        let side = usize::from(name == "right");
        let (v4, v6) = (range.ipv4(side).0, range.ipv6(side).0);
        End {
            name: name.into(),
            interface: INTERFACE.into(),
            ipv4: Some(v4),
            ipv6: ipv6.then_some(v6),
        }
    });
    let place = |side: usize| {
        let hosts = names::hosts(&[&ends[0], &ends[1]], &ends[side].name);
        let mut place = Place::expecting_program(quiet_netns()?, hosts);
        place.resolv = Some(names::no_resolver());
        let addresses = range.addresses(side, ipv6);
        let attachment = Attachment {
            name: INTERFACE,
            mac: mac(side),
            mtu: setup.mtu,
            addresses: &addresses,
            gateways: &[],
            neighbours: &range.neighbours(side, ipv6, setup.neighbours),
        };
        let port = attach(&place.netns, switch.as_ref(), &ends[side].name, &attachment)?;
        Ok::<_, SetupError>((place, port))
    };
    let (left, left_port) = place(0)?;
    let (right, right_port) = place(1)?;
    let mut ports = [left_port, right_port];
    settle(&mut ports);
    Ok(Session {
        programs: Vec::new(),
        ports: Some(ports.map(|fresh| fresh.port)),
        places: [Some(left), Some(right)],
        ends,
        notes: Vec::new(),
        stopper: Stopper::new()?,
        terminal: None,
        outside: None,
        held: switch.into_iter().collect(),
    })
}

/// The name of each program's interface. Programs that guess an interface usually try it first.
const INTERFACE: &str = "eth0";
