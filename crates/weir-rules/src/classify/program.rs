//! Compiled rules. A head says what a rule does; a program says when rules match.
//!
//! Each rule has one head, and the default rule's head comes last. Each expected
//! [`Pass`](super::Pass) has one program. The steps of a program are the rules that can match in
//! that pass. Tests of direction and interface are already decided, except look-ups of interfaces
//! in tables. One more program serves all other passes and performs such tests for each packet.

use weir_core::units::Probability;
use weir_wire::IpVersion;

use super::lookup::Lookup;
use super::place::Place;
use super::prefixes::Prefixes;
use super::tables::Tables;
use super::view::{Side, View, holds, via, within};
use crate::rule::{Interface, LimitMask, LookupField, Name, RuleAction, Span16, Target, Test};

/// The part of a rule that takes effect when the rule matches.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) number: u16,
    pub(super) id: u32,
    /// Whether the rule's set is enabled.
    pub(super) enabled: bool,
    pub(super) probability: Option<Probability>,
    /// The rule's index among the rules with a probability.
    pub(super) stream: Option<u32>,
    pub(super) action: RuleAction,
    pub(super) tag: Option<Target>,
    pub(super) untag: Option<Target>,
    pub(super) keep: Option<Keep>,
}

/// The index of the rule with this number and identity; otherwise, as an error, the index of the
/// first rule with a larger number.
pub(super) fn find(heads: &[Head], number: u16, id: u32) -> Result<u32, u32> {
    let first = heads.partition_point(|head| head.number < number);
    let same = heads[first..].partition_point(|head| head.number == number);
    match heads[first..first + same].iter().position(|head| head.id == id) {
        Some(at) => Ok((first + at) as u32),
        None => Err((first + same) as u32),
    }
}

/// The dynamic rule that a rule creates when it matches.
#[derive(Clone, Debug)]
pub(super) struct Keep {
    /// The state name; `None` for the default name.
    pub(super) name: Option<Name>,
    /// For `limit`: the shared fields, and the maximum number of flows.
    pub(super) limit: Option<(LimitMask, Target)>,
    /// Whether the rule checks dynamic rules before its own tests.
    pub(super) probes: bool,
}

/// The rules that can match in a pass, in order.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    /// The rule number of each step. A jump searches these numbers for its target.
    pub(super) numbers: Vec<u16>,
    /// The terms of all steps.
    pub(super) ops: Vec<Op>,
    pub(super) pool: Pool,
}

/// One rule of a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The index of the rule's head.
    pub(super) rule: u32,
    /// The index of the rule's first term in [`Program::ops`].
    pub(super) first: u32,
    /// The number of the rule's terms.
    pub(super) count: u32,
    /// Whether the rule matches IP packets only.
    pub(super) ip: bool,
    /// Whether the rule checks dynamic rules before its own tests.
    pub(super) probes: bool,
    /// Whether the rule is skipped when a packet leaves a bridge.
    pub(super) inwards: bool,
}

/// A compiled [`Term`](crate::rule::Term) of a clause.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub(super) check: Check,
    pub(super) not: bool,
    /// Whether this term is the last of its clause.
    pub(super) last: bool,
}

/// A compiled test. Frequent tests are stored in the check itself, the others in the [`Pool`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Check {
    Always,
    Never,
    Ip4,
    Ip6,
    Protocol(u8),
    /// The address and the mask.
    V4(Side, u32, u32),
    /// An index of [`Pool::v6`].
    V6(Side, u32),
    /// An index of [`Pool::sets`].
    Set(Side, u32),
    /// An index of [`Pool::prefixes`].
    Prefixes(Side, u32),
    /// An index of [`Pool::groups`]: the test holds if any test of the group holds.
    Group(u32),
    Port(Side, Span16),
    /// An index of [`Pool::spans`].
    Ports(Side, u32),
    /// The address is looked up in the table.
    Address(Side, TableRef),
    Lookup(LookupField, TableRef),
    Flow(TableRef),
    InterfaceTable(Which, TableRef),
    /// An index of [`Pool::interfaces`].
    Interface(Which, u32),
    /// An index of [`Pool::spans`].
    Tagged(u32),
    /// An index of [`Pool::rare`].
    Rare(u32),
}

/// A table, and the value that the found entry must have.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableRef {
    /// The number of the table.
    pub(super) table: u32,
    /// The value's index in [`Pool::values`]; [`ANY_VALUE`] if any value will do.
    pub(super) value: u32,
}

/// The entry may have any value.
pub(super) const ANY_VALUE: u32 = u32::MAX;

/// The interface of a pass that a test examines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Via,
    Recv,
    Xmit,
}

impl Which {
    pub(super) fn of(self, pass: &super::Pass) -> Option<u16> {
        match self {
            Self::Via => via(pass),
            Self::Recv => pass.recv,
            Self::Xmit => pass.xmit.filter(|_| pass.out),
        }
    }
}

/// The parts of tests that do not fit into a [`Check`].
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// Addresses with their masks.
    pub(super) v6: Vec<(u128, u128)>,
    /// First addresses with their members, as in [`crate::rule::Address::Set`].
    pub(super) sets: Vec<(u32, [u64; 4])>,
    pub(super) prefixes: Vec<(Prefixes<u32>, Prefixes<u128>)>,
    pub(super) groups: Vec<Vec<Check>>,
    pub(super) spans: Vec<Vec<Span16>>,
    pub(super) values: Vec<u32>,
    pub(super) interfaces: Vec<Interface>,
    pub(super) rare: Vec<Test>,
}

/// The context of tests other than the packet.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) tables: &'a Tables,
    pub(super) place: &'a Place,
    pub(super) tags: &'a [u16],
}

