//! Converts topologies of Containerlab.

use std::collections::BTreeMap;

use super::error::ConvertError;
use super::lab::{Lab, LabLink, LabNode, list, quoted};
use super::yaml::Yaml;

pub(super) fn convert(text: &str) -> Result<Lab, ConvertError> {
    let file = Yaml::parse(text)?;
    let topology = file.get("topology").ok_or_else(|| {
        ConvertError::Missing("the file has no `topology`: is it one of Containerlab?".to_owned())
    })?;
    let mut lab = Lab {
        name: file.get("name").and_then(Yaml::text).unwrap_or_default().to_owned(),
        ..Lab::default()
    };
    lab.notes.push(
        "Containerlab's file has neither a duration nor delays and rates: set `duration` and \
         `spec`."
            .to_owned(),
    );
    for (key, value) in file.entries().iter().filter(|(key, _)| !USED_OF_FILE.contains(&&**key)) {
        lab.notes.push(format!("left out: {key}: {}", value.shown()));
    }
    for (key, value) in topology.entries() {
        if !USED_OF_TOPOLOGY.contains(&&**key) {
            lab.notes.push(format!("left out: {key}: {}", value.shown()));
        }
    }
    let nodes = topology.get("nodes").map(Yaml::entries).unwrap_or_default();
    if nodes.is_empty() {
        return Err(ConvertError::Missing("the topology has no nodes".to_owned()));
    }
    for (name, node) in nodes {
        lab.add_node(Source { topology, node }.convert(name))?;
    }
    for link in topology.get("links").map(Yaml::list).unwrap_or_default() {
        add_link(&mut lab, link)?;
    }
    let mut degrees: BTreeMap<&str, usize> = BTreeMap::new();
    for name in lab.links.iter().flat_map(|link| &link.between) {
        *degrees.entry(name).or_default() += 1;
    }
    for node in lab.nodes.iter_mut().filter(|node| !node.is_router) {
        if degrees.get(&*node.name).is_some_and(|degree| *degree > 1) {
            let note = "it has several links and forwards nothing; make it a router (kind = \
                        \"router\", without image) if it forwards";
            node.notes.push(note.to_owned());
        }
    }
    Ok(lab)
}

/// A node with the tables from which it inherits.
struct Source<'a> {
    topology: &'a Yaml,
    node: &'a Yaml,
}

impl<'a> Source<'a> {
    /// The tables that may have settings of the node, the most specific one first.
    fn tables(&self) -> Vec<&'a Yaml> {
        let defaults = self.topology.get("defaults");
        let of = |kind: &str, name: Option<&str>| self.topology.get(kind)?.get(name?);
        let group = of("groups", self.node.get("group").and_then(Yaml::text));
        let kind = [Some(self.node), group, defaults]
            .into_iter()
            .flatten()
            .find_map(|table| table.get("kind"))
            .and_then(Yaml::text);
        [Some(self.node), group, of("kinds", kind), defaults].into_iter().flatten().collect()
    }

    fn get(&self, key: &str) -> Option<&'a Yaml> {
        self.tables().into_iter().find_map(|table| table.get(key))
    }

    fn text(&self, key: &str) -> &'a str {
        self.get(key).and_then(Yaml::text).unwrap_or_default()
    }

    fn convert(&self, name: &str) -> LabNode {
        let mut node = LabNode { name: name.to_owned(), ..LabNode::default() };
        let kind = self.text("kind");
        if BRIDGES.contains(&kind) {
            node.is_router = true;
            node.notes.push(format!("{kind} {name} is a router, which forwards in no time"));
        } else if kind == "host" {
            node.notes.push("it is the machine itself; here it is a host without a program".into());
        } else if OUTSIDE.contains(&kind) {
            node.notes.push(format!("kind {kind} is not managed by the lab; give it a `command`"));
        } else if HOSTS.contains(&kind) {
            node.image = self.text("image").to_owned();
            self.program(&mut node);
        } else {
            node.is_router = true;
            let image = self.text("image");
            node.notes.push(format!(
                "the network operating system {kind} ({image}) does not run: a router of Weir \
                 forwards in its place, by the routes of the scenario"
            ));
        }
        self.note_the_rest(&mut node);
        node
    }

    /// Reads the program, environment, files, start order and health check of a container.
    fn program(&self, node: &mut LabNode) {
        node.command = self.text("cmd").to_owned();
        // A more specific table replaces single variables of less specific tables.
        for (key, value) in
            self.tables().into_iter().filter_map(|table| table.get("env")).flat_map(Yaml::entries)
        {
            let is_new = !node.env.iter().any(|(other, _)| other == key);
            match value.text().filter(|_| is_new && !key.is_empty() && !key.contains(['=', '\0'])) {
                Some(text) => node.env.push((key.clone(), text.to_owned())),
                None if is_new => node.notes.push(format!("left out: env {key}")),
                None => {}
            }
        }
        for bind in
            self.tables().into_iter().filter_map(|table| table.get("binds")).flat_map(Yaml::list)
        {
            match bind.text().and_then(volume) {
                Some(volume) => node.volumes.push(volume),
                None => node.notes.push(format!("left out: bind {}", bind.shown())),
            }
        }
        if let Some(check) = self.get("healthcheck") {
            health(check, node);
        }
        for (stage, settings) in self.get("stages").map(Yaml::entries).unwrap_or_default() {
            for (key, value) in settings.entries() {
                if key == "wait-for" && stage == "create" {
                    value.list().iter().for_each(|wait| after(wait, node));
                } else {
                    node.notes.push(format!("left out: {key} of stage {stage}: {}", value.shown()));
                }
            }
        }
    }

    /// Notes the settings that have no counterpart in the scenario.
    fn note_the_rest(&self, node: &mut LabNode) {
        let used: &[&str] = if node.is_router || node.image.is_empty() { &[] } else { &USED };
        let mut seen = Vec::new();
        for (key, value) in self.tables().into_iter().flat_map(Yaml::entries) {
            if KNOWN.contains(&&**key) || used.contains(&&**key) || seen.contains(key) {
                continue;
            }
            seen.push(key.clone());
            node.notes.push(format!("left out: {key}: {}", value.shown()));
        }
    }
}

