//! The theoretical bounds of the B-WFI, one row for each scheduler with a guarantee.
//!
//! Every bound applies to the quantity that [`super`] defines: for any arrivals, and over any
//! interval that starts at any moment of a backlogged period of the flow and ends at a departure of
//! the flow. `docs/guarantees.md` derives the verified bounds for the schedulers as implemented
//! here, and explains where the literature states another form.
//!
//! ```text
//! φ          w / (sum of the weights of all flows)
//! Q          L · w / (least weight)
//! σ          least power of two with w σ ≥ L_k
//! n          the number of flows in the aggregate of QFQ+
//! L_k, ℓ_k   the flow's largest and shortest packet
//! L, L_j     the largest packet of all flows, and the largest packet of another flow
//! Σ          over all other flows
//! B          the largest n L_k of all aggregates
//! ```
//! Packets are at most `lmax` long. A bound holds for a fixed flow set: flows and weights do not
//! change.

use std::fmt;

use weir_core::sched::Discipline;

use super::exact::Exact;
use crate::flows::{FlowSet, Group};

/// The theoretical bound of a flow's B-WFI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The bound in bytes; `None` without a bound.
    pub bytes: Option<Exact>,
    /// The evidence for the bound.
    pub status: Status,
    /// The formula of the bound.
    pub formula: &'static str,
}

/// The evidence for a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// `docs/guarantees.md` derives the bound for the scheduler as implemented here.
    Verified,
    /// The bound is quoted from the literature, without a derivation.
    Unverified,
    /// The scheduler has no known bound.
    None,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Verified => "verified",
            Self::Unverified => "unverified",
            Self::None => "none",
        })
    }
}

/// A row of the table.
struct Line {
    /// The scheduler's name.
    name: &'static str,
    formula: &'static str,
    /// The bound in bytes.
    bytes: fn(&Terms<'_>) -> Exact,
}

/// The schedulers that have a bound.
const TABLE: &[Line] = &[
    Line { name: "drr", formula: "(1 − φ) Q + φ (Σ L_j + max L_j)", bytes: round_robin },
    Line { name: "wf2q+", formula: "max(L_k + φ (L − L_k), 2 φ L)", bytes: worst_case_fair },
    Line { name: "l-wf2q", formula: "max(L_k + φ (L − L_k), 2 φ L)", bytes: worst_case_fair },
    Line {
        name: "qfq",
        formula: "3 w σ + max((1 − φ) L_k − ℓ_k + φ L, 2 φ L − ℓ_k)",
        bytes: quick,
    },
    Line {
        name: "qfq+",
        formula: "3 w σ + (1 − n φ) L_k + 2 (1 − 1/n) L_k − ℓ_k / n + φ (B + L)",
        bytes: aggregated,
    },
    Line { name: "scfq", formula: "φ Σ L_j", bytes: self_clocked },
    Line { name: "stfq", formula: START_TIME, bytes: start_time },
    Line { name: "pifo", formula: START_TIME, bytes: start_time },
    Line {
        name: "wfq",
        formula: "max(w x + φ L, 2 φ L), x with w x = Σ max(L_j − w_j x, 0)",
        bytes: weighted_fair,
    },
];

const START_TIME: &str = "max((1 − φ) (L_k − ℓ_k) + φ Σ L_j, φ (Σ L_j + max L_j) − (1 − φ) ℓ_k)";

/// The terms of the formulas, for one group.
struct Terms<'a> {
    flows: &'a FlowSet,
    group: &'a Group,
    shortest: u32,
    /// The largest number of flows in an aggregate.
    most: u32,
}

