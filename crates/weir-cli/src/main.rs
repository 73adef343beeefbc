//! The `weir` command: put any network you describe between programs.
//!
//! `args` says what can be typed, and nothing here but parsing; each command's module does it. stdout is data, stderr is words.

mod algorithms;
mod args;
mod doctor;
mod live;
mod observe;
mod output;
mod presets;
mod progress;
mod shell;
mod spec;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Cli, Command};

fn main() -> ExitCode {
    if let Some(code) = weir_linux::helper::main_if_helper() {
        return code;
    }
    let cli = Cli::parse();
    match dispatch(cli) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

fn dispatch(cli: Cli) -> Result<ExitCode, output::Failure> {
    match cli.command {
        Command::Run(args) => live::run(args),
        Command::Pair(args) => live::pair(args),
        Command::Bridge(args) => live::bridge(args),
        Command::Check(args) => spec::check(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Algorithms(args) => algorithms::list(&args),
        Command::Presets(args) => presets::list(&args),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
    }
}
