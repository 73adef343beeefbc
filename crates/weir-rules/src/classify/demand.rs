//! The demands of a step: the values of a field that the step's tests require. A step is a compiled
//! rule. An [index](super::index) files a step under one of its demands.

use super::program::{Check, Op, Program, Step};
use super::view::Side;

/// A field under which steps are filed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Address(Side),
    Port(Side),
    Protocol,
}

impl Field {
    /// All fields. Of several equally selective fields the index uses the first.
    pub(super) const ALL: [Self; 5] = [
        Self::Address(Side::Dst),
        Self::Address(Side::Src),
        Self::Port(Side::Dst),
        Self::Port(Side::Src),
        Self::Protocol,
    ];
}

/// A set of values of one field. A packet must have one of these values to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// Prefixes of both IP versions, each as address and length.
    Address(Side, Vec<(u32, u8)>, Vec<(u128, u8)>),
    /// Ranges of ports, each as its first and last port.
    Port(Side, Vec<(u16, u16)>),
    Protocol(Vec<u8>),
}

impl Demand {
    pub(super) fn field(&self) -> Field {
        match self {
            Self::Address(side, ..) => Field::Address(*side),
            Self::Port(side, _) => Field::Port(*side),
            Self::Protocol(_) => Field::Protocol,
        }
    }

    /// Adds the values of an alternative demand. Returns `false` if the demand is on another field
    /// or if there are too many prefixes.
    fn or(&mut self, other: Self) -> bool {
        match (self, other) {
            (Self::Address(side, v4, v6), Self::Address(other, more4, more6)) if *side == other => {
                v4.extend(more4);
                v6.extend(more6);
                v4.len() + v6.len() <= MOST_VALUES
            }
            (Self::Port(side, spans), Self::Port(other, more)) if *side == other => {
                spans.extend(more);
                true
            }
            (Self::Protocol(numbers), Self::Protocol(more)) => {
                numbers.extend(more);
                true
            }
            _ => false,
        }
    }
}

/// The demands of a step, at most one per field. A step that checks dynamic rules first can match
/// any packet, so it has no demands.
pub(super) fn demands(program: &Program, step: &Step) -> Vec<Demand> {
    let mut all: Vec<Demand> = Vec::new();
    if step.probes {
        return all;
    }
    let ops = &program.ops[step.first as usize..][..step.count as usize];
    for clause in ops.chunk_by(|op, _| !op.last) {
        if let Some(demand) = of_clause(program, clause)
            && all.iter().all(|known| known.field() != demand.field())
        {
            all.push(demand);
        }
    }
    all
}

fn of_clause(program: &Program, clause: &[Op]) -> Option<Demand> {
    any_of(clause.iter().map(|op| if op.not { None } else { of_check(program, op.check) }))
}

/// The common demand of alternative terms; `None` if a term has no demand or the terms demand
/// different fields.
fn any_of(mut alternatives: impl Iterator<Item = Option<Demand>>) -> Option<Demand> {
    let mut demand = alternatives.next()??;
    alternatives.all(|other| other.is_some_and(|other| demand.or(other))).then_some(demand)
}

fn of_check(program: &Program, check: Check) -> Option<Demand> {
    let pool = &program.pool;
    match check {
        Check::Protocol(number) => Some(Demand::Protocol(vec![number])),
        Check::V4(side, bits, mask) if mask.leading_ones() == mask.count_ones() => {
            Some(Demand::Address(side, vec![(bits, mask.count_ones() as u8)], Vec::new()))
        }
        Check::V6(side, at) => {
            let (bits, mask) = pool.v6[at as usize];
            (mask.leading_ones() == mask.count_ones())
                .then(|| Demand::Address(side, Vec::new(), vec![(bits, mask.count_ones() as u8)]))
        }
        Check::Port(side, span) => Some(Demand::Port(side, vec![(span.first, span.last)])),
        Check::Ports(side, at) => Some(Demand::Port(
            side,
            pool.spans[at as usize].iter().map(|span| (span.first, span.last)).collect(),
        )),
        Check::Group(at) => {
            any_of(pool.groups[at as usize].iter().map(|check| of_check(program, *check)))
        }
        _ => None,
    }
}

/// Maximum number of prefixes that a demand for addresses combines.
const MOST_VALUES: usize = 16;
