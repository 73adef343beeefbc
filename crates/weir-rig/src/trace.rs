//! Traces: arrivals in a text file, for exact replay.
//!
//! ```text
//! weir trace 1
//! flows 500:w1,250:w2,250:w4
//! # anything behind a hash is for people
//! 0 17 1500
//! 3000 999 64
//! ```
//! Each line is an arrival: time, flow, bytes. The time is in bytes of the link: a packet with time
//! t arrives when a link that is never idle would have sent t bytes since the start. A trace
//! therefore fits every rate: at R bit/s, a time of t bytes is 8 t / R seconds. Times do not
//! decrease; arrivals of equal time are in the order of their lines.

use std::fmt;

use weir_core::sched::MAX_PACKET;

use crate::flows::{FlowSet, FlowSetError};

/// One arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The arrival time, in bytes of the link.
    pub time: u64,
    /// The flow's number in the set.
    pub flow: u32,
    /// The packet's length in bytes.
    pub len: u32,
}

/// Flows and their arrivals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    flows: FlowSet,
    arrivals: Vec<Arrival>,
    /// Comment lines, without the hash. A written file has them before the arrivals.
    pub notes: Vec<String>,
}

impl Trace {
    /// A trace of these arrivals.
    ///
    /// # Errors
    /// [`Wrong`] and the index of the first invalid arrival: its flow is not in the set, its length
    /// is 0 or exceeds the flow's `lmax`, or its time is too late or is earlier than that of the
    /// previous arrival.
    pub fn new(flows: FlowSet, arrivals: Vec<Arrival>) -> Result<Self, (usize, Wrong)> {
        let lmax: Vec<u32> = flows.flows().map(|flow| flow.lmax).collect();
        let mut before = 0;
        for (index, arrival) in arrivals.iter().enumerate() {
            check(arrival, before, &lmax).map_err(|wrong| (index, wrong))?;
            before = arrival.time;
        }
        Ok(Self { flows, arrivals, notes: Vec::new() })
    }

    /// Reads a trace.
    ///
    /// # Errors
    /// [`TraceError`] with the number of the first invalid line.
    pub fn read(text: &str) -> Result<Self, TraceError> {
        let mut lines = (1..).zip(text.lines()).map(|(number, line)| (number, line.trim()));
        let error = |line, wrong| TraceError { line, wrong };
        match lines.next() {
            Some((_, MAGIC)) => {}
            _ => return Err(error(1, Wrong::Magic)),
        }
        let (mut notes, mut flows) = (Vec::new(), None);
        for (number, line) in lines.by_ref() {
            if let Some(set) = line.strip_prefix("flows ") {
                flows = Some(
                    set.trim().parse::<FlowSet>().map_err(|e| error(number, Wrong::Flows(e)))?,
                );
                break;
            } else if let Some(note) = line.strip_prefix('#') {
                notes.push(note.trim().to_owned());
            } else if !line.is_empty() {
                return Err(error(number, Wrong::NoFlows));
            }
        }
        let flows = flows.ok_or_else(|| error(text.lines().count(), Wrong::NoFlows))?;
        let lmax: Vec<u32> = flows.flows().map(|flow| flow.lmax).collect();
        let (mut arrivals, mut before) = (Vec::new(), 0);
        for (number, line) in lines {
            if let Some(note) = line.strip_prefix('#') {
                notes.push(note.trim().to_owned());
            } else if !line.is_empty() {
                let arrival = arrival(line).ok_or_else(|| error(number, Wrong::Line))?;
                check(&arrival, before, &lmax).map_err(|wrong| error(number, wrong))?;
                before = arrival.time;
                arrivals.push(arrival);
            }
        }
        Ok(Self { flows, arrivals, notes })
    }

    /// The flows.
    pub fn flows(&self) -> &FlowSet {
        &self.flows
    }

    /// The arrivals, ordered by time.
    pub fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }
}

/// The text of the file.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{MAGIC}\nflows {}", self.flows)?;
        // Unlike `lines`, `split` gives a line for an empty note.
        for line in self.notes.iter().flat_map(|note| note.split('\n')) {
            writeln!(f, "# {line}")?;
        }
        for Arrival { time, flow, len } in &self.arrivals {
            writeln!(f, "{time} {flow} {len}")?;
        }
        Ok(())
    }
}