impl Terms<'_> {
    /// `w`.
    fn weight(&self) -> Exact {
        Exact::whole(self.group.weight)
    }

    /// `φ`.
    fn share(&self) -> Exact {
        Exact::new(self.group.weight.into(), self.flows.total_weight().into())
    }

    /// `1 − φ`.
    fn rest(&self) -> Exact {
        Exact::whole(1) - self.share()
    }

    /// `L_k`.
    fn flow_lmax(&self) -> Exact {
        Exact::whole(self.group.lmax)
    }

    /// `ℓ_k`.
    fn flow_lmin(&self) -> Exact {
        Exact::whole(self.shortest.min(self.group.lmax))
    }

    /// `L`.
    fn lmax(&self) -> Exact {
        Exact::whole(self.flows.groups().iter().map(|group| group.lmax).max().unwrap_or(0))
    }

    /// The number of flows with the weight and the `lmax` of a group.
    fn alike(&self, group: &Group) -> u32 {
        let alike = |other: &&Group| (other.weight, other.lmax) == (group.weight, group.lmax);
        self.flows.groups().iter().filter(alike).map(|group| group.count).sum()
    }

    /// The other flows, as pairs of a group and the number of other flows in it.
    fn others(&self) -> impl Iterator<Item = (i128, &Group)> {
        self.flows.groups().iter().map(|group| {
            (i128::from(group.count) - i128::from(std::ptr::eq(group, self.group)), group)
        })
    }

    /// `Σ L_j`.
    fn sum_of_others(&self) -> Exact {
        Exact::whole(
            self.others().map(|(count, group)| count * i128::from(group.lmax)).sum::<i128>(),
        )
    }

    /// `max L_j`.
    fn longest_of_others(&self) -> Exact {
        Exact::whole(
            self.others()
                .filter(|(count, _)| *count > 0)
                .map(|(_, group)| group.lmax)
                .max()
                .unwrap_or(0),
        )
    }

    /// `w σ`, which is at least `L_k` and at most `2 L_k`. As in QFQ, the inverse of `w` is first
    /// rounded up to 32 bits of fraction.
    fn slot(&self) -> Exact {
        let inverse = (1u64 << 32).div_ceil(self.group.weight.into());
        let slot = (u64::from(self.group.lmax) * inverse).next_power_of_two();
        self.weight() * Exact::new(slot.into(), 1 << 32)
    }
}

/// The bounds of a scheduler for each group of a set, in the set's order. The shortest packets are
/// those of the set.
pub fn of(discipline: &Discipline, flows: &FlowSet) -> Vec<Bound> {
    let shortest: Vec<u32> = flows.groups().iter().map(|group| group.lengths.shortest()).collect();
    with_shortest(discipline, flows, &shortest)
}

/// The bounds as [`of`] returns them, but with the shortest packet of each group given in bytes.
pub fn with_shortest(discipline: &Discipline, flows: &FlowSet, shortest: &[u32]) -> Vec<Bound> {
    let (most, name) = match (discipline.number("m").unwrap_or(0) as u32, discipline.row().name) {
        (1, "qfq+") => (1, "qfq"),
        // With `m` at 0, QFQ+ chooses the number itself. The rig's queues have no limit, so it
        // chooses 8.
        (0, name) => (8, name),
        named => named,
    };
    let line = TABLE.iter().find(|line| line.name == name && promises(discipline));
    let bound = |(group, &shortest): (&Group, &u32)| match line {
        Some(line) => Bound {
            bytes: Some((line.bytes)(&Terms { flows, group, shortest, most })),
            status: if is_verified(discipline) { Status::Verified } else { Status::Unverified },
            formula: line.formula,
        },
        None => Bound { bytes: None, status: Status::None, formula: "none" },
    };
    flows.groups().iter().zip(shortest).map(bound).collect()
}

/// Whether the bound holds with these settings. The bound of a PIFO requires that it sorts by
/// virtual start and never drops a packet in favour of a better one.
fn promises(discipline: &Discipline) -> bool {
    let sorts = discipline
        .settings()
        .find(|(setting, _)| setting.name == "rank")
        .is_none_or(|(_, rank)| rank == "stfq");
    sorts && discipline.number("limit").unwrap_or(0) == 0
}

fn round_robin(terms: &Terms<'_>) -> Exact {
    let least = terms.flows.groups().iter().map(|group| group.weight).min().unwrap_or(1);
    let quantum = terms.weight() / Exact::whole(least) * terms.lmax();
    terms.rest() * quantum + terms.share() * (terms.sum_of_others() + terms.longest_of_others())
}

fn worst_case_fair(terms: &Terms<'_>) -> Exact {
    let steady = terms.flow_lmax() + terms.share() * (terms.lmax() - terms.flow_lmax());
    steady.max(Exact::whole(2) * terms.share() * terms.lmax())
}

fn quick(terms: &Terms<'_>) -> Exact {
    let share_of_largest = terms.share() * terms.lmax();
    let after_own = terms.rest() * terms.flow_lmax() + share_of_largest;
    let afresh = share_of_largest + share_of_largest;
    Exact::whole(3) * terms.slot() + after_own.max(afresh) - terms.flow_lmin()
}

fn aggregated(terms: &Terms<'_>) -> Exact {
    let budgets =
        terms.flows.groups().iter().map(|group| {
            Exact::whole(terms.most.min(terms.alike(group))) * Exact::whole(group.lmax)
        });
    let others = terms.share() * (budgets.fold(Exact::ZERO, Exact::max) + terms.lmax());
    // The last aggregate of a kind may have fewer flows than the others.
    let alike = terms.alike(terms.group);
    let own =
        [terms.most.min(alike), alike % terms.most].into_iter().filter(|n| *n != 0).map(|n| {
            let part = Exact::new(1, n.into());
            (Exact::ONE - Exact::whole(n) * terms.share()) * terms.flow_lmax()
                + Exact::whole(2) * (Exact::ONE - part) * terms.flow_lmax()
                - part * terms.flow_lmin()
        });
    let own = own.reduce(Exact::max).unwrap_or(Exact::ZERO);
    Exact::whole(3) * terms.slot() + own + others
}

