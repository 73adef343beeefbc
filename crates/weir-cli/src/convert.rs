//! `weir convert`: turns another tool's description of a network into a scenario file.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use weir_live::convert::{ConvertError, LARGEST, containerlab, mininet};
use weir_report::write_atomic;

use crate::output::{Failure, USAGE, check_files, print};

/// Options of `weir convert`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConvertArgs {
    /// The tool that wrote the file.
    #[arg(value_enum, value_name = "TOOL")]
    pub(crate) from: Tool,
    /// The file; `-` for standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Write the scenario into this file instead of printing it.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// A tool whose files can be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tool {
    /// Containerlab: a topology, NAME.clab.yml.
    Containerlab,
    /// Mininet: a file of MiniEdit, NAME.mn, or a script in Python. Weir does not execute the
    /// script; it reads the calls of addHost, addSwitch and addLink with literal arguments.
    Mininet,
}

/// `weir convert`.
pub(crate) fn convert(args: &ConvertArgs) -> Result<ExitCode, Failure> {
    let name = args.file.display();
    if let Some(output) = &args.output {
        check_files(&[("--output", Some(output))], &[])?;
    }
    let text = read(&args.file)
        .map_err(|error| Failure::new(USAGE, format!("{name}: cannot read it: {error}")))?;
    let convert = match args.from {
        Tool::Containerlab => containerlab,
        Tool::Mininet => mininet,
    };
    let refused = |error: ConvertError| Failure::new(USAGE, format!("{name}: {error}"));
    let lab = convert(&text).map_err(refused)?;
    let source = args.file.file_name().unwrap_or_default().to_string_lossy();
    let scenario = lab.to_toml(&source);
    match &args.output {
        None => print(&scenario),
        Some(path) => {
            write_atomic(path, scenario.as_bytes()).map_err(Failure::of_weir)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The text of a file. A file that is too long is cut one byte after the permitted length, and the
/// conversion then refuses the text.
fn read(path: &Path) -> std::io::Result<String> {
    let mut text = Vec::new();
    let most = LARGEST as u64 + 1;
    if path.as_os_str() == "-" {
        std::io::stdin().lock().take(most).read_to_end(&mut text)?;
    } else {
        File::open(path)?.take(most).read_to_end(&mut text)?;
    }
    if text.len() > LARGEST {
        // The cut may split a character; only the size matters here.
        return Ok(String::from_utf8_lossy(&text).into_owned());
    }
    String::from_utf8(text).map_err(|_| std::io::ErrorKind::InvalidData.into())
}

const EXAMPLES: &str = "Examples:
  weir convert containerlab lab.clab.yml > lab.toml
  weir convert mininet net.mn -o net.toml
  weir convert mininet topology.py | less

Settings without a counterpart become comments. Set `duration` and the links' `spec`, then run
`weir check FILE` and `weir live FILE` or `weir sim FILE`.";
