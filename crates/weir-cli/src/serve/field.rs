//! The interfaces that the daemon forwards between: opened at the start, and again when one that
//! vanished is back.

use weir_linux::netlink::Netlink;
use weir_linux::port::{AbsentPort, AnyPort, OpenError, PacketPort};
use weir_linux::process::{Capabilities, keep_only};
use weir_linux::resident::Resident;
use weir_rules::classify::PlaceInterface;

use crate::args::ServeArgs;
use crate::output::{Failure, USAGE};

/// The interfaces, numbered from 0: those of bridge n are 2n and 2n + 1.
pub(super) struct Field {
    names: Vec<String>,
    pub(super) netns: Option<String>,
    resident: Resident,
    workers: usize,
    /// What was opened, until it is taken: for each worker the ports of all interfaces.
    ports: Vec<Vec<AnyPort>>,
}

impl Field {
    /// Opens every interface of every bridge. One that is not there is waited for.
    pub(super) fn open(args: &ServeArgs) -> Result<Self, Failure> {
        let names: Vec<String> = args.bridges.iter().flat_map(|bridge| bridge.0.clone()).collect();
        if let Some(twice) =
            names.iter().enumerate().find(|(index, name)| names[..*index].contains(name))
        {
            return Err(Failure::new(
                USAGE,
                format!("interface {} is named twice; it can be in one bridge only", twice.1),
            ));
        }
        let resident =
            Resident::start(args.netns.as_deref()).map_err(|error| match &args.netns {
                Some(name) => Failure::own(format!(
                    "cannot enter the network namespace {name}: {error}; 'ip netns' lists them"
                )),
                None => Failure::own(format!("cannot start a thread: {error}")),
            })?;
        let mut field = Self {
            names,
            netns: args.netns.clone(),
            resident,
            workers: args.workers,
            ports: Vec::new(),
        };
        field.ports.resize_with(args.workers, Vec::new);
        for index in 0..field.names.len() {
            let opened = match field.reopen(index) {
                Ok(ports) => ports,
                Err(OpenError::NoInterface { .. }) => field.absent(index)?,
                Err(error) => return Err(Failure::own(error)),
            };
            for (worker, port) in field.ports.iter_mut().zip(opened) {
                worker.push(port);
            }
        }
        if !args.keep_privileges {
            // What is needed to open an interface again, and to give its socket a large buffer.
            let kept =
                field.resident.run(|| keep_only(Capabilities::NET_RAW | Capabilities::NET_ADMIN));
            kept.unwrap_or(Ok(())).map_err(Failure::own)?;
        }
        Ok(field)
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// What was opened at the start, for each worker.
    pub(super) fn take_ports(&mut self) -> Vec<Vec<AnyPort>> {
        std::mem::take(&mut self.ports)
    }

    /// Which interfaces were there at the start.
    pub(super) fn present(&self) -> Vec<bool> {
        self.ports
            .first()
            .map_or(&[][..], |ports| ports)
            .iter()
            .map(|port| !matches!(port, AnyPort::Absent(_)))
            .collect()
    }

    /// Opens an interface, once for each worker.
    pub(super) fn reopen(&self, index: usize) -> Result<Vec<AnyPort>, OpenError> {
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
        self.resident.run(open).unwrap_or(Err(gone))
    }

    fn absent(&self, index: usize) -> Result<Vec<AnyPort>, Failure> {
        let absent = || AbsentPort::new(&self.names[index]).map(AnyPort::Absent);
        let ports = (0..self.workers).map(|_| absent()).collect::<Result<_, _>>();
        ports.map_err(|errno| Failure::own(format!("cannot make a descriptor: {errno}")))
    }

    /// The interfaces as rules know them: numbers, names and addresses.
    pub(super) fn interfaces(&self) -> Vec<PlaceInterface> {
        let names = self.names.clone();
        let looked = self.resident.run(move || {
            names.iter().enumerate().map(|(index, name)| interface(index, name)).collect()
        });
        looked.unwrap_or_default()
    }
}

/// An interface with the addresses that it has; without any when it is not there.
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
