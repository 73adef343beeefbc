//! The worst-case fair index and the delay of each flow, in integers.
//!
//! `w` is a flow's weight, `Σ` is the sum of the weights of all flows of the set, active or not,
//! and `φ` is `w / Σ`. `W` is the number of bytes that the link has sent, including the sent part
//! of the packet on the wire; `W_k` is the part of `W` that belongs to flow k. A flow is behind its
//! share by
//!
//! ```text
//! D(t) = w W(t) − Σ W_k(t)            in bytes times Σ, hence an integer
//! ```
//! A flow is backlogged while the scheduler holds a packet of the flow. The flow's B-WFI is the
//! largest `D(t2) − D(t1)` with `t1 ≤ t2` in the same backlogged period, where a packet of the flow
//! ends at `t2`. `D` has its minimum at the beginning of a period or at the end of a packet of the
//! flow. Therefore one stored minimum per flow and one comparison per packet suffice. If another
//! flow's packet is on the wire, a period begins during the transmission of that packet. If the
//! packet on the wire is the flow's own, the period begins at the end of that packet.
//!
//! A flow that is still backlogged when the observation ends counts as if its first packet were
//! sent next. The true value cannot be smaller.

use std::collections::VecDeque;

use super::link::Watch;
use crate::flows::FlowSet;
use crate::trace::Arrival;

#[derive(Debug)]
pub(super) struct Account {
    flows: Vec<FlowAccount>,
    /// `Σ`.
    total: i128,
    /// `W` at the end of the packet on the wire.
    sent: u64,
    /// The flow and the end time of the packet on the wire, or of the last packet.
    wire: (u32, u64),
}

#[derive(Clone, Debug, Default)]
pub(super) struct FlowAccount {
    weight: i128,
    waiting: VecDeque<Waiting>,
    /// The bytes of the waiting packets.
    backlog: u64,
    /// `W_k` at the end of the packet on the wire.
    pub(super) sent: u64,
    /// The minimum of `D` in this backlogged period, and its time.
    low: (i128, u64),
    /// B-WFI in bytes times `Σ`, and its interval.
    pub(super) bwfi: i128,
    pub(super) span: (u64, u64),
    /// The longest delay from a packet's arrival to the end of its transmission, in bytes of the
    /// link.
    pub(super) delay: u64,
    /// The largest difference, in bytes times `Σ`, between a packet's delay times `φ` and the
    /// packet's [`Waiting::ahead`].
    pub(super) excess: i128,
    /// The largest [`Waiting::ahead`] of the flow's packets.
    pub(super) most: u64,
    /// The packets that the scheduler has refused or dropped.
    pub(super) dropped: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    arrived: u64,
    len: u32,
    /// The flow's unsent bytes at the packet's arrival, including the packet.
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

    /// The accounts, indexed by the flow's number.
    pub(super) fn flows(&self) -> &[FlowAccount] {
        &self.flows
    }

    /// Ends the observation: a flow that is still backlogged counts as if it were served at once.
    pub(super) fn close(&mut self, now: u64) {
        for flow in &mut self.flows {
            let Some(first) = flow.waiting.front() else { continue };
            let len = u64::from(first.len);
            flow.judge(self.total, self.sent + len, flow.sent + len, now + len);
        }
    }
}

impl FlowAccount {
    /// Updates the B-WFI for the moment `at`, when the link has sent `all` bytes, `own` of them for
    /// this flow. Returns `D`.
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

    fn refuses(&mut self, arrived: u64, flow: u32, len: u32) {
        let account = &mut self.flows[flow as usize];
        account.dropped += 1;
        // Packets of equal length that arrived at the same time are interchangeable.
        let is_it = |waiting: &Waiting| waiting.len == len && waiting.arrived == arrived;
        if let Some(index) = account.waiting.iter().rposition(is_it) {
            account.waiting.remove(index);
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