/// A bind as a volume, `HOST:INSIDE` or `HOST:INSIDE:ro`; `None` if it has no counterpart.
fn volume(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split(':').collect();
    let (host, inside, mode) = match parts[..] {
        [host, inside] => (host, inside, ""),
        [host, inside, mode] => (host, inside, mode),
        _ => return None,
    };
    // Containerlab expands `~` and names such as `__clabNodeDir__`; Weir does not.
    if host.is_empty()
        || host.contains("__clab")
        || host.starts_with('~')
        || !inside.starts_with('/')
    {
        return None;
    }
    let read_only = mode.split(',').any(|word| word == "ro");
    Some(format!("{host}:{inside}{}", if read_only { ":ro" } else { "" }))
}

/// Adds the health check of a container to its node.
fn health(check: &Yaml, node: &mut LabNode) {
    let test: Vec<&str> = check
        .get("test")
        .map(Yaml::list)
        .unwrap_or_default()
        .iter()
        .filter_map(Yaml::text)
        .collect();
    let command = match test[..] {
        ["CMD-SHELL", line] => quoted(line),
        ["CMD", ref words @ ..] if !words.is_empty() => list(words.iter().copied()),
        _ => {
            node.notes.push(format!("left out: healthcheck: {}", check.shown()));
            return;
        }
    };
    node.health.push(("command", command));
    for key in ["interval", "timeout", "retries"] {
        let Some(value) = check.get(key) else { continue };
        let number = value.text().and_then(|text| text.parse::<u16>().ok());
        match number.filter(|number| (1..=10_000).contains(number)) {
            Some(number) if key == "retries" => node.health.push((key, number.to_string())),
            Some(number) => node.health.push((key, format!("\"{number}s\""))),
            None => node.notes.push(format!("left out: healthcheck {key}: {}", value.shown())),
        }
    }
    for (key, value) in check.entries() {
        if !["test", "interval", "timeout", "retries"].contains(&&**key) {
            node.notes.push(format!("left out: healthcheck {key}: {}", value.shown()));
        }
    }
}

/// Adds an entry of `wait-for` to a node.
fn after(wait: &Yaml, node: &mut LabNode) {
    let part = |key| wait.get(key).and_then(Yaml::text);
    match (part("node"), part("stage").unwrap_or("healthy")) {
        (Some(name), "exit") => node.after.push((name.to_owned(), ":ended")),
        (Some(name), "create" | "create-links" | "configure" | "healthy") => {
            node.after.push((name.to_owned(), ""));
        }
        _ => node.notes.push(format!("left out: wait-for {}", wait.shown())),
    }
}

fn add_link(lab: &mut Lab, link: &Yaml) -> Result<(), ConvertError> {
    let kind = link.get("type").and_then(Yaml::text).unwrap_or("veth");
    let ends = link.get("endpoints").map(Yaml::list).unwrap_or_default();
    let ends: Vec<(String, Vec<String>)> = ends.iter().filter_map(end).collect();
    let [(a, first), (b, second)] = &ends[..] else {
        lab.notes.push(format!("left out: link {}", link.shown()));
        return Ok(());
    };
    let is_special = |name: &String| SPECIAL_ENDS.contains(&&**name) && !lab.has_node(name);
    if kind != "veth" || is_special(a) || is_special(b) {
        lab.notes.push(format!("left out: link {}", link.shown()));
        return Ok(());
    }
    let mut notes: Vec<String> = first.iter().chain(second).cloned().collect();
    for (key, value) in link.entries().iter().filter(|(key, _)| !USED_OF_LINK.contains(&&**key)) {
        notes.push(format!("left out: {key}: {}", value.shown()));
    }
    let between = [a.clone(), b.clone()];
    lab.add_link(LabLink { between, notes, ..LabLink::default() })
}

