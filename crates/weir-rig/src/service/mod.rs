//! Service: the share of the link that each flow gets, compared with an ideal link.
//!
//! [`measure`] runs a scheduler on a workload and reports for each group of a flow set:
//!
//! - **B-WFI**, the bit worst-case fair index: the most bytes by which a flow fell behind its share
//!   of the bytes that the link sent, over any interval that lies within a backlogged period of the
//!   flow and ends with a departure of the flow. The share is the flow's weight divided by the sum
//!   of the weights of *all* flows of the set. No scheduler can guarantee a B-WFI much below one
//!   packet to flows of all weights.
//! - **bound**: the theoretical bound of the B-WFI, if there is one; see [`bounds`].
//! - **delay** of a packet from its arrival to the end of its transmission, and the limit of this
//!   delay that follows from the bound and the largest backlog of a flow.
//! - **lag**, **lead** and **lateness** against the *fluid*, which gets the same arrivals and
//!   serves all backlogged flows at once, by weight.
//! - **mean deviation**: the mean distance between a flow's service and its service in the fluid,
//!   over the ends of the packets of a group.
//! - **Jain's index** at the end of the arrivals, with each flow's service divided by its service
//!   in the fluid.
//!
//! All quantities except the index are in bytes: bytes of the flow for B-WFI, lag, lead and mean
//! deviation, bytes of the link for times.

mod account;
pub mod bounds;
mod curves;
mod drive;
mod exact;
mod fluid;
mod link;
mod workload;

pub use bounds::{Bound, Status};
pub use curves::{Curves, curves};
pub use exact::Exact;
pub use workload::Workload;

use weir_core::sched::Discipline;

use crate::flows::{FlowSet, Group};
use crate::trace::Trace;
use account::{Account, FlowAccount};
use drive::Drive;
use fluid::{Deviation, Fluid};
use workload::Source;

/// The service that a scheduler gave to the flows of a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// The service of each group, in the set's order.
    pub classes: Vec<Class>,
    /// Jain's index of the flows' ratios: a flow's ratio is its service divided by its service in
    /// the fluid. 1 means that all flows have equal ratios; 1 divided by the number of flows means
    /// that one flow had all the service.
    pub jain: f64,
    /// The number of packets that the link sent.
    pub packets: u64,
    /// The end of the observation, in bytes of the link.
    pub time: u64,
}

/// The service of one group of flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// The group.
    pub group: Group,
    /// The largest B-WFI of a flow, in bytes.
    pub bwfi: Exact,
    /// The flow with this B-WFI.
    pub worst_flow: u32,
    /// The interval of this B-WFI, in bytes of the link since the start.
    pub worst_interval: (u64, u64),
    /// The theoretical bound of the B-WFI.
    pub bound: Bound,
    /// The longest delay of a packet, in bytes of the link.
    pub delay_max: u64,
    /// The limit of a packet's delay that follows from the bound and from the largest backlog of a
    /// flow in this run, in bytes of the link; `None` without a bound.
    pub delay_bound: Option<Exact>,
    /// The largest excess delay, in bytes of the link: the part of a packet's delay that the
    /// backlog of its own flow, at the flow's share of the link, does not explain.
    pub delay_excess: Exact,
    /// The largest number of bytes by which a flow's service was behind the fluid's.
    pub lag: Exact,
    /// The largest number of bytes by which a flow's service was ahead of the fluid's.
    pub lead: Exact,
    /// The longest time by which a packet ended later than in the fluid, in bytes of the link.
    pub late: Exact,
    /// The mean distance in bytes between a flow's service and the fluid's, over the ends of the
    /// group's packets; `None` if the link sent none.
    pub deviation_mean: Option<f64>,
    /// The packets of the group that the scheduler refused or dropped. The fluid drops none, so
    /// that lag, lateness and deviation also contain these packets.
    pub dropped: u64,
}

impl Class {
    /// The B-WFI in packets of the group's largest length.
    pub fn bwfi_packets(&self) -> f64 {
        self.in_packets(self.bwfi)
    }

    /// The bound in packets of the group's largest length.
    pub fn bound_packets(&self) -> Option<f64> {
        self.bound.bytes.map(|bytes| self.in_packets(bytes))
    }

    /// The mean deviation from the fluid, in packets of the group's largest length.
    pub fn deviation_packets(&self) -> Option<f64> {
        self.deviation_mean.map(|bytes| bytes / f64::from(self.group.lmax))
    }

    /// Whether the measured B-WFI is within the bound plus [`bounds::ROUNDING`]; `None` without a
    /// bound.
    pub fn is_within_bound(&self) -> Option<bool> {
        self.bound.bytes.map(|bytes| self.bwfi <= bytes + bounds::ROUNDING)
    }

    /// The measured B-WFI as a fraction of the bound; `None` without a bound.
    pub fn of_bound(&self) -> Option<f64> {
        self.bound.bytes.map(|bytes| self.bwfi.to_f64() / bytes.to_f64())
    }

    fn in_packets(&self, bytes: Exact) -> f64 {
        (bytes / Exact::whole(self.group.lmax)).to_f64()
    }
}

/// Number of packets over which service is measured.
pub fn enough_packets(flows: &FlowSet) -> u64 {
    (u64::from(flows.len()) * TURNS).max(LEAST_PACKETS)
}

