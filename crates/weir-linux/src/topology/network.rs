//! Several hosts that one live loop joins. Each host has a namespace with an interface, and the
//! interface's other end is a port.
//!
//! There is no router. Each host sees all other hosts on its own Ethernet segment, usually with
//! permanent neighbour entries, so that only programs send packets. The loop decides which links a
//! packet passes between two hosts.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::address::host_mac;
use super::names;
use super::place::{
    Attachment, Place, attach, best_effort, check_mtu, has_ipv6, quiet_netns, quieten, settle,
    switch_netns,
};
use super::run::become_privileged;
use super::session::GRACE;
use super::{End, Neighbours, Note, SetupError, SpawnError};
use crate::netlink::Mac;
use crate::netns::NetNs;
use crate::port::AnyPort;
use crate::process::{
    Program, ProgramSpec, Report, RootOrder, Signals, Stopper, TaskSpec, Terminal, VolumeOrder,
    Wake, descriptor_of, wait_any,
};

/// The configuration of [`network`].
#[derive(Clone, Debug)]
pub struct NetworkSetup {
    /// The hosts.
    pub hosts: Vec<HostSetup>,
    /// Length of the prefix that all IPv4 addresses share, in bits. IPv6 uses 64 bits.
    pub prefix: u8,
    /// How the hosts learn each other's Ethernet addresses.
    pub neighbours: Neighbours,
    /// Largest IP packet of the hosts' interfaces, in bytes (576–65521).
    pub mtu: u32,
    /// Namespaces that already exist, by the numbers of their hosts. They get an interface.
    pub namespaces: BTreeMap<usize, Arc<NetNs>>,
}

/// The configuration of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSetup {
    /// The name that resolves to this host on all hosts.
    pub name: String,
    /// The host's address.
    pub address: Ipv4Addr,
    /// The host's IPv6 address, if it has one. It is not used where the MTU or the machine allows
    /// no IPv6.
    pub ipv6: Option<Ipv6Addr>,
}

impl HostSetup {
    /// The host's addresses, IPv4 first.
    fn addresses(&self, ipv6: bool) -> impl Iterator<Item = IpAddr> {
        let six = self.ipv6.filter(|_| ipv6).map(IpAddr::from);
        [Some(self.address.into()), six].into_iter().flatten()
    }
}

/// The address that the kernel gives the interface of host `number` of a [`network`], besides the
/// addresses of [`HostSetup`]: some packets of neighbour discovery use it.
#[must_use]
pub fn link_local(number: u16) -> Ipv6Addr {
    let [a, b, c, d, e, f] = host_mac(number);
    let pair = |high, low| u16::from_be_bytes([high, low]);
    // RFC 4291, appendix A: the bit that marks a local address is inverted.
    Ipv6Addr::new(0xfe80, 0, 0, 0, pair(a ^ 2, b), pair(c, 0xff), pair(0xfe, d), pair(e, f))
}

/// Sets up the hosts, with a port for each. All names resolve on each host.
///
/// Without root this process enters a user namespace permanently.
///
/// # Errors
/// The reason. The machine is unchanged after an error.
pub fn network(setup: &NetworkSetup) -> Result<Network, SetupError> {
    check_mtu(setup.mtu)?;
    let count = setup.hosts.len();
    let Some(total) = u16::try_from(count).ok().filter(|&count| count <= MOST_HOSTS) else {
        return Err(SetupError::Hosts { count, most: MOST_HOSTS });
    };
    become_privileged()?;
    let switch = switch_netns()?;
    let ipv6 = has_ipv6(setup.mtu);
    let ends: Vec<End> = setup.hosts.iter().map(|host| end(host, ipv6)).collect();
    let all: Vec<&End> = ends.iter().collect();
    let mut places = Vec::new();
    let mut ports = Vec::new();
    for (number, host) in (0..total).zip(&setup.hosts) {
        let netns = match setup.namespaces.get(&usize::from(number)) {
            Some(given) => {
                quieten(given)?;
                given.try_clone()?
            }
            None => quiet_netns()?,
        };
        // A container engine turns IPv6 off in the namespaces that it makes.
        let is_off = if ipv6 && host.ipv6.is_some() { "0" } else { "1" };
        let decide_ipv6 = || {
            for interface in ["all", "default"] {
                best_effort(&format!("ipv6/conf/{interface}/disable_ipv6"), is_off);
            }
            Ok::<_, io::Error>(())
        };
        netns.enter(decide_ipv6)?;
        let prefix = |address: &IpAddr| if address.is_ipv4() { setup.prefix } else { 64 };
        let addresses: Vec<(IpAddr, u8)> =
            host.addresses(ipv6).map(|address| (address, prefix(&address))).collect();
        let neighbours = match setup.neighbours {
            Neighbours::Static => neighbours(setup, number, ipv6),
            Neighbours::Emulated => Vec::new(),
        };
        let attachment = Attachment {
            name: INTERFACE,
            mac: host_mac(number),
            mtu: setup.mtu,
            addresses: &addresses,
            gateways: &[],
            neighbours: &neighbours,
        };
        ports.push(attach(&netns, Some(&switch), &format!("host{number}"), &attachment)?);
        let hosts = names::hosts(&all, &host.name);
        let resolv = Some(names::no_resolver());
        places.push(Place { netns, hosts, resolv, waiting: None });
    }
    settle(&mut ports);
    Ok(Network {
        programs: Vec::new(),
        ports: Some(ports.into_iter().map(|fresh| fresh.port).collect()),
        places,
        holders: BTreeMap::new(),
        ends,
        notes: Vec::new(),
        started: 0,
        stopper: Stopper::new()?,
        terminal: None,
        held: switch,
    })
}