/// The node of an end of a link, and the settings of the end that are left out.
fn end(end: &Yaml) -> Option<(String, Vec<String>)> {
    if let Some(text) = end.text() {
        let (node, interface) = text.split_once(':')?;
        return Some((node.to_owned(), vec![format!("interface {interface} of {node}")]));
    }
    let node = end.get("node")?.text()?;
    let others = end.entries().iter().filter(|(key, _)| key != "node");
    let notes = others.map(|(key, value)| format!("{key} {} of {node}", value.shown())).collect();
    Some((node.to_owned(), notes))
}

/// Keys of the file that are used.
const USED_OF_FILE: [&str; 2] = ["name", "topology"];
/// Keys of the topology that are used.
const USED_OF_TOPOLOGY: [&str; 5] = ["nodes", "links", "defaults", "kinds", "groups"];
/// Keys of a link that are used.
const USED_OF_LINK: [&str; 2] = ["type", "endpoints"];
/// Keys of a container that are used.
const USED: [&str; 5] = ["cmd", "env", "binds", "healthcheck", "stages"];
/// Keys of a node that are never listed as left out.
const KNOWN: [&str; 3] = ["kind", "group", "image"];
/// Kinds of nodes that are bridges.
const BRIDGES: [&str; 2] = ["bridge", "ovs-bridge"];
/// Kinds of nodes that run outside the lab.
const OUTSIDE: [&str; 2] = ["ext-container", "k8s-kind"];
/// Kinds of nodes that are containers with programs. A node without a kind, which Containerlab
/// refuses, counts as such a node.
const HOSTS: [&str; 2] = ["linux", ""];
/// Ends of links that are not nodes.
const SPECIAL_ENDS: [&str; 4] = ["host", "mgmt-net", "macvlan", "vxlan"];

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../../../../examples/convert/topology.clab.yml");

    #[test]
    fn a_topology_becomes_a_scenario_and_nothing_is_dropped_silently() {
        let text = convert(EXAMPLE).unwrap().to_toml("shop.clab.yml");
        let table: toml::Table = text.parse().unwrap_or_else(|error| panic!("{error}: {text}"));
        let nodes = table["node"].as_array().unwrap();
        assert_eq!(nodes.len(), 4, "{text}");
        let web = &nodes[0];
        assert_eq!(web["image"].as_str(), Some("nginx:1"));
        assert_eq!(web["command"].as_str(), Some("nginx -g 'daemon off;'"));
        assert_eq!(web["volumes"][0].as_str(), Some("www:/www:ro"));
        assert_eq!(web["env"]["LEVEL"].as_str(), Some("2"));
        assert_eq!(web["env"]["MODE"].as_str(), Some("test"));
        assert_eq!(web["health"]["interval"].as_str(), Some("2s"));
        let client = &nodes[1];
        assert_eq!(client["image"].as_str(), Some("alpine:3"));
        assert_eq!(client["after"][0].as_str(), Some("web"));
        for router in &nodes[2..] {
            assert_eq!(router["kind"].as_str(), Some("router"));
            assert!(router.get("image").is_none());
        }
        assert_eq!(table["link"].as_array().unwrap().len(), 3);
        for part in [
            "# left out: mgmt: {network: custom}",
            "# left out: bind __clabNodeDir__/x:/x",
            "# left out: ports: [8080:80]",
            "# left out: healthcheck start-period: 5",
            "# left out: exec: [ip addr add 10.1.1.1/24 dev eth1]",
            "# the network operating system nokia_srlinux (srl:24) does not run",
            "# left out: startup-config: leaf.cfg",
            "# bridge sw is a router",
            "# left out: mtu: 1400",
            "# mac 02:00:00:00:00:01 of client",
            "# left out: link {endpoints: [web:eth2, host:veth9]}",
            "# left out: link {type: dummy",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn groups_and_kinds_are_inherited_in_the_order_of_containerlab() {
        let text = "topology:\n  defaults: {kind: linux, image: d}\n  kinds: \
                    {linux: {image: k}}\n  \
                    groups: {g: {image: g}}\n  nodes:\n    a: {group: g}\n    b: {}\n    \
                    c: {image: n}\n";
        let lab = convert(text).unwrap();
        let images: Vec<&str> = lab.nodes.iter().map(|node| &*node.image).collect();
        assert_eq!(images, ["g", "k", "n"]);
    }

    #[test]
    fn a_file_of_another_kind_is_refused() {
        for text in ["", "services: {web: {}}", "topology: {}", "topology: {nodes: {}}"] {
            assert!(matches!(convert(text), Err(ConvertError::Missing(_))), "{text}");
        }
        for text in
            ["topology: [", "- a\n- b\n", "topology:\n  nodes: {a: 1, b: [2]}\n  links: {}\n"]
        {
            // A malformed file must not cause a panic.
            let _ = convert(text);
        }
    }

    #[test]
    fn binds_with_plain_paths_become_volumes() {
        assert_eq!(volume("/a:/b"), Some("/a:/b".to_owned()));
        assert_eq!(volume("a:/b:rw,z"), Some("a:/b".to_owned()));
        assert_eq!(volume("a:/b:ro"), Some("a:/b:ro".to_owned()));
        for text in ["/a", "a:b", ":/b", "~/a:/b", "a:/b:ro:x", "__clabDir__:/b"] {
            assert_eq!(volume(text), None, "{text}");
        }
    }
}
