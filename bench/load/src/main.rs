//! The `weir-load` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    weir_load::main(std::env::args_os())
}
