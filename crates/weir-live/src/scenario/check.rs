//! Refuses the parts of a scenario that only the simulator supports.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_rules::{Code, Diagnostic, Diagnostics, Span};
use weir_sim::scenario::{EngineName, HostProgram, NodeKind, Root, Scenario};
use weir_sim::traffic::TRANSPORT;

use super::kinds::{Carrier, Impossible, carrier_of, packet_sizes};
use super::plan::MOST_LAB_HOSTS;
use crate::lab::{EngineError, check_image, choose};

/// Returns an error, with a remedy, for each part of a scenario that cannot run live, and a note
/// for each TCP setting that has no effect. Both refer to places in `text`, the content of `file`.
/// `mtu` is the largest IP packet of the hosts' interfaces, in bytes.
pub fn check(scenario: &Scenario, text: &str, file: &str, mtu: u32) -> Diagnostics {
    let places = Places::of(text);
    let mut diagnostics = Diagnostics::default();
    let mut say = |span: Span, message: String, label: &str, help: &str| {
        diagnostics.push(
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
    for (number, node) in scenario.nodes.iter().enumerate() {
        if let Some(program) = node.program.as_deref() {
            for (key, Refused { message, label, help }) in refusals(program, file) {
                let message = format!("`{}`: {message}", node.name);
                say(places.key("node", number, key), message, label, &help);
            }
        }
    }
    let mut ecn = BTreeMap::new();
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
                        "allowed are {LEAST_PACKET} bytes, which hold headers and a time stamp, \
                         to --mtu, which is {mtu}"
                    );
                    say(
                        places.key("traffic", number, "size"),
                        message,
                        "no size for a datagram",
                        &help,
                    );
                }
            }
            Ok(Carrier::Tcp(transfer)) => {
                let hosts = traffic.from.iter().copied();
                if let Some((_, other)) = hosts
                    .map(|host| *ecn.entry(host).or_insert((transfer.ecn, &traffic.name)))
                    .find(|(ecn, _)| *ecn != transfer.ecn)
                {
                    let message =
                        format!("`{}` and `{other}` differ in the use of ECN", traffic.name);
                    say(
                        places.key("traffic", number, "ecn"),
                        message,
                        "one setting for a host",
                        "the kernel has one setting for all connections that a host opens: give \
                         them the same `ecn`, or different hosts",
                    );
                }
            }
            Ok(Carrier::Program { .. }) => {}
        }
    }
    if let Some(axis) = scenario.sweep.first() {
        let key = &axis.key;
        let help = format!("make one run for each value: `weir live {file} --set {key}=…`");
        say(places.table("sweep"), "a live run has no sweep".to_owned(), "several runs", &help);
    }
    for (number, traffic) in scenario.traffic.iter().enumerate() {
        let own = TRANSPORT.iter().filter(|setting| !CHOSEN.contains(setting));
        for setting in own.filter(|setting| places.has("traffic", number, setting)) {
            let span = places.key("traffic", number, setting);
            let message = format!("`{}`: the kernel's TCP has its own `{setting}`", traffic.name);
            let note = Diagnostic::new(Code::Ignored, text, span, message).in_file(file);
            diagnostics.push(note.label("has no effect in a live run"));
        }
    }
    too_many_hosts(scenario, text, file).into_iter().for_each(|error| diagnostics.push(error));
    diagnostics
}

/// An error at the first host beyond the maximum number of hosts of a lab.
#[must_use]
pub fn too_many_hosts(scenario: &Scenario, text: &str, file: &str) -> Option<Diagnostic> {
    let mut hosts = (0..).zip(&scenario.nodes).filter(|(_, node)| node.kind == NodeKind::Host);
    let (number, _) = hosts.nth(MOST_LAB_HOSTS).filter(|_| scenario.is_lab())?;
    let count = MOST_LAB_HOSTS + 1 + hosts.count();
    let message = format!("{count} hosts are too many for a lab");
    let span = Places::of(text).key("node", number, "name");
    let error = Diagnostic::new(Code::NotYet, text, span, message).in_file(file);
    Some(error.label("one too many").help(format!("allowed are up to {MOST_LAB_HOSTS}")))
}

/// Why the program of a host cannot run here.
struct Refused {
    message: String,
    label: &'static str,
    help: String,
}

/// The resources that the program of a host needs and this machine does not have, by the key of the
/// setting. Paths are relative to the directory of `file`.
fn refusals(program: &HostProgram, file: &str) -> Vec<(&'static str, Refused)> {
    let directory = Path::new(file).parent().unwrap_or(Path::new(""));
    let mut refused = Vec::new();
    match &program.root {
        Root::Machine => {}
        Root::Directory { path, .. } => {
            let path = directory.join(path);
            if !path.is_dir() {
                let message = format!("there is no directory {}", path.display());
                let help = "the path is relative to the directory of the scenario".to_owned();
                refused.push(("rootfs", Refused { message, label: "does not exist", help }));
            }
        }
        Root::Image { name, engine, .. } => {
            if let Err(why) = image(name, *engine) {
                refused.push(("image", why));
            }
        }
    }
    for volume in &program.volumes {
        let path = directory.join(&volume.host);
        if !path.exists() {
            let message = format!("there is no {} for a volume", path.display());
            let help = "the path is relative to the directory of the scenario".to_owned();
            refused.push(("volumes", Refused { message, label: "does not exist", help }));
        }
    }
    refused
}

