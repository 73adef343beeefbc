//! The list of experiments, and the claims of `s10`, which must continue to hold.

use weir_experiments::{EXPERIMENTS, Options, s10};
use weir_report::finding::Verdict;

#[test]
fn every_queue_of_the_dumbbell_is_inside_the_band_around_ns3() {
    let finding = (s10::EXPERIMENT.run)(&Options::default(), &|_, _| {});
    assert_eq!(finding.claims.len(), 8);
    for claim in &finding.claims {
        assert_eq!(claim.verdict(), Verdict::Holds, "{}: {}", claim.words(), claim.detail());
    }
}

#[test]
fn experiments_have_unique_names() {
    let mut names: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), EXPERIMENTS.len());
}
