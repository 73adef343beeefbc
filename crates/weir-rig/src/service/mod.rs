//! Service: what flows get of the link, against what an ideal link would give them.
//!
//! [`measure`] runs a scheduler on a workload and answers for each group of a flow set:
//!
//! - **B-WFI**, the bit worst-case fair index: the most bytes by which a flow fell behind its share
//!   of what the link sent, over any interval within a period in which it had packets waiting,
//!   counted when a packet of the flow has left. The share is its weight over the weights of *all*
//!   flows of the set. One packet is the least that any scheduler can reach.
//! - **bound**: what theory allows that to be, where there is a theory; see [`bounds`].
//! - **delay** of a packet from its arrival to its end, and the delay that follows from the bound
//!   for a flow with so many bytes.
//! - **lag**, **lead** and **lateness** against the *fluid* that serves the same arrivals all at
//!   once, by weight.
//! - **Jain's index** of what flows got over what the fluid gave them, when the arrivals ended.
//!
//! Everything is counted in bytes: of the flow for B-WFI, lag and lead, of the link for times.

mod account;
pub mod bounds;
mod exact;
mod fluid;
mod link;
mod workload;

pub use bounds::{Bound, Status};
pub use exact::Exact;
pub use workload::Workload;

use weir_core::sched::{Discipline, Scheduler, Visitor};

use crate::flows::{FlowSet, Group};
use crate::trace::Trace;
use account::{Account, FlowAccount};
use fluid::{Apart, Fluid};
use workload::Source;

/// What a scheduler gave to the flows of a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// For each group, in the set's order.
    pub classes: Vec<Class>,
    /// Jain's index of what flows got over what the fluid gave them, from one over their number
    /// (one had it all) to 1 (each its due).
    pub jain: f64,
    /// Packets that the link sent.
    pub packets: u64,
    /// When observation ended, in bytes of the link.
    pub time: u64,
}

/// The service of the flows of a group: the worst value of each quantity over all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// The group.
    pub group: Group,
    /// B-WFI in bytes.
    pub bwfi: Exact,
    /// The flow that it is of.
    pub worst_flow: u32,
    /// The interval that it is over, in bytes of the link since the beginning.
    pub worst_interval: (u64, u64),
    /// What theory says of it, in bytes.
    pub bound: Bound,
    /// Longest delay of a packet, in bytes of the link.
    pub delay_max: u64,
    /// The delay that the bound allows to a packet with the most bytes of its own flow that one met
    /// here, in bytes of the link; `None` without a bound.
    pub delay_bound: Option<Exact>,
    /// The most by which a delay exceeds what the packet's own flow explains at its share of the
    /// link, in bytes of the link.
    pub delay_excess: Exact,
    /// Most bytes that a flow's service was behind the fluid's.
    pub lag: Exact,
    /// Most bytes that it was ahead.
    pub lead: Exact,
    /// Most that a packet ended later than in the fluid, in bytes of the link.
    pub late: Exact,
}

impl Class {
    /// B-WFI in packets, the largest of the flow.
    pub fn bwfi_packets(&self) -> f64 {
        self.in_packets(self.bwfi)
    }

    /// The bound in packets.
    pub fn bound_packets(&self) -> Option<f64> {
        self.bound.bytes.map(|bytes| self.in_packets(bytes))
    }

    /// Whether the measured B-WFI is within the bound, to within [`bounds::ROUNDING`]; `None`
    /// without a bound.
    pub fn is_within_bound(&self) -> Option<bool> {
        self.bound.bytes.map(|bytes| self.bwfi <= bytes + bounds::ROUNDING)
    }

    /// How much of the bound was reached, of 1; `None` without a bound.
    pub fn of_bound(&self) -> Option<f64> {
        self.bound.bytes.map(|bytes| self.bwfi.to_f64() / bytes.to_f64())
    }

    fn in_packets(&self, bytes: Exact) -> f64 {
        (bytes / Exact::whole(self.group.lmax)).to_f64()
    }
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
    let apart: Vec<Apart<Exact>> = fluid.worst().collect();
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
            &apart[range],
        ));
        first += group.count as usize;
    }
    Service { classes, jain: fluid.fairness(), packets, time }
}

/// The shortest packet of each group: what the set says, or what a trace has.
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

/// What a group was owed at the worst, without the rest of a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owed {
    pub(crate) lmax: u32,
    /// In bytes.
    pub(crate) bwfi: Exact,
    pub(crate) bound: Option<Exact>,
    /// The interval of it.
    pub(crate) interval: (u64, u64),
    /// The most that a delay exceeds what the packet's own flow explains, in bytes of the link.
    pub(crate) excess: Exact,
}

/// The lag of each group under the arrivals of a trace: the same results as [`measure`], faster.
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
        let Some(worst) = own.iter().max_by_key(|flow| flow.bwfi) else { continue };
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

/// The worst of the flows of a group, the first of which has the number `first`.
fn class(
    group: &Group,
    bound: Bound,
    total: u64,
    first: u32,
    accounts: &[FlowAccount],
    apart: &[Apart<Exact>],
) -> Class {
    let most = |of: fn(&Apart<Exact>) -> Exact| apart.iter().map(of).max().unwrap_or(Exact::ZERO);
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
    }
}

/// Drives the scheduler that it is given.
struct Drive<'a, 'b, W> {
    flows: &'a FlowSet,
    source: &'a mut Source<'b>,
    watch: &'a mut W,
}

impl<W: link::Watch> Visitor for Drive<'_, '_, W> {
    type Output = (u64, u64);

    fn visit<S: Scheduler + std::fmt::Debug>(self, scheduler: S) -> Self::Output {
        link::drive(scheduler, self.flows, self.source, self.watch)
    }
}
