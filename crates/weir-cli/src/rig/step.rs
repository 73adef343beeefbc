//! `weir rig --aqm LIST --step`: shows the queueing delay under a step of load, as a table and as a
//! plot.

use std::process::ExitCode;

use weir_report::plot::{Axis, Curve, Plot, Shape, Unit};
use weir_rig::Manager;
use weir_rig::step::{END, STREAM, Seen, Sent, step as play};

use super::aqm::managers;
use super::args::RigArgs;
use super::config::check_destinations;
use super::plot::write;
use crate::output::{Failure, USAGE, print, say};
use crate::table::Table;

/// Simulates the step with each algorithm.
pub(super) fn step(args: &RigArgs) -> Result<ExitCode, Failure> {
    let managers = managers(args.aqm.as_deref().unwrap_or_default())?;
    if args.json.is_some() {
        return Err(Failure::new(USAGE, "--step has no JSON; leave --json out"));
    }
    check_destinations(args)?;
    let played: Vec<(Manager, Seen)> =
        managers.into_iter().map(|manager| (manager, play(&manager, args.seed))).collect();
    print(&table(&played))?;
    for path in &args.plot {
        write(path, &picture(&played))?;
        if !args.quiet {
            say(format_args!("plot: {}\n", path.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// For each algorithm, the mean and 99th percentile of the delays before, during and after the
/// unresponsive stream, and the use of the link, drops and marks.
fn table(played: &[(Manager, Seen)]) -> String {
    let mut text =
        "10 Mbit/s, eight responsive senders; from 4 to 8 s an unresponsive stream of 5 Mbit/s. \
         Delays in ms: mean / 99 %\n\n"
            .to_owned();
    let mut table =
        Table::new(["aqm", "1 to 4 s", "5 to 8 s", "9 to 12 s", "link used", "dropped", "marked"]);
    for (manager, seen) in played {
        let mut words = vec![manager.to_string()];
        for (from, to) in [(0, STREAM.0), STREAM, (STREAM.1, END)] {
            let within = |sent: &&Sent| (from + SETTLING..to).contains(&sent.at);
            let mut waited: Vec<u64> =
                seen.sent.iter().filter(within).map(|sent| sent.waited).collect();
            waited.sort_unstable();
            let mean = waited.iter().sum::<u64>() as f64 / waited.len().max(1) as f64;
            let p99 = waited.get(waited.len().saturating_sub(1) * 99 / 100).copied().unwrap_or(0);
            words.push(format!("{:.1} / {:.1}", mean / 1e6, p99 as f64 / 1e6));
        }
        let used = seen.sent.len() as f64 * PACKET_TIME / END as f64;
        let marked = seen.sent.iter().filter(|sent| sent.marked).count();
        words.extend([
            format!("{:.1} %", used * 100.0),
            seen.drops.len().to_string(),
            marked.to_string(),
        ]);
        table.add_row(words);
    }
    text += &table.text();
    text
}

/// The delay over time; for a single algorithm also drops and marks.
fn picture(played: &[(Manager, Seen)]) -> Plot {
    let mut curves = Vec::new();
    let mut most: f64 = 1e6;
    for (nth, (manager, seen)) in played.iter().enumerate() {
        let colour = (nth % 7) as u8;
        if let (1, Manager::Scheduler(_)) = (played.len(), manager) {
            let (responsive, stream) =
                (means(seen, |sent| !sent.stream), means(seen, |sent| sent.stream));
            // The delay in the stream's own queue does not determine the range of the plot, because
            // it may be much longer.
            most = responsive.iter().fold(most, |most, point| most.max(point[1]));
            let longest = stream.iter().fold(0.0f64, |longest, point| longest.max(point[1])) / 1e6;
            let name = format!("unresponsive stream, up to {longest:.0} ms");
            curves.push(Curve::new(
                "queue delay, responsive senders",
                colour,
                Shape::Line(responsive),
            ));
            curves.push(Curve::new(&name, 2, Shape::Line(stream)));
        } else {
            let points = means(seen, |_| true);
            most = points.iter().fold(most, |most, point| most.max(point[1]));
            let name =
                if played.len() == 1 { "queue delay".to_owned() } else { manager.to_string() };
            curves.push(Curve::new(&name, colour, Shape::Line(points)));
        }
    }
    let named = match played {
        [(manager, seen)] => {
            let marks: Vec<u64> =
                seen.sent.iter().filter(|sent| sent.marked).map(|sent| sent.at).collect();
            for (name, colour, times, place) in
                [("drops", 1, &seen.drops, 1.13), ("marks", 3, &marks, 1.04)]
            {
                // The ticks are above the curves, at the height `place * most`.
                if !times.is_empty() {
                    curves.push(Curve::new(
                        name,
                        colour,
                        Shape::Bars(ticks(times, place * most, (place + 0.06) * most)),
                    ));
                }
            }
            manager.to_string()
        }
        _ => "AQMs".to_owned(),
    };
    let moments =
        [STREAM.0, STREAM.1].map(|time| Curve::new("", 6, Shape::Mark(time as f64 / 1e9)));
    curves.extend(moments);
    Plot {
        title: format!("{named}: delay of the queue under a step of load"),
        description: format!(
            "Delay of the queue over time with {named}; from 4 to 8 s a stream that answers \
             nothing takes half of the link"
        ),
        x: Axis::linear("time", Unit::Seconds).with_range(0.0, END as f64 / 1e9),
        y: Axis::linear("queue delay", Unit::Nanoseconds).with_range(0.0, most * 1.2),
        curves,
    }
}

/// The mean delay of the packets that `which` selects, for each time span in which any of them
/// departed.
fn means(seen: &Seen, which: impl Fn(&Sent) -> bool) -> Vec<[f64; 2]> {
    let mut points: Vec<[f64; 2]> = Vec::new();
    for span in seen.sent.chunk_by(|one, other| one.at / SPAN == other.at / SPAN) {
        let waited: Vec<u64> =
            span.iter().filter(|sent| which(sent)).map(|sent| sent.waited).collect();
        if !waited.is_empty() {
            let middle = (span[0].at / SPAN * SPAN + SPAN / 2) as f64 / 1e9;
            points.push([middle, waited.iter().sum::<u64>() as f64 / waited.len() as f64]);
        }
    }
    points
}

/// A tick, from `low` to `high`, for each time span that has one of `times`; adjacent spans are
/// merged.
fn ticks(times: &[u64], low: f64, high: f64) -> Vec<[f64; 4]> {
    let mut bars: Vec<(u64, u64)> = Vec::new();
    for span in times.iter().map(|time| time / TICK) {
        match bars.last_mut() {
            Some((_, end)) if span < *end => {}
            Some((_, end)) if span == *end => *end = span + 1,
            _ => bars.push((span, span + 1)),
        }
    }
    let seconds = |span: u64| (span * TICK) as f64 / 1e9;
    bars.into_iter().map(|(begin, end)| [seconds(begin), seconds(end), low, high]).collect()
}

/// Time after the start and after each change of the load, in ns, that the table leaves out.
const SETTLING: u64 = 1_000_000_000;
/// Time span of one point of a curve, in ns.
const SPAN: u64 = 25_000_000;
/// Time span of one tick, in ns.
const TICK: u64 = 10_000_000;
/// Transmission time of a packet in ns.
const PACKET_TIME: f64 = 1_200_000.0;
