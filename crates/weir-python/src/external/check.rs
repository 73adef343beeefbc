//! Applies operations to an algorithm in Python and finds broken promises. The promises of a
//! scheduler are the properties for which tests check every scheduler in the table.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pyo3::prelude::*;
use weir_core::Nanos;
use weir_core::aqm::{Aqm, QueueState, Seen, Setup};
use weir_core::packet::{Ecn, Header, LabelThenStart, Packet, PacketId, Pool};
use weir_core::rng::{Purpose, Stream};
use weir_core::sched::{External, FlowSlot, FlowSpec};
use weir_sim::tcp::cc;

use super::aqm::PythonAqm;
use super::control::PythonControl;
use super::run::Run;
use super::scheduler::PythonScheduler;

/// An operation: a word and up to three numbers.
type Operation = (String, u64, u64, u64);
/// A finding: its kind, the number of the operation, and a message. Without a finding the kind is
/// empty and the message identifies the results.
type Found = (String, usize, String);

/// Applies operations to an algorithm. `kind` is `Scheduler`, `Aqm` or `CongestionControl`.
#[pyfunction]
pub(crate) fn play(
    py: Python<'_>,
    kind: &str,
    class: &Bound<'_, PyAny>,
    operations: Vec<Operation>,
) -> PyResult<Found> {
    let run = Arc::new(Run::default());
    let found = run.during(|| match kind {
        "Scheduler" => {
            let classifies = class.getattr("classifies").and_then(|value| value.is_truthy());
            let scheduler = PythonScheduler::new(py, class, SEED)?;
            Ok::<_, PyErr>(schedule(scheduler, classifies.unwrap_or(false), &run, &operations))
        }
        "Aqm" => {
            let stream = Stream::new(SEED, 0, Purpose::Aqm);
            let setup =
                Setup { rate: 10_000_000, limit_packets: LIMIT, limit_bytes: u64::MAX, stream };
            Ok(manage(PythonAqm::new(py, class, &setup)?, &run, &operations))
        }
        _ => {
            let stream = Stream::new(SEED, 0, Purpose::Generator);
            let setup = cc::Setup { mss: MSS, initial_window: u64::from(MSS) * 10, stream };
            Ok(control(PythonControl::new(py, class, &setup)?, &run, &operations))
        }
    });
    let (kind, number, message) = found?;
    match run.take() {
        Some(error) => Err(error),
        None => Ok((kind.to_owned(), number, message)),
    }
}

