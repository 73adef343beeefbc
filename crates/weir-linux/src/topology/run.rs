//! A session with one program behind an emulated link and the machine on the other side.

use std::fs;
use std::net::IpAddr;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

use rustix::thread::{CapabilitySet, UnshareFlags};

use super::address::{RANGES, Range, mac};
use super::outside::{HostInterface, Outside, PastaError, start_pasta};
use super::place::{
    Attachment, FreshPort, Place, attach, best_effort, check_mtu, has_ipv6, quiet_netns, settle,
    switch_for, switch_netns,
};
use super::publish::OpenPort;
use super::reports::Reports;
use super::resolver::resolver;
use super::router::{RouterError, UPLINK, configure_uplink, router_netns, start_router};
use super::{DEFAULT_MTU, End, Note, RunSetup, Session, SetupError, names};
use crate::helper::{
    Entrance, Forward, Janitor, State, clean_up, list_states, may_keep_state, state_directory,
    with_lock,
};
use crate::nat::{Ipv6Forwarding, OwnedTable, forwarding_settings, strict_chains};
use crate::netlink::{Netlink, Route};
use crate::netns::{NetNs, read_setting};
use crate::port::{AnyPort, PacketPort};
use crate::process::Stopper;
use crate::sys;

/// Sets up a namespace for one program, and the ports of a link between it and the machine. Inside,
/// the name `host` resolves to the machine.
///
/// Without root this process enters a user namespace permanently.
///
/// # Errors
/// The reason. The machine is unchanged after an error. Missing access to other networks is a note,
/// not an error.
pub fn run(setup: &RunSetup) -> Result<Session, SetupError> {
    check_mtu(setup.mtu)?;
    let ipv6 = has_ipv6(setup.mtu);
    let ports: Vec<OpenPort> =
        setup.publish.iter().map(|publish| publish.open()).collect::<Result<_, _>>()?;
    // Inside a user namespace that maps a single group, the range of groups that may ping is
    // unreadable.
    let ping_note = if is_in_user_namespace() { None } else { ping_note() };
    if become_privileged()? {
        run_for_user(setup, ipv6, ports, ping_note)
    } else {
        run_as_root(setup, ipv6, ports)
    }
}

/// Makes sure that this process may create namespaces. Returns `true` when the process acts as an
/// ordinary user: it had to enter a user namespace for that, or it is in one that gives it no
/// rights on the machine.
pub(super) fn become_privileged() -> Result<bool, SetupError> {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
    if rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed)) {
        return Ok(is_in_user_namespace() && (!is_root() || !may_keep_state()));
    }
    let count = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if count != 1 {
        return Err(SetupError::Threads { count });
    }
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let enter = || {
        sys::process::unshare(UnshareFlags::NEWUSER)?;
        // The kernel accepts an ordinary user's group map only after setgroups was disabled.
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
        fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
    };
    enter().map_err(|source| SetupError::UserNamespace { source })?;
    Ok(true)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this process is in a user namespace, as after an earlier session, under `unshare
/// --map-root-user`, or in a container.
fn is_in_user_namespace() -> bool {
    fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| !maps_every_user(&map))
}