/// The neighbour entries of host `number` for all other hosts.
fn neighbours(setup: &NetworkSetup, number: u16, ipv6: bool) -> Vec<(IpAddr, Mac)> {
    let others = (0..).zip(&setup.hosts).filter(|(other, _)| *other != number);
    let entries = |(other, host): (u16, &HostSetup)| {
        host.addresses(ipv6).map(|address| (address, host_mac(other))).collect::<Vec<_>>()
    };
    others.flat_map(entries).collect()
}

fn end(host: &HostSetup, ipv6: bool) -> End {
    End {
        name: host.name.clone(),
        interface: INTERFACE.into(),
        ipv4: Some(host.address),
        ipv6: host.ipv6.filter(|_| ipv6),
    }
}

/// Hosts that are set up, and the programs on them. Dropping this ends the programs and undoes
/// every change to the machine.
#[derive(Debug)]
pub struct Network {
    programs: Vec<(ProgramId, Process)>,
    ports: Option<Vec<AnyPort>>,
    places: Vec<Place>,
    /// The processes that hold namespaces for commands, by the numbers of their hosts.
    holders: BTreeMap<usize, Holder>,
    ends: Vec<End>,
    notes: Vec<Note>,
    /// The number of programs started so far.
    started: u32,
    stopper: Stopper,
    terminal: Option<Terminal>,
    /// The namespace of the ports' interfaces. A port does not keep it alive.
    #[expect(dead_code, reason = "held, not used: dropping it deletes the interfaces")]
    held: NetNs,
}

/// The identity of a program of a [`Network`]. Programs are numbered in the order of their starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramId(pub u32);

/// A program to be started.
#[derive(Debug, Default)]
pub struct Launch {
    /// The words of the command.
    pub command: Vec<OsString>,
    /// The program's standard input; empty if `None`.
    pub input: Option<OwnedFd>,
    /// The program's standard output; this process's own if `None`.
    pub output: Option<OwnedFd>,
}

/// The namespaces of a host for several commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    /// A directory that is the root file system; the machine's if `None`. It is never written to.
    pub root: Option<PathBuf>,
    /// Whether writes below `root` fail; otherwise they go to memory.
    pub read_only: bool,
    /// Directories and files of the machine that commands see at other paths.
    pub volumes: Vec<Shown>,
}

/// A directory or file of the machine that commands see at another path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The path on the machine.
    pub from: PathBuf,
    /// The absolute path that commands see. It must exist already if [`Hold::root`] is `None`.
    pub to: String,
    /// Whether commands cannot write to it.
    pub read_only: bool,
}

/// A command to be started in the namespaces of a [`Hold`], or on the machine.
#[derive(Debug, Default)]
pub struct Task {
    /// The words of the command.
    pub command: Vec<OsString>,
    /// Variables that are added to the environment.
    pub environment: Vec<(String, String)>,
    /// Where the command writes its output; this process's own if `None`.
    pub output: Option<OwnedFd>,
    /// Where the command writes its errors; this process's own if `None`.
    pub errors: Option<OwnedFd>,
}

/// A process that holds the namespaces of a host.
#[derive(Debug)]
struct Holder {
    init: Program,
    /// A descriptor of process 1 of the namespaces.
    descriptor: OwnedFd,
    /// Whether the host has its own root file system, from [`Hold::root`].
    has_root: bool,
}

