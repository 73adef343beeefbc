//! What each flow was owed: worst-case fair index and delay, in whole numbers.
//!
//! `w` is a flow's weight, `Σ` the sum of the weights of all flows of the set, active or not,
//! `φ = w / Σ`. `W` counts the bytes that the link has sent, those of the packet on the wire as
//! they go; `W_k` those of flow k. What the flow is behind its share is
//!
//! ```text
//! D(t) = w W(t) − Σ W_k(t)            in bytes times Σ, so whole
//! ```
//! A flow is backlogged while the scheduler holds a packet of it. Its B-WFI is the largest
//! `D(t2) − D(t1)` over the `t1 ≤ t2` of one period of backlog in which a packet of the flow has
//! just left at `t2`. `D` is least at the beginning of a period or where a packet of the flow
//! leaves, so one minimum for each flow and one comparison for each packet find it. A period that
//! begins while a packet is on the wire begins at that very byte, and with the end of the packet
//! when it is the flow's own.
//!
//! When observation ends, a flow that still waits counts as if its first packet went now: less than
//! that it cannot come to.

use std::collections::VecDeque;

use super::link::Watch;
use crate::flows::FlowSet;
use crate::trace::Arrival;

/// The account of all flows.
#[derive(Debug)]
pub(super) struct Account {
    flows: Vec<FlowAccount>,
    /// `Σ`.
    total: i128,
    /// `W` when the packet on the wire has left.
    sent: u64,
    /// The packet on the wire, or the last one: its flow, and when it has left.
    wire: (u32, u64),
}

/// A flow's account.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowAccount {
    weight: i128,
    waiting: VecDeque<Waiting>,
    /// Bytes of those.
    backlog: u64,
    /// `W_k` when the packet on the wire has left.
    pub(super) sent: u64,
    /// The least `D` in this period of backlog, and when.
    low: (i128, u64),
    /// B-WFI in bytes times `Σ`, and the interval of it.
    pub(super) bwfi: i128,
    pub(super) span: (u64, u64),
    /// Longest time from a packet's arrival to its end, in bytes of the link.
    pub(super) delay: u64,
    /// The most by which a packet's delay times `φ` exceeds the flow's bytes it found and brought,
    /// in bytes times `Σ`.
    pub(super) excess: i128,
    /// The most bytes that one packet found and brought.
    pub(super) most: u64,
}

/// A packet that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    arrived: u64,
    len: u32,
    /// Bytes of its flow that were not sent when it had come, its own among them.
    ahead: u64,
}

impl Account {
    pub(super) fn new(flows: &FlowSet) -> Self {
        let account = |weight: u32| FlowAccount { weight: weight.into(), ..FlowAccount::default() };
        let total = flows.total_weight().into();
        Self {
            flows: flows.flows().map(|flow| account(flow.weight)).collect(),
            total,
            sent: 0,
            wire: (0, 0),
        }
    }

    /// The accounts, by the numbers of the flows.
    pub(super) fn flows(&self) -> &[FlowAccount] {
        &self.flows
    }

    /// Closes the account: a flow that still waits counts as if it were served at once.
    pub(super) fn close(&mut self, now: u64) {
        for flow in &mut self.flows {
            let Some(first) = flow.waiting.front() else { continue };
            let len = u64::from(first.len);
            flow.judge(self.total, self.sent + len, flow.sent + len, now + len);
        }
    }
}

impl FlowAccount {
    /// Compares with the least `D` of this period, when the link has sent `all` and this flow `own`
    /// bytes. Gives `D`.
    fn judge(&mut self, total: i128, all: u64, own: u64, at: u64) -> i128 {
        let behind = self.weight * i128::from(all) - total * i128::from(own);
        if behind - self.low.0 > self.bwfi {
            self.bwfi = behind - self.low.0;
            self.span = (self.low.1, at);
        }
        behind
    }
}

impl Watch for Account {
    fn arrives(&mut self, &Arrival { time, flow, len }: &Arrival) {
        let (on_wire, end) = self.wire;
        let rest = end.saturating_sub(time);
        let own = if on_wire == flow { rest } else { 0 };
        let account = &mut self.flows[flow as usize];
        if account.waiting.is_empty() {
            let (all, at) = if own > 0 { (self.sent, end) } else { (self.sent - rest, time) };
            account.low =
                (account.weight * i128::from(all) - self.total * i128::from(account.sent), at);
        }
        account.backlog += u64::from(len);
        let ahead = account.backlog + own;
        account.most = account.most.max(ahead);
        account.waiting.push_back(Waiting { arrived: time, len, ahead });
    }

    fn refuses(&mut self, flow: u32, len: u32) {
        let account = &mut self.flows[flow as usize];
        // The newest of that length: a scheduler that refuses does so at the end of the queue, or
        // does not tell.
        if let Some(place) = account.waiting.iter().rposition(|waiting| waiting.len == len) {
            account.waiting.remove(place);
            account.backlog -= u64::from(len);
        }
    }

    fn starts(&mut self, now: u64, flow: u32, len: u32) {
        let end = now + u64::from(len);
        self.sent += u64::from(len);
        self.wire = (flow, end);
        let account = &mut self.flows[flow as usize];
        account.sent += u64::from(len);
        account.backlog -= u64::from(len);
        let behind = account.judge(self.total, self.sent, account.sent, end);
        if behind < account.low.0 {
            account.low = (behind, end);
        }
        if let Some(packet) = account.waiting.pop_front() {
            let delay = end - packet.arrived;
            account.delay = account.delay.max(delay);
            account.excess = account
                .excess
                .max(account.weight * i128::from(delay) - self.total * i128::from(packet.ahead));
        }
    }

    fn ends(&mut self, _now: u64, _flow: u32) {}

    fn rests(&mut self, _now: u64) {}
}
