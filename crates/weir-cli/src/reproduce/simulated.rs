//! Experiments of the simulator and of the kernel's queues. The library runs them.

use serde_json::json;
use weir_experiments::{EXPERIMENTS, Options, queue_sampler};
use weir_probe::Method;
use weir_report::finding::{self, Finding};
use weir_report::finding_to_html;
use weir_report::plot::Plot;

use super::experiment::{Claim, Experiment, How, Outcome, Settings};
use crate::output::{Failure, say};
use crate::table::Table;

/// All experiments of the simulator.
pub(super) fn all() -> impl Iterator<Item = Experiment> {
    EXPERIMENTS.iter().map(|experiment| Experiment {
        name: experiment.name,
        summary: experiment.summary,
        source: experiment.source,
        run: How::Simulated(experiment.run),
    })
}

/// The experiment that reads the kernel's queues.
pub(super) const SAMPLER: Experiment = Experiment {
    name: queue_sampler::NAME,
    summary: queue_sampler::SUMMARY,
    source: queue_sampler::SOURCE,
    run: How::Live(sampler),
};

fn sampler(settings: &Settings) -> Result<Outcome, Failure> {
    let own = queue_sampler::Settings {
        quick: settings.quick,
        seconds: settings.seconds,
        clients: settings.clients.clone(),
    };
    let begins = |clients: u16, seconds: f64, methods: &[Method]| {
        if settings.show_progress {
            let names: Vec<_> = methods.iter().map(|method| method.name()).collect();
            say(format_args!(
                "queue-sampler: {clients} clients, {seconds} s each with {}\n",
                names.join(", ")
            ));
        }
    };
    Ok(outcome(&queue_sampler::run(&own, &begins).map_err(Failure::own)?))
}

/// Runs an experiment of the simulator.
pub(super) fn run(experiment: fn(&Options) -> Finding, settings: &Settings) -> Outcome {
    outcome(&experiment(&Options { quick: settings.quick, ..Options::default() }))
}

/// Converts a finding to the result of an experiment.
pub(super) fn outcome(finding: &Finding) -> Outcome {
    Outcome {
        text: text(finding),
        claims: finding.claims.iter().map(claim).collect(),
        runs: Vec::new(),
        plots: finding.plots.iter().map(|plot| (plot.name.clone(), Plot::from(plot))).collect(),
        tables: json!(finding.tables),
        page: Some(finding_to_html(finding)),
    }
}

/// A finding as text for a terminal, with its tables.
pub(super) fn text(finding: &Finding) -> String {
    let mut text = format!("{}\n", finding.title);
    for table in &finding.tables {
        text += &format!("\n{}\n", table.title);
        let mut shown = Table::new(&table.columns);
        for row in &table.rows {
            shown.row(row.iter().map(finding::Cell::text).collect());
        }
        text += &shown.text();
    }
    text
}

/// Converts a claim of a finding to a claim of an experiment.
pub(super) fn claim(claim: &finding::Claim) -> Claim {
    Claim::new(claim.words.clone(), claim.holds.map(|holds| (holds, claim.detail.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_report::finding as found;

    #[test]
    fn a_finding_becomes_tables_claims_and_a_page() {
        fn none(_: &Options) -> Finding {
            let mut table = found::Table::new("waits, ms", &["system", "mean"]);
            table.row(vec!["FIFO".into(), found::Cell::number(2.5, 1)]);
            let claims = vec![found::Claim::tried("it waits", true, "2.5 ms")];
            Finding { title: "A queue".into(), tables: vec![table], claims, plots: Vec::new() }
        }
        let outcome = run(
            none,
            &Settings { quick: true, show_progress: false, seconds: None, clients: None },
        );
        assert!(
            outcome.text.contains("A queue\n\nwaits, ms\n  system  mean\n  FIFO     2.5\n"),
            "{}",
            outcome.text
        );
        assert_eq!(outcome.claims[0].seen, Some((true, "2.5 ms".to_owned())));
        assert_eq!(outcome.tables[0]["rows"][0][1]["value"], 2.5);
        assert!(outcome.page.is_some_and(|page| page.contains("A queue")));
    }

    #[test]
    fn every_experiment_has_a_name_of_its_own() {
        let mut names: Vec<_> = super::super::experiments().iter().map(|e| e.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(names.contains(&"fifo-plus-table"));
    }
}