/// The reason why a text is not a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {wrong}")]
pub struct TraceError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The fault in that line.
    pub wrong: Wrong,
}

/// A fault in a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// The text is not a trace, or has another version.
    #[error("a trace begins with the line `{MAGIC}`")]
    Magic,
    /// There is no line with the flows before the first arrival.
    #[error("the flows stand before the arrivals; for example `flows 500:w1,250:w2,250:w4`")]
    NoFlows,
    /// The flow set is wrong.
    #[error("{0}")]
    Flows(FlowSetError),
    /// The line is not an arrival, or its time is too late.
    #[error(
        "an arrival is a time in bytes of the link, a flow and a length; for example `3000 17 1500`"
    )]
    Line,
    /// The set does not have this flow.
    #[error("there is no flow {0}: they are numbered 0..{1}")]
    Flow(u32, u32),
    /// The flow cannot have a packet of this length.
    #[error("a length of {0} bytes: allowed is 1..{1}, the flow's largest packet")]
    Length(u32, u32),
    /// The time is earlier than that of the previous arrival.
    #[error("time {0} comes after time {1}: arrivals must be in the order of their times")]
    Time(u64, u64),
}

fn arrival(line: &str) -> Option<Arrival> {
    let mut words = line.split_ascii_whitespace();
    let arrival = Arrival {
        time: words.next()?.parse().ok()?,
        flow: words.next()?.parse().ok()?,
        len: words.next()?.parse().ok()?,
    };
    words.next().is_none().then_some(arrival)
}

fn check(arrival: &Arrival, before: u64, lmax: &[u32]) -> Result<(), Wrong> {
    let &Arrival { time, flow, len } = arrival;
    let Some(&most) = lmax.get(flow as usize) else {
        return Err(Wrong::Flow(flow, lmax.len().saturating_sub(1) as u32));
    };
    if !(1..=most.min(MAX_PACKET)).contains(&len) {
        return Err(Wrong::Length(len, most));
    }
    if time > LAST_TIME {
        return Err(Wrong::Line);
    }
    if time < before { Err(Wrong::Time(time, before)) } else { Ok(()) }
}

/// The first line of every trace.
const MAGIC: &str = "weir trace 1";
/// The latest allowed time; sums with it do not overflow.
const LAST_TIME: u64 = 1 << 62;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_wrong_line_is_named_with_what_is_allowed() {
        let read = |rest: &str| Trace::read(&format!("{MAGIC}\n{rest}")).unwrap_err().to_string();
        assert!(Trace::read("").unwrap_err().to_string().contains("line 1: a trace begins with"));
        assert!(read("").contains("flows stand before"));
        assert!(read("0 0 64").contains("line 2: the flows stand before"));
        assert!(read("flows 3:w0").contains("line 2: `w0`"));
        assert!(
            read("flows 3:w1\n\n0 3 64")
                .contains("line 4: there is no flow 3: they are numbered 0..2")
        );
        assert!(
            read("flows 3:w1\n0 0 1501")
                .contains("line 3: a length of 1501 bytes: allowed is 1..1500")
        );
        assert!(read("flows 3:w1\n9 0 64\n8 0 64").contains("line 4: time 8 comes after time 9"));
        for line in [
            "0 0",
            "0 0 64 1",
            "-1 0 64",
            "x 0 64",
            "99999999999999999999 0 64",
            "5000000000000000000 0 64",
        ] {
            assert!(
                read(&format!("flows 3:w1\n{line}")).contains("line 3: an arrival is"),
                "{line}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            arrivals in proptest::collection::vec((0u64..5000, 0u32..750, 1u32..1501), 0..50),
        ) {
            let mut time = 0;
            let arrivals = arrivals.into_iter().map(|(later, flow, len)| {
                time += later;
                Arrival { time, flow, len }
            });
            let mut trace =
                Trace::new("500:w1,250:w4:imix".parse().unwrap(), arrivals.collect()).unwrap();
            trace.notes = vec!["found by a search".into(), String::new()];
            prop_assert_eq!(Trace::read(&trace.to_string()), Ok(trace));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(weir trace 1\nflows [0-9:w,]{0,6}\n)?[0-9 \
                                                #\n]{0,60}") {
            let _ = Trace::read(&text);
        }
    }
}
