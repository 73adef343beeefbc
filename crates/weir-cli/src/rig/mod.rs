//! `weir rig`: measures schedulers and AQMs in isolation, plays conformance cases and replays
//! recordings.

mod adversary;
mod aqm;
mod args;
mod case;
mod config;
mod json;
mod measure;
mod plot;
mod replay;
mod service;
mod service_tables;
mod show;
mod step;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use weir_rig::memory;

use args::InternalTask;
pub(crate) use args::{Metric, RigArgs};
pub(crate) use config::Config;
use config::MEMORY_PACKETS;
use json::write_json;
pub(crate) use measure::{cachegrind, has_valgrind, measure};
pub(crate) use plot::{picture_of, write as write_plot};

use crate::output::{Failure, print, say};

/// Plays a case, replays a recording or takes measurements, and writes the requested results.
pub(crate) fn rig(args: &RigArgs) -> Result<ExitCode, Failure> {
    if let Some(path) = &args.case {
        return case::case(path, args.json.as_deref());
    }
    if let Some(path) = &args.replay {
        return replay::replay(args, path);
    }
    if args.aqm.is_some() {
        return if args.step { step::step(args) } else { aqm::aqm(args) };
    }
    let config = Config::new(args)?;
    if let Some(task) = args.only {
        return run_task(task, &config);
    }
    if args.adversary {
        return adversary::adversary(args, &config);
    }
    let measured = measure(&config, !args.quiet && std::io::stderr().is_terminal())?;
    let json_to_stdout = args.json.as_deref().is_some_and(|path| path.as_os_str() == "-");
    if !json_to_stdout {
        print(&show::tables(&config, &measured))?;
    }
    if let Some(path) = &args.json {
        write_json(path, measured.iter().map(|measured| measured.run.clone()).collect())?;
    }
    for path in &args.plot {
        write_plot(path, &picture_of(&config, &measured))?;
        if !args.quiet {
            say(format_args!("plot: {}\n", path.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Performs the task for which the rig has started itself.
fn run_task(task: InternalTask, config: &Config) -> Result<ExitCode, Failure> {
    for set in &config.sets {
        let plan = config.plan(set).map_err(Failure::of_weir)?;
        for algorithm in &config.algorithms {
            match task {
                InternalTask::Drive => {
                    weir_rig::cost::drive(algorithm, &plan);
                }
                InternalTask::Memory => {
                    let memory = memory::measure(algorithm, set, MEMORY_PACKETS, &memory::resident);
                    if let Some(memory) = memory {
                        print(&format!("{} {}\n", memory.flows, memory.packets))?;
                    }
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
