//! The JSON document of a repeated experiment.

use schemars::JsonSchema;
use serde::Serialize;
use weir_report::finding::{Claim, Condition, Provenance, Table, Verdict};
use weir_rig::report::Run;

/// The body of a document of the kind `experiment`.
#[derive(JsonSchema, Serialize)]
pub(crate) struct ExperimentDocument<'a> {
    /// A description of the experiment in one sentence.
    pub(super) title: &'a str,
    /// Remarks that a reader needs to judge the results.
    pub(super) notes: &'a [String],
    /// Measurements of the rig; empty if the experiment does not use the rig.
    pub(super) runs: Vec<Run>,
    /// The claims, judged by the intervals of the measured quantities.
    pub(super) claims: Vec<JudgedClaim<'a>>,
    /// Tables of results. Each reference value has its provenance.
    pub(super) tables: &'a [Table],
}

/// A claim with the verdict on it.
#[derive(JsonSchema, Serialize)]
pub(crate) struct JudgedClaim<'a> {
    /// The claim in words.
    claim: &'a str,
    /// Where the claim comes from.
    provenance: &'a Provenance,
    /// The verdict.
    verdict: Verdict,
    /// Whether the claim holds; null if it cannot be judged.
    holds: Option<bool>,
    /// The measured values in words; null if the claim has none.
    measured: Option<&'a str>,
    /// Number of runs with different seeds, or repetitions; `exact` without random draws; `-` if
    /// nothing was measured.
    seeds: String,
    /// The conditions of the claim, each with its measured quantity.
    conditions: &'a [Condition],
}

impl<'a> From<&'a Claim> for JudgedClaim<'a> {
    fn from(claim: &'a Claim) -> Self {
        Self {
            claim: claim.words(),
            provenance: claim.provenance(),
            verdict: claim.verdict(),
            holds: claim.holds(),
            measured: Some(claim.detail()).filter(|detail| !detail.is_empty()),
            seeds: claim.seeds(),
            conditions: claim.conditions(),
        }
    }
}
