//! The command line of the ipfw commands: flags, followed by words in ipfw's language.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The commands of `ipfw` and `dnctl`, as commands of `weir`.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Configure, delete and show pipes: links with a rate, a delay and a queue.
    #[command(after_help = "Examples:
  weir pipe 1 config bw 4Mbit/s delay 20ms queue 50
  weir pipe 1 config bw 1Mbit/s mask dst-ip 0xffffffff      one link for each customer
  weir pipe show            weir pipe delete 1              weir pipe flush")]
    Pipe(VerbArgs),
    /// Configure, delete and show queues: flows that share a pipe or scheduler by weight.
    #[command(after_help = "Examples:
  weir queue 1 config sched 5 weight 10
  weir queue 2 config sched 5 weight 1 mask dst-ip 0x000000ff")]
    Queue(VerbArgs),
    /// Configure, delete and show schedulers, which share a link among queues.
    #[command(after_help = "Examples:
  weir sched 5 config type wf2q+ bw 10Mbit/s
  weir sched 6 config type drr mask src-ip 0xffffffff bw 2Mbit/s")]
    Sched(VerbArgs),
    /// Add a rule, which selects the path of packets.
    #[command(after_help = "Examples:
  weir add 100 pipe 1 ip from any to any out
  weir add prob 0.3 pipe 1 udp from 10.0.0.0/8 to any")]
    Add(VerbArgs),
    /// Delete rules, by number, range or set.
    Delete(VerbArgs),
    /// List rules.
    List(VerbArgs),
    /// Show rules with their counters.
    Show(VerbArgs),
    /// Reset the counters of rules.
    Zero(VerbArgs),
    /// The same as zero: Weir keeps no separate count of logged packets.
    Resetlog(VerbArgs),
    /// Delete all rules except those of set 31.
    Flush(VerbArgs),
    /// Enable and disable sets of rules, move and swap them.
    Set(VerbArgs),
    /// Create tables, change and show their entries.
    Table(VerbArgs),
    /// Enable a feature: `enable one_pass`.
    Enable(VerbArgs),
    /// Disable a feature: after `disable one_pass`, packets are matched against further rules after
    /// a pipe.
    Disable(VerbArgs),
    /// Emulate a link for one service, both directions in one line.
    #[command(after_help = "Examples:
  weir netconfig config client 80 IN delay 100ms OUT bw 1Mbit/s
  weir netconfig config server 8000-8080 IN bw 2Mbit/s OUT bw 2Mbit/s delay 40ms expire 1h
  weir netconfig list       weir netconfig delete client 80")]
    Netconfig(VerbArgs),
    /// Execute a script of commands, as a whole or not at all.
    Apply(VerbArgs),
    /// Run any command of ipfw or dnctl, with its flags. If `weir` is invoked as `ipfw` or `dnctl`,
    /// it is this command.
    #[command(visible_alias = "dnctl")]
    Ipfw(VerbArgs),
}

/// Flags and words of a command.
#[derive(Debug, Args)]
pub(crate) struct VerbArgs {
    /// Print nothing on success and ask nothing. Adding a table entry that exists, or deleting one
    /// that does not exist, is not an error.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Do not ask before a flush.
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Only check the commands; needs no daemon.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Show the counters of rules.
    #[arg(short = 'a')]
    pub(crate) counters: bool,
    /// Show the time of each rule's last match.
    #[arg(short = 't')]
    pub(crate) time: bool,
    /// Show the time of each rule's last match, in seconds since 1970.
    #[arg(short = 'T')]
    pub(crate) seconds: bool,
    /// Also show dynamic rules.
    #[arg(short = 'd')]
    pub(crate) dynamic: bool,
    /// Show only dynamic rules.
    #[arg(short = 'D')]
    pub(crate) dynamic_only: bool,
    /// Show the sets of rules, and rules of disabled sets.
    #[arg(short = 'S')]
    pub(crate) sets: bool,
    /// Flags of ipfw that have no effect here.
    #[arg(
        short = 'c',
        short_aliases = ['e', 'v', 'N', 'i', 'b'],
        hide = true,
        action = clap::ArgAction::Count
    )]
    pub(crate) without_effect: u8,
    /// ipfw's preprocessor; Weir refuses it.
    #[arg(short = 'p', value_name = "PROGRAM", hide = true)]
    pub(crate) preprocessor: Option<String>,
    /// ipfw's sort order for lists of pipes; Weir refuses it.
    #[arg(short = 's', value_name = "FIELD", hide = true)]
    pub(crate) sort: Option<String>,
    /// The daemon's socket.
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// The command, in the language of ipfw (docs/rules.md).
    #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

