//! Reads campaigns and opens their stores, and turns errors into failures of the command.

use std::path::Path;

use weir_campaign::file;
use weir_campaign::plan::{Plan, PlanError};
use weir_campaign::store::Store;

use super::args::CampaignArgs;
use crate::output::{Failure, USAGE, colour, say_coloured};

/// Reads a campaign and, unless `quiet`, shows its warnings.
pub(super) fn read(path: &Path, quiet: bool) -> Result<Plan, Failure> {
    let text = file::read(path)
        .map_err(|error| Failure::new(USAGE, format!("cannot read {}: {error}", path.display())))?;
    let file = file::parse(&text, path).map_err(|error| Failure::new(USAGE, error))?;
    let (plan, warnings) = file.plan(path).map_err(refused)?;
    if !warnings.is_empty() && !quiet {
        say_coloured(format_args!("{}\n\n", warnings.render(colour()).trim_end()));
    }
    Ok(plan)
}

/// The failure for a refused campaign.
pub(super) fn refused(error: PlanError) -> Failure {
    match error {
        // A rendered diagnostic has its own prefix.
        PlanError::Scenario(found) => {
            Failure::new(USAGE, format!("{}\n", found.render(colour()).trim_end()))
        }
        other => Failure::new(USAGE, other),
    }
}

/// The campaign and its store, for tasks that only read.
pub(super) fn open(which: &CampaignArgs) -> Result<(Plan, Store), Failure> {
    let store = Store::open(&which.store).map_err(|error| Failure::new(USAGE, error))?;
    Ok((read(&which.campaign, true)?, store))
}