/// Checks that a container of an image can be a host.
fn image(name: &str, engine: Option<EngineName>) -> Result<(), Refused> {
    if !may_use_containers() {
        return Err(Refused {
            message: "containers can be hosts only for root".to_owned(),
            label: "needs root",
            help: "use sudo, or `rootfs` and `command`, which need no root".to_owned(),
        });
    }
    let found = choose(engine).and_then(|engine| check_image(engine, name));
    found.map_err(|error| {
        let help = match &error {
            EngineError::NoImage { engine, .. } => {
                format!("Weir fetches no images: `{engine} pull {name}`, or build it")
            }
            EngineError::NotInstalled(_) => "install it, or use `rootfs`".to_owned(),
            _ => "start the engine; DOCKER_HOST or CONTAINER_HOST names its socket".to_owned(),
        };
        Refused { message: error.to_string(), label: "cannot be a container", help }
    })
}

/// Whether this process may enter the network of a container: it is root outside of user
/// namespaces.
fn may_use_containers() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_outermost = map.split_whitespace().eq(["0", "0", "4294967295"]);
    rustix::process::geteuid().is_root() && is_outermost
}

/// Finds the places of a scenario's keys in its text.
struct Places<'a> {
    /// The parsed text; `None` if it is not valid TOML.
    root: Option<Spanned<DeTable<'a>>>,
}

impl<'a> Places<'a> {
    fn of(text: &'a str) -> Self {
        Self { root: DeTable::parse(text).ok() }
    }

    /// The place of the value of `key` in table `number` of the tables called `tables`. If the key
    /// is absent, this is the place of the table.
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

    /// Whether table `number` of the tables called `tables` has this key.
    fn has(&self, tables: &str, number: usize, key: &str) -> bool {
        let of = |root: &'_ Spanned<DeTable<'a>>| {
            let (_, all) = find(root.get_ref(), tables)?;
            let DeValue::Array(all) = all.get_ref() else { return None };
            let DeValue::Table(keys) = all.get(number)?.get_ref() else { return None };
            find(keys, key).map(|_| ())
        };
        self.root.as_ref().and_then(of).is_some()
    }

    /// The place of a table with this name.
    fn table(&self, name: &str) -> Span {
        self.root.as_ref().and_then(|root| find(root.get_ref(), name)).map_or(0..0, |(key, _)| key)
    }
}

fn find<'t, 'a>(table: &'t DeTable<'a>, key: &str) -> Option<(Span, &'t Spanned<DeValue<'a>>)> {
    table.iter().find(|(name, _)| name.get_ref() == key).map(|(name, value)| (name.span(), value))
}

/// The TCP settings that a live run passes to the kernel.
const CHOSEN: [&str; 2] = ["cc", "mss"];
/// The smallest packet in bytes: IPv4 and UDP headers, a sequence number and a time stamp.
const LEAST_PACKET: u64 = 40;

#[cfg(test)]
mod tests {
    use weir_rules::NoFiles;

    use super::*;

    fn checked(first: &str, second: &str) -> String {
        let text = format!(
            r#"
duration = "1s"
node = [{{ name = "a" }}, {{ name = "b" }}]
link = [{{ between = ["a", "b"], spec = "bw 1Mbit/s" }}]
traffic = [
    {{ name = "f", kind = "tcp", cc = "cubic", from = "a", to = "b"{first} }},
    {{ name = "g", kind = "tcp", cc = "cubic", from = "a", to = "b"{second} }},
]
"#
        );
        let scenario = weir_sim::scenario::parse(&text, "test.toml", &NoFiles);
        let scenario = scenario.scenario.unwrap_or_else(|| panic!("{}", scenario.diagnostics));
        check(&scenario, &text, "test.toml", 1500).render(false)
    }

    #[test]
    fn transfers_of_one_host_agree_on_ecn() {
        assert_eq!(checked("", ", ecn = \"none\""), "");
        assert_eq!(checked(", ecn = \"ect0\"", ", ecn = \"ect0\""), "");
        let refused = checked(", ecn = \"ect0\"", ", mss = \"1000B\"");
        assert!(refused.contains("`g` and `f` differ in the use of ECN"), "{refused}");
    }

    #[test]
    fn a_lab_has_a_bounded_number_of_hosts() {
        let lab = |count: usize| {
            let mut text = "duration = \"1s\"\n".to_owned();
            for number in 0..count {
                text += &format!("[[node]]\nname = \"h{number}\"\ncommand = \"true\"\n");
            }
            let scenario = weir_sim::scenario::parse(&text, "test.toml", &NoFiles);
            let scenario = scenario.scenario.unwrap_or_else(|| panic!("{}", scenario.diagnostics));
            check(&scenario, &text, "test.toml", 1500).render(false)
        };
        assert_eq!(lab(100), "");
        let refused = lab(102);
        assert!(refused.contains("102 hosts are too many for a lab"), "{refused}");
        assert!(refused.contains("\"h100\"") && refused.contains("up to 100"), "{refused}");
    }

    #[test]
    fn a_setting_that_the_kernel_ignores_is_noted_with_its_line() {
        let noted = checked(", initial_window = 4", "");
        assert!(noted.contains("own `initial_window`") && noted.contains("test.toml:6"), "{noted}");
    }
}
