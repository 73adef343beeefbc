//! The fluid: generalised processor sharing of the link's arrivals, the reference for lag, lead and
//! lateness.
//!
//! The fluid serves all backlogged flows at once, at rates proportional to their weights. On the
//! fluid's clock, the virtual time `V`, a packet starts at
//! `S = max(V at its arrival, F of the flow's previous packet)` and finishes at `F = S + L / w`,
//! where `L` is the packet's length and `w` the flow's weight.
//! `V` grows by `1 / Σ of the active weights` for each byte of the link.
//!
//! ```text
//! V, S, F, times   127 ........................ 64 | 63 ........................ 0
//!                  bytes (for a unit of weight)    | fraction
//! ```
//! The step from one finish to the next is exact. Two quantities are rounded down, each time by
//! less than 2^-64 bytes for a unit of weight: the growth of `V` up to an instant between two
//! finishes, and `L / w`. For flows that are always backlogged nothing is rounded, since `V` is the
//! number of bytes that the link has sent, divided by the sum of all weights.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::exact::Exact;
use super::link::Watch;
use crate::flows::FlowSet;
use crate::trace::Arrival;

/// Compares the link with the fluid that serves the same arrivals.
#[derive(Debug)]
pub(super) struct Fluid {
    weights: Vec<u32>,
    /// The sum of the weights.
    total: u64,
    /// Bytes that the link has sent, in total and for each flow.
    all: u64,
    sent: Vec<u64>,
    /// The fluid where backlogs come and go; `None` where every flow always has packets.
    changing: Option<Gps>,
    worst: Vec<Deviation<i128>>,
    /// The result of [`Fluid::distances`], with sums in [`Fluid::unit`]s.
    distances: Vec<(i128, u64)>,
    fairness: f64,
}

/// The largest differences between a flow's service and its service in the fluid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Deviation<T> {
    /// Bytes of the flow that the fluid had served and the link had not, at the start of one of the
    /// flow's packets.
    pub(super) lag: T,
    /// Bytes of the flow that the link had served and the fluid had not, at the end of one of the
    /// flow's packets.
    pub(super) lead: T,
    /// The time by which a packet ended later than in the fluid, in bytes of the link.
    pub(super) late: T,
}

impl Fluid {
    /// `steady` means that all flows always have packets.
    pub(super) fn new(flows: &FlowSet, steady: bool) -> Self {
        let weights: Vec<u32> = flows.flows().map(|flow| flow.weight).collect();
        let changing = (!steady).then(|| Gps::new(&weights));
        let (sent, worst) = (vec![0; weights.len()], vec![Deviation::default(); weights.len()]);
        Self {
            total: flows.total_weight(),
            all: 0,
            sent,
            changing,
            worst,
            distances: vec![(0, 0); weights.len()],
            fairness: 1.0,
            weights,
        }
    }

    pub(super) fn worst(&self) -> impl Iterator<Item = Deviation<Exact>> {
        let unit = self.unit();
        self.worst.iter().zip(&self.weights).map(move |(deviation, &weight)| Deviation {
            lag: Exact::new(deviation.lag, unit),
            lead: Exact::new(deviation.lead, unit),
            late: Exact::new(
                deviation.late,
                if self.changing.is_some() { unit } else { weight.into() },
            ),
        })
    }

    /// For each flow, the sum in bytes of the distances between its service and the fluid's at the
    /// ends of its packets, and the number of these packets.
    pub(super) fn distances(&self) -> impl Iterator<Item = (f64, u64)> {
        let unit = self.unit() as f64;
        self.distances.iter().map(move |&(sum, count)| (sum as f64 / unit, count))
    }

    /// Jain's index of the flows, at the end of the arrivals: each flow's service is divided by its
    /// service in the fluid.
    pub(super) fn fairness(&self) -> f64 {
        self.fairness
    }

    /// One byte of service, in the unit of [`Fluid::ahead`].
    fn unit(&self) -> i128 {
        if self.changing.is_some() { ONE as i128 } else { self.total.into() }
    }

    /// The fluid's service of a flow minus the link's, in [`Fluid::unit`]s.
    fn ahead(&self, flow: u32) -> i128 {
        let given = match &self.changing {
            None => i128::from(self.weights[flow as usize]) * i128::from(self.all),
            Some(gps) => gps.given(flow) as i128,
        };
        given - i128::from(self.sent[flow as usize]) * self.unit()
    }

