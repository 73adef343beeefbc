//! Reads the counters of single objects. The workers copy a few objects between two turns of their
//! loop, so packets wait for some microseconds only, however many objects are read.

use std::collections::BTreeMap;

use weir_control::dashboard::{Count, CountTimes, Depth, Object, link_rate, ruled_rate};
use weir_control::plane::NoAnswer as Unanswered;
use weir_core::{Emulator, Nanos};
use weir_linux::live::{ANSWER_WITHIN, LaneReport, LiveReport, NoAnswer};
use weir_measure::histogram::Histogram;
use weir_measure::stats::{LinkCounters, Reasons};
use weir_rules::command::ObjectKind;
use weir_rules::ruleset::Ruleset;

use crate::session::Control;

/// The shape of a session: which kinds of objects it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Each lane is a link with a pipe of its own.
    Links,
    /// Rules lead packets over links with names; a lane is a path.
    Scenario,
    /// Rules with pipes that have numbers.
    Rules,
}

pub(super) fn shape(control: &Control) -> Shape {
    if !control.inner_links().is_empty() {
        Shape::Scenario
    } else if control.current_links().is_empty() {
        Shape::Rules
    } else {
        Shape::Links
    }
}

pub(super) fn read(
    control: &Control,
    wanted: &[Object],
    depth: Depth,
) -> Result<Vec<(Object, Count)>, NoAnswer> {
    let shape = shape(control);
    let rules = control.rules();
    let named = control.numbered_links();
    let mut engine: Vec<(Object, Place)> = Vec::new();
    let mut lanes: Vec<&Object> = Vec::new();
    for object in wanted {
        match object {
            Object::Link(name) => {
                let link = named.iter().find(|(_, link)| link.name == **name);
                let Some((id, link)) = link else { continue };
                engine.push((object.clone(), Place::Link(*id, link_rate(&link.spec))));
                if shape == Shape::Links && depth == Depth::Full {
                    lanes.push(object);
                }
            }
            Object::Path(_) | Object::Lane(_) => lanes.push(object),
            Object::Pipe(id) | Object::Sched(id) if shape == Shape::Rules => {
                let of = |kind| rules.as_ref().and_then(|rules| ruled_rate(rules, kind, *id));
                let rate = of(ObjectKind::Pipe).or_else(|| of(ObjectKind::Sched));
                engine.push((object.clone(), Place::Link(*id, rate)));
            }
            Object::Queue(id) if shape == Shape::Rules => {
                engine.push((object.clone(), Place::Queue(*id)));
            }
            Object::Pipe(_) | Object::Sched(_) | Object::Queue(_) => {}
        }
    }
    if let Some(rules) = rules.as_ref().filter(|_| shape == Shape::Rules) {
        engine.retain(|(object, _)| weir_control::dashboard::has_ruled(rules, object));
    }
    let mut counts = of_engine(control, &engine, depth, shape)?;
    if !lanes.is_empty() {
        let report = control.counters()?;
        for object in lanes {
            add_lane(object, &report, &mut counts);
        }
    }
    Ok(counts.into_iter().collect())
}

/// The number of an object in the engine.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// A pipe or scheduler, with its configured rate.
    Link(u16, Option<u64>),
    Queue(u16),
}

type Counts = BTreeMap<Object, Count>;

/// Reads objects from the engines.
fn of_engine(
    control: &Control,
    wanted: &[(Object, Place)],
    depth: Depth,
    shape: Shape,
) -> Result<Counts, NoAnswer> {
    let mut counts = Counts::new();
    // The times of a link without rules come from its lane.
    let with_times = depth == Depth::Full && shape != Shape::Links;
    // In a session without rules, the recording of the series restarts each link's peak every few
    // milliseconds, so this function does not.
    let restarts_peak = shape != Shape::Links;
    for portion in wanted.chunks(if with_times { WITH_TIMES } else { WITHOUT_TIMES }) {
        let places: Vec<Place> = portion.iter().map(|(_, place)| *place).collect();
        let parts = control.engine().with_engines(move |engine, now| {
            places
                .iter()
                .map(|&place| part(engine, now, place, with_times, restarts_peak))
                .collect::<Vec<_>>()
        })?;
        for worker in parts {
            for ((object, place), part) in portion.iter().zip(worker) {
                let Some(part) = part else { continue };
                let rate_bps = match place {
                    Place::Link(_, rate) => *rate,
                    Place::Queue(_) => None,
                };
                match counts.get_mut(object) {
                    Some(sum) => add(sum, &part),
                    None => drop(counts.insert(object.clone(), Count { rate_bps, ..part })),
                }
            }
        }
    }
    Ok(counts)
}

/// The counters of an object in one engine.
fn part(
    engine: &mut Emulator,
    now: Nanos,
    place: Place,
    with_times: bool,
    restarts_peak: bool,
) -> Option<Count> {
    match place {
        Place::Link(id, _) => {
            let (packets, bytes) = engine.queue_length(id);
            let (peak_packets, peak_bytes) = engine.queue_peak(id);
            if restarts_peak {
                engine.restart_peak(id);
            }
            let stats = engine.stats(id)?;
            Some(Count {
                queue_packets: packets,
                queue_bytes: Some(bytes),
                peak_packets,
                peak_bytes,
                times: with_times.then(|| {
                    Box::new(CountTimes {
                        wait: stats.queue_ns.clone(),
                        total: stats.total_ns.clone(),
                        late: None,
                    })
                }),
                ..counted(now, &stats.counters)
            })
        }
        Place::Queue(id) => {
            let mut sum = Count { at_ns: now.0, queue_bytes: Some(0), ..Count::default() };
            for flow in engine.flows_of(id, None, MOST_FLOWS) {
                let totals = &flow.totals;
                sum.packets_in += totals.packets;
                sum.bytes_in += totals.bytes;
                sum.queue_packets += totals.queued_packets;
                sum.queue_bytes = sum.queue_bytes.map(|bytes| bytes + totals.queued_bytes);
                sum.reasons.merge(&totals.reasons);
            }
            let gone = sum.queue_packets + sum.reasons.total_drops();
            sum.packets_out = sum.packets_in.saturating_sub(gone);
            // The engine does not count the bytes that depart from a queue. They are computed: the
            // bytes that arrived, less those in the queue and those of dropped packets, which are
            // assumed to have the mean length.
            let mean = sum.bytes_in.checked_div(sum.packets_in).unwrap_or(0);
            let dropped = sum.reasons.total_drops() * mean;
            let waiting = sum.queue_bytes.unwrap_or(0);
            sum.bytes_out = sum.bytes_in.saturating_sub(waiting + dropped);
            Some(sum)
        }
    }
}

