//! The method `tc`: starts the program of that name for each device and reading. Scripts read
//! queues in this manner, and publications compare their results with such readings. The method has
//! no other advantage.

use std::io;
use std::process::{Command, Output};

use serde::Deserialize;

use crate::catalogue::{Identity, Numbers};
use crate::error::ProbeError;
use crate::group::Group;
use crate::pacer::{NAP, Pacer, monotonic, sleep_until};
use crate::source::{Plan, Source};
use weir_measure::watch::{Counters, Handle, Method, Pace, Run, Sink};

/// Duration of one turn, in ns: enough to run the program once or twice.
const TURN: u64 = 4_000_000;
/// The program's name, which the caller's `PATH` completes, and its usual paths.
const PLACES: [&str; 3] = ["tc", "/usr/sbin/tc", "/sbin/tc"];

/// One discipline in the output of `tc -s -j qdisc show`.
#[derive(Debug, Deserialize)]
struct Shown {
    kind: String,
    handle: String,
    #[serde(default)]
    parent: Option<String>,
    #[serde(default)]
    root: bool,
    #[serde(default)]
    bytes: u64,
    #[serde(default)]
    packets: u64,
    #[serde(default)]
    drops: u64,
    #[serde(default)]
    overlimits: u64,
    #[serde(default)]
    requeues: u64,
    #[serde(default)]
    backlog: u32,
    #[serde(default)]
    qlen: u32,
}

pub(crate) struct TcSource {
    /// The command `tc`, as a name or a path.
    program: &'static str,
    pacer: Pacer,
    children: bool,
    /// Whether bands were requested and no remark has yet said that `tc` does not show them.
    bands: bool,
    groups: Vec<Group>,
    numbers: Numbers,
    /// Whether this thread has entered the namespace of a group.
    entered: bool,
    /// The runs being delivered. A field only to reuse the memory.
    runs: Vec<Run>,
}

impl TcSource {
    /// Finds the program.
    ///
    /// # Errors
    /// [`ProbeError::Unavailable`] if the program is missing; another error if a target does not
    /// exist.
    pub(crate) fn open(plan: &Plan) -> Result<TcSource, ProbeError> {
        let is_there = |program: &&str| {
            Command::new(program).arg("-V").output().is_ok_and(|output| output.status.success())
        };
        let Some(program) = PLACES.into_iter().find(is_there) else {
            let words = "the method tc needs the program of that name: install iproute2, or use \
                         `--method netlink`";
            return Err(ProbeError::Unavailable(words.into()));
        };
        Ok(TcSource {
            program,
            pacer: Pacer::new(plan.rate, plan.interval()),
            children: plan.children,
            bands: plan.bands,
            groups: Group::of(&plan.targets)?,
            numbers: Numbers::default(),
            entered: false,
            runs: Vec::new(),
        })
    }

    fn read(&mut self, time: u64, sink: &mut dyn Sink) -> Result<(), ProbeError> {
        for at in 0..self.groups.len() {
            // The program starts in the namespace of the calling thread. With a single group, this
            // thread enters the namespace once, or not at all if it is the thread's own.
            let is_alone = self.groups.len() == 1;
            if !(is_alone && (self.entered || self.groups[at].is_own())) {
                self.groups[at].enter()?;
                self.entered = true;
            }
            let mut shown = Vec::new();
            for (&ifindex, name) in &self.groups[at].devices {
                shown.extend(self.ask(name)?.into_iter().map(|shown| (ifindex, shown)));
            }
            if !self.children {
                shown.retain(|(_, shown)| shown.root);
            }
            self.take(at, time, &shown, sink);
        }
        Ok(())
    }

    /// Runs the program for one device and parses its output, which is empty for a vanished device.
    fn ask(&self, device: &str) -> Result<Vec<Shown>, ProbeError> {
        let refused = |source| ProbeError::System {
            what: format!("run {} -s -j qdisc show dev {device}", self.program),
            source,
        };
        let mut command = Command::new(self.program);
        command.args(["-s", "-j", "qdisc", "show", "dev", device]);
        if self.children {
            command.arg("invisible");
        }
        let Output { status, stdout, stderr } = command.output().map_err(refused)?;
        if !status.success() {
            let words = String::from_utf8_lossy(&stderr);
            let is_gone = words.contains("Cannot find device");
            return if is_gone {
                Ok(Vec::new())
            } else {
                Err(refused(io::Error::other(words.trim().to_owned())))
            };
        }
        parse(&stdout).map_err(|error| refused(io::Error::other(error)))
    }

