//! A session that joins two existing interfaces by an emulated link.

use std::fs;
use std::net::{IpAddr, Ipv6Addr};

use super::outside::Outside;
use super::{BridgeSetup, End, Note, Session, SetupError};
use crate::nat::OwnedTable;
use crate::netlink::{Link, Netlink};
use crate::port::{AnyPort, PacketPort};
use crate::process::Stopper;

/// Opens two interfaces of the caller's network namespace as the ports of a link. The interfaces
/// are promiscuous until the ports close. Until the session ends, the machine's own IP stack
/// receives nothing on an interface that the machine does not use itself. Where the stack still
/// receives packets, the session has a note.
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
    let mut silent = Vec::new();
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
        let routable = addresses
            .iter()
            .filter(|(ip, _)| !matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local()));
        let routable: Vec<String> = routable.map(|(ip, prefix)| format!("{ip}/{prefix}")).collect();
        notes.extend(remarks(link, &routable));
        let own: Vec<IpAddr> = addresses.iter().map(|(address, _)| *address).collect();
        match user_of(link, &links, &own) {
            _ if !routable.is_empty() => {}
            Some(user) => notes.push(Note::new(format!(
                "{user} uses {name}: the machine's own IP stack stays on it and answers ARP and \
                 neighbour discovery"
            ))),
            None => silent.push((name.as_str(), link.index)),
        }
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
    let silence = silence(&silent, &mut notes);
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
        outside: Some(Outside { silence, ..Outside::default() }),
        held: Vec::new(),
    })
}

/// The user of the machine's IP stack on an interface without a routable address: an interface that
/// is based on this one, or a connection of its link-local address.
fn user_of(link: &Link, links: &[Link], addresses: &[IpAddr]) -> Option<String> {
    let upper = links.iter().find(|other| other.base == Some(link.index));
    let connections = || fs::read_to_string("/proc/thread-self/net/tcp6").unwrap_or_default();
    upper.map(|upper| upper.name.clone()).or_else(|| {
        has_connection(&connections(), addresses).then(|| "a TCP connection".to_owned())
    })
}

/// Whether a list in the form of `/proc/net/tcp6` has an established connection of one of these
/// addresses.
fn has_connection(list: &str, addresses: &[IpAddr]) -> bool {
    let hex = |address: &Ipv6Addr| {
        let octets = address.octets();
        let words = octets.chunks_exact(4).map(|word| [word[0], word[1], word[2], word[3]]);
        words.map(|word| format!("{:08X}", u32::from_ne_bytes(word))).collect::<String>()
    };
    let own: Vec<String> = addresses
        .iter()
        .filter_map(|address| match address {
            IpAddr::V6(address) => Some(hex(address)),
            IpAddr::V4(_) => None,
        })
        .collect();
    list.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let local = words.next().and_then(|local| local.split(':').next()).unwrap_or_default();
        words.nth(1) == Some(ESTABLISHED) && own.iter().any(|own| own == local)
    })
}

/// Keeps the machine's IP stack from receiving on these interfaces. Adds a note if that is
/// impossible.
fn silence(interfaces: &[(&str, u32)], notes: &mut Vec<Note>) -> Option<OwnedTable> {
    if interfaces.is_empty() {
        return None;
    }
    let error = match OwnedTable::silencing(interfaces) {
        Ok(table) => return Some(table),
        Err(error) => error,
    };
    let names: Vec<&str> = interfaces.iter().map(|(name, _)| *name).collect();
    let what = format!(
        "the machine itself answers ARP and neighbour discovery on {}: {error}",
        names.join(" and ")
    );
    notes.push(Note::new(what));
    None
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

/// The state of an established connection in `/proc/net/tcp6`.
const ESTABLISHED: &str = "01";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_of_a_link_local_address_is_found() {
        let list = "  sl  local_address remote_address st tx_queue rx_queue\n   \
                    0: 00000000000000000000000000000000:0016 \
                    00000000000000000000000000000000:0000 0A 00000000:00000000\n   \
                    1: 000080FE00000000FF000002010000FE:0016 \
                    000080FE00000000FF000002020000FE:A2B4 01 00000000:00000000\n";
        let own: IpAddr = "fe80::200:ff:fe00:1".parse().unwrap();
        let peer: IpAddr = "fe80::200:ff:fe00:2".parse().unwrap();
        assert!(has_connection(list, &[own]));
        assert!(!has_connection(list, &[peer]), "the peer's address is not the machine's");
        assert!(!has_connection(list, &["::".parse().unwrap()]), "listening is not established");
    }
}