impl Verb {
    /// The arguments, with the command as first word if it belongs to the language.
    pub(crate) fn into_args(self) -> VerbArgs {
        let (verb, mut args) = match self {
            Self::Pipe(args) => ("pipe", args),
            Self::Queue(args) => ("queue", args),
            Self::Sched(args) => ("sched", args),
            Self::Add(args) => ("add", args),
            Self::Delete(args) => ("delete", args),
            Self::List(args) => ("list", args),
            Self::Show(args) => ("show", args),
            Self::Zero(args) => ("zero", args),
            Self::Resetlog(args) => ("resetlog", args),
            Self::Flush(args) => ("flush", args),
            Self::Set(args) => ("set", args),
            Self::Table(args) => ("table", args),
            Self::Enable(args) => ("enable", args),
            Self::Disable(args) => ("disable", args),
            Self::Netconfig(args) => ("netconfig", args),
            Self::Apply(args) => ("", args),
            Self::Ipfw(args) => ("", args),
        };
        if !verb.is_empty() {
            args.words.insert(0, verb.to_owned());
        }
        args.take_trailing_options();
        args
    }
}

impl VerbArgs {
    /// Accepts `--json` and `--socket` after the words too. No word of the language begins with two
    /// dashes.
    fn take_trailing_options(&mut self) {
        let mut words = std::mem::take(&mut self.words).into_iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--json" => self.json = true,
                "--socket" => self.socket = words.next().map(PathBuf::from).or(self.socket.take()),
                _ => match word.strip_prefix("--socket=") {
                    Some(path) => self.socket = Some(path.into()),
                    None => self.words.push(word),
                },
            }
        }
    }
}

/// Rewrites the command line for clap. An invocation as `ipfw` or `dnctl`, or with ipfw's flags in
/// front (`weir -q flush`), becomes `weir ipfw …`. `--json` and `--socket` before a [`Verb`] move
/// to the end.
pub(crate) fn normalise(mut argv: Vec<OsString>) -> Vec<OsString> {
    let called =
        argv.first().and_then(|name| std::path::Path::new(name).file_stem()).unwrap_or_default();
    let flags = |word: &OsString| {
        word.to_str().is_some_and(|w| {
            w.len() > 1 && w.starts_with('-') && w[1..].chars().all(|c| FLAGS.contains(c))
        })
    };
    if called == "ipfw" || called == "dnctl" || argv.get(1).is_some_and(flags) {
        argv.insert(1, "ipfw".into());
        argv[0] = "weir".into();
    }
    let leading = leading_options(&argv);
    if leading > 0 && is_verb(&argv[leading..]) {
        argv[1..].rotate_left(leading);
    }
    argv
}

/// Number of leading words that are `--json`, or `--socket` and its value; 0 if no other word
/// follows.
fn leading_options(argv: &[OsString]) -> usize {
    let mut words = argv.iter().skip(1).enumerate();
    loop {
        match words.next() {
            Some((_, word)) if word == "--socket" => drop(words.next()),
            Some((_, word))
                if word == "--json"
                    || word.to_str().is_some_and(|w| w.starts_with("--socket=")) => {}
            Some((place, _)) => return place,
            None => return 0,
        }
    }
}

/// Whether a command line has a [`Verb`] as its command.
pub(crate) fn is_verb(argv: &[OsString]) -> bool {
    let verb = <Verb as Subcommand>::augment_subcommands(clap::Command::new("weir"));
    argv.get(1)
        .and_then(|word| word.to_str())
        .is_some_and(|word| verb.find_subcommand(word).is_some())
}

/// Flags of ipfw that may precede the command.
const FLAGS: &str = "qfnatTdDScevNibps";

#[cfg(test)]
mod tests {
    use super::*;

    fn normalised(line: &str) -> String {
        let argv = normalise(line.split(' ').map(OsString::from).collect());
        argv.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn other_names_and_leading_flags_are_the_command_ipfw() {
        assert_eq!(normalised("/sbin/ipfw -q add 1 allow"), "weir ipfw -q add 1 allow");
        assert_eq!(normalised("dnctl pipe 1 config"), "weir ipfw pipe 1 config");
        assert_eq!(normalised("weir -qf flush"), "weir ipfw -qf flush");
        assert_eq!(normalised("weir -n add allow"), "weir ipfw -n add allow");
        assert_eq!(normalised("weir --socket s pipe show"), "weir pipe show --socket s");
        assert_eq!(normalised("weir --json --socket=s list"), "weir list --json --socket=s");
        for own in [
            "weir --socket",
            "weir --json run",
            "weir --version",
            "weir -V",
            "weir -h",
            "weir pipe -q 1 config",
            "weir run -q -- ls",
        ] {
            assert_eq!(normalised(own), own);
        }
    }

    #[test]
    fn verbs_are_told_from_other_commands() {
        let is = |line: &str| is_verb(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(is("weir pipe 1") && is("weir dnctl") && !is("weir run") && !is("weir"));
    }
}