    /// Reports the reading of group `at` to the sink.
    fn take(&mut self, at: usize, time: u64, shown: &[(u32, Shown)], sink: &mut dyn Sink) {
        let group = &mut self.groups[at];
        let seen = shown.iter().map(|(ifindex, shown)| Identity {
            ifindex: *ifindex,
            handle: handle(&shown.handle),
            parent: if shown.root {
                Handle::ROOT.0
            } else {
                shown.parent.as_deref().map_or(0, handle)
            },
            kind: shown.kind.clone(),
            band: None,
            root: shown.root,
            address: 0,
        });
        let netns = group.netns();
        group.catalogue.observe(
            time,
            seen.collect(),
            &mut self.numbers,
            (netns.as_deref(), &group.devices),
            sink,
        );
        if shown.iter().any(|(_, shown)| shown.kind == "pfifo_fast")
            && std::mem::take(&mut self.bands)
        {
            sink.remark(
                time,
                "the bands of a pfifo_fast cannot be seen with tc, only all three together",
            );
        }
        self.runs.clear();
        for (place, (_, shown)) in shown.iter().enumerate() {
            let Some(queue) = group.catalogue.id(place) else { continue };
            let Shown { qlen, backlog, packets, bytes, drops, requeues, overlimits, .. } = *shown;
            self.runs.push(Run { queue, first: time, last: time, count: 1, qlen, backlog });
            sink.counters(time, queue, &Counters { packets, bytes, drops, requeues, overlimits });
        }
        sink.runs(&self.runs);
    }
}

impl Source for TcSource {
    fn method(&self) -> Method {
        Method::Tc
    }

    fn turn(&mut self, sink: &mut dyn Sink) -> Result<(), ProbeError> {
        let began = monotonic();
        for group in &mut self.groups {
            group.follow(began, sink)?;
        }
        if self.groups.iter().all(|group| group.devices.is_empty()) {
            sleep_until(began + NAP);
        }
        while let Some(time) = self.pacer.wait() {
            self.read(time, sink)?;
            self.pacer.record_reading(time);
            if monotonic() >= began + TURN {
                break;
            }
        }
        Ok(())
    }

    fn pace(&self) -> Pace {
        self.pacer.pace()
    }
}

/// Parses the output. Some versions of `tc` write nothing at all if there is no discipline to show.
fn parse(text: &[u8]) -> Result<Vec<Shown>, serde_json::Error> {
    if text.trim_ascii().is_empty() { Ok(Vec::new()) } else { serde_json::from_slice(text) }
}

/// Parses a handle or class in the notation of `tc`: hexadecimal, `8001:` or `1:2a`; 0 for any
/// other text.
fn handle(text: &str) -> u32 {
    let (major, minor) = text.split_once(':').unwrap_or((text, ""));
    let number = |text: &str| u32::from_str_radix(text, 16).unwrap_or(0) & 0xffff;
    number(major) << 16 | number(minor)
}

#[cfg(test)]
mod tests {
    use super::{handle, parse};
    use weir_measure::watch::Handle;

    #[test]
    fn a_formatted_handle_parses_to_itself() {
        for number in [0x8001_0000, 0x0001_002a, 0xffff_fff1, 0x0000_0003] {
            assert_eq!(handle(&Handle(number).to_string()), number);
        }
        assert_eq!((handle(":3"), handle("0:"), handle("no")), (3, 0, 0));
    }

    #[test]
    fn the_output_of_tc_is_parsed() {
        let text = br#"[{"kind":"tbf","handle":"8001:","root":true,"refcnt":2,"options":{"rate":125},"bytes":70,"packets":1,
            "drops":2,"overlimits":3,"requeues":4,"backlog":500,"qlen":5},{"kind":"pfifo","handle":"0:","parent":"8001:1","options":{}}]"#;
        let shown = parse(text).expect("the text is JSON");
        assert_eq!((shown[0].root, shown[0].qlen, shown[0].overlimits), (true, 5, 3));
        assert_eq!((shown[1].parent.as_deref(), shown[1].qlen), (Some("8001:1"), 0));
        assert!(parse(b"\n").expect("an empty line is valid").is_empty() && parse(b"[{").is_err());
    }
}
