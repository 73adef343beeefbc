//! An index over the steps of a long program: it finds the steps that a packet can match.
//!
//! # Model
//! A step is filed under its most selective field: an address, a port or a protocol. The step is in
//! the list of each value (a prefix, a range of ports, a protocol) that it demands of this field.
//! The fields of a packet select a few lists of steps. The search tries the steps of these lists in
//! order of position, together with the steps that are not filed. A list that is still long is
//! divided again by the remaining fields.
//!
//! A step that a packet can match is always in one of the selected lists. The lists may contain
//! other steps too, so the search still tests every step in full. A program with an index therefore
//! decides exactly as it does without one.
//!
//! # Complexity
//! Building an index takes O(n log n) for n steps. A packet costs one look-up for each field in
//! use, plus the tests of the steps in the selected lists. With n rules that demand different
//! hosts, networks or ports, a packet costs as much as with one rule. Nested prefixes cost one list
//! for each prefix that contains the address.

use std::collections::HashMap;

use weir_wire::IpVersion;

use super::demand::{Demand, Field, demands};
use super::prefixes::{Prefix, Prefixes};
use super::program::Program;
use super::view::{Side, View};

/// The lists of a program's steps.
#[derive(Debug)]
pub(super) struct Index {
    nodes: Vec<Node>,
    /// Positions of steps, ascending within each list.
    lists: Vec<u32>,
}

/// A set of steps. The search tries some of them at this node and finds the other steps through
/// the branches.
#[derive(Debug, Default)]
struct Node {
    /// The steps that are tried at this node are `lists[first..end]` of the index.
    first: u32,
    end: u32,
    /// One branch for each field by which the other steps are divided.
    branches: Vec<Branch>,
}

/// Steps that are divided by one field: the values of a packet's field select nodes. `None` in
/// place of a node means that there are no steps.
#[derive(Debug)]
enum Branch {
    /// The longest prefix that contains the address selects a group. The groups of shorter prefixes
    /// that contain it follow through [`Group::parent`].
    Address {
        side: Side,
        v4: Prefixes<u32>,
        v6: Prefixes<u128>,
        groups: Vec<Group>,
    },
    /// Ranges of ports: the first port of each range, and the range's node.
    Port {
        side: Side,
        starts: Vec<(u16, Option<u32>)>,
    },
    Protocol(Box<[Option<u32>; 256]>),
}

/// The steps that demand one prefix.
#[derive(Debug)]
struct Group {
    /// The node with these steps.
    node: u32,
    /// The group of the next shorter prefix that contains this one.
    parent: Option<u32>,
}

/// The lists that apply to a packet, each with the position of the search in it.
#[derive(Debug, Default)]
pub(super) struct Cursors(Vec<Cursor>);

/// The list `lists[first..end]` of an index, and the next step of the list to try.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    first: u32,
    end: u32,
    /// The index of the next step in [`Index::lists`].
    at: u32,
}

impl Index {
    /// The index of a program; `None` if the program is so short that trying every step costs less,
    /// or if no field separates its steps.
    pub(super) fn new(program: &Program) -> Option<Self> {
        if program.steps.len() <= SHORT {
            return None;
        }
        let demands: Vec<Vec<Demand>> =
            program.steps.iter().map(|step| demands(program, step)).collect();
        let mut index = Self { nodes: Vec::new(), lists: Vec::new() };
        let all: Vec<u32> = (0..program.steps.len() as u32).collect();
        index.node(&demands, &all, &Field::ALL);
        (!index.nodes[0].branches.is_empty()).then_some(index)
    }