/// Runs a scheduler of this discipline on the workload and measures the service of each group.
/// Equal arguments give equal results on every machine.
pub fn measure(
    discipline: &Discipline,
    flows: &FlowSet,
    workload: &Workload<'_>,
    seed: u64,
) -> Service {
    let mut source = Source::new(workload, flows, seed);
    let mut watch = (Account::new(flows), Fluid::new(flows, source.is_steady()));
    let (time, packets) = discipline.visit(Drive { flows, source: &mut source, watch: &mut watch });
    let (mut account, fluid) = watch;
    account.close(time);
    let deviations: Vec<Deviation<Exact>> = fluid.worst().collect();
    let distances: Vec<(f64, u64)> = fluid.distances().collect();
    let bounds = bounds::with_shortest(discipline, flows, &shortest(flows, workload));
    let mut classes = Vec::with_capacity(flows.groups().len());
    let mut first = 0;
    for (group, bound) in flows.groups().iter().zip(bounds) {
        let range = first..first + group.count as usize;
        classes.push(class(
            group,
            bound,
            flows.total_weight(),
            first as u32,
            &account.flows()[range.clone()],
            (&deviations[range.clone()], &distances[range]),
        ));
        first += group.count as usize;
    }
    Service { classes, jain: fluid.fairness(), packets, time }
}

/// The shortest packet of each group, in bytes: from the trace for a trace, otherwise from the set.
fn shortest(flows: &FlowSet, workload: &Workload<'_>) -> Vec<u32> {
    let Workload::Trace(trace) = workload else {
        return flows.groups().iter().map(|group| group.lengths.shortest()).collect();
    };
    let mut shortest: Vec<u32> = flows.groups().iter().map(|group| group.lmax).collect();
    let group_of: Vec<usize> = flows.flows().map(|flow| flow.group).collect();
    for arrival in trace.arrivals() {
        let least = &mut shortest[group_of[arrival.flow as usize]];
        *least = (*least).min(arrival.len);
    }
    shortest
}

/// The B-WFI and the excess delay of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owed {
    pub(crate) lmax: u32,
    /// The B-WFI in bytes.
    pub(crate) bwfi: Exact,
    pub(crate) bound: Option<Exact>,
    /// The interval of this B-WFI.
    pub(crate) interval: (u64, u64),
    /// The largest excess delay, in bytes of the link.
    pub(crate) excess: Exact,
}

/// The B-WFI and the excess delay of each group under a trace, as in [`measure`] but without the
/// comparison with the fluid.
pub(crate) fn owed(discipline: &Discipline, trace: &Trace) -> Vec<Owed> {
    let (flows, workload) = (trace.flows(), Workload::Trace(trace));
    let (mut source, mut account) = (Source::new(&workload, flows, 0), Account::new(flows));
    let (time, _) = discipline.visit(Drive { flows, source: &mut source, watch: &mut account });
    account.close(time);
    let bounds = bounds::with_shortest(discipline, flows, &shortest(flows, &workload));
    let total = flows.total_weight();
    let mut accounts = account.flows();
    let mut owed = Vec::with_capacity(bounds.len());
    for (group, bound) in flows.groups().iter().zip(bounds) {
        let (own, rest) = accounts.split_at(group.count as usize);
        accounts = rest;
        let Some(worst) = own.iter().rev().max_by_key(|flow| flow.bwfi) else { continue };
        let excess = own.iter().map(|flow| flow.excess).max().unwrap_or_default();
        owed.push(Owed {
            lmax: group.lmax,
            bwfi: Exact::new(worst.bwfi, total.into()),
            bound: bound.bytes,
            interval: worst.span,
            excess: Exact::new(excess, group.weight.into()),
        });
    }
    owed
}

/// The worst values over the flows of a group. `first` is the number of the group's first flow.
fn class(
    group: &Group,
    bound: Bound,
    total: u64,
    first: u32,
    accounts: &[FlowAccount],
    (deviations, distances): (&[Deviation<Exact>], &[(f64, u64)]),
) -> Class {
    let most =
        |of: fn(&Deviation<Exact>) -> Exact| deviations.iter().map(of).max().unwrap_or(Exact::ZERO);
    let share = Exact::new(group.weight.into(), total.into());
    let bytes = |scaled: i128| Exact::new(scaled, total.into());
    let worst = (0..accounts.len())
        .max_by_key(|&n| (accounts[n].bwfi, std::cmp::Reverse(n)))
        .unwrap_or_default();
    let own = accounts.iter().map(|flow| flow.most).max().unwrap_or_default();
    Class {
        group: *group,
        bwfi: bytes(accounts[worst].bwfi),
        worst_flow: first + worst as u32,
        worst_interval: accounts[worst].span,
        delay_max: accounts.iter().map(|flow| flow.delay).max().unwrap_or_default(),
        delay_bound: bound.bytes.map(|bytes| (Exact::whole(own) + bytes) / share),
        delay_excess: bytes(accounts.iter().map(|flow| flow.excess).max().unwrap_or_default())
            / share,
        bound,
        lag: most(|a| a.lag),
        lead: most(|a| a.lead),
        late: most(|a| a.late),
        deviation_mean: mean(distances),
        dropped: accounts.iter().map(|flow| flow.dropped).sum(),
    }
}

/// The mean distance over several flows. Each item is the sum of a flow's distances and their
/// count.
fn mean(distances: &[(f64, u64)]) -> Option<f64> {
    let count: u64 = distances.iter().map(|(_, count)| count).sum();
    (count > 0).then(|| distances.iter().map(|(sum, _)| sum).sum::<f64>() / count as f64)
}

/// Minimum number of packets over which service is measured.
const LEAST_PACKETS: u64 = 100_000;
/// Minimum number of packets of an average flow over which service is measured.
const TURNS: u64 = 20;
