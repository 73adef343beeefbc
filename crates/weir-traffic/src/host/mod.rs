//! The generator on one host of a live scenario: a process that sends and receives all traffic of
//! the host.
//!
//! The runner of the scenario starts one process on each host and exchanges lines of JSON with it
//! ([`order`]).

mod arrivals;
pub mod kinds;
pub mod order;
mod sockets;
mod sources;
mod transfer;

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::thread;

use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_sim::disk::Beside;

use crate::clock::Pacer;
use crate::send::Sending;
use crate::span::Span;
use crate::{Context, TrafficError};
use order::{EndReport, Order, Ready, Report, Role, Start, Task};
use sockets::Sockets;
use sources::Sources;

/// Reads an order from `input`, opens its sockets, tells `output` that they are open, reads the
/// time to start, runs the traffic, and writes the report to `output`.
///
/// # Errors
/// The order or its scenario cannot be read, an address cannot be bound, or `output` is closed.
pub fn run(input: &mut impl BufRead, output: &mut impl Write) -> Result<(), TrafficError> {
    let order: Order = read(input)?;
    let mut sockets = Sockets::open(&order)?;
    let sources = sources(&order, sockets.places())?;
    write(output, &Ready {})?;
    let Start { at_ns } = read(input)?;
    let Order { duration_ns: duration, warmup_ns: warmup, interval_ns: interval, .. } = order;
    let span = Span { start: at_ns, warmup, duration, interval };
    // The reports, by the number of the flow and whether the report is of the sending end.
    let mut ends: BTreeMap<(u32, bool), EndReport> = BTreeMap::new();
    let mut notes = Vec::new();
    thread::scope(|scope| {
        let Sockets { outlets, inlets, readers, writers, .. } = &mut sockets;
        let transfers: Vec<_> = writers
            .iter()
            .map(|(task, transfer)| scope.spawn(|| (true, transfer::send(task, transfer, &span))))
            .chain(readers.iter().map(|(listener, tasks)| {
                scope.spawn(|| (false, transfer::receive_all(listener, tasks, &span)))
            }))
            .collect();
        let receiver = scope.spawn(|| inlets.receive(&span));
        if !outlets.is_empty() {
            let (pacer, realtime) = (Pacer::SHARED, order.realtime);
            Sending { span, pacer, train: 1, realtime, fails_fast: false }.run(outlets, sources);
        }
        for transfer in transfers {
            match transfer.join() {
                Ok((sends, Ok(reports))) => {
                    ends.extend(reports.into_iter().map(|report| ((report.flow, sends), report)));
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
    });
    sockets.finish(&mut ends, &mut notes);
    let report_of = |task: &Task| {
        let sends = matches!(task.role, Role::Send { .. } | Role::Write(_));
        ends.remove(&(task.flow, sends))
            .unwrap_or_else(|| EndReport { flow: task.flow, ..EndReport::default() })
    };
    let ends = order.tasks.iter().map(report_of).collect();
    write(output, &Report { ends, notes })
}

/// The scenario's sources on this host. `places` gives the index of each flow's outlet.
fn sources(order: &Order, places: BTreeMap<u32, usize>) -> Result<Sources, TrafficError> {
    let files = Beside(Path::new(&order.file).parent().unwrap_or(Path::new("")));
    let scenario = weir_sim::scenario::parse(&order.scenario, &order.file, &files).scenario;
    let scenario = scenario.ok_or_else(|| {
        TrafficError::Scenario("cannot read the scenario in the order".to_owned())
    })?;
    Sources::new(&scenario, order.seed, order.host, places).map_err(TrafficError::Scenario)
}

fn read<T: DeserializeOwned>(input: &mut impl BufRead) -> Result<T, TrafficError> {
    let mut line = String::new();
    if input.read_line(&mut line).context("read the order")? == 0 {
        let source = io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the input is empty; `weir live` starts this process and sends the order",
        );
        return Err(TrafficError::System { what: "read the order", source });
    }
    Ok(serde_json::from_str(&line)?)
}

fn write(output: &mut impl Write, message: &impl Serialize) -> Result<(), TrafficError> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    output.write_all(&line).and_then(|()| output.flush()).context("write the report")
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddrV4, UdpSocket};

    use super::*;
    use crate::clock::now;

    const SCENARIO: &str = r#"
        duration = "300ms"
        node = [{ name = "a" }, { name = "b" }]
        link = [{ between = ["a", "b"], spec = "bw 1Gbit/s" }]
        traffic = [
            { name = "p", kind = "ping", from = "a", to = "b", interval = "10ms" },
            { name = "c", kind = "cbr", from = "a", to = "b", interval = "10ms", size = "40B" },
        ]
    "#;

    fn free_address() -> SocketAddrV4 {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        match socket.local_addr().unwrap() {
            std::net::SocketAddr::V4(address) => address,
            other => panic!("{other} is not IPv4"),
        }
    }

    /// Runs the generator of one host with these tasks; the traffic starts at `at_ns`.
    fn host(host: usize, tasks: Vec<Task>, at_ns: u64) -> Report {
        let order = Order {
            host,
            scenario: SCENARIO.to_owned(),
            file: "test.toml".to_owned(),
            seed: 1,
            duration_ns: 300_000_000,
            warmup_ns: 0,
            interval_ns: 100_000_000,
            realtime: false,
            tasks,
        };
        let (mut input, mut output) = (Vec::new(), Vec::new());
        write(&mut input, &order).unwrap();
        write(&mut input, &Start { at_ns }).unwrap();
        run(&mut input.as_slice(), &mut output).unwrap();
        let lines = String::from_utf8(output).unwrap();
        let report: Report = serde_json::from_str(lines.lines().nth(1).unwrap()).unwrap();
        assert!(report.notes.is_empty(), "{:?}", report.notes);
        report
    }

    #[test]
    fn one_host_sends_the_packets_of_its_sources_and_another_counts_them() {
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for (flow, echo) in [(0, true), (1, false)] {
            let (from, to) = (free_address(), free_address());
            sends.push(Task { flow, from, to, role: Role::Send { tos: 0, echo } });
            receives.push(Task { flow, from, to, role: Role::Receive { echo } });
        }
        let at = now() + 500_000_000;
        let receiver = thread::spawn(move || host(1, receives, at));
        let sent = host(0, sends, at);
        let received = receiver.join().unwrap();
        let ([ping_sender, cbr_sender], [ping_receiver, cbr_receiver]) =
            (sent.ends.as_slice(), received.ends.as_slice())
        else {
            panic!("each host reports two ends: {sent:?} {received:?}")
        };
        let ping_arrivals = ping_receiver.received + ping_receiver.late;
        assert_eq!((ping_sender.sent, ping_arrivals, ping_sender.delay_ns.count), (30, 30, 30));
        let cbr_arrivals = cbr_receiver.received + cbr_receiver.late;
        assert_eq!((cbr_sender.sent, cbr_sender.sent_bytes, cbr_arrivals), (30, 1200, 30));
        assert_eq!((cbr_receiver.duplicated, cbr_receiver.marked), (0, 0));
    }
}
