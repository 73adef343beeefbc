//! The divisions of packets into CAKE's tins: the tin of each code point, and the tins' shares.

use crate::choice;

choice! {
    /// The divisions of packets into tins.
    pub(super) enum Tins {
        BestEffort = "besteffort",
        Precedence = "precedence",
        Diffserv3 = "diffserv3",
        Diffserv4 = "diffserv4",
        Diffserv8 = "diffserv8",
    }
}

impl Tins {
    pub(super) fn plan(self) -> &'static Plan {
        &PLANS[self as usize]
    }
}

/// A division into tins.
pub(super) struct Plan {
    /// The bytes that each tin may send in a round, which are its share. The share of the first tin
    /// corresponds to the rate of the link.
    pub(super) shares: &'static [u32],
    /// The tin of each code point.
    pub(super) index: [u8; 64],
}

impl Plan {
    /// The threshold of tin `n` on a link of `rate` bit/s: the tin's share of this rate.
    pub(super) fn rate(&self, n: usize, rate: u64) -> u64 {
        let part = u128::from(rate) * u128::from(self.shares[n]) / u128::from(self.shares[0]);
        u64::try_from(part).unwrap_or(rate)
    }
}

/// Returns `index` with `tin` at the code points `points`.
const fn with(mut index: [u8; 64], tin: u8, points: &[usize]) -> [u8; 64] {
    let mut n = 0;
    while n < points.len() {
        index[points[n]] = tin;
        n += 1;
    }
    index
}

/// The tin of each code point by the first three bits of the DSCP.
const PRECEDENCES: [u8; 64] = {
    let mut index = [0; 64];
    let mut n = 0;
    while n < 64 {
        index[n] = (n >> 3) as u8;
        n += 1;
    }
    index
};

/// The divisions in the order of [`Tins`]. Code points: LE 1, TOS2 2, TOS4 4, CS1 to CS7 8 to 56,
/// AF11 to AF43 10 to 38, VA 44, EF 46.
static PLANS: [Plan; 5] = [
    Plan { shares: &[65_535], index: [0; 64] },
    Plan { shares: &EIGHTHS, index: PRECEDENCES },
    Plan {
        shares: &[WHOLE, WHOLE / 16, WHOLE / 4],
        index: with(with([0; 64], 1, &[1, 8]), 2, &[4, 44, 46, 48, 56]),
    },
    Plan {
        shares: &[WHOLE, WHOLE / 16, WHOLE / 2, WHOLE / 4],
        index: with(
            with(with([0; 64], 1, &[1, 8]), 2, &[4, 16, 18, 20, 22, 24, 26, 28, 30, 34, 36, 38]),
            3,
            &[32, 40, 44, 46, 48, 56],
        ),
    },
    Plan {
        shares: &EIGHTHS,
        index: with(
            with(
                with(
                    with(
                        with(
                            with(with([2; 64], 0, &[1]), 1, &[2, 8, 10, 12, 14]),
                            3,
                            &[24, 26, 28, 30, 34, 36, 38],
                        ),
                        4,
                        &[4, 18, 20, 22],
                    ),
                    5,
                    &[16],
                ),
                6,
                &[32, 40, 44, 46],
            ),
            7,
            &[48, 56],
        ),
    },
];

/// Shares of eight tins, each 7/8 of the previous share.
const EIGHTHS: [u32; 8] = {
    let mut shares = [256; 8];
    let mut n = 1;
    while n < 8 {
        shares[n] = shares[n - 1] * 7 / 8;
        n += 1;
    }
    shares
};

/// The share of the first tin in plans with three or four tins.
const WHOLE: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn code_points_have_their_classes() {
        let class = |plan: &Plan, points: &[usize]| {
            points.iter().map(|&point| plan.index[point]).collect::<Vec<_>>()
        };
        let some = [0, 1, 8, 10, 18, 26, 34, 40, 46, 48, 56];
        assert_eq!(class(&PLANS[0], &some), [0; 11]);
        assert_eq!(class(&PLANS[1], &some), [0, 0, 1, 1, 2, 3, 4, 5, 5, 6, 7]);
        assert_eq!(class(&PLANS[2], &some), [0, 1, 1, 0, 0, 0, 0, 0, 2, 2, 2]);
        assert_eq!(class(&PLANS[3], &some), [0, 1, 1, 0, 2, 2, 2, 3, 3, 3, 3]);
        assert_eq!(class(&PLANS[4], &some), [2, 0, 1, 1, 4, 3, 3, 6, 6, 7, 7]);
        for plan in &PLANS {
            assert!(plan.index.iter().all(|&tin| usize::from(tin) < plan.shares.len()));
        }
    }

    #[test]
    fn thresholds_follow_the_shares() {
        let rates = |tins: Tins| {
            let plan = tins.plan();
            (0..plan.shares.len()).map(|n| plan.rate(n, 16_000_000)).collect::<Vec<_>>()
        };
        assert_eq!(rates(Tins::BestEffort), [16_000_000]);
        assert_eq!(rates(Tins::Diffserv3), [16_000_000, 1_000_000, 4_000_000]);
        assert_eq!(rates(Tins::Diffserv4), [16_000_000, 1_000_000, 8_000_000, 4_000_000]);
        assert_eq!(rates(Tins::Diffserv8)[..3], [16_000_000, 14_000_000, 12_250_000]);
    }
}