/// Whether this is the initial user map, which maps each user to itself.
fn maps_every_user(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// The program's side of the link, which is the same for root and for other users.
struct Inside {
    place: Place,
    port: FreshPort,
    /// The namespace of the ports' ends of veth pairs, if the backend uses such pairs.
    switch: Option<NetNs>,
    /// The namespace on the machine's side of an ordinary user's link.
    far: Option<NetNs>,
    ends: [End; 2],
}

/// The namespaces of the program's side, before they have an interface.
struct Bare {
    /// See [`Inside::switch`].
    switch: Option<NetNs>,
    netns: NetNs,
}

impl Bare {
    fn new(setup: &RunSetup) -> Result<Self, SetupError> {
        Ok(Self { switch: switch_for(setup.backend)?, netns: quiet_netns()? })
    }
}

fn inside(
    Bare { switch, netns }: Bare,
    setup: &RunSetup,
    range: Range,
    ipv6: bool,
    ipv6_out: bool,
    outer_name: &str,
) -> Result<Inside, SetupError> {
    let end = |side: usize, name: &str, interface: &str| End {
        name: name.into(),
        interface: interface.into(),
        ipv4: Some(range.ipv4(side).0),
        ipv6: ipv6.then(|| range.ipv6(side).0),
    };
    let ends = [end(0, "inside", INTERFACE), end(1, "host", outer_name)];
    let hosts = names::hosts(&[&ends[1], &ends[0]], &ends[0].name);
    let place = Place::expecting_program(netns, hosts);
    let addresses = range.addresses(0, ipv6);
    let mut gateways: Vec<IpAddr> = vec![range.ipv4(1).0.into()];
    if ipv6_out {
        gateways.push(range.ipv6(1).0.into());
    }
    let attachment = Attachment {
        name: INTERFACE,
        mac: mac(0),
        mtu: setup.mtu,
        addresses: &addresses,
        gateways: &gateways,
        neighbours: &range.neighbours(0, ipv6, setup.neighbours),
    };
    let port = attach(&place.netns, switch.as_ref(), "inside", &attachment)?;
    Ok(Inside { place, port, switch, far: None, ends })
}

impl Inside {
    fn into_session(
        self,
        outer: FreshPort,
        outside: Outside,
        notes: Vec<Note>,
    ) -> Result<Session, SetupError> {
        let mut ports = [self.port, outer];
        settle(&mut ports);
        Ok(Session {
            programs: Vec::new(),
            ports: Some(ports.map(|fresh| fresh.port)),
            places: [Some(self.place), None],
            ends: self.ends,
            notes,
            stopper: Stopper::new()?,
            terminal: None,
            outside: Some(outside),
            held: self.switch.into_iter().chain(self.far).collect(),
        })
    }
}

/// A session of root, with an interface of the machine on the other side.
fn run_as_root(setup: &RunSetup, ipv6: bool, ports: Vec<OpenPort>) -> Result<Session, SetupError> {
    let host = NetNs::current()?;
    let helper = |source| SetupError::Helper { helper: "janitor", source };
    // The kernel removes namespaces when this process ends, so the janitor may become ready after
    // they were created.
    let mut janitor = Janitor::start().map_err(helper)?;
    let bare = Bare::new(setup)?;
    janitor.wait_until_ready().map_err(helper)?;
    let state =
        |source| SetupError::State { path: state_directory().display().to_string(), source };
    // The janitor's work begins when the janitor is dropped, and needs the lock. The janitor is
    // therefore dropped only after `with_lock` has released the lock. The addresses are chosen and
    // the machine is changed under one lock, so that parallel sessions see each other's changes.
    let session = with_lock(|directory| {
        let mut notes = Vec::new();
        if clean_up(directory)? > 0 {
            notes.push(Note::new("settings that a killed session had left changed were put back"));
        }
        let others = list_states(directory)?;
        let set_up = || -> Result<Session, SetupError> {
            let mut netlink = Netlink::open()?;
            let (links, routes) = (netlink.links()?, netlink.routes()?);
            let range =
                Range::choose(&links, &routes).ok_or(SetupError::NoAddresses { ranges: RANGES })?;
            let name = range.interface();
            let plan = forwarding_settings(&links, &routes);
            let ipv6_out = ipv6 && setup.outside && plan.ipv6 == Ipv6Forwarding::Possible;
            let mut inside = inside(bare, setup, range, ipv6, ipv6_out, &name)?;
            let mut entrances = lead_inside(ports, range, ipv6);
            let addresses = range.addresses(1, ipv6);
            let attachment = Attachment {
                name: &name,
                mac: mac(1),
                mtu: setup.mtu,
                addresses: &addresses,
                gateways: &[],
                neighbours: &range.neighbours(1, ipv6, setup.neighbours),
            };
            let outer = attach(&host, inside.switch.as_ref(), "outside", &attachment)?;
            let interface = HostInterface::new(NetNs::current()?, &name)?;
            let mut outside = Outside { interface: Some(interface), ..Outside::default() };
            if setup.outside {
                notes.extend(open_outside(&name, range, ipv6_out, &mut outside));
                if outside.translation.is_some() {
                    let mut state = State::of_this_process(&name)?;
                    for setting in &plan.changes {
                        state.plan(setting, "1", &others)?;
                    }
                    notes.extend(change_settings(&state, directory, &janitor)?);
                }
                let (resolv, queries, note) = resolver(range);
                inside.place.resolv = resolv;
                entrances.extend(queries);
                notes.extend(note);
                if ipv6 && plan.ipv6 == Ipv6Forwarding::Off {
                    notes.push(Note::with_remedy(
                        "IPv6 leads no further than this machine: it does not forward IPv6",
                        "sysctl -w net.ipv6.conf.all.forwarding=1 (it then ignores router \
                         advertisements where accept_ra is not 2)",
                    ));
                }
            } else {
                inside.place.resolv = Some(names::no_resolver());
            }
            let chains = strict_chains();
            let blocking = chains.into_iter().filter(|chain| setup.outside || !chain.forwards);
            notes.extend(blocking.map(|chain| {
                let what = if chain.forwards { "to other networks" } else { "to this machine" };
                let text = format!(
                    "the firewall chain '{}' drops packets {what} unless a rule lets them pass",
                    chain.name
                );
                Note::with_remedy(text, chain.remedy(&name))
            }));
            outside.forward = forward(&entrances, &host)?;
            inside.into_session(outer, outside, notes)
        };
        Ok(set_up())
    });
    let mut session = session.map_err(state)??;
    session.outside.get_or_insert_default().janitor = Some(janitor);
    Ok(session)
}

/// The entrances that lead clients of these ports over the link to the program's addresses.
fn lead_inside(ports: Vec<OpenPort>, range: Range, ipv6: bool) -> Vec<Entrance> {
    let addresses: Vec<IpAddr> =
        range.addresses(0, ipv6).into_iter().map(|(address, _)| address).collect();
    ports.into_iter().map(|port| port.leading_to(&addresses)).collect()
}

/// Starts the forwarder for these entrances in `netns`; `None` without entrances.
fn forward(entrances: &[Entrance], netns: &NetNs) -> Result<Option<Forward>, SetupError> {
    if entrances.is_empty() {
        return Ok(None);
    }
    let forward = Forward::start(entrances, netns);
    forward.map(Some).map_err(|source| SetupError::Helper { helper: "forwarder", source })
}

/// Sets up address translation; returns a note when that fails.
fn open_outside(name: &str, range: Range, ipv6: bool, outside: &mut Outside) -> Option<Note> {
    // The interface and its settings disappear with the session, so nothing has to be restored.
    best_effort(&format!("ipv4/conf/{name}/forwarding"), "1");
    best_effort(&format!("ipv6/conf/{name}/force_forwarding"), "1");
    match OwnedTable::translating(name, range.ipv4(0).0, ipv6.then(|| range.ipv6(0).0)) {
        Ok(translation) => {
            outside.translation = Some(translation);
            None
        }
        Err(error) => Some(Note::new(format!(
            "the program reaches this machine (as 'host') and nothing beyond: {error}"
        ))),
    }
}

/// Changes the machine's settings after informing the janitor, which restores them. Returns notes
/// about the settings that could not be changed.
fn change_settings(
    own: &State,
    directory: &Path,
    janitor: &Janitor,
) -> Result<Vec<Note>, SetupError> {
    if own.undo.is_empty() {
        return Ok(vec![]);
    }
    own.save(directory)?;
    janitor.entrust(own)?;
    let refused = own.apply().into_iter();
    Ok(refused
        .map(|(setting, error)| {
            Note::new(format!(
                "the program may reach nothing beyond this machine: {setting} cannot be changed \
                 ({error})"
            ))
        })
        .collect())
}

/// A session of an ordinary user, with a router in its own namespace on the other side. Where
/// that is impossible, the other side is pasta. If pasta does not work either, or the session is to
/// reach no other network, the other side is a namespace that leads no further. It answers pings.
fn run_for_user(
    setup: &RunSetup,
    ipv6: bool,
    ports: Vec<OpenPort>,
    ping_note: Option<Note>,
) -> Result<Session, SetupError> {
    let routes: Vec<Route> = Netlink::open()?.routes()?;
    let ranges = Range::choose_two(&routes);
    let [range, uplink] = ranges;
    let leads_out = |ipv6: bool| {
        routes.iter().any(|route| route.ipv6 == ipv6 && route.to.is_none() && route.unicast)
    };
    let ipv6_out = ipv6 && setup.outside && leads_out(true);
    let mut inside = inside(Bare::new(setup)?, setup, range, ipv6, ipv6_out, OUTER)?;
    let netns = router_netns()?;
    let addresses = range.addresses(1, ipv6);
    let attachment = Attachment {
        name: OUTER,
        mac: mac(1),
        mtu: setup.mtu,
        addresses: &addresses,
        gateways: &[],
        neighbours: &range.neighbours(1, ipv6, setup.neighbours),
    };
    let outer = attach(&netns, inside.switch.as_ref(), "outside", &attachment)?;
    let entrances = lead_inside(ports, range, ipv6);
    let mut outside = Outside { forward: forward(&entrances, &netns)?, ..Outside::default() };
    if !setup.outside {
        return alone(inside, netns, (outer, outside), Vec::new());
    }
    let mut notes = Vec::new();
    let forward_dns = set_resolver(&mut inside, range, &mut notes);
    // pasta takes some twenty milliseconds to start, so the router starts meanwhile.
    let mtu = setup.mtu.max(DEFAULT_MTU);
    let (proxy, pasta) = thread::scope(|scope| {
        let pasta = scope.spawn(|| start_pasta(&netns, UPLINK, uplink, mtu, ipv6_out, forward_dns));
        let proxy = start_router(&netns, OUTER, ranges, ipv6);
        (proxy, pasta.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    let proxy = match proxy {
        Ok(proxy) => proxy,
        Err(why) => {
            // Without the router, pasta must run in another namespace.
            drop(pasta);
            if let Some(publish) = setup.publish.first() {
                return Err(SetupError::Publish {
                    port: publish.to_string(),
                    why: why.to_string(),
                });
            }
            let far = switch_netns()?;
            return match start_pasta(&far, OUTER, range, setup.mtu, ipv6_out, forward_dns) {
                Ok(pasta) => {
                    notes.extend(ping_note);
                    notes.push(without_router(&why));
                    let port = far
                        .enter(|| Ok::<_, SetupError>(AnyPort::Packet(PacketPort::open(OUTER)?)))?;
                    let outer = FreshPort { port, reports: Reports::default() };
                    inside.far = Some(far);
                    inside.into_session(
                        outer,
                        Outside { pasta: Some(pasta), ..Outside::default() },
                        notes,
                    )
                }
                Err(error) => {
                    let note = without_pasta(
                        "the program reaches neither this machine nor anything beyond",
                        &error,
                    );
                    alone(inside, netns, (outer, outside), vec![note, without_router(&why)])
                }
            };
        }
    };
    outside.proxy = Some(proxy);
    match pasta {
        Ok(pasta) => {
            outside.pasta = Some(pasta);
            notes.extend(ping_note);
            netns.enter(|| configure_uplink(uplink, ipv6_out))?;
        }
        Err(error) => {
            inside.place.resolv = Some(names::over_tcp(inside.place.resolv.take()));
            notes.push(without_pasta("only TCP services are reached", &error));
        }
    }
    inside.far = Some(netns);
    inside.into_session(outer, outside, notes)
}

/// The session of a program that reaches no other network.
fn alone(
    mut inside: Inside,
    netns: NetNs,
    (outer, outside): (FreshPort, Outside),
    notes: Vec<Note>,
) -> Result<Session, SetupError> {
    inside.place.resolv = Some(names::no_resolver());
    inside.far = Some(netns);
    inside.into_session(outer, outside, notes)
}

/// Chooses the program's resolver file. Returns `true` when queries to the link's other end must be
/// forwarded to the machine's resolver.
fn set_resolver(inside: &mut Inside, range: Range, notes: &mut Vec<Note>) -> bool {
    let forwarder = IpAddr::from(range.ipv4(1).0);
    let (resolv, note) = names::resolver(Some(forwarder));
    let forward =
        resolv.as_ref().is_some_and(|text| text.contains(&format!("nameserver {forwarder}\n")));
    inside.place.resolv = resolv;
    notes.extend(note);
    forward
}

/// A note if the machine does not permit this user to ping: pasta sends echo requests as this user.
fn ping_note() -> Option<Note> {
    let range = read_setting("ipv4/ping_group_range").ok()?;
    let mut bounds = range.split_whitespace().filter_map(|word| word.parse::<u32>().ok());
    let gid = rustix::process::getegid().as_raw();
    if bounds.next()? <= gid && gid <= bounds.next()? {
        return None;
    }
    Some(Note::with_remedy(
        "ping gets no answer from beyond the link: this user may not send echo requests here (TCP \
         and UDP pass)",
        "sysctl -w net.ipv4.ping_group_range='0 2147483647'",
    ))
}

fn without_pasta(what: &str, error: &PastaError) -> Note {
    let what = format!("{what}: {error}");
    match error {
        PastaError::Missing => Note::with_remedy(what, "apt-get install passt"),
        PastaError::Failed(_) => Note::new(what),
    }
}

fn without_router(error: &RouterError) -> Note {
    let what = format!(
        "{error}; TCP downloads do not use the whole rate of a slow link, because their sender, \
         pasta, has no congestion control"
    );
    Note::new(what)
}

/// The name of the program's interface. Programs that guess an interface usually try it first.
const INTERFACE: &str = "eth0";
/// The interface on the machine's side of an ordinary user's link.
const OUTER: &str = "host0";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_machines_own_map_has_every_user() {
        assert!(maps_every_user("         0          0 4294967295\n"));
        assert!(!maps_every_user("         0       1000          1\n"));
        assert!(!maps_every_user("      1000       1000          1\n"));
        assert!(!maps_every_user("0 0 1\n1 100000 65536\n"));
    }
}