/// Whether the bound is derived for this scheduler. For schedulers with an exact fluid clock, the
/// published bound assumes a flow that is backlogged in the fluid too.
fn is_verified(discipline: &Discipline) -> bool {
    !matches!(discipline.row().name, "wfq" | "l-wf2q")
}

fn self_clocked(terms: &Terms<'_>) -> Exact {
    terms.share() * terms.sum_of_others()
}

fn start_time(terms: &Terms<'_>) -> Exact {
    let others = terms.share() * terms.sum_of_others();
    let after_own = terms.rest() * (terms.flow_lmax() - terms.flow_lmin()) + others;
    let afresh =
        others + terms.share() * terms.longest_of_others() - terms.rest() * terms.flow_lmin();
    after_own.max(afresh)
}

fn weighted_fair(terms: &Terms<'_>) -> Exact {
    // For a subset of the other flows, divide the sum of their largest packets by the sum of their
    // weights and this flow's weight. `x` is the largest of these quotients. The flows with the
    // largest `L_j / w_j` form that subset.
    let mut others: Vec<(i128, &Group)> = terms.others().collect();
    others.sort_by_key(|(_, group)| {
        std::cmp::Reverse(Exact::new(group.lmax.into(), group.weight.into()))
    });
    let (mut bytes, mut weights, mut ahead) = (0, i128::from(terms.group.weight), Exact::ZERO);
    for (count, group) in others {
        bytes += count * i128::from(group.lmax);
        weights += count * i128::from(group.weight);
        ahead = ahead.max(Exact::new(bytes, weights));
    }
    let share_of_largest = terms.share() * terms.lmax();
    (terms.weight() * ahead + share_of_largest).max(share_of_largest + share_of_largest)
}

/// The tolerance in bytes for the rounding in the schedulers' own fixed-point numbers.
pub const ROUNDING: Exact = Exact::ONE;

#[cfg(test)]
mod tests {
    use weir_core::sched::Kind;

    use super::*;

    fn packets(name: &str, flows: &str) -> Option<f64> {
        let flows: FlowSet = flows.parse().unwrap();
        let group = *flows.groups().last()?;
        let bound = of(&Discipline::new(Kind::from_name(name)?), &flows).pop()?;
        bound.bytes.map(|bytes| (bytes / Exact::whole(group.lmax)).to_f64())
    }

    #[test]
    fn bounds_of_known_sets_are_what_the_formulas_give() {
        // (1 − 1/500) times a quantum of four packets, plus 1/500 of 1000 packets: one packet of
        // each other flow, and one more.
        assert_eq!(
            packets("drr", "500:w1,250:w2,250:w4"),
            Some(4.0 * (1.0 - 0.002) + 0.002 * 1000.0)
        );
        assert_eq!(packets("wf2q+", "1000:w1"), Some(1.0));
        assert_eq!(packets("wf2q+", "1:w1,1:w9"), Some(1.8));
        assert_eq!((packets("fifo", "3"), packets("prio", "3")), (None, None));
        // `w σ` is one packet. The bound is 3 packets, plus 7/8 of two packets, minus 1/8 of a
        // packet, plus 1/8 of `B + L`, which is 9 packets.
        assert_eq!(packets("qfq+", "8:w1024:l1024"), Some(3.0 + 1.75 - 0.125 + 9.0 / 8.0));
        // A heavy flow waits for the budget of eight light ones.
        let heavy = packets("qfq+", "8:w1:l1024,1:w1024:l1024").unwrap();
        assert!((heavy - (3.0 + 8.0 * 1024.0 / 1032.0)).abs() < 1e-9, "{heavy}");
    }

    #[test]
    fn slots_hold_a_packet_and_no_more_than_two() {
        for (weight, lmax) in [
            (1, 1500),
            (4, 1500),
            (1500, 1500),
            (65_536, 64),
            (1, 65_536),
            (3, 64),
            (65_536, 65_536),
            (999, 64),
        ] {
            let flows: FlowSet = format!("1:w{weight}:l{lmax}").parse().unwrap();
            let terms = Terms { flows: &flows, group: &flows.groups()[0], shortest: lmax, most: 8 };
            let slot = terms.slot();
            assert!(
                slot >= Exact::whole(lmax) && slot <= Exact::whole(2 * lmax),
                "w{weight} l{lmax}: {slot:?}"
            );
        }
    }
}
