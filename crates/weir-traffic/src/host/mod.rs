//! All traffic of one host of a live scenario, sent and received by a process on that host.
//!
//! The runner of the scenario starts one process on each host and exchanges lines of JSON with it
//! ([`order`]).

mod arrivals;
mod datagram;
pub mod kinds;
pub mod order;
mod pace;
mod receive;
mod schedule;
mod send;
mod span;
mod transfer;

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::net::{SocketAddrV4, TcpListener};
use std::path::Path;
use std::thread;

use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_sim::disk::Beside;

use arrivals::{Arrivals, Kind};
use order::{EndReport, Order, Ready, Report, Role, Start, Task, Transfer};
use receive::{Inlet, receive};
use schedule::Schedule;
use send::{Outlet, send};
use span::Span;

/// Reads an order and the time to start from `input`, carries the order out, and writes to `output`
/// when the sockets are there and what they have seen.
///
/// # Errors
/// An order that cannot be read, a scenario that cannot be read any more, an address that cannot be
/// bound, or an `output` that is closed.
pub fn run(input: &mut impl BufRead, output: &mut impl Write) -> io::Result<()> {
    let order: Order = read(input)?;
    let schedule = schedule(&order)?;
    let mut stations = Stations::open(&order)?;
    write(output, &Ready {})?;
    let Start { at_ns } = read(input)?;
    let Order { duration_ns: duration, warmup_ns: warmup, interval_ns: interval, .. } = order;
    let span = Span { start: at_ns, warmup, duration, interval };
    let mut ends: BTreeMap<(u32, bool), EndReport> = BTreeMap::new();
    let mut notes = Vec::new();
    thread::scope(|scope| {
        let Stations { outlets, inlets, readers, writers } = &mut stations;
        let transfers: Vec<_> = writers
            .iter()
            .map(|(task, transfer)| scope.spawn(|| (true, transfer::write(task, transfer, &span))))
            .chain(readers.iter().map(|(listener, tasks)| {
                scope.spawn(|| (false, transfer::read(listener, tasks, &span)))
            }))
            .collect();
        let receiver = scope.spawn(|| receive(inlets, &span));
        if !outlets.is_empty() {
            send(outlets, schedule, &span, order.realtime);
        }
        let mut results = Vec::new();
        for transfer in transfers {
            match transfer.join() {
                Ok((sends, Ok(reports))) => {
                    results.extend(reports.into_iter().map(|report| (sends, report)))
                }
                Ok((_, Err(error))) => notes.push(format!("a TCP transfer failed: {error}")),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        match receiver.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => notes.push(format!("receiving failed: {error}")),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        ends.extend(results.into_iter().map(|(sends, report)| ((report.flow, sends), report)));
    });
    stations.finish(&mut ends, &mut notes);
    let of = |task: &Task| {
        let sends = matches!(task.role, Role::Send { .. } | Role::Write(_));
        ends.remove(&(task.flow, sends))
            .unwrap_or_else(|| EndReport { flow: task.flow, ..EndReport::default() })
    };
    let ends = order.tasks.iter().map(of).collect();
    write(output, &Report { ends, notes })
}

/// What this host sends, by the scenario's sources.
fn schedule(order: &Order) -> io::Result<Schedule> {
    let files = Beside(Path::new(&order.file).parent().unwrap_or(Path::new("")));
    let scenario = weir_sim::scenario::parse(&order.scenario, &order.file, &files).scenario;
    let scenario =
        scenario.ok_or_else(|| io::Error::other("the scenario cannot be read any more"))?;
    Schedule::new(&scenario, order.seed, order.host).map_err(io::Error::other)
}

/// Everything that packets leave or arrive at.
#[derive(Debug, Default)]
struct Stations {
    outlets: Vec<Outlet>,
    inlets: Vec<Inlet>,
    /// Listening sockets, and the transfers that are to come there.
    readers: Vec<(TcpListener, Vec<Task>)>,
    writers: Vec<(Task, Transfer)>,
}

impl Stations {
    fn open(order: &Order) -> io::Result<Self> {
        let mut stations = Self::default();
        let mut receiving: BTreeMap<SocketAddrV4, Inlet> = BTreeMap::new();
        let mut listening: BTreeMap<SocketAddrV4, (TcpListener, Vec<Task>)> = BTreeMap::new();
        for task in &order.tasks {
            let &Task { flow, from, to, .. } = task;
            match &task.role {
                Role::Send { tos, echo } => {
                    let outlet = Outlet::connect(flow, from, to, *tos)?;
                    if *echo {
                        let mut inlet = Inlet::on(outlet.socket()?)?;
                        inlet.expect(to, Arrivals::new(flow, Kind::Echoes));
                        stations.inlets.push(inlet);
                    }
                    stations.outlets.push(outlet);
                }
                Role::Receive { echo } => {
                    let inlet = match receiving.entry(to) {
                        std::collections::btree_map::Entry::Vacant(entry) => {
                            entry.insert(Inlet::bind(to)?)
                        }
                        std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                    };
                    inlet.expect(
                        from,
                        Arrivals::new(flow, if *echo { Kind::Requests } else { Kind::OneWay }),
                    );
                }
                Role::Write(transfer) => stations.writers.push((task.clone(), transfer.clone())),
                Role::Read => match listening.entry(to) {
                    std::collections::btree_map::Entry::Vacant(entry) => {
                        entry.insert((transfer::listen(to)?, vec![task.clone()]));
                    }
                    std::collections::btree_map::Entry::Occupied(mut entry) => {
                        entry.get_mut().1.push(task.clone())
                    }
                },
            }
        }
        stations.inlets.extend(receiving.into_values());
        stations.readers = listening.into_values().collect();
        Ok(stations)
    }

    /// Collects what sockets of datagrams have seen.
    fn finish(self, ends: &mut BTreeMap<(u32, bool), EndReport>, notes: &mut Vec<String>) {
        let mut lost = 0;
        for inlet in self.inlets {
            let (reports, dropped) = inlet.finish();
            lost += dropped;
            ends.extend(reports.into_iter().map(|report| ((report.flow, false), report)));
        }
        if lost > 0 {
            notes.push(format!(
                "{lost} datagrams arrived and found their socket's buffer full: they count as lost"
            ));
        }
        for outlet in self.outlets {
            let (mut report, note) = outlet.finish();
            // Of a flow whose echoes come back here, both are one end's.
            if let Some(echoes) = ends.remove(&(report.flow, false)) {
                report = EndReport { sent: report.sent, sent_bytes: report.sent_bytes, ..echoes };
            }
            ends.insert((report.flow, true), report);
            notes.extend(note);
        }
    }
}

fn read<T: DeserializeOwned>(input: &mut impl BufRead) -> io::Result<T> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "it is started by `weir live` and told what to do there",
        ));
    }
    Ok(serde_json::from_str(&line)?)
}

fn write(output: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}