/// A program with its own namespaces, or a command in the namespaces of a host.
#[derive(Debug)]
enum Process {
    Program(Program),
    Task(crate::process::Task),
}

impl Process {
    fn signal(&self, number: i32) {
        match self {
            Self::Program(program) => program.signal(number),
            Self::Task(task) => task.signal(number),
        }
    }

    /// The exit code, if it has ended.
    fn report(&mut self) -> Option<u8> {
        match self {
            Self::Program(program) => program.report().map(|Report { code, .. }| code),
            Self::Task(task) => task.report(),
        }
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Program(program) => program.as_fd(),
            Self::Task(task) => task.as_fd(),
        }
    }
}

/// The event that ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// A program has ended, with this exit code; 128 + n when signal n ended it.
    Ended(ProgramId, u8),
    /// This process received this signal, which asks it to end.
    Signal(i32),
    /// [`Stopper::stop`] was called.
    Stopped,
    /// The time until which [`Network::wait`] waits was reached.
    Time,
}

impl Network {
    /// A port for each host, in the order of the hosts; `None` from the second call on.
    pub fn take_ports(&mut self) -> Option<Vec<AnyPort>> {
        self.ports.take()
    }

    /// The hosts as programs see them.
    #[must_use]
    pub fn ends(&self) -> &[End] {
        &self.ends
    }

    /// Limitations that the user should know.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// A stopper that ends [`Network::wait`] from any thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Starts a program on the host with this number, in its own namespaces, as a child in this
    /// process's group.
    ///
    /// # Errors
    /// The command cannot be executed or its namespaces cannot be created. Nothing remains of the
    /// program after an error.
    ///
    /// # Panics
    /// There is no such host.
    pub fn spawn(&mut self, host: usize, launch: Launch) -> Result<ProgramId, SpawnError> {
        let place = &self.places[host];
        if launch.command.is_empty() {
            return Err(SpawnError::Empty);
        }
        // The foreground group is read before the program can change it.
        self.terminal = self.terminal.take().or_else(Terminal::in_foreground);
        let mut spec = ProgramSpec::new(&launch.command);
        spec.hosts = Some(place.hosts.clone());
        spec.resolv = place.resolv.clone();
        spec.own_proc = true;
        spec.without_stdin = launch.input.is_none();
        (spec.input, spec.output) = (launch.input, launch.output);
        spec.environment.push(("WEIR_SIDE".into(), self.ends[host].name.clone()));
        let (program, warnings) = Program::start(&spec, Some(&place.netns))?;
        self.notes.extend(warnings.into_iter().map(Note::new));
        Ok(self.add(Process::Program(program)))
    }

    fn add(&mut self, process: Process) -> ProgramId {
        let id = ProgramId(self.started);
        self.started += 1;
        self.programs.push((id, process));
        id
    }

    /// Makes the namespaces of a host in which [`Network::start`] then starts commands. They exist
    /// until the network is closed.
    ///
    /// # Errors
    /// The namespaces cannot be made, or the root file system cannot be entered.
    ///
    /// # Panics
    /// There is no such host.
    pub fn hold(&mut self, host: usize, hold: &Hold) -> Result<(), SpawnError> {
        let place = &self.places[host];
        let name = self.ends[host].name.clone();
        let mut spec = ProgramSpec::new(&[]);
        spec.hosts = Some(place.hosts.clone());
        spec.resolv = place.resolv.clone();
        spec.own_proc = true;
        spec.without_stdin = true;
        spec.own_group = true;
        spec.root = hold.root.as_ref().map(|path| RootOrder {
            path: path.as_os_str().as_bytes().to_vec(),
            read_only: hold.read_only,
        });
        let volume = |shown: &Shown| VolumeOrder {
            from: shown.from.as_os_str().as_bytes().to_vec(),
            to: shown.to.clone(),
            read_only: shown.read_only,
        };
        spec.volumes = hold.volumes.iter().map(volume).collect();
        spec.hostname = Some(name.clone());
        let failed = |source| SpawnError::Host { name: name.clone(), source };
        let (init, warnings) =
            Program::start(&spec, Some(&place.netns)).map_err(|error| match error {
                SpawnError::Namespace { source, .. } => failed(source),
                error => error,
            })?;
        let descriptor = descriptor_of(init.init()).map_err(failed)?;
        self.notes.extend(warnings.into_iter().map(Note::new));
        self.holders.insert(host, Holder { init, descriptor, has_root: hold.root.is_some() });
        Ok(())
    }

