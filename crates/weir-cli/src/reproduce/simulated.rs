//! Experiments of the simulator and of the kernel's queues. The library runs them.

use indicatif::{ProgressBar, ProgressStyle};
use weir_experiments::{EXPERIMENTS, Options, queue_sampler};
use weir_probe::Method;

use super::experiment::{Experiment, How, Outcome, Settings};
use crate::output::{Failure, say};

pub(super) fn all() -> impl Iterator<Item = Experiment> {
    EXPERIMENTS.iter().map(|experiment| Experiment {
        name: experiment.name,
        summary: experiment.summary,
        source: experiment.source,
        run: How::Simulated(experiment),
    })
}

/// The experiment that reads the kernel's queues.
pub(super) const SAMPLER: Experiment = Experiment {
    name: queue_sampler::NAME,
    summary: queue_sampler::SUMMARY,
    source: queue_sampler::SOURCE,
    run: How::Machine(sampler),
};

fn sampler(settings: &Settings) -> Result<Outcome, Failure> {
    let own = queue_sampler::Settings {
        quick: settings.quick,
        full: settings.full,
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
    Ok(queue_sampler::run(&own, &begins).map_err(Failure::of_weir)?.into())
}

/// Runs an experiment of the simulator, with a progress bar.
pub(super) fn run(experiment: &weir_experiments::Experiment, settings: &Settings) -> Outcome {
    let bar = bar(experiment.name, settings.show_progress);
    let options = Options { quick: settings.quick, ..Options::default() };
    let finding = (experiment.run)(&options, &|done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    finding.into()
}

pub(super) fn bar(name: &'static str, is_shown: bool) -> ProgressBar {
    let bar = if is_shown { ProgressBar::new(0) } else { ProgressBar::hidden() };
    if let Ok(style) =
        ProgressStyle::with_template("{elapsed:>6}  {bar:30} {pos} of {len} runs  {wide_msg}")
    {
        bar.set_style(style);
    }
    bar.set_message(name);
    bar
}

#[cfg(test)]
mod tests {
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
