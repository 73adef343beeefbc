//! The measured work: packets through a classifier, an engine, or both.

use std::fmt;
use std::fmt::Write as _;

use weir_core::config::{Capacity, FlowsetConfig, LinkConfig, PipeConfig, QueueLimit};
use weir_core::key::FlowKey;
use weir_core::packet::Ecn;
use weir_core::rng::{Purpose, Stream};
use weir_core::{Action, Arrival, Departure, Emulator, Limits, Nanos, Rate};
use weir_rules::NoFiles;
use weir_rules::classify::{Classifier, Fate, Packet, Pass, Place, PlaceInterface, State, Tags};
use weir_rules::ruleset::Ruleset;
use weir_rules::script;

/// A measured part of a packet's path, with the number of its rules or pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The part.
    pub part: Part,
    /// The number of rules, or of pipes.
    pub size: u32,
}

/// A part of a packet's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Rules that are tried one after another; only the last one matches.
    Tests,
    /// Rules for one host each. Each packet matches exactly one rule.
    Hosts,
    /// Independent pipes with a load of 80 % each.
    Pipes,
    /// Twenty rules that are tried one after another. The last rule selects a pipe by a table.
    Whole,
}

impl Part {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Tests, "tests"),
        (Self::Hosts, "hosts"),
        (Self::Pipes, "pipes"),
        (Self::Whole, "whole"),
    ];
}

impl Case {
    /// Reads a case in the form in which it is displayed.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, size) = text.split_once(':')?;
        let (part, _) = Part::ALL.into_iter().find(|(_, known)| *known == name)?;
        let size = size.parse().ok().filter(|size| (1..=MOST).contains(size))?;
        Some(Self { part, size })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Part::ALL.into_iter().find(|(part, _)| *part == self.part).map_or("", |p| p.1);
        write!(f, "{name}:{}", self.size)
    }
}

/// The cost of one case.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) case: Case,
    /// Processor time of a packet in each run, ns.
    pub(super) times: Vec<f64>,
    /// Instructions of a packet; `None` if they were not counted.
    pub(super) instructions: Option<f64>,
}

pub(super) fn cases() -> impl Iterator<Item = Case> {
    let of = |part| move |&size: &u32| Case { part, size };
    RULES
        .iter()
        .map(of(Part::Tests))
        .chain(HOSTS.iter().map(of(Part::Hosts)))
        .chain(PIPES.iter().map(of(Part::Pipes)))
        .chain([Case { part: Part::Whole, size: WHOLE }])
}

/// Packets, and the parts through which they pass.
pub(super) struct Work {
    frames: Vec<Vec<u8>>,
    keys: Vec<FlowKey>,
    /// The index of the current frame.
    current: usize,
    classifier: Option<(Classifier, State)>,
    engine: Option<Engine>,
    /// Packets that the classifier sent to a pipe.
    pub(super) matched: u64,
    /// Packets that left the engine.
    pub(super) departed: u64,
}

/// An engine with equal pipes, and its simulated time.
struct Engine {
    emulator: Emulator,
    out: Vec<Departure>,
    now: u64,
    pipes: u32,
}

impl Work {
    pub(super) fn new(case: &Case) -> Self {
        let Case { part, size } = *case;
        let hosts = if part == Part::Tests { 1000 } else { size };
        let mut random = Stream::new(1, 1, Purpose::Classifier);
        let frames: Vec<Vec<u8>> = (0..FRAMES).map(|_| frame(host(random.below(hosts)))).collect();
        let keys = frames
            .iter()
            .filter_map(|frame| Some(weir_wire::flow_key(frame, &weir_wire::parse(frame).ok()?)))
            .collect();
        let classifier = rules(part, size).map(|rules| {
            let classifier = Classifier::compile(&rules, &place());
            let mut state = State::new(1);
            state.carry_over(&classifier);
            (classifier, state)
        });
        let engine = matches!(part, Part::Pipes | Part::Whole).then(|| Engine::new(size));
        Self { frames, keys, current: 0, classifier, engine, matched: 0, departed: 0 }
    }

    /// Passes `packets` packets.
    pub(super) fn run(&mut self, packets: u64) {
        let mut tags = Tags::new();
        for n in 0..packets {
            self.current = (self.current + 1) % self.frames.len();
            let mut pipe = None;
            if let Some((classifier, state)) = &mut self.classifier {
                let frame = &self.frames[self.current];
                let Ok(parsed) = weir_wire::parse(frame) else { continue };
                let key = weir_wire::flow_key(frame, &parsed);
                let mut packet = Packet {
                    frame,
                    parsed: Some(&parsed),
                    key: &key,
                    len: LEN,
                    pass: OUT,
                    tags: &mut tags,
                    now: Nanos(1),
                };
                if let Fate::Pipe(number, _) = classifier.classify(state, &mut packet, None).fate {
                    pipe = Some(number);
                    self.matched += 1;
                }
            }
            let Some(engine) = &mut self.engine else { continue };
            // The multiplication scatters the packets over the pipes, so that consecutive packets
            // do not use neighbouring memory.
            let other = (n as u32).wrapping_mul(2_654_435_761) % engine.pipes + 1;
            let pipe = pipe.unwrap_or(other as u16);
            self.departed += engine.pass(n as u32, &self.keys[self.current], pipe);
        }
    }
}

impl Engine {
    fn new(pipes: u32) -> Self {
        let mut emulator = Emulator::new(1, Limits::default());
        let rate = Rate::new(1_000_000_000 / u64::from(pipes));
        let link = LinkConfig {
            capacity: rate.map_or(Capacity::Unlimited, Capacity::Constant),
            delay: Nanos::from_millis(10),
            ..LinkConfig::default()
        };
        let queue =
            FlowsetConfig { limit: Some(QueueLimit::Packets(100)), ..FlowsetConfig::default() };
        let config = PipeConfig { link, queue, scheduler: None };
        for id in 1..=pipes as u16 {
            emulator.set_pipe(Nanos::ZERO, id, &config);
        }
        Self { emulator, out: Vec::new(), now: 0, pipes }
    }

