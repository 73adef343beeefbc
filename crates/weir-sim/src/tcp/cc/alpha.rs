//! DCTCP's *alpha*: a moving average of the share of marked bytes. Prague uses it too.

use weir_core::settings::UNIT;

/// An exponentially weighted moving average of the share of marked bytes per round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alpha {
    /// The average, in billionths.
    value: u64,
    /// The weight of a round in the average, in billionths.
    gain: u64,
    /// Acknowledged bytes in this round, and how many of them were marked.
    acked: u64,
    marked: u64,
}

impl Alpha {
    /// An average that starts at `value`, with `gain` as the weight of a round; both in billionths.
    pub(super) fn new(value: u64, gain: u64) -> Self {
        Self { value, gain, acked: 0, marked: 0 }
    }

    /// Counts newly acknowledged bytes, of which `marked` bytes were marked.
    pub(super) fn count(&mut self, acked: u64, marked: u64) {
        self.acked += acked;
        self.marked += marked.min(acked);
    }

    /// Ends a round. A round without acknowledged bytes does not count.
    pub(super) fn end_round(&mut self) {
        let Some(share) =
            (u128::from(self.marked) * u128::from(UNIT)).checked_div(self.acked.into())
        else {
            return;
        };
        // Both products are below 2^60.
        let old = self.value * (UNIT - self.gain);
        let new = share as u64 * self.gain;
        self.value = (old + new) / UNIT;
        (self.acked, self.marked) = (0, 0);
    }

    /// Discards the counts of a round, so that the round does not affect the average.
    pub(super) fn skip_round(&mut self) {
        (self.acked, self.marked) = (0, 0);
    }

    /// The window after a reduction for marks: `window × (1 − alpha / 2)`.
    pub(super) fn reduced(&self, window: u64) -> u64 {
        window - (u128::from(window) * u128::from(self.value) / u128::from(2 * UNIT)) as u64
    }

    /// The average, in billionths.
    pub(super) fn value(&self) -> u64 {
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_agrees_with_its_closed_form() {
        let mut alpha = Alpha::new(UNIT, UNIT / 16);
        for round in 1..=200_i32 {
            alpha.count(1000, 250);
            alpha.end_round();
            let exact = 0.25 + 0.75 * libm::pow(15.0 / 16.0, round.into());
            assert!(
                (alpha.value() as f64 / 1e9 - exact).abs() < 1e-7,
                "round {round}: {} instead of {exact}",
                alpha.value()
            );
        }
    }

    #[test]
    fn the_average_approaches_zero_without_marks_and_one_with_only_marks() {
        let mut alpha = Alpha::new(UNIT, UNIT / 16);
        for _ in 0..400 {
            alpha.count(1000, 0);
            alpha.end_round();
        }
        assert!(alpha.value() < 20);
        assert_eq!(alpha.reduced(1_000_000), 1_000_000);
        for _ in 0..600 {
            alpha.count(1000, 1000);
            alpha.end_round();
        }
        assert!(alpha.value() > UNIT - 20, "{}", alpha.value());
    }

    #[test]
    fn a_round_without_acknowledged_bytes_changes_nothing() {
        let mut alpha = Alpha::new(UNIT / 2, UNIT / 16);
        alpha.end_round();
        assert_eq!(alpha.value(), UNIT / 2);
        assert_eq!(alpha.reduced(1000), 750);
    }
}