    /// Process 1 of a host's namespaces, by its number in this process's PID namespace; `None`
    /// before [`Network::hold`].
    #[must_use]
    pub fn holder(&self, host: usize) -> Option<u32> {
        self.holders.get(&host).map(|holder| holder.init.init())
    }

    /// Starts a command in the namespaces of a host, or on the machine if `host` is `None`. The
    /// terminal's signals do not reach it, and its standard input is empty.
    ///
    /// # Errors
    /// The command cannot be executed, or the host has no namespaces for commands.
    pub fn start(&mut self, host: Option<usize>, task: Task) -> Result<ProgramId, SpawnError> {
        let Task { command, environment, output, errors } = task;
        let holder = match host {
            None => None,
            Some(host) => match self.holders.get(&host) {
                Some(holder) => Some(holder),
                None => return Err(SpawnError::NoPlace { name: self.ends[host].name.clone() }),
            },
        };
        let directory = match holder {
            Some(holder) if !holder.has_root => std::env::current_dir().ok(),
            _ => None,
        };
        let spec =
            TaskSpec { command, environment, directory, in_foreground: false, output, errors };
        let init = holder.map(|holder| holder.descriptor.as_fd());
        let task = crate::process::Task::start(spec, init)?;
        Ok(self.add(Process::Task(task)))
    }

    /// Ends a program or command at once.
    pub fn kill(&mut self, id: ProgramId) {
        self.programs.retain(|(own, _)| *own != id);
    }

    /// Waits until a program ends, a signal asks this process to end, [`Stopper::stop`] is called,
    /// or the time `until` is reached.
    ///
    /// # Errors
    /// Waiting itself fails.
    pub fn wait(&mut self, signals: &Signals, until: Option<Instant>) -> io::Result<Happened> {
        loop {
            let programs: Vec<&Process> =
                self.programs.iter().map(|(_, program)| program).collect();
            match wait_any(&programs, Some(signals), Some(&self.stopper), until)? {
                Wake::Program(index) => {
                    if let Some((id, code)) = self.reap(index) {
                        return Ok(Happened::Ended(id, code));
                    }
                }
                Wake::Signal(signal)
                    if signal.number == libc::SIGUSR1 || signal.number == libc::SIGUSR2 => {}
                Wake::Signal(signal) => return Ok(Happened::Signal(signal.number)),
                Wake::Stopped => return Ok(Happened::Stopped),
                Wake::Timeout => return Ok(Happened::Time),
            }
        }
    }

    /// Sends a signal to a program; without effect after the program has ended.
    pub fn signal(&self, id: ProgramId, number: i32) {
        for (_, program) in self.programs.iter().filter(|(own, _)| *own == id) {
            program.signal(number);
        }
    }

    /// Ends the remaining programs (SIGTERM, [`GRACE`], SIGKILL) and undoes every change to the
    /// machine.
    pub fn close(mut self) {
        for (_, program) in &self.programs {
            program.signal(libc::SIGTERM);
        }
        let deadline = Instant::now() + GRACE;
        while !self.programs.is_empty() && Instant::now() < deadline {
            let programs: Vec<&Process> =
                self.programs.iter().map(|(_, program)| program).collect();
            match wait_any(&programs, None, None, Some(deadline)) {
                Ok(Wake::Program(index)) => drop(self.reap(index)),
                Ok(_) => {}
                // Dropping the programs kills them at once.
                Err(_) => break,
            }
        }
        // Dropping a process kills it; dropping a holder ends all processes in its namespaces.
        self.programs.clear();
        self.holders.clear();
        if let Some(terminal) = self.terminal.take() {
            terminal.take_back();
        }
    }

    fn reap(&mut self, index: usize) -> Option<(ProgramId, u8)> {
        let (id, program) = &mut self.programs[index];
        let ended = (*id, program.report()?);
        self.programs.remove(index);
        Some(ended)
    }
}

/// The name of each host's interface. Programs that guess an interface usually try it first.
const INTERFACE: &str = "eth0";
/// Maximum number of hosts. Each host has a namespace, two interfaces, and an entry for each other
/// host.
pub const MOST_HOSTS: u16 = 250;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_local_address_is_that_of_the_ethernet_address() {
        assert_eq!(link_local(0x0102), "fe80::77:65ff:fe69:102".parse::<Ipv6Addr>().unwrap());
    }
}
