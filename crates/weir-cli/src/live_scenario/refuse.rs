//! The scenario that is to be run, and what of it only the simulator has.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_rules::{Code, Diagnostic, Diagnostics, Files as _, Span};
use weir_sim::scenario::{Checked, EditError, Edited, NodeKind, Scenario, parse_edited};

use super::LiveArgs;
use super::kinds::{Carrier, Impossible, carrier_of, packet_sizes};
use crate::output::{Failure, USAGE, colour, say};
use crate::spec::Disk;
use weir_sim::disk::Beside;

/// A scenario, and the text that it was read from.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) scenario: Scenario,
    pub(super) text: String,
    pub(super) file: String,
    pub(super) seed: u64,
    /// Whether threads may ask for real-time priority.
    pub(super) realtime: bool,
}

/// Reads the scenario, and refuses what cannot be live.
pub(super) fn load(args: &LiveArgs) -> Result<Source, Failure> {
    let file = args.scenario.display().to_string();
    let text = Disk
        .read(&file)
        .map_err(|error| Failure::new(USAGE, format!("cannot read {file}: {error}")))?;
    let mut edited = Edited::new(&text);
    for (key, value) in &args.settings {
        match edited.set(key, value) {
            // What is wrong with the text is said when it is read.
            Ok(()) | Err(EditError::Text) => {}
            Err(error) => return Err(Failure::new(USAGE, format!("--set {key}={value}: {error}"))),
        }
    }
    let files = Beside(args.scenario.parent().unwrap_or(Path::new("")));
    let Checked { scenario, diagnostics } =
        parse_edited(&edited, &file, "the command line", &files);
    let refused =
        |said: &Diagnostics| Failure::new(USAGE, format!("{}\n", said.render(colour()).trim_end()));
    let Some(mut scenario) = scenario else { return Err(refused(&diagnostics)) };
    let said = simulated_only(&scenario, &edited.text, &file, args.mtu);
    if said.has_errors() {
        return Err(refused(&said));
    }
    if !diagnostics.is_empty() && !args.quiet {
        say(format_args!("{}\n\n", diagnostics.render(colour()).trim_end()));
    }
    if scenario.name.is_empty() {
        scenario.name = args
            .scenario
            .file_stem()
            .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    }
    if let Some(seed) = args.seed {
        scenario.seed = seed;
    }
    // A live run is one run.
    scenario.runs = 1;
    let seed = scenario.seed;
    Ok(Source { scenario, text: edited.text, file, seed, realtime: !args.no_realtime })
}

/// What of a scenario only the simulator has, each with its place and what to do.
fn simulated_only(scenario: &Scenario, text: &str, file: &str, mtu: u32) -> Diagnostics {
    let places = Places::of(text);
    let mut said = Diagnostics::default();
    let mut say = |span: Span, message: String, label: &str, help: &str| {
        said.push(
            Diagnostic::new(Code::NotYet, text, span, message)
                .in_file(file)
                .label(label)
                .help(help),
        );
    };
    for (number, node) in scenario.nodes.iter().enumerate() {
        if !matches!(node.kind, NodeKind::Host | NodeKind::Router) {
            let message = format!("`{}` is a kind of node that only the simulator has", node.name);
            say(
                places.key("node", number, "kind"),
                message,
                "simulated only",
                "use `weir sim`, or a router with links that have schedulers",
            );
        }
    }
    for (number, traffic) in scenario.traffic.iter().enumerate() {
        match carrier_of(&traffic.spec) {
            Err(Impossible { what, setting, help }) => {
                let message = format!("`{}` cannot be live: {what}", traffic.name);
                say(places.key("traffic", number, setting), message, "not on real frames", &help);
            }
            Ok(Carrier::Datagrams { .. }) => {
                let sizes = packet_sizes(&traffic.spec);
                if let Some(size) =
                    sizes.iter().find(|size| !(LEAST_PACKET..=u64::from(mtu)).contains(*size))
                {
                    let message = format!("`{}` has packets of {size} bytes", traffic.name);
                    let help = format!(
                        "allowed are {LEAST_PACKET} bytes, which hold headers and a time stamp, to --mtu, which is {mtu}"
                    );
                    say(
                        places.key("traffic", number, "size"),
                        message,
                        "no size for a datagram",
                        &help,
                    );
                }
            }
            Ok(_) => {}
        }
    }
    if let Some(axis) = scenario.sweep.first() {
        let help = format!("make one run for each value: `weir live {file} --set {}=…`", axis.key);
        say(places.table("sweep"), "a live run has no sweep".to_owned(), "several runs", &help);
    }
    said
}

/// Where the keys of a scenario stand.
struct Places<'a> {
    root: Option<Spanned<DeTable<'a>>>,
}

impl<'a> Places<'a> {
    fn of(text: &'a str) -> Self {
        Self { root: DeTable::parse(text).ok() }
    }

    /// The value of a key in table `number` of those with this name; the table itself where the key
    /// is not given.
    fn key(&self, tables: &str, number: usize, key: &str) -> Span {
        let Some((_, all)) = self.root.as_ref().and_then(|root| find(root.get_ref(), tables))
        else {
            return 0..0;
        };
        let DeValue::Array(all) = all.get_ref() else { return all.span() };
        let Some(table) = all.get(number) else { return 0..0 };
        let DeValue::Table(keys) = table.get_ref() else { return table.span() };
        find(keys, key).map_or(table.span(), |(_, value)| value.span())
    }

    /// A table of this name.
    fn table(&self, name: &str) -> Span {
        self.root.as_ref().and_then(|root| find(root.get_ref(), name)).map_or(0..0, |(key, _)| key)
    }
}

fn find<'t, 'a>(table: &'t DeTable<'a>, key: &str) -> Option<(Span, &'t Spanned<DeValue<'a>>)> {
    table.iter().find(|(name, _)| name.get_ref() == key).map(|(name, value)| (name.span(), value))
}

/// IPv4 and UDP headers, a number and a time.
const LEAST_PACKET: u64 = 40;