/// Packet counters as a reading.
fn counted(at: Nanos, counters: &LinkCounters) -> Count {
    Count {
        at_ns: at.0,
        packets_in: counters.packets_in,
        bytes_in: counters.bytes_in,
        packets_out: counters.packets_out,
        bytes_out: counters.bytes_out,
        reasons: *counters.reasons(),
        ..Count::default()
    }
}

/// Adds the counters of the same object on another worker.
fn add(sum: &mut Count, other: &Count) {
    sum.at_ns = sum.at_ns.max(other.at_ns);
    sum.packets_in += other.packets_in;
    sum.bytes_in += other.bytes_in;
    sum.packets_out += other.packets_out;
    sum.bytes_out += other.bytes_out;
    sum.queue_packets += other.queue_packets;
    sum.queue_bytes = sum.queue_bytes.zip(other.queue_bytes).map(|(a, b)| a + b);
    sum.peak_packets += other.peak_packets;
    sum.peak_bytes += other.peak_bytes;
    sum.reasons = merged(sum.reasons, &other.reasons);
    if let (Some(own), Some(more)) = (&mut sum.times, &other.times) {
        own.wait.merge(&more.wait);
        own.total.merge(&more.total);
    }
}

fn merged(mut own: Reasons, other: &Reasons) -> Reasons {
    own.merge(other);
    own
}

/// Adds the counters and times of an object's lane. The queue lengths of a link remain those of its
/// pipe.
fn add_lane(object: &Object, report: &LiveReport, counts: &mut Counts) {
    let name = match object {
        Object::Link(name) | Object::Path(name) | Object::Lane(name) => name,
        Object::Pipe(_) | Object::Sched(_) | Object::Queue(_) => return,
    };
    let Some(lane) = report.lanes.iter().find(|lane| lane.name == **name) else { return };
    let times = Some(Box::new(times_of(lane)));
    let of_lane = counted(report.at, &lane.counters);
    let count = match counts.remove(object) {
        // The lane's backlog would include the packets in the delay line.
        Some(of_pipe) => Count {
            times,
            queue_packets: of_pipe.queue_packets,
            queue_bytes: of_pipe.queue_bytes,
            peak_packets: of_pipe.peak_packets,
            peak_bytes: of_pipe.peak_bytes,
            rate_bps: of_pipe.rate_bps,
            ..of_lane
        },
        None => Count { times, queue_packets: lane.counters.backlog_packets, ..of_lane },
    };
    counts.insert(object.clone(), count);
}

fn times_of(lane: &LaneReport) -> CountTimes {
    let copy = Histogram::clone;
    CountTimes {
        wait: copy(&lane.queue_ns),
        total: copy(&lane.total_ns),
        late: Some(copy(&lane.lateness)),
    }
}

/// The names of a lane and of its two ends.
#[derive(Clone, Debug)]
pub(super) struct LaneName {
    pub(super) name: String,
    pub(super) from: String,
    pub(super) to: String,
}

pub(super) fn lanes(control: &Control) -> Result<Vec<LaneName>, NoAnswer> {
    let report = control.counters()?;
    let ends = control.lane_ends();
    // The ends of a bridge have no names, so the names of its interfaces take their place.
    let or = |end: String, interface: String| if end.is_empty() { interface } else { end };
    let lane = |(lane, [from, to]): (LaneReport, [String; 2])| LaneName {
        name: lane.name,
        from: or(from, lane.from),
        to: or(to, lane.to),
    };
    Ok(report.lanes.into_iter().zip(ends).map(lane).collect())
}

pub(super) fn rule_views(
    control: &Control,
    rules: &Ruleset,
) -> Result<Vec<weir_control::api::RuleView>, NoAnswer> {
    let counts = control.engine().rule_counts()?.into_iter().map(|count| {
        let counters = weir_control::api::RuleCounters {
            packets: count.counters.packets,
            bytes: count.counters.bytes,
            last_match_s: count.counters.last.map(crate::daemon::wall_seconds),
        };
        (count.id, counters)
    });
    Ok(weir_control::dashboard::rule_views(rules, counts))
}

/// The page's error for a loop that does not answer.
pub(super) fn unanswered(error: NoAnswer) -> Unanswered {
    match error {
        NoAnswer::Late => Unanswered::Late { within: ANSWER_WITHIN },
        NoAnswer::Ended => Unanswered::Ended,
    }
}

/// Number of objects for which a worker copies counters and times between two turns of its loop.
const WITH_TIMES: usize = 8;
/// Number of objects for which a worker copies the counters between two turns of its loop.
const WITHOUT_TIMES: usize = 32;
/// Maximum number of flows of a queue that are added up, because packets wait meanwhile.
const MOST_FLOWS: usize = 1024;