    /// Adds a node for some steps, divides the steps by the given fields, and returns the index of
    /// the node.
    fn node(&mut self, demands: &[Vec<Demand>], steps: &[u32], fields: &[Field]) -> u32 {
        let number = self.nodes.len() as u32;
        self.nodes.push(Node::default());
        let mut rest = Vec::new();
        let mut filed: Vec<Vec<u32>> = vec![Vec::new(); fields.len()];
        if steps.len() <= LEAF || fields.is_empty() {
            rest = steps.to_vec();
        } else {
            let sizes = Sizes::new(demands, steps, fields);
            for &step in steps {
                match sizes.best(&demands[step as usize], steps.len()) {
                    Some(at) => filed[at].push(step),
                    None => rest.push(step),
                }
            }
            // For so few steps, the look-up costs more than it saves.
            for steps in filed.iter_mut().filter(|steps| steps.len() < LEAF / 2) {
                rest.append(steps);
            }
            rest.sort_unstable();
        }
        let first = self.lists.len() as u32;
        self.lists.extend_from_slice(&rest);
        let end = self.lists.len() as u32;
        let mut branches = Vec::new();
        for (at, steps) in filed.iter().enumerate().filter(|(_, steps)| !steps.is_empty()) {
            let others: Vec<Field> =
                fields.iter().copied().filter(|field| *field != fields[at]).collect();
            branches.push(self.branch(demands, steps, fields[at], &others));
        }
        self.nodes[number as usize] = Node { first, end, branches };
        number
    }

    fn branch(
        &mut self,
        demands: &[Vec<Demand>],
        steps: &[u32],
        field: Field,
        others: &[Field],
    ) -> Branch {
        match field {
            Field::Address(side) => self.address_branch(demands, steps, side, others),
            Field::Port(side) => {
                let starts = elementary(demands, steps, field);
                let mut lists = vec![Vec::new(); starts.len()];
                for &step in steps {
                    for (first, last) in spans(&demands[step as usize], field) {
                        let range = starts.partition_point(|s| *s < first)
                            ..starts.partition_point(|s| *s <= last);
                        lists[range].iter_mut().for_each(|list: &mut Vec<u32>| list.push(step));
                    }
                }
                let starts = starts.into_iter().zip(lists).map(|(start, mut list)| {
                    list.dedup();
                    (start, (!list.is_empty()).then(|| self.node(demands, &list, others)))
                });
                Branch::Port { side, starts: starts.collect() }
            }
            Field::Protocol => {
                let mut lists: Vec<Vec<u32>> = vec![Vec::new(); 256];
                for &step in steps {
                    if let Some(Demand::Protocol(numbers)) =
                        of_field(&demands[step as usize], field)
                    {
                        numbers.iter().for_each(|&number| lists[usize::from(number)].push(step));
                    }
                }
                let mut nodes = Box::new([None; 256]);
                for (node, mut list) in nodes.iter_mut().zip(lists) {
                    list.dedup();
                    *node = (!list.is_empty()).then(|| self.node(demands, &list, others));
                }
                Branch::Protocol(nodes)
            }
        }
    }

    fn address_branch(
        &mut self,
        demands: &[Vec<Demand>],
        steps: &[u32],
        side: Side,
        others: &[Field],
    ) -> Branch {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for &step in steps {
            if let Some(Demand::Address(_, four, six)) =
                of_field(&demands[step as usize], Field::Address(side))
            {
                v4.extend(four.iter().map(|&(address, len)| (address, len, step)));
                v6.extend(six.iter().map(|&(address, len)| (address, len, step)));
            }
        }
        let mut groups = Vec::new();
        let v4 = self.file(demands, v4, &mut groups, others);
        let v6 = self.file(demands, v6, &mut groups, others);
        Branch::Address { side, v4, v6, groups }
    }

