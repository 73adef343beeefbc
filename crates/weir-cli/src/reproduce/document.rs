//! The JSON document of a repeated experiment.

use schemars::JsonSchema;
use serde::Serialize;
use weir_rig::report::Run;

/// The body of a document of the kind `experiment`.
#[derive(JsonSchema, Serialize)]
pub(crate) struct ExperimentDocument<'a> {
    /// Measurements of the rig; empty if the experiment does not use the rig.
    pub(super) runs: Vec<Run>,
    /// The claims of the publication.
    pub(super) claims: Vec<JudgedClaim<'a>>,
    /// Tables of results, if the rig did not measure them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tables: Option<&'a serde_json::Value>,
}

/// A claim of a publication, with the verdict on it.
#[derive(JsonSchema, Serialize)]
pub(crate) struct JudgedClaim<'a> {
    /// The claim in words.
    pub(super) claim: &'a str,
    /// Whether the claim holds; null if it could not be tested.
    pub(super) holds: Option<bool>,
    /// The measured values in words; null if the claim could not be tested.
    pub(super) measured: Option<&'a str>,
}
