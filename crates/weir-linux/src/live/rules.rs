//! The rules in force: they decide about packets and count their matches.

use std::sync::Arc;

use weir_core::Nanos;
use weir_core::key::FlowKey;
use weir_rules::classify::{Classifier, Packet, Pass, RuleCounters, State, Verdict};
use weir_wire::ChecksumMode;

use super::wire::materialise;
use crate::arena::Frame;
use crate::journey::Journey;

/// Rules with their state.
#[derive(Debug)]
pub(super) struct Rules {
    classifier: Arc<Classifier>,
    state: State,
    separate_segments: bool,
    /// Scratch memory for a segment that rules examine.
    scratch: Vec<u8>,
}

/// Packets that the rules examine, and their current pass.
pub(super) struct Lookup<'a> {
    pub(super) frame: &'a Frame,
    pub(super) segments: std::ops::Range<u16>,
    pub(super) key: &'a FlowKey,
    pub(super) pass: Pass,
    pub(super) now: Nanos,
}

impl Rules {
    pub(super) fn new(classifier: Arc<Classifier>, mut state: State) -> Self {
        state.carry_over(&classifier);
        Self {
            separate_segments: classifier.needs_each_segment(),
            classifier,
            state,
            scratch: Vec::new(),
        }
    }

    /// Puts other rules in force. Rules that remain keep their counters. Returns the old rules,
    /// which another thread should drop, because that takes time.
    pub(super) fn replace(&mut self, classifier: Arc<Classifier>) -> Arc<Classifier> {
        self.state.carry_over(&classifier);
        self.separate_segments = classifier.needs_each_segment();
        std::mem::replace(&mut self.classifier, classifier)
    }

    /// Whether rules may treat segments of a train differently, so that each is examined
    /// separately.
    pub(super) fn examines_each_segment(&self) -> bool {
        self.separate_segments
    }

    /// The counters of each rule, by its identity.
    pub(super) fn counters(&self) -> impl Iterator<Item = (u32, RuleCounters)> {
        self.state.counters()
    }

    /// Sets the counters of the rules with these identities to 0, or of all rules if `ids` is
    /// `None`.
    pub(super) fn zero(&mut self, ids: Option<&[u32]>) {
        self.state.zero(ids);
    }

    /// The verdict of the rules on packets in a pass. The search starts at the rule at which
    /// `journey` resumes, or at the first rule. Rules read and write the tags of `journey`.
    pub(super) fn examine(&mut self, lookup: Lookup<'_>, journey: &mut Journey) -> Verdict {
        let Lookup { frame, segments, key, pass, now } = lookup;
        let Journey { resume, tags, .. } = journey;
        let from = resume.take();
        let (mut bytes, mut parsed) = (frame.bytes(), frame.parsed);
        let len = match &frame.train {
            Some(train) => {
                // Rules that may treat segments differently examine each segment as it is on the
                // wire.
                if self.separate_segments
                    && materialise(frame, segments.start, ChecksumMode::Partial, &mut self.scratch)
                        .is_some()
                {
                    bytes = &self.scratch;
                    parsed = weir_wire::parse(bytes).ok();
                }
                train.segment_len(segments.start)
            }
            None => frame.wire_len / u32::from(frame.weight.max(1)),
        };
        let mut packet =
            Packet { frame: bytes, parsed: parsed.as_ref(), key, len, pass, tags, now };
        let packets = u64::from(frame.weight) * segments.len() as u64;
        let bytes = segments.map(|segment| u64::from(frame.packet_bytes(segment))).sum();
        self.classifier.classify_train(&mut self.state, &mut packet, from, packets, bytes)
    }
}
