//! Claims, judged by the intervals of the measured quantities.
//!
//! A claim has conditions. A condition demands that a quantity is in a range, and compares the
//! range with the quantity's interval: it holds if the whole interval is inside, differs if the
//! whole interval is outside, and cannot be judged otherwise. A claim holds if all its conditions
//! hold, and differs if one of them differs. Each interval is a 95 % interval, without a correction
//! for the number of conditions.

use schemars::JsonSchema;
use serde::Serialize;

use super::provenance::Provenance;
use super::quantity::{Basis, Quantity, short};

/// A claim with its provenance and its verdict.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Claim {
    /// The claim.
    words: String,
    /// Where the claim comes from.
    provenance: Provenance,
    /// The verdict.
    verdict: Verdict,
    /// Whether the claim holds here; null if it cannot be judged.
    holds: Option<bool>,
    /// The measured values that support the verdict.
    detail: String,
    /// The smallest number of runs of a condition; null if no condition depends on random draws.
    seeds: Option<u64>,
    /// The conditions, each with its measured quantity.
    conditions: Vec<Condition>,
}

/// A verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The claim holds here.
    Holds,
    /// A quantity was not measured, or its interval contains a limit.
    CannotBeJudged,
    /// The claim does not hold here.
    Differs,
}

/// A demand of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Condition {
    /// The measured quantity in words, with its unit.
    what: String,
    /// The quantity.
    quantity: Quantity,
    /// The range in which the claim demands the quantity.
    range: Range,
    /// The verdict on this condition.
    verdict: Verdict,
}

/// The range in which a condition demands a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Range {
    /// The least value; null without a lower limit.
    least: Option<f64>,
    /// The greatest value; null without an upper limit.
    most: Option<f64>,
    /// Whether the limits themselves are outside the range.
    open: bool,
}

impl Range {
    /// All values less than `limit`.
    pub const fn below(limit: f64) -> Self {
        Self { least: None, most: Some(limit), open: true }
    }

    /// All values greater than `limit`.
    pub const fn above(limit: f64) -> Self {
        Self { least: Some(limit), most: None, open: true }
    }

    /// All values from `least` to `most`, both included.
    pub const fn within(least: f64, most: f64) -> Self {
        Self { least: Some(least), most: Some(most), open: false }
    }

    /// All values up to and including `limit`.
    pub const fn at_most(limit: f64) -> Self {
        Self { least: None, most: Some(limit), open: false }
    }

    /// All values from `limit` up, including `limit`.
    pub const fn at_least(limit: f64) -> Self {
        Self { least: Some(limit), most: None, open: false }
    }

    /// All values from `-limit` to `limit`: for differences in percent.
    pub const fn up_to(limit: f64) -> Self {
        Self::within(-limit, limit)
    }

    fn judge(&self, quantity: &Quantity) -> Verdict {
        let Some([from, to]) = quantity.interval() else { return Verdict::CannotBeJudged };
        let (least, most) =
            (self.least.unwrap_or(f64::NEG_INFINITY), self.most.unwrap_or(f64::INFINITY));
        let (inside, outside) = match self.open {
            true => (from > least && to < most, to <= least || from >= most),
            false => (from >= least && to <= most, to < least || from > most),
        };
        match (inside, outside) {
            (true, _) => Verdict::Holds,
            (_, true) => Verdict::Differs,
            _ => Verdict::CannotBeJudged,
        }
    }

    /// The distance by which an interval is inside the range, relative to the nearest limit;
    /// negative if a part of the interval is outside.
    fn margin(&self, quantity: &Quantity) -> f64 {
        let Some([from, to]) = quantity.interval() else { return f64::NEG_INFINITY };
        let relative = |distance: f64, limit: f64| distance / limit.abs().max(f64::MIN_POSITIVE);
        let least = self.least.map_or(f64::INFINITY, |least| relative(from - least, least));
        let most = self.most.map_or(f64::INFINITY, |most| relative(most - to, most));
        least.min(most)
    }

    fn text(&self) -> String {
        match (self.least, self.most) {
            (Some(least), Some(most)) if least == -most => format!("up to {}", short(most)),
            (Some(least), Some(most)) => format!("{} to {}", short(least), short(most)),
            (Some(least), None) if self.open => format!("above {}", short(least)),
            (Some(least), None) => format!("at least {}", short(least)),
            (None, Some(most)) if self.open => format!("below {}", short(most)),
            (None, Some(most)) => format!("at most {}", short(most)),
            (None, None) => "any".to_owned(),
        }
    }
}

impl Verdict {
    /// The verdict in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::CannotBeJudged => "cannot be judged",
            Self::Differs => "differs",
        }
    }
}

impl Condition {
    /// The quantity in words, its interval and its range.
    pub fn text(&self) -> String {
        format!("{}: {}; claimed {}", self.what, self.quantity.text(), self.range.text())
    }

    /// The verdict on this condition.
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }
}

impl Claim {
    /// A claim without conditions, which cannot be judged.
    pub fn new(words: impl Into<String>, provenance: Provenance) -> Self {
        Self {
            words: words.into(),
            provenance,
            verdict: Verdict::CannotBeJudged,
            holds: None,
            detail: String::new(),
            seeds: None,
            conditions: Vec::new(),
        }
    }

