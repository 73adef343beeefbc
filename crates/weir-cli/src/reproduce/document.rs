//! The document of an experiment that was run again.

use schemars::JsonSchema;
use serde::Serialize;
use weir_rig::report::Run;

/// The body of an `experiment`.
#[derive(JsonSchema, Serialize)]
pub(crate) struct ExperimentDocument<'a> {
    /// Measurements of the rig; empty where the experiment does not use it.
    pub(super) runs: Vec<Run>,
    /// The claims of the publication.
    pub(super) claims: Vec<JudgedClaim<'a>>,
    /// Tables of results, where the rig did not measure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tables: Option<&'a serde_json::Value>,
}

/// A claim of a publication, with the verdict on it.
#[derive(JsonSchema, Serialize)]
pub(crate) struct JudgedClaim<'a> {
    /// The claim in words.
    pub(super) claim: &'a str,
    /// Whether it holds; null when it could not be tried.
    pub(super) holds: Option<bool>,
    /// What was measured; null when it could not be tried.
    pub(super) measured: Option<&'a str>,
}