    /// The time by which the flow's packet that ends now is later than in the fluid: in bytes times
    /// the flow's weight when the flows are steady, otherwise in bytes with [`FRACTION`] bits of
    /// fraction.
    fn late(&mut self, now: u64, flow: u32) -> i128 {
        let (weight, sent) =
            (i128::from(self.weights[flow as usize]), i128::from(self.sent[flow as usize]));
        match &mut self.changing {
            None => i128::from(now) * weight - sent * i128::from(self.total),
            Some(gps) => gps
                .finish_of_sent(flow)
                .map_or(0, |finish| (u128::from(now) << FRACTION) as i128 - finish as i128),
        }
    }
}

impl Watch for Fluid {
    fn arrives(&mut self, &Arrival { time, flow, len }: &Arrival) {
        if let Some(gps) = &mut self.changing {
            gps.advance(time);
            gps.arrives(flow, len);
        }
    }

    /// Does nothing: the fluid may already have served a part of the packet, and keeps the packet.
    fn refuses(&mut self, _arrived: u64, _flow: u32, _len: u32) {}

    fn starts(&mut self, now: u64, flow: u32, len: u32) {
        if let Some(gps) = &mut self.changing {
            gps.advance(now);
        }
        let lag = self.ahead(flow);
        let worst = &mut self.worst[flow as usize];
        worst.lag = worst.lag.max(lag);
        self.all += u64::from(len);
        self.sent[flow as usize] += u64::from(len);
    }

    fn ends(&mut self, now: u64, flow: u32) {
        if let Some(gps) = &mut self.changing {
            gps.advance(now);
        }
        let lead = -self.ahead(flow);
        let late = self.late(now, flow);
        let worst = &mut self.worst[flow as usize];
        worst.lead = worst.lead.max(lead);
        worst.late = worst.late.max(late);
        let (sum, count) = &mut self.distances[flow as usize];
        (*sum, *count) = (*sum + lead.abs(), *count + 1);
    }

    fn rests(&mut self, now: u64) {
        if let Some(gps) = &mut self.changing {
            gps.advance(now);
        }
        let unit = self.unit();
        let shares = (0..).zip(&self.sent).filter_map(|(flow, &sent)| {
            let sent = i128::from(sent) * unit;
            let given = sent + self.ahead(flow);
            (given > 0).then_some(sent as f64 / given as f64)
        });
        let (count, sum, squares) =
            shares.fold((0u32, 0.0, 0.0), |(n, sum, squares), x| (n + 1, sum + x, squares + x * x));
        self.fairness = if squares > 0.0 { sum * sum / (f64::from(count) * squares) } else { 1.0 };
    }
}

/// The service of the fluid alone, over time.
#[derive(Debug)]
pub(super) struct Given {
    weights: Vec<u32>,
    total: u64,
    changing: Option<Gps>,
}

impl Given {
    /// `steady` means that all flows always have packets.
    pub(super) fn new(flows: &FlowSet, steady: bool) -> Self {
        let weights: Vec<u32> = flows.flows().map(|flow| flow.weight).collect();
        let changing = (!steady).then(|| Gps::new(&weights));
        Self { weights, total: flows.total_weight(), changing }
    }

    /// Adds an arrival. Arrivals must be added in order of time.
    pub(super) fn arrives(&mut self, &Arrival { time, flow, len }: &Arrival) {
        if let Some(gps) = &mut self.changing {
            gps.advance(time);
            gps.arrives(flow, len);
        }
    }

    /// The whole bytes of service that a flow has received until `time`. The arrivals until then
    /// must have been added.
    pub(super) fn at(&mut self, time: u64, flow: u32) -> u64 {
        match &mut self.changing {
            None => {
                let share = u128::from(self.weights[flow as usize]) * u128::from(time);
                (share / u128::from(self.total)) as u64
            }
            Some(gps) => {
                gps.advance(time);
                (gps.given(flow) >> FRACTION) as u64
            }
        }
    }
}

/// The fluid where backlogs come and go.
#[derive(Debug)]
struct Gps {
    flows: Vec<GpsFlow>,
    /// `V`.
    virtual_time: u128,
    /// The time of `V`, in bytes of the link with [`FRACTION`] bits of fraction.
    now: u128,
    /// The sum of the weights of the backlogged flows.
    active: u128,
    /// The finish of the first packet of each backlogged flow.
    finishes: BinaryHeap<Reverse<(u128, u32)>>,
}

#[derive(Debug)]
struct GpsFlow {
    weight: u128,
    /// The packets that the fluid has not finished, as pairs of `F` and the length.
    queue: VecDeque<(u128, u32)>,
    last_finish: u128,
    /// Bytes of the packets that the fluid has finished.
    done: u128,
    /// The times at which the fluid finished packets that the link has not sent yet.
    finish_times: VecDeque<u128>,
    /// The number of packets that the link has sent and the fluid has not finished.
    behind: u64,
}