    /// Adds a condition: `quantity`, described by `what`, is in `range`.
    #[must_use]
    pub fn expect(mut self, what: impl Into<String>, quantity: Quantity, range: Range) -> Self {
        let verdict = range.judge(&quantity);
        self.conditions.push(Condition { what: what.into(), quantity, range, verdict });
        self.verdict =
            self.conditions.iter().map(Condition::verdict).max().unwrap_or(Verdict::CannotBeJudged);
        self.holds = match self.verdict {
            Verdict::Holds => Some(true),
            Verdict::Differs => Some(false),
            Verdict::CannotBeJudged => None,
        };
        self.seeds = self
            .conditions
            .iter()
            .filter(|condition| condition.quantity.basis() == Basis::Student)
            .map(|condition| condition.quantity.runs())
            .min();
        self.detail = self.summary();
        self
    }

    /// The claim.
    pub fn words(&self) -> &str {
        &self.words
    }

    /// Where the claim comes from.
    pub const fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    /// The verdict.
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Whether the claim holds; `None` if it cannot be judged.
    pub const fn holds(&self) -> Option<bool> {
        self.holds
    }

    /// The measured values that support the verdict.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The conditions.
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// The number of runs behind the verdict, as text.
    pub fn seeds(&self) -> String {
        let measured = self.conditions.iter().any(|condition| condition.quantity.mean().is_some());
        match self.seeds {
            _ if !measured => "-".to_owned(),
            Some(seeds) => seeds.to_string(),
            None => "exact".to_owned(),
        }
    }

    /// The conditions in words. If there are more than [`SHOWN`], only the condition that decides.
    fn summary(&self) -> String {
        if self.conditions.len() <= SHOWN {
            return self.conditions.iter().map(Condition::text).collect::<Vec<_>>().join("; ");
        }
        let decides = self
            .conditions
            .iter()
            .filter(|c| c.verdict == self.verdict)
            .min_by(|a, b| a.range.margin(&a.quantity).total_cmp(&b.range.margin(&b.quantity)));
        let of = self.conditions.len();
        let such = self.conditions.iter().filter(|c| c.verdict == self.verdict).count();
        decides.map_or_else(String::new, |condition| {
            format!(
                "{} of {such} of {of}: {}",
                if such == of { "closest" } else { "worst" },
                condition.text()
            )
        })
    }
}

/// A claim with more conditions than this shows only the condition that decides.
const SHOWN: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: Provenance = Provenance::Published { document: "A", place: "table 1" };

    fn judged(values: &[f64], range: Range) -> Verdict {
        Claim::new("c", PAPER).expect("q", Quantity::of_runs(values), range).verdict()
    }

    #[test]
    fn a_claim_is_judged_by_the_whole_interval() {
        let values = [0.9, 1.0, 1.1]; // 0.75 to 1.25
        assert_eq!(judged(&values, Range::below(1.3)), Verdict::Holds);
        assert_eq!(judged(&values, Range::below(1.2)), Verdict::CannotBeJudged);
        assert_eq!(judged(&values, Range::below(0.7)), Verdict::Differs);
        assert_eq!(judged(&values, Range::above(1.3)), Verdict::Differs);
        assert_eq!(judged(&values, Range::within(0.7, 1.3)), Verdict::Holds);
        assert_eq!(judged(&[1.0], Range::below(2.0)), Verdict::CannotBeJudged, "no interval");
        assert_eq!(judged(&[], Range::below(2.0)), Verdict::CannotBeJudged);
    }

    #[test]
    fn limits_of_an_open_range_are_outside() {
        let one = |range| Claim::new("c", PAPER).expect("q", Quantity::exact(1.0), range).verdict();
        assert_eq!([Range::below(1.0), Range::above(1.0)].map(one), [Verdict::Differs; 2]);
        let closed = [Range::within(1.0, 1.0), Range::at_most(1.0), Range::at_least(1.0)];
        assert_eq!(closed.map(one), [Verdict::Holds; 3]);
    }

    #[test]
    fn one_condition_that_differs_decides() {
        let claim = Claim::new("c", PAPER)
            .expect("a", Quantity::exact(1.0), Range::below(2.0))
            .expect("b", Quantity::exact(None), Range::below(2.0));
        assert_eq!((claim.verdict(), claim.holds), (Verdict::CannotBeJudged, None));
        let claim = claim.expect("d", Quantity::of_runs(&[3.0, 3.1]), Range::below(2.0));
        assert_eq!((claim.verdict(), claim.holds), (Verdict::Differs, Some(false)));
        assert_eq!(claim.seeds(), "2");
        assert!(claim.detail().contains("a: 1.00; claimed below 2.00"), "{}", claim.detail());
        let claim = claim.expect("e", Quantity::exact(0.1), Range::below(2.0));
        assert!(claim.detail().starts_with("worst of 1 of 4: d: 3.05"), "{}", claim.detail());
    }

    #[test]
    fn a_claim_without_a_measured_quantity_cannot_be_judged() {
        let claim = Claim::new("c", PAPER);
        assert_eq!((claim.verdict(), claim.seeds()), (Verdict::CannotBeJudged, "-".to_owned()));
    }
}