/// As [`Found`], before the conversion to Python's types.
type Outcome = (&'static str, usize, String);

fn schedule(
    mut scheduler: PythonScheduler,
    classifies: bool,
    run: &Run,
    operations: &[Operation],
) -> Outcome {
    let mut pool = Pool::new(1 << 20);
    // Each flow with its settings, its slot, and the frame numbers of its waiting packets.
    let mut inside: BTreeMap<u32, (FlowSpec, FlowSlot, VecDeque<u32>)> = BTreeMap::new();
    let (mut now, mut frames, mut flows) = (Nanos::ZERO, 0u32, 0u32);
    let mut served = Vec::new();
    let hash = |flow: u32| flow.wrapping_add(1).wrapping_mul(0x9e37_79b1);
    let end = ("take".to_owned(), 0, 0, 0);
    let count = operations.len();
    let mut drain = 0;
    let mut number = 0;
    loop {
        let (word, a, b, c) = match operations.get(number) {
            Some(operation) => operation,
            None if inside.values().any(|(.., frames)| !frames.is_empty()) && drain < 1 << 20 => {
                drain += 1;
                &end
            }
            None => break,
        };
        let at = number.min(count);
        number += 1;
        let (a, b, c) = (*a, *b as u32, *c as u32);
        let keys: Vec<u32> = inside.keys().copied().collect();
        let chosen = (!keys.is_empty()).then(|| keys[(a % keys.len() as u64) as usize]);
        match (word.as_str(), chosen) {
            ("add", _) => {
                let spec = FlowSpec {
                    flow: flows,
                    weight: (a as u32).clamp(1, 65_536),
                    max_packet: b.clamp(64, 65_536),
                    priority: c.min(63),
                    ..FlowSpec::default()
                };
                let slot = scheduler.add_flow(now, &spec);
                inside.insert(flows, (spec, slot, VecDeque::new()));
                flows += 1;
            }
            ("send", Some(flow)) => {
                let packet = Packet {
                    frame: frames,
                    len: b.clamp(1, 65_536),
                    flow,
                    segments: 1,
                    arrived: now,
                    label_then_start: LabelThenStart::waiting(c.into()),
                    ..Packet::default()
                };
                let Ok(id) = pool.insert(packet) else { continue };
                let header = Header { ecn: Ecn::Ect0, dscp: 0, hash: hash(flow) };
                pool.set_header(id, header);
                if let Some((_, slot, queue)) = inside.get_mut(&flow) {
                    queue.push_back(frames);
                    let slot = *slot;
                    frames += 1;
                    let refused = scheduler.enqueue(now, &mut pool, slot, id);
                    debug_assert!(refused.is_none(), "packets are dropped by their method");
                }
            }
            ("take", _) => {
                let waiting: usize = inside.values().map(|(.., frames)| frames.len()).sum();
                let taken = scheduler.dequeue(now, &mut pool);
                if run.failed() {
                    return ("", at, String::new());
                }
                let dropped = drops(&mut scheduler, &mut pool, &mut inside);
                match taken {
                    Some(id) => {
                        let packet = pool.remove(id);
                        served.push((packet.flow, packet.frame));
                        let queue = inside.get_mut(&packet.flow).map(|(.., queue)| queue);
                        let Some(queue) = queue else { continue };
                        if queue.front() != Some(&packet.frame) {
                            let oldest = queue.front().copied().unwrap_or_default();
                            let frame = packet.frame;
                            let flow = packet.flow;
                            let by =
                                if classifies { "the packets with one hash" } else { "a flow" };
                            let what = format!(
                                "packet {frame} of flow {flow} left before packet {oldest} of the \
                                 same flow: the packets of {by} stay in order"
                            );
                            return ("reordered", at, what);
                        }
                        queue.pop_front();
                    }
                    None if waiting > dropped => match scheduler.next_event() {
                        Some(next) => now = next,
                        None => {
                            let left = waiting - dropped;
                            let what = format!(
                                "dequeue returned None while {left} packets wait, and next_event \
                                 returned None: they are lost"
                            );
                            return ("lost", at, what);
                        }
                    },
                    None => {}
                }
            }
            ("wait", _) => now = now.saturating_add(Nanos(a)),
            ("change", Some(flow)) => {
                if let Some((spec, slot, _)) = inside.get_mut(&flow) {
                    spec.weight = b.clamp(1, 65_536);
                    spec.priority = c.min(63);
                    let (spec, slot) = (*spec, *slot);
                    scheduler.change_flow(now, &mut pool, slot, &spec);
                }
            }
            ("remove", Some(flow)) => {
                let Some((_, slot, _)) = inside.get(&flow) else { continue };
                let mut list = scheduler.remove_flow(now, &mut pool, *slot, flow);
                while let Some(id) = list.pop_front(&pool) {
                    pool.remove(id);
                }
                inside.remove(&flow);
            }
            _ => {}
        }
        if run.failed() {
            return ("", at, String::new());
        }
        drops(&mut scheduler, &mut pool, &mut inside);
    }
    ("", count, format!("{served:?}"))
}

/// Removes the packets that the scheduler has dropped. Returns their number.
fn drops(
    scheduler: &mut PythonScheduler,
    pool: &mut Pool,
    inside: &mut BTreeMap<u32, (FlowSpec, FlowSlot, VecDeque<u32>)>,
) -> usize {
    let mut dropped: Vec<PacketId> = Vec::new();
    while let Some((id, _)) = scheduler.pop_refused(pool) {
        dropped.push(id);
    }
    for &id in &dropped {
        let packet = pool.remove(id);
        if let Some((.., queue)) = inside.get_mut(&packet.flow) {
            queue.retain(|&frame| frame != packet.frame);
        }
    }
    dropped.len()
}

fn manage(mut aqm: PythonAqm, run: &Run, operations: &[Operation]) -> Outcome {
    let mut queue: VecDeque<Seen> = VecDeque::new();
    let mut now = Nanos::ZERO;
    let mut verdicts = Vec::new();
    for (at, (word, a, b, c)) in operations.iter().enumerate() {
        now = now.saturating_add(Nanos(*a));
        let packets = queue.len() as u32;
        let bytes = queue.iter().map(|packet| u64::from(packet.len)).sum();
        let state = QueueState { packets, bytes, full: packets >= LIMIT };
        match word.as_str() {
            "arrive" => {
                let ecn = if *c == 0 { Ecn::NotEct } else { Ecn::Ect0 };
                let header = Header { ecn, dscp: 0, hash: *c as u32 };
                let len = (*b as u32).clamp(1, 65_536);
                let packet = Seen { len, arrived: now, header };
                let verdict = aqm.arrive(now, &packet, &state);
                verdicts.push(verdict);
                if !state.full && !matches!(verdict, weir_core::aqm::Verdict::Drop(_)) {
                    queue.push_back(packet);
                }
            }
            _ => {
                let Some(packet) = queue.pop_front() else { continue };
                let state = QueueState {
                    packets: packets - 1,
                    bytes: state.bytes - u64::from(packet.len),
                    full: false,
                };
                verdicts.push(aqm.leave(now, &packet, &state));
            }
        }
        if run.failed() {
            return ("", at, String::new());
        }
    }
    ("", operations.len(), format!("{verdicts:?}"))
}

fn control(mut control: PythonControl, run: &Run, operations: &[Operation]) -> Outcome {
    use cc::{Control as _, Path, Sample, Signal};
    let mut path = Path {
        mss: MSS,
        srtt: Nanos::from_millis(50),
        min_rtt: Nanos::from_millis(50),
        ..Path::default()
    };
    let mut windows = Vec::new();
    for (at, (word, a, b, c)) in operations.iter().enumerate() {
        path.now = path.now.saturating_add(Nanos(*a));
        path.in_flight = control.window();
        match word.as_str() {
            "ack" => {
                let acked = (*b).clamp(1, 1 << 20);
                path.delivered += acked;
                path.una += acked;
                path.next = path.una + path.in_flight;
                let rtt = Nanos((*c).clamp(1, 60_000_000_000));
                (path.srtt, path.min_rtt) = (rtt, path.min_rtt.min(rtt));
                let sample = Sample {
                    acked,
                    rtt: Some(rtt),
                    prior_in_flight: path.in_flight,
                    interval: rtt,
                    interval_delivered: acked,
                    window_limited: true,
                    ..Sample::default()
                };
                control.acked(&path, &sample);
            }
            "loss" => control.reduce(&path, Signal::Loss),
            "undo" => control.undo(&path),
            _ => control.timeout(&path, true),
        }
        if run.failed() {
            return ("", at, String::new());
        }
        windows.push((control.window(), control.pacing_rate()));
    }
    ("", operations.len(), format!("{windows:?}"))
}

const SEED: u64 = 1;
/// Limit of the queue in front of an AQM, in packets.
const LIMIT: u32 = 100;
/// Payload of a full segment.
const MSS: u32 = 1448;