impl Gps {
    fn new(weights: &[u32]) -> Self {
        let flow = |&weight: &u32| GpsFlow {
            weight: weight.into(),
            queue: VecDeque::new(),
            last_finish: 0,
            done: 0,
            finish_times: VecDeque::new(),
            behind: 0,
        };
        Self {
            flows: weights.iter().map(flow).collect(),
            virtual_time: 0,
            now: 0,
            active: 0,
            finishes: BinaryHeap::new(),
        }
    }

    /// Advances the fluid to a time in bytes of the link.
    fn advance(&mut self, to: u64) {
        let to = u128::from(to) << FRACTION;
        while let Some(&Reverse((finish, flow))) = self.finishes.peek() {
            let at = self.now + (finish - self.virtual_time) * self.active;
            if at > to {
                self.virtual_time += to.saturating_sub(self.now) / self.active;
                break;
            }
            (self.now, self.virtual_time) = (at, finish);
            self.finishes.pop();
            self.finish(flow);
        }
        self.now = self.now.max(to);
    }

    fn finish(&mut self, number: u32) {
        let flow = &mut self.flows[number as usize];
        let Some((_, len)) = flow.queue.pop_front() else { return };
        flow.done += u128::from(len);
        if flow.behind > 0 {
            flow.behind -= 1;
        } else {
            flow.finish_times.push_back(self.now);
        }
        match flow.queue.front() {
            Some(&(finish, _)) => self.finishes.push(Reverse((finish, number))),
            None => self.active -= flow.weight,
        }
    }

    fn arrives(&mut self, number: u32, len: u32) {
        let flow = &mut self.flows[number as usize];
        flow.last_finish =
            flow.last_finish.max(self.virtual_time) + (u128::from(len) << FRACTION) / flow.weight;
        if flow.queue.is_empty() {
            self.active += flow.weight;
            self.finishes.push(Reverse((flow.last_finish, number)));
        }
        flow.queue.push_back((flow.last_finish, len));
    }

    /// Bytes of service that a flow has received, with [`FRACTION`] bits of fraction.
    fn given(&self, flow: u32) -> u128 {
        let flow = &self.flows[flow as usize];
        let part = flow.queue.front().map_or(0, |&(finish, len)| {
            let rest = finish.saturating_sub(self.virtual_time) * flow.weight;
            (u128::from(len) << FRACTION).saturating_sub(rest)
        });
        (flow.done << FRACTION) + part
    }

    /// The time at which the fluid finished the flow's packet that the link has just sent; `None`
    /// when the fluid has not finished it.
    fn finish_of_sent(&mut self, flow: u32) -> Option<u128> {
        let flow = &mut self.flows[flow as usize];
        let finish = flow.finish_times.pop_front();
        flow.behind += u64::from(finish.is_none());
        finish
    }
}

/// The bits of fraction in times and service.
const FRACTION: u32 = 64;
/// One byte.
const ONE: u128 = 1 << FRACTION;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fluid_shares_by_weight_among_backlogged_flows() {
        let mut gps = Gps::new(&[1, 3]);
        gps.arrives(0, 300);
        gps.arrives(1, 300);
        gps.advance(200);
        assert_eq!((gps.given(0) >> FRACTION, gps.given(1) >> FRACTION), (50, 150));
        // Flow 1 finishes at 400. Then flow 0 has the whole link and finishes at 600.
        gps.advance(599);
        assert_eq!((gps.given(0) >> FRACTION, gps.given(1) >> FRACTION), (299, 300));
        assert_eq!(gps.finish_of_sent(1), Some(400 << FRACTION));
        assert_eq!(gps.finish_of_sent(0), None);
        gps.advance(10_000);
        assert_eq!((gps.active, gps.flows[0].behind), (0, 0));
    }

    #[test]
    fn a_returning_flow_has_neither_credit_nor_debt() {
        let mut gps = Gps::new(&[1, 1]);
        gps.arrives(0, 1000);
        gps.advance(500);
        gps.arrives(1, 100);
        gps.advance(700);
        assert_eq!((gps.given(0) >> FRACTION, gps.given(1) >> FRACTION), (600, 100));
        gps.advance(5000);
        gps.arrives(1, 100);
        gps.advance(5100);
        assert_eq!(gps.given(1) >> FRACTION, 200);
    }
}
