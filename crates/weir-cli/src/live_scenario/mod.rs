//! `weir live`: runs a scenario on real frames. [`weir_live::scenario`] does the work.

mod args;
mod load;
mod results;

use std::process::ExitCode;

use weir_linux::live::Realtime;
use weir_linux::process::Signals;
use weir_live::Tuning;
use weir_live::scenario::{LiveScenario, Ran, ScenarioError, ScenarioSetup};

pub(crate) use args::LiveArgs;

use crate::output::{Failure, say};

/// `weir live`.
pub(crate) fn live(args: &LiveArgs) -> Result<ExitCode, Failure> {
    let source = load::load(args)?;
    results::check(args)?;
    let tuning = Tuning {
        spin: args.spin,
        realtime: if args.no_realtime { Realtime::Off } else { Realtime::WhenAllowed },
        cpu: args.cpu,
        ..Tuning::default()
    };
    let setup = ScenarioSetup {
        scenario: source.scenario.clone(),
        text: source.text.clone(),
        file: source.file.clone(),
        mtu: args.mtu,
        tuning,
        generator: vec!["/proc/self/exe".into(), "traffic".into()],
    };
    let run = LiveScenario::build(setup).map_err(failure)?;
    for note in run.notes() {
        say(format_args!("weir: note: {}\n", note.what));
    }
    let signals =
        Signals::take().map_err(|error| Failure::own(format!("cannot take signals: {error}")))?;
    match run.run(&signals, |_| ()).map_err(failure)? {
        Ran::Signal(number) => Ok(ExitCode::from(u8::try_from(128 + number).unwrap_or(u8::MAX))),
        Ran::Complete(results) => {
            for note in results.notes.iter().filter(|_| !args.quiet) {
                say(format_args!("weir: note: {note}\n"));
            }
            results::write(args, &source, results.outcome, &results.printed)
        }
    }
}

fn failure(error: ScenarioError) -> Failure {
    match error {
        ScenarioError::Program(error) => Failure::new(error.exit_code(), error),
        ScenarioError::Build(error) => crate::live::not_built(&error),
        error => Failure::own(error),
    }
}
