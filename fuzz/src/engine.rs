//! Links with schedules, traces and profiles in the engine: an accepted link handles arrivals at
//! any time with finite work, and accounts for every packet.

use weir_core::key::FlowKey;
use weir_core::packet::Ecn;
use weir_core::{Action, Arrival, Departure, Emulator, Limits, Nanos};
use weir_rules::check_spec;

use super::parts;

/// The bytes are the specifications of a link before and after a change, then the content of the
/// files `f`, `f.csv` and `f.dist`, then operations of two bytes. A zero ends each of the first
/// three parts.
pub fn run(data: &[u8]) {
    let Some(([first, second, content], operations)) = parts::split(data) else { return };
    let files = parts::files(content);
    let Some(spec) = check_spec(first, &files).spec else { return };
    let other = check_spec(second, &files).spec;
    let mut engine = Emulator::new(1, LIMITS);
    let (mut now, mut out) = (Nanos::from_secs(1), Vec::new());
    engine.set_pipe(now, PIPE, &spec.pipe);
    for (number, operation) in (0u32..).zip(operations.chunks_exact(2).take(MOST_OPERATIONS)) {
        let [kind, value] = [operation[0], operation[1]];
        match kind % 8 {
            0..=3 => submit(&mut engine, now, number, kind, value),
            // Steps from 1 ns to about 2 s.
            4 | 5 => {
                now = now.saturating_add(Nanos(1 << (value % 32)));
                poll(&mut engine, now, &mut out);
            }
            6 => {
                if let Some(next) = engine.next_event() {
                    // A schedule may have its next step in years.
                    now = next.clamp(now, now.saturating_add(LONGEST_STEP));
                    poll(&mut engine, now, &mut out);
                }
            }
            _ => {
                let link = if value % 2 == 0 { Some(&spec) } else { other.as_ref() };
                if let Some(link) = link {
                    engine.set_pipe(now, PIPE, &link.pipe);
                }
            }
        }
        let stats = engine.stats(PIPE).expect("the pipe exists");
        assert!(stats.counters.balanced(), "{:?}", stats.counters);
    }
    now = now.saturating_add(LONGEST_STEP);
    poll(&mut engine, now, &mut out);
    if let Some(stats) = engine.delete(now, PIPE) {
        assert!(stats.counters.balanced(), "{:?}", stats.counters);
    }
}

fn submit(engine: &mut Emulator, now: Nanos, frame: u32, kind: u8, value: u8) {
    let arrival = Arrival {
        frame,
        len: 20 + u32::from(kind >> 2) * 24,
        link_header: 14,
        segments: 1,
        ecn: if kind & 1 == 0 { Ecn::NotEct } else { Ecn::Ect0 },
        label: value.into(),
    };
    let key = FlowKey { dst: value.into(), ..FlowKey::default() };
    // The engine counts a refused packet, so the result needs no check.
    let _ = engine.submit(now, arrival, &key, Action::Pipe(PIPE));
}

/// Takes the departures up to `now`. Each is due at or before `now`, and not before the packet's
/// arrival.
fn poll(engine: &mut Emulator, now: Nanos, out: &mut Vec<Departure>) {
    engine.poll(now, out);
    for departure in out.drain(..) {
        assert!(departure.arrived <= departure.due && departure.due <= now, "{departure:?}");
    }
}

const PIPE: u16 = 1;
/// Bounds the memory that an input needs. The engine itself can hold more.
const LIMITS: Limits = Limits { packets: 10_000, instances: 1000, idle: Nanos::from_secs(60) };
/// Bounds the time that an input takes.
const MOST_OPERATIONS: usize = 2000;
/// The longest step of time to the engine's next event.
const LONGEST_STEP: Nanos = Nanos::from_secs(10);