    /// Creates a group for each different prefix in `entries`, which are address, prefix length and
    /// step. Returns the set of prefixes, each with the index of its group as its value.
    fn file<A: super::prefixes::Address>(
        &mut self,
        demands: &[Vec<Demand>],
        mut entries: Vec<(A, u8, u32)>,
        groups: &mut Vec<Group>,
        others: &[Field],
    ) -> Prefixes<A> {
        entries.sort_unstable();
        entries.dedup();
        let mut prefixes = Vec::new();
        // The prefixes that contain the current one: their last addresses and their groups.
        let mut open: Vec<(A, u32)> = Vec::new();
        for same in entries.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let (address, len, _) = same[0];
            while open.pop_if(|(last, _)| *last < address).is_some() {}
            let steps: Vec<u32> = same.iter().map(|(_, _, step)| *step).collect();
            let node = self.node(demands, &steps, others);
            let group = groups.len() as u32;
            groups.push(Group { node, parent: open.last().map(|(_, group)| *group) });
            prefixes.push(Prefix { address, len, value: group });
            open.push((address.last(len), group));
        }
        Prefixes::new(&prefixes)
    }

    /// Finds the lists that apply to a packet.
    pub(super) fn gather(&self, view: &View<'_>, cursors: &mut Cursors) {
        cursors.0.clear();
        self.visit(0, view, cursors);
    }

    fn visit(&self, node: u32, view: &View<'_>, cursors: &mut Cursors) {
        let node = &self.nodes[node as usize];
        if node.first < node.end {
            cursors.0.push(Cursor { first: node.first, end: node.end, at: node.first });
        }
        for branch in &node.branches {
            match branch {
                Branch::Address { side, v4, v6, groups } => {
                    let found = match view.ip {
                        IpVersion::V4 => view.v4(*side).and_then(|address| v4.get(address)),
                        _ => view.v6(*side).and_then(|address| v6.get(address)),
                    };
                    let mut next = found;
                    while let Some(group) = next {
                        let group = &groups[group as usize];
                        self.visit(group.node, view, cursors);
                        next = group.parent;
                    }
                }
                Branch::Port { side, starts } => {
                    let Some(port) = view.port(*side) else { continue };
                    let at = starts.partition_point(|(start, _)| *start <= port);
                    if let Some((_, Some(node))) = starts.get(at.wrapping_sub(1)) {
                        self.visit(*node, view, cursors);
                    }
                }
                Branch::Protocol(nodes) => {
                    if view.ip != IpVersion::None
                        && let Some(node) = nodes[usize::from(view.key.proto)]
                    {
                        self.visit(node, view, cursors);
                    }
                }
            }
        }
    }

    /// The first step of the selected lists at or after position `from`; `None` if there is none.
    #[inline]
    pub(super) fn next(&self, cursors: &mut Cursors, from: usize) -> Option<usize> {
        let mut best = u32::MAX;
        for cursor in &mut cursors.0 {
            while cursor.at < cursor.end && (self.lists[cursor.at as usize] as usize) < from {
                cursor.at += 1;
            }
            if cursor.at < cursor.end {
                best = best.min(self.lists[cursor.at as usize]);
            }
        }
        (best != u32::MAX).then_some(best as usize)
    }

    /// Moves the cursors to the target of a jump, which may be backwards.
    pub(super) fn seek(&self, cursors: &mut Cursors, to: usize) {
        for cursor in &mut cursors.0 {
            let list = &self.lists[cursor.first as usize..cursor.end as usize];
            cursor.at = cursor.first + list.partition_point(|&step| (step as usize) < to) as u32;
        }
    }
}

/// The number of steps that share each demand on a field.
struct Sizes<'a> {
    fields: &'a [Field],
    v4: HashMap<(Side, u32, u8), usize>,
    v6: HashMap<(Side, u128, u8), usize>,
    protocols: [usize; 256],
    /// For each port field: the starts of its elementary ranges (see [`elementary`]), and the
    /// number of steps that demand each range.
    ports: Vec<(Field, Vec<u16>, Vec<usize>)>,
}

