//! The interfaces between which the daemon forwards. They are opened at the start; an interface
//! that disappears is opened again when it reappears.

use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use weir_linux::live::LatencyRequests;
use weir_linux::netlink::Netlink;
use weir_linux::port::{AbsentPort, AnyPort, OpenError, PacketPort};
use weir_linux::process::{Capabilities, ConfineError, Confinement};
use weir_linux::resident::Resident;
use weir_rules::classify::PlaceInterface;

/// The configuration of the interfaces.
#[derive(Clone, Debug, Default)]
pub struct BridgesSetup {
    /// The two interfaces of each bridge.
    pub bridges: Vec<[String; 2]>,
    /// The network namespace of the interfaces, a name of `ip netns`; `None` for the caller's own.
    pub netns: Option<String>,
    /// Number of workers that share the load. Each interface is opened once for each worker.
    pub workers: usize,
    /// The user and the file access that the thread that reopens interfaces keeps. With `None`, it
    /// is not confined.
    pub confinement: Option<Confinement>,
    /// Whether the workers may keep processors awake.
    pub keep_awake: bool,
}

/// Why the interfaces of bridges could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum BridgesError {
    /// An interface is named twice.
    #[error("interface {name} is named twice; it can be in one bridge only")]
    NamedTwice {
        /// The interface.
        name: String,
    },
    /// The namespace cannot be entered.
    #[error("cannot enter the network namespace {name}: {source}; 'ip netns' lists them")]
    Namespace {
        /// The namespace's name.
        name: String,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
    /// An existing interface cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// No descriptor is left for the placeholder of a missing interface.
    #[error("cannot make a descriptor: {0}")]
    Descriptor(#[source] Errno),
    /// Capabilities could not be given up.
    #[error(transparent)]
    Privileges(#[from] ConfineError),
}

/// The interfaces, numbered from 0. Bridge n has the interfaces 2n and 2n + 1.
pub struct Bridges {
    names: Vec<String>,
    pub(super) netns: Option<String>,
    /// The thread that opens interfaces, in their namespace.
    resident: Resident,
    workers: usize,
    /// The open devices with which the workers request that processors stay awake. They are opened
    /// at the start, while this process still has the right to do so.
    latency_requests: Mutex<LatencyRequests>,
    /// The open ports of all interfaces, one set for each worker, until a session takes them.
    ports: Mutex<Vec<Vec<AnyPort>>>,
}

impl Bridges {
    /// Opens every interface of every bridge. A missing interface is opened when it appears.
    ///
    /// # Errors
    /// See [`BridgesError`]. No interface stays open after an error.
    pub fn open(setup: &BridgesSetup) -> Result<Self, BridgesError> {
        let names: Vec<String> = setup.bridges.iter().flatten().cloned().collect();
        if let Some((_, name)) =
            names.iter().enumerate().find(|(index, name)| names[..*index].contains(name))
        {
            return Err(BridgesError::NamedTwice { name: name.clone() });
        }
        let resident =
            Resident::start(setup.netns.as_deref()).map_err(|source| match &setup.netns {
                Some(name) => BridgesError::Namespace { name: name.clone(), source },
                None => BridgesError::Thread(source),
            })?;
        let mut bridges = Self {
            names,
            netns: setup.netns.clone(),
            resident,
            workers: setup.workers,
            latency_requests: Mutex::new(LatencyRequests::open(if setup.keep_awake {
                setup.workers
            } else {
                0
            })),
            ports: Mutex::default(),
        };
        let mut sets = Vec::new();
        sets.resize_with(setup.workers, Vec::new);
        for index in 0..bridges.names.len() {
            let opened = match bridges.open_interface(index) {
                Ok(ports) => ports,
                Err(OpenError::NoInterface { .. }) => bridges.absent(index)?,
                Err(error) => return Err(error.into()),
            };
            for (worker, port) in sets.iter_mut().zip(opened) {
                worker.push(port);
            }
        }
        bridges.ports = Mutex::new(sets);
        if let Some(confinement) = setup.confinement.clone() {
            // Opening an interface again, and giving its socket a large buffer, needs these
            // capabilities.
            let keep = Capabilities::NET_RAW | Capabilities::NET_ADMIN;
            bridges.resident.run(move || confinement.apply(keep)).transpose()?;
        }
        Ok(bridges)
    }

    /// Whether the thread that opens interfaces has panicked.
    pub(super) fn has_panicked(&self) -> bool {
        self.resident.has_panicked()
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The ports opened at the start, one set for each worker; empty after the first call.
    pub(super) fn take_ports(&self) -> Vec<Vec<AnyPort>> {
        std::mem::take(&mut *self.ports.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The workers' requests to keep processors awake; empty after the first call.
    pub(super) fn take_latency_requests(&self) -> LatencyRequests {
        let mut requests = self.latency_requests.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *requests, LatencyRequests::open(0))
    }

    /// Whether each interface existed at the start. Call it before [`Self::take_ports`].
    pub(super) fn present(&self) -> Vec<bool> {
        let ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let first = ports.first().map_or(&[][..], |ports| ports);
        first.iter().map(|port| !matches!(port, AnyPort::Absent(_))).collect()
    }

    /// Whether each interface exists, is switched on and has a carrier; `None` if the kernel cannot
    /// be asked.
    pub(super) fn running(&self) -> Option<Vec<bool>> {
        let names = self.names.clone();
        let links = self.resident.run(|| Netlink::open()?.links())?.ok()?;
        let runs = |name: &String| links.iter().any(|link| link.name == *name && link.running);
        Some(names.iter().map(runs).collect())
    }

    /// Opens an interface, once for each worker.
    pub(super) fn open_interface(&self, index: usize) -> Result<Vec<AnyPort>, OpenError> {
        let (name, workers) = (self.names[index].clone(), self.workers);
        let gone = OpenError::NoInterface { name: name.clone() };
        let open = move || {
            let mut first = PacketPort::open(&name)?;
            first.set_promiscuous()?;
            let mut first = AnyPort::from(first);
            let mut ports = Vec::new();
            for _ in 1..workers {
                ports.push(first.share()?);
            }
            ports.insert(0, first);
            Ok(ports)
        };
        // If the thread has panicked, the interface counts as missing.
        self.resident.run(open).unwrap_or(Err(gone))
    }

    /// The placeholders for the ports of a missing interface, one for each worker.
    fn absent(&self, index: usize) -> Result<Vec<AnyPort>, BridgesError> {
        let absent = || AbsentPort::new(&self.names[index]).map(AnyPort::Absent);
        let ports = (0..self.workers).map(|_| absent()).collect::<Result<_, _>>();
        ports.map_err(BridgesError::Descriptor)
    }

    /// The numbers, names and addresses of the interfaces, to which rules refer.
    pub(super) fn interfaces(&self) -> Vec<PlaceInterface> {
        let names = self.names.clone();
        let found = self.resident.run(move || {
            names.iter().enumerate().map(|(index, name)| interface(index, name)).collect()
        });
        found.unwrap_or_default()
    }
}

/// An interface with its current addresses; without addresses while it is missing.
fn interface(index: usize, name: &str) -> PlaceInterface {
    let addresses = || {
        let mut netlink = Netlink::open()?;
        let link = netlink.link(name)?;
        netlink.addresses(link.index)
    };
    let mut interface =
        PlaceInterface { number: index as u16, name: name.into(), v4: Vec::new(), v6: Vec::new() };
    for (address, _) in addresses().unwrap_or_default() {
        match address {
            std::net::IpAddr::V4(address) => interface.v4.push(address.into()),
            std::net::IpAddr::V6(address) => interface.v6.push(address.into()),
        }
    }
    interface
}
