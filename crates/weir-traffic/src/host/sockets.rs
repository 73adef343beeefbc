//! The sockets of a host: outlets that send datagrams, inlets that receive them, and the ends of
//! TCP transfers.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{SocketAddr, SocketAddrV4, TcpListener};

use super::arrivals::{Arrivals, Kind};
use super::order::{EndReport, Order, Role, Task, Transfer};
use super::transfer;
use crate::clock::now;
use crate::recv::{Inlet, Receiver};
use crate::send::Outlet;
use crate::span::Span;
use crate::{Context, TrafficError};

/// All sockets of a host.
#[derive(Debug)]
pub(super) struct Sockets {
    pub(super) outlets: Vec<Outlet>,
    /// The flow of each outlet, by the outlet's index.
    flows: Vec<u32>,
    pub(super) inlets: Inlets,
    /// Listening sockets, each with the transfers that connect to it.
    pub(super) readers: Vec<(TcpListener, Vec<Task>)>,
    /// The transfers that this host sends.
    pub(super) writers: Vec<(Task, Transfer)>,
}

impl Sockets {
    /// Opens the sockets that the tasks of an order need.
    ///
    /// # Errors
    /// An address cannot be bound.
    pub(super) fn open(order: &Order) -> Result<Self, TrafficError> {
        let (mut outlets, mut flows, mut writers) = (Vec::new(), Vec::new(), Vec::new());
        let mut inlets: Vec<(Inlet, Expected)> = Vec::new();
        let mut receiving: BTreeMap<SocketAddrV4, Expected> = BTreeMap::new();
        let mut listening: BTreeMap<SocketAddrV4, (TcpListener, Vec<Task>)> = BTreeMap::new();
        for task in &order.tasks {
            let &Task { flow, from, to, .. } = task;
            match &task.role {
                Role::Send { tos, echo } => {
                    let outlet = Outlet::connect(Some(from.into()), to.into(), *tos)?;
                    if *echo {
                        let echoes = [(to.into(), Arrivals::new(flow, Kind::Echoes))];
                        inlets.push((Inlet::on(outlet.socket()?)?, Expected::from(echoes)));
                    }
                    outlets.push(outlet);
                    flows.push(flow);
                }
                Role::Receive { echo } => {
                    let kind = if *echo { Kind::Requests } else { Kind::OneWay };
                    let expected = receiving.entry(to).or_default();
                    expected.insert(from.into(), Arrivals::new(flow, kind));
                }
                Role::Write(transfer) => writers.push((task.clone(), transfer.clone())),
                Role::Read => match listening.entry(to) {
                    Entry::Vacant(entry) => {
                        let listener = transfer::listen(to).context("listen for a TCP transfer")?;
                        entry.insert((listener, vec![task.clone()]));
                    }
                    Entry::Occupied(mut entry) => entry.get_mut().1.push(task.clone()),
                },
            }
        }
        if let Some((_, transfer)) = writers.first() {
            transfer::negotiate_ecn(transfer.ecn).context("set whether TCP uses ECN")?;
        }
        for (at, expected) in receiving {
            inlets.push((Inlet::bind(at.into())?, expected));
        }
        let readers = listening.into_values().collect();
        Ok(Self { outlets, flows, inlets: Inlets::new(inlets), readers, writers })
    }

    /// The index of each flow's outlet.
    pub(super) fn places(&self) -> BTreeMap<u32, usize> {
        self.flows.iter().enumerate().map(|(place, &flow)| (flow, place)).collect()
    }

    /// Adds the results of the datagram sockets to `ends`. The key of a report is its flow and
    /// whether the report is of the sending end.
    pub(super) fn finish(
        self,
        ends: &mut BTreeMap<(u32, bool), EndReport>,
        notes: &mut Vec<String>,
    ) {
        let (reports, lost) = self.inlets.finish();
        ends.extend(reports.into_iter().map(|report| ((report.flow, false), report)));
        if lost > 0 {
            notes
                .push(format!("{lost} datagrams count as lost because a socket's buffer was full"));
        }
        for (flow, outlet) in self.flows.into_iter().zip(self.outlets) {
            let sent = outlet.finish();
            if sent.refused > 0 {
                let cause = sent.cause.map(|error| error.to_string()).unwrap_or_default();
                notes.push(format!("{} datagrams could not be sent: {cause}", sent.refused));
            }
            // The echoes of a flow arrive at its sending end, so one report covers both the
            // datagrams sent and the echoes.
            let report = match ends.remove(&(flow, false)) {
                Some(echoes) => echoes,
                None => EndReport { flow, series: sent.series, ..EndReport::default() },
            };
            let report = EndReport {
                sent: sent.packets,
                sent_bytes: sent.bytes,
                early: sent.early,
                ..report
            };
            ends.insert((flow, true), report);
        }
    }
}

/// The flows that an inlet expects, by the address of the sender.
type Expected = BTreeMap<SocketAddr, Arrivals>;

/// All inlets of a host, with the arrivals at each.
#[derive(Debug)]
pub(super) struct Inlets {
    inlets: Vec<Inlet>,
    expected: Vec<Expected>,
}

impl Inlets {
    fn new(inlets: Vec<(Inlet, Expected)>) -> Self {
        let (inlets, expected) = inlets.into_iter().unzip();
        Self { inlets, expected }
    }

    /// Receives until [`Span::drained`], some time after the end of the run.
    ///
    /// # Errors
    /// A socket fails.
    pub(super) fn receive(&mut self, span: &Span) -> Result<(), TrafficError> {
        let Self { inlets, expected } = self;
        let mut receiver = Receiver::new(inlets);
        while now() < span.drained() {
            receiver.turn(&mut |inlet, datagram| {
                let Some(flow) = expected[inlet].get_mut(&datagram.from) else { return };
                flow.count(span, &datagram.arrival);
                if flow.is_echoed() {
                    datagram.send_back();
                }
            })?;
        }
        Ok(())
    }

    /// Returns the report of each flow, and the number of packets dropped because a socket's buffer
    /// was full.
    fn finish(self) -> (Vec<EndReport>, u64) {
        let dropped = self.inlets.iter().map(Inlet::drops).sum();
        let flows = self.expected.into_iter().flat_map(BTreeMap::into_values);
        (flows.map(Arrivals::finish).collect(), dropped)
    }
}
