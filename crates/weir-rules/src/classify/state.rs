//! The state of a classifier between packets: counters, the random streams of `prob`, and the
//! dynamic rules.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_core::rng::{Purpose, Stream};
use weir_core::units::Nanos;

use super::DEFAULT_ID;
use super::dynamic::Dynamic;
use super::index::Cursors;
use super::program::{Head, find};

/// The state of one worker. Workers have separate counters and share only the dynamic rules.
#[derive(Debug)]
pub struct State {
    seed: u64,
    /// The number of the worker, from 0.
    worker: u64,
    /// The heads of the rules to which the counters belong; the last one is the default rule's.
    heads: Arc<[Head]>,
    counters: Vec<RuleCounters>,
    /// The streams of the rules with `prob`, in the order of [`Head::stream`].
    streams: Vec<Stream>,
    /// The stack of calls: the rules after which `return` continues.
    pub(super) calls: Vec<u32>,
    /// The cursors of the search; kept here to reuse their memory.
    pub(super) cursors: Cursors,
    dynamic: Arc<Mutex<Dynamic>>,
    loops: u64,
}

/// The counters of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounters {
    /// Packets that matched.
    pub packets: u64,
    /// Network-layer bytes of these packets.
    pub bytes: u64,
    /// The time of the last match; `None` if no packet has matched.
    pub last: Option<Nanos>,
}

impl State {
    /// Creates the state of the first worker. The same seed, rules and packets give the same
    /// verdicts.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            worker: 0,
            heads: Arc::new([]),
            counters: Vec::new(),
            streams: Vec::new(),
            calls: Vec::new(),
            cursors: Cursors::default(),
            dynamic: Arc::default(),
            loops: 0,
        }
    }

    /// Creates the state of another worker, numbered from 1. It has its own random streams and
    /// counters, and shares the dynamic rules.
    pub fn sibling(&self, worker: u32) -> Self {
        Self { worker: worker.into(), dynamic: Arc::clone(&self.dynamic), ..Self::new(self.seed) }
    }

    /// Takes over the heads of another classifier. Rules that exist in both keep their counters and
    /// random streams, and dynamic rules of other rules are removed.
    pub(super) fn take_over(&mut self, heads: &Arc<[Head]>) {
        if Arc::ptr_eq(&self.heads, heads) {
            return;
        }
        let old = std::mem::replace(&mut self.heads, Arc::clone(heads));
        let mut counters = std::mem::take(&mut self.counters);
        let mut streams = std::mem::take(&mut self.streams);
        // The rules before the first difference keep the places of their counters and streams. Only
        // the rules from there on are looked up by identity.
        let same = old
            .iter()
            .zip(self.heads.iter())
            .take_while(|(old, new)| (old.id, old.stream) == (new.id, new.stream))
            .count();
        let kept: HashMap<u32, usize> =
            old.iter().enumerate().skip(same).map(|(at, head)| (head.id, at)).collect();
        let tail: Vec<_> =
            self.heads[same..].iter().map(|head| kept.get(&head.id).copied()).collect();
        let old_tail = counters.split_off(same.min(counters.len()));
        counters.extend(
            tail.iter().map(|at| at.map_or_else(RuleCounters::default, |at| old_tail[at - same])),
        );
        let first = old[..same].iter().filter(|head| head.stream.is_some()).count();
        let old_streams = streams.split_off(first);
        for (head, at) in
            self.heads[same..].iter().zip(&tail).filter(|(head, _)| head.stream.is_some())
        {
            let before = at
                .and_then(|at| old[at].stream)
                .map(|stream| old_streams[stream as usize - first].clone());
            let path = u64::from(head.id) | self.worker << 32;
            streams
                .push(before.unwrap_or_else(|| Stream::new(self.seed, path, Purpose::Classifier)));
        }
        (self.counters, self.streams) = (counters, streams);
        self.dynamic().keep_rules(|number, id| find(heads, number, id).is_ok());
    }

    /// The counters of the rules, in order, with the rules' identities. The last entry belongs to
    /// the default rule, [`DEFAULT_ID`].
    pub fn counters(&self) -> impl Iterator<Item = (u32, RuleCounters)> {
        self.heads.iter().map(|head| head.id).zip(self.counters.iter().copied())
    }

    /// Resets the counters of these rules to zero; `None` means all rules.
    pub fn zero(&mut self, ids: Option<&[u32]>) {
        for (head, counters) in self.heads.iter().zip(&mut self.counters) {
            if ids.is_none_or(|ids| ids.contains(&head.id)) {
                *counters = RuleCounters::default();
            }
        }
    }

    /// The number of packets that were dropped because of a loop in the rules.
    pub fn loops(&self) -> u64 {
        self.loops
    }

    /// Locks the dynamic rules, which all workers share.
    pub fn dynamic(&self) -> MutexGuard<'_, Dynamic> {
        // A worker that panicked leaves at most one entry that is not counted, so the data remains
        // usable.
        self.dynamic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(super) fn count(&mut self, rule: u32, packets: u64, bytes: u64, now: Nanos) {
        if let Some(counters) = self.counters.get_mut(rule as usize) {
            counters.packets += packets;
            counters.bytes += bytes;
            counters.last = Some(now);
        }
    }

    pub(super) fn count_loop(&mut self) {
        self.loops += 1;
    }

    pub(super) fn stream(&mut self, at: u32) -> Option<&mut Stream> {
        self.streams.get_mut(at as usize)
    }
}

const _: () = assert!(DEFAULT_ID == 0, "identities of rules start at 1");
