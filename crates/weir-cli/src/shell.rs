//! Completion scripts and manual pages, generated from the definition of the command line.

use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::{CompletionsArgs, ManArgs};
use crate::cli::Cli;
use crate::manual;
use crate::output::{Failure, USAGE, print};

/// `weir completions`.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "weir", &mut script);
    print(&with_names(args.shell, &String::from_utf8_lossy(&script)))
}

/// Adds the completion of names that only exist while sessions run. The script asks `weir ps` for
/// them.
fn with_names(shell: Shell, script: &str) -> String {
    match shell {
        Shell::Bash => format!("{script}{}", include_str!("shell/names.bash")),
        Shell::Fish => format!("{script}{}", include_str!("shell/names.fish")),
        // zsh calls `_weir`, which names.zsh defines. The generated function `_weir` is renamed to
        // `_weir_options`, and names.zsh calls it.
        Shell::Zsh => script.replacen("\n_weir() {", "\n_weir_options() {", 1).replacen(
            ZSH_CALL,
            &format!("{}{ZSH_CALL}", include_str!("shell/names.zsh")),
            1,
        ),
        _ => script.to_owned(),
    }
}

/// `weir man`.
pub(crate) fn man(args: &ManArgs) -> Result<ExitCode, Failure> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    if let Some(directory) = &args.out {
        return manual::write_all(&root, directory).map(|()| ExitCode::SUCCESS).map_err(|error| {
            Failure::of_weir(format!(
                "cannot write manual pages to {}: {error}",
                directory.display()
            ))
        });
    }
    let page = match &args.command {
        None => root,
        Some(name) => {
            let known = root.get_subcommands().map(|c| c.get_name().to_owned()).collect::<Vec<_>>();
            let found = root.find_subcommand(name).cloned();
            found.ok_or_else(|| {
                Failure::new(
                    USAGE,
                    format!("there is no command `{name}`; there are {}", known.join(", ")),
                )
            })?
        }
    };
    let text = manual::page(&page)
        .map_err(|error| Failure::of_weir(format!("cannot make the page: {error}")))?;
    print(&text)
}

/// The line of the generated zsh script that follows the definitions of all functions.
const ZSH_CALL: &str = "if [ \"$funcstack[1]\" = \"_weir\" ]; then";