    /// Submits a packet to a pipe and takes the departures. Returns their number.
    fn pass(&mut self, frame: u32, key: &FlowKey, pipe: u16) -> u64 {
        self.now += GAP;
        let now = Nanos(self.now);
        self.emulator.poll(now, &mut self.out);
        let departed = self.out.len() as u64;
        self.out.clear();
        let arrival =
            Arrival { frame, len: LEN, link_header: 14, segments: 1, ecn: Ecn::NotEct, label: 0 };
        // Random hosts may fill the queue of a pipe. A drop is part of the work, too.
        let _ = self.emulator.submit(now, arrival, key, Action::Pipe(pipe));
        departed
    }
}

/// The rules of a part; `None` if it has no classifier.
fn rules(part: Part, size: u32) -> Option<Ruleset> {
    let mut text = String::new();
    // The classifier has no index over the length of packets, so these rules are tried one after
    // another.
    let tests = |text: &mut String, count: u32| {
        for n in 0..count {
            let _ = writeln!(text, "add pipe 1 ip from any to any iplen {}", 20_000 + n);
        }
    };
    match part {
        Part::Pipes => return None,
        Part::Tests => {
            tests(&mut text, size - 1);
            text += "add pipe 1 ip from any to any\n";
        }
        Part::Hosts => {
            for n in 0..size {
                let _ = writeln!(
                    text,
                    "add {} pipe {} ip from any to {}",
                    n + 1,
                    n % 500 + 1,
                    address(n)
                );
            }
        }
        Part::Whole => {
            for n in 0..size {
                let _ = writeln!(text, "table 1 add {} {}", address(n), n + 1);
            }
            tests(&mut text, WHOLE_RULES - 1);
            text += "add pipe tablearg ip from any to table(1)\n";
        }
    }
    let mut rules = Ruleset::default();
    let parsed = script::parse(&text, "rules", &NoFiles);
    rules.apply_all(&parsed.commands).ok()?;
    Some(rules)
}

/// The address of host `n`. Addresses are spread over 10.0.0.0/8.
fn host(n: u32) -> [u8; 4] {
    let [_, b, c, d] = (n + 1).wrapping_mul(0x9e_37b1).to_be_bytes();
    [10, b, c, d]
}

fn address(n: u32) -> String {
    let [a, b, c, d] = host(n);
    format!("{a}.{b}.{c}.{d}")
}

/// An Ethernet frame with a UDP packet to `to`. The payload is zeros.
fn frame(to: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, LEN as u8, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1]);
    frame.extend(to);
    frame.extend([0x10, 0, 0x20, 0, 0, LEN as u8 - 20, 0, 0]);
    frame.resize(14 + LEN as usize, 0);
    frame
}

fn place() -> Place {
    let interface = PlaceInterface { number: 0, name: "eth0".into(), v4: vec![1], v6: vec![] };
    Place { interfaces: vec![interface], passes: vec![OUT], ..Place::default() }
}

const OUT: Pass = Pass { out: true, bridged: false, recv: None, xmit: Some(0) };
/// Network-layer bytes of a packet.
const LEN: u32 = 100;
/// Time between two packets, ns. 100 bytes each microsecond are 80 % of the 1 Gbit/s that all pipes
/// have together.
const GAP: u64 = 1_000;
/// Number of frames. Their hosts are random, so that no branch predictor anticipates them.
const FRAMES: usize = 4096;
/// Numbers of rules in the cases of [`Part::Tests`].
pub(super) const RULES: [u32; 5] = [1, 10, 20, 100, 1000];
/// Numbers of rules in the cases of [`Part::Hosts`].
pub(super) const HOSTS: [u32; 4] = [10, 100, 1000, 10_000];
/// Numbers of pipes in the cases of [`Part::Pipes`].
pub(super) const PIPES: [u32; 5] = [1, 10, 100, 1000, 10_000];
/// Number of rules in the case of [`Part::Whole`], as in the talk.
pub(super) const WHOLE_RULES: u32 = 20;
/// Number of pipes in the case of [`Part::Whole`], as in the talk.
pub(super) const WHOLE: u32 = 1000;
pub(super) const CASES: usize = RULES.len() + HOSTS.len() + PIPES.len() + 1;
/// The largest size of a case.
const MOST: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_finds_its_rule_and_its_pipe() {
        assert_eq!(cases().count(), CASES);
        for case in cases() {
            let mut work = Work::new(&case);
            assert_eq!(work.keys.len(), FRAMES, "every frame parses");
            assert_eq!(work.classifier.is_some(), case.part != Part::Pipes, "{case}");
            work.run(5_000);
            if case.part != Part::Pipes {
                assert_eq!(work.matched, 5_000, "{case}");
            }
            // None of the first 5,000 packets has left yet: each spends 10 ms on the link, in which
            // 10,000 packets arrive.
            work.run(15_000);
            if case.part == Part::Pipes && case.size <= 1000 {
                assert!((1..=10_100).contains(&work.departed), "{case}: {}", work.departed);
            }
        }
    }

    #[test]
    fn a_case_is_read_as_it_is_displayed() {
        for case in cases() {
            assert_eq!(Case::parse(&case.to_string()), Some(case));
        }
        for wrong in ["", "tests", "tests:0", "tests:10001", "rules:1", "pipes:-1"] {
            assert_eq!(Case::parse(wrong), None, "{wrong}");
        }
    }
}
