//! A session that joins two existing interfaces by an emulated link.

use super::{BridgeSetup, End, Note, Session, SetupError};
use crate::netlink::{Link, Netlink};
use crate::port::{AnyPort, PacketPort};
use crate::process::Stopper;

/// Opens two interfaces of the caller's network namespace as the ports of a link. This only makes
/// the interfaces promiscuous, until the ports close.
///
/// # Errors
/// The reason. The machine is unchanged after an error.
pub fn bridge(setup: &BridgeSetup) -> Result<Session, SetupError> {
    if setup.left == setup.right {
        return Err(SetupError::SameInterface { name: setup.left.clone() });
    }
    let mut netlink = Netlink::open()?;
    let links = netlink.links()?;
    let mut notes = Vec::new();
    let mut ends = Vec::new();
    for name in [&setup.left, &setup.right] {
        let Some(link) = links.iter().find(|link| link.name == *name) else {
            let present: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
            return Err(SetupError::NoInterface {
                name: name.clone(),
                present: present.join(", "),
            });
        };
        if link.master.is_some() {
            return Err(SetupError::Enslaved { name: name.clone() });
        }
        let addresses = netlink.addresses(link.index)?;
        let routable = addresses.iter().filter(
            |(ip, _)| !matches!(ip, std::net::IpAddr::V6(v6) if v6.is_unicast_link_local()),
        );
        let words: Vec<String> = routable.map(|(ip, prefix)| format!("{ip}/{prefix}")).collect();
        notes.extend(remarks(link, &words));
        ends.push(End { name: name.clone(), interface: name.clone(), ipv4: None, ipv6: None });
    }
    let mtu = |name: &str| links.iter().find(|link| link.name == name).map_or(0, |link| link.mtu);
    let (left, right) = (mtu(&setup.left), mtu(&setup.right));
    if left != right {
        notes.push(Note::with_remedy(
            format!(
                "{} has an MTU of {left} bytes and {} of {right}: larger frames are dropped \
                     and counted",
                setup.left, setup.right
            ),
            format!("ip link set {} mtu {right}", setup.left),
        ));
    }
    let open = |name: &str| {
        let mut port = PacketPort::open(name)?;
        port.set_promiscuous()?;
        Ok::<_, SetupError>(AnyPort::Packet(port))
    };
    let ports = if rustix::process::geteuid().is_root() {
        [open(&setup.left)?, open(&setup.right)?]
    } else {
        // An ordinary user may do this if the executable has CAP_NET_RAW. Otherwise the error gives
        // the remedy.
        let opened = open(&setup.left).and_then(|left| Ok([left, open(&setup.right)?]));
        opened.map_err(|error| {
            if let SetupError::Port(_) = error { SetupError::NotPrivileged } else { error }
        })?
    };
    let [left_end, right_end] =
        <[End; 2]>::try_from(ends).unwrap_or_else(|_| unreachable!("the loop above makes two"));
    Ok(Session {
        programs: Vec::new(),
        ports: Some(ports),
        places: [None, None],
        ends: [left_end, right_end],
        notes,
        stopper: Stopper::new()?,
        terminal: None,
        outside: None,
        held: Vec::new(),
    })
}

/// Notes about properties of an interface that are unusual in a bridge.
fn remarks(link: &Link, addresses: &[String]) -> Vec<Note> {
    let mut notes = Vec::new();
    if !link.up {
        notes.push(Note::with_remedy(
            format!("{} is switched off", link.name),
            format!("ip link set {} up", link.name),
        ));
    }
    if !addresses.is_empty() {
        notes.push(Note::with_remedy(
            format!(
                "the machine itself has {} on {}: it answers what it receives there, and what it \
                 sends there does not pass the bridge",
                addresses.join(" and "),
                link.name
            ),
            format!("ip address flush dev {}", link.name),
        ));
    }
    notes
}
