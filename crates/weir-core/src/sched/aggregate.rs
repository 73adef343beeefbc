//! An aggregate of QFQ+: classes of equal weight and equal `lmax` that are scheduled as one.
//!
//! The aggregate's times follow from its budget and from the bytes that it sends, never from the
//! lengths of single packets. An aggregate of `n` classes of weight `w` starts at the virtual time
//! `S`. A service of `b` bytes moves `S` by `b / (n w)`, at most by `σ`, the width of the slots of
//! the aggregate's group (see [`groups`]).

use super::groups::{self, Stamped, Stamps};

/// Classes that are scheduled as one, with one start.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Aggregate {
    pub(super) stamps: Stamps,
    /// The era in which the aggregate became idle; see [`groups::Groups::join`].
    pub(super) era: u64,
    /// The bytes that one service may send.
    pub(super) budget: u64,
    /// The weight of each class, `w`.
    weight: u32,
    /// The quantum of each class.
    lmax: u32,
    /// The last class in the ring of classes with packets, or [`NONE`]. While the aggregate is
    /// served, the scheduler stores this class instead.
    pub(super) last: u32,
    /// The largest number of classes, `M`.
    most: u8,
    /// The number of classes, `n`.
    classes: u8,
}

/// The properties that the classes of an aggregate have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    pub(super) weight: u32,
    /// The quantum of a class.
    pub(super) lmax: u32,
    /// The largest number of classes, `M`.
    pub(super) most: u32,
}

impl Stamped for Aggregate {
    #[inline]
    fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    #[inline]
    fn stamps_mut(&mut self) -> &mut Stamps {
        &mut self.stamps
    }
}

impl Kind {
    /// The group of a class of this kind, and of an aggregate of any number of these classes.
    pub(super) fn group(&self) -> u8 {
        groups::group_of(self.lmax, groups::inverse(self.weight.into()))
    }
}

impl Aggregate {
    /// An aggregate without classes.
    pub(super) fn new(kind: Kind) -> Self {
        let stamps = Stamps::new(0, kind.group());
        let Kind { weight, lmax, most } = kind;
        let most = most as u8;
        Self {
            stamps,
            era: groups::FORGOTTEN,
            budget: 0,
            weight,
            lmax,
            last: NONE,
            most,
            classes: 0,
        }
    }

    pub(super) fn resize(&mut self, classes: u32) {
        self.classes = classes as u8;
        self.budget = u64::from(self.lmax) * u64::from(classes);
        self.stamps.inverse = groups::inverse(u64::from(self.weight()).max(1));
    }

    pub(super) fn kind(&self) -> Kind {
        Kind { weight: self.weight, lmax: self.lmax, most: self.most.into() }
    }

    pub(super) fn classes(&self) -> u32 {
        self.classes.into()
    }

    /// The weight of all classes together, whether or not they have packets.
    #[inline]
    pub(super) fn weight(&self) -> u32 {
        self.weight * self.classes()
    }

    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.last == NONE
    }

    pub(super) fn is_full(&self) -> bool {
        self.classes >= self.most
    }

    /// Moves the start by a service of `bytes`; returns the bits of the start that change.
    #[inline]
    pub(super) fn charge(&mut self, bytes: u64) -> u64 {
        let old = self.stamps.start;
        let most = u64::from(groups::LARGEST) * u64::from(self.classes);
        self.stamps.advance(bytes.min(most) * self.stamps.inverse);
        old ^ self.stamps.start
    }
}

/// No class, or no aggregate.
pub(super) const NONE: u32 = u32::MAX;
/// The largest number of classes of an aggregate.
pub(super) const MOST: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn aggregate(weight: u32, lmax: u32, classes: u32) -> Aggregate {
        let mut aggregate = Aggregate::new(Kind { weight, lmax, most: MOST });
        aggregate.resize(classes);
        aggregate
    }

    /// For weights and sizes up to their limits: a whole budget moves the start by the time of one
    /// packet at the weight of a class, whatever the number of classes, and never beyond a slot.
    #[test]
    fn a_whole_budget_takes_the_time_of_one_packet_of_a_class() {
        for weight in [1, 3, 7, 1000, 65_535, 65_536] {
            for lmax in [64, 1500, 1 << 16, 1 << 21, 1 << 22] {
                let mut alone = aggregate(weight, lmax, 1);
                alone.charge(u64::from(lmax));
                let time = alone.stamps.start;
                let slot = 1u64 << (22 + u32::from(alone.stamps.group));
                for classes in 2..=MOST {
                    let mut several = aggregate(weight, lmax, classes);
                    let whole = several.budget;
                    several.charge(whole);
                    // For each of these bytes, the start moves too far by less than one unit of
                    // time, because `1 / (n w)` is rounded up.
                    let budget = u64::from(lmax.min(groups::LARGEST)) * u64::from(classes);
                    assert!(several.stamps.start.abs_diff(time) <= budget, "{weight} {lmax}");
                    assert!(several.stamps.start <= slot);
                    assert_eq!(several.stamps.group, alone.stamps.group);
                }
            }
        }
    }

    #[test]
    fn the_charge_of_a_service_does_not_depend_on_its_packets() {
        let (mut once, mut twice) = (aggregate(3, 1500, 8), aggregate(3, 1500, 8));
        once.charge(12_000);
        twice.charge(5_999);
        twice.charge(6_001);
        assert_eq!(once.stamps.start, twice.stamps.start);
        let mut short = aggregate(3, 1500, 8);
        short.charge(6_000);
        assert!(short.stamps.start.abs_diff(once.stamps.start / 2) <= 12_000);
    }
}