impl Program {
    /// The first step with this rule number or a larger one.
    pub(super) fn position(&self, number: u16) -> usize {
        self.numbers.partition_point(|&n| n < number)
    }

    /// The first step after a rule.
    pub(super) fn after(&self, rule: u32) -> usize {
        self.steps.partition_point(|step| step.rule <= rule)
    }

    /// Whether all clauses of a step hold. Sets `argument` to the result of the last successful
    /// look-up.
    #[inline]
    pub(super) fn matches(
        &self,
        step: &Step,
        view: &View<'_>,
        inputs: Inputs<'_>,
        argument: &mut Option<u32>,
    ) -> bool {
        let first = step.first as usize;
        let mut ops = self.ops[first..first + step.count as usize].iter();
        while let Some(op) = ops.next() {
            if self.check(op.check, view, inputs, argument) != op.not {
                // This term holds, so the other terms of the clause are skipped.
                let mut last = op.last;
                while !last {
                    last = ops.next().is_none_or(|op| op.last);
                }
            } else if op.last {
                return false;
            }
        }
        true
    }

    #[inline]
    fn check(
        &self,
        check: Check,
        view: &View<'_>,
        inputs: Inputs<'_>,
        argument: &mut Option<u32>,
    ) -> bool {
        match check {
            Check::Always => true,
            Check::Never => false,
            Check::Ip4 => view.ip == IpVersion::V4,
            Check::Ip6 => view.ip == IpVersion::V6,
            Check::Protocol(number) => view.key.proto == number && view.ip != IpVersion::None,
            Check::V4(side, bits, mask) => {
                view.v4(side).is_some_and(|address| address & mask == bits)
            }
            Check::Port(side, span) => view.port(side).is_some_and(|port| span.contains(port)),
            Check::Address(side, table) => {
                let table_of = &inputs.tables[table.table];
                let value = match view.ip {
                    IpVersion::V4 => view.v4(side).and_then(|address| table_of.v4(address)),
                    _ => view.v6(side).and_then(|address| table_of.v6(address)),
                };
                self.found(value, table, argument)
            }
            other => self.check_rest(other, view, inputs, argument),
        }
    }

    #[inline(never)]
    fn check_rest(
        &self,
        check: Check,
        view: &View<'_>,
        inputs: Inputs<'_>,
        argument: &mut Option<u32>,
    ) -> bool {
        let pool = &self.pool;
        match check {
            Check::V6(side, at) => {
                let (bits, mask) = pool.v6[at as usize];
                view.v6(side).is_some_and(|address| address & mask == bits)
            }
            Check::Set(side, at) => {
                let (base, members) = pool.sets[at as usize];
                view.v4(side).is_some_and(|address| in_set(address, base, &members))
            }
            Check::Prefixes(side, at) => {
                let (v4, v6) = &pool.prefixes[at as usize];
                view.v4(side).is_some_and(|a| v4.get(a).is_some())
                    || view.v6(side).is_some_and(|a| v6.get(a).is_some())
            }
            Check::Group(at) => pool.groups[at as usize]
                .iter()
                .any(|check| self.check(*check, view, inputs, argument)),
            Check::Ports(side, at) => {
                view.port(side).is_some_and(|port| within(&pool.spans[at as usize], port))
            }
            Check::Lookup(field, table) => {
                self.found(looked_up(field, &inputs.tables[table.table], view), table, argument)
            }
            Check::Flow(table) => {
                let value = if view.ip == IpVersion::None {
                    None
                } else {
                    inputs.tables[table.table].flow(view.key)
                };
                self.found(value, table, argument)
            }
            Check::InterfaceTable(which, table) => {
                let value = which
                    .of(&view.pass)
                    .and_then(|number| inputs.tables[table.table].interface(number));
                self.found(value, table, argument)
            }
            Check::Interface(which, at) => which
                .of(&view.pass)
                .is_some_and(|number| inputs.place.is(number, &pool.interfaces[at as usize])),
            Check::Tagged(at) => {
                let spans = &pool.spans[at as usize];
                inputs.tags.iter().any(|&tag| spans.is_empty() || within(spans, tag))
            }
            Check::Rare(at) => holds(&pool.rare[at as usize], view),
            _ => self.check(check, view, inputs, argument),
        }
    }

    /// Whether a look-up found the required value. If so, the found value becomes the rule's
    /// argument.
    #[inline]
    fn found(&self, value: Option<u32>, wanted: TableRef, argument: &mut Option<u32>) -> bool {
        let Some(value) = value else { return false };
        if wanted.value != ANY_VALUE && self.pool.values[wanted.value as usize] != value {
            return false;
        }
        *argument = Some(value);
        true
    }
}

/// Whether an address is in a set of up to 256 addresses.
fn in_set(address: u32, base: u32, members: &[u64; 4]) -> bool {
    match address.checked_sub(base) {
        Some(n @ 0..256) => members[n as usize / 64] >> (n % 64) & 1 == 1,
        _ => false,
    }
}

fn looked_up(field: LookupField, table: &Lookup, view: &View<'_>) -> Option<u32> {
    let address = |side| match view.ip {
        IpVersion::V4 => view.v4(side).and_then(|address| table.v4(address)),
        _ => view.v6(side).and_then(|address| table.v6(address)),
    };
    match field {
        LookupField::SrcIp => address(Side::Src),
        LookupField::DstIp => address(Side::Dst),
        LookupField::SrcPort => table.number(view.port(Side::Src)?.into()),
        LookupField::DstPort => table.number(view.port(Side::Dst)?.into()),
        LookupField::Dscp => table.number(view.dscp.into()).filter(|_| view.ip != IpVersion::None),
    }
}