impl<'a> Sizes<'a> {
    fn new(demands: &[Vec<Demand>], steps: &[u32], fields: &'a [Field]) -> Self {
        let mut sizes = Self {
            fields,
            v4: HashMap::new(),
            v6: HashMap::new(),
            protocols: [0; 256],
            ports: Vec::new(),
        };
        for field in fields.iter().copied().filter(|field| matches!(field, Field::Port(_))) {
            let starts = elementary(demands, steps, field);
            // For each start: the number of ranges that begin there minus the number that end just
            // before it. The running sum is the number of ranges that contain the start.
            let mut changes = vec![0isize; starts.len() + 1];
            for (first, last) in
                steps.iter().flat_map(|&step| spans(&demands[step as usize], field))
            {
                changes[starts.partition_point(|s| *s < first)] += 1;
                changes[starts.partition_point(|s| *s <= last)] -= 1;
            }
            let mut running = 0;
            let counts = changes.iter().map(|change| {
                running += change;
                running as usize
            });
            let counts = counts.collect();
            sizes.ports.push((field, starts, counts));
        }
        for demand in steps.iter().flat_map(|&step| &demands[step as usize]) {
            match demand {
                Demand::Address(side, v4, v6) => {
                    v4.iter().for_each(|&(address, len)| {
                        *sizes.v4.entry((*side, address, len)).or_default() += 1;
                    });
                    v6.iter().for_each(|&(address, len)| {
                        *sizes.v6.entry((*side, address, len)).or_default() += 1;
                    });
                }
                Demand::Protocol(numbers) => {
                    numbers.iter().for_each(|&number| sizes.protocols[usize::from(number)] += 1);
                }
                Demand::Port(..) => {}
            }
        }
        sizes
    }

    /// The index of the field that puts a step into the smallest list; `None` if even this list
    /// contains at least half of all steps.
    fn best(&self, demands: &[Demand], all: usize) -> Option<usize> {
        let sized = self
            .fields
            .iter()
            .enumerate()
            .filter_map(|(at, field)| Some((self.size(of_field(demands, *field)?)?, at)));
        sized.min().filter(|(size, _)| size * 2 < all).map(|(_, at)| at)
    }

    /// The size of the largest list in which a step with this demand would be filed.
    fn size(&self, demand: &Demand) -> Option<usize> {
        match demand {
            Demand::Address(side, v4, v6) => {
                let four = v4.iter().map(|&(address, len)| {
                    self.v4.get(&(*side, address, len)).copied().unwrap_or(0)
                });
                let six = v6.iter().map(|&(address, len)| {
                    self.v6.get(&(*side, address, len)).copied().unwrap_or(0)
                });
                four.chain(six).max()
            }
            Demand::Protocol(numbers) => {
                numbers.iter().map(|&number| self.protocols[usize::from(number)]).max()
            }
            Demand::Port(side, list) => {
                let (_, starts, counts) =
                    self.ports.iter().find(|(field, ..)| *field == Field::Port(*side))?;
                let ranges = list.iter().map(|&(first, last)| {
                    starts.partition_point(|s| *s < first)..starts.partition_point(|s| *s <= last)
                });
                // A step that would be in more than [`MOST_SPANS`] lists takes more memory than it
                // is worth.
                (ranges.clone().map(|range| range.len()).sum::<usize>() <= MOST_SPANS)
                    .then(|| ranges.filter_map(|range| counts[range].iter().max()).max().copied())
                    .flatten()
            }
        }
    }
}

fn of_field(demands: &[Demand], field: Field) -> Option<&Demand> {
    demands.iter().find(|demand| demand.field() == field)
}

fn spans(demands: &[Demand], field: Field) -> impl Iterator<Item = (u16, u16)> {
    let list = match of_field(demands, field) {
        Some(Demand::Port(_, list)) => list.as_slice(),
        _ => &[],
    };
    list.iter().copied()
}

/// The first ports of the elementary ranges. The ends of all demanded ranges divide the ports into
/// these ranges, so a step demands either all ports of an elementary range or none.
fn elementary(demands: &[Vec<Demand>], steps: &[u32], field: Field) -> Vec<u16> {
    let edges = steps.iter().flat_map(|&step| spans(&demands[step as usize], field));
    let mut starts: Vec<u16> =
        edges.flat_map(|(first, last)| [Some(first), last.checked_add(1)]).flatten().collect();
    starts.push(0);
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// Programs with at most this number of steps have no index.
const SHORT: usize = 12;
/// Lists with at most this number of steps are not divided.
const LEAF: usize = 8;
/// Maximum number of elementary port ranges under which a step is filed.
const MOST_SPANS: usize = 64;
