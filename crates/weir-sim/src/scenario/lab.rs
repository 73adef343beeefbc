//! Checks the keys of hosts with programs or containers, which `weir live` runs.
//!
//! A scenario in which a host has such keys is a *lab*. The simulator refuses it.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::DeValue;
use weir_core::Nanos;
use weir_rules::{Code, Span};

use super::collector::Collector;
use super::host_program::{After, Health, HostProgram, Root, Volume, Words};
use super::raw::{HealthKeys, HostKeys};
use super::{names, raw, read};

/// A program with references to other nodes that are not resolved yet.
#[derive(Debug)]
pub(super) struct Unresolved {
    program: HostProgram,
    after: Vec<raw::Text>,
}

/// Checks the keys of a host. Returns `None` if there are no keys, or if they are malformed.
pub(super) fn host(
    settings: Spanned<DeValue<'_>>,
    collector: &mut Collector<'_>,
) -> Option<Unresolved> {
    if settings.get_ref().as_table().is_none_or(|table| table.is_empty()) {
        return None;
    }
    let head = collector.first_line(settings.span());
    let keys: HostKeys = read::item(collector, settings)?;
    let command = keys.command.as_ref().and_then(|command| words(command, collector));
    let root = root(&keys, &head, collector);
    if keys.command.is_none() && keys.image.is_none() {
        collector.error(
            Code::MissingValue,
            &head,
            "`command` is missing",
            "a host without a program",
            "write `command = [\"program\", \"argument\"]`, or `image = \"name\"`",
        );
    }
    let volumes = keys.volumes.iter().flat_map(|volumes| volumes.get_ref());
    let volumes = volumes.filter_map(|text| volume(text, collector)).collect();
    if let Some(env) = &keys.env
        && let Some(name) = env.get_ref().keys().find(|name| !is_variable(name))
    {
        let message = format!("`{name}` is no name of an environment variable");
        collector.error(Code::BadValue, &env.span(), message, "not allowed here", "");
    }
    let program = HostProgram {
        root,
        command,
        env: keys.env.map_or_else(BTreeMap::new, Spanned::into_inner),
        volumes,
        after: Vec::new(),
        ends: keys.ends.is_some_and(Spanned::into_inner),
        health: keys.health.and_then(|keys| health(keys.get_ref(), collector)),
    };
    Some(Unresolved { program, after: keys.after.map_or_else(Vec::new, Spanned::into_inner) })
}

fn root(keys: &HostKeys, head: &Span, collector: &mut Collector<'_>) -> Root {
    let read_only = keys.read_only.as_ref().is_some_and(|flag| *flag.get_ref());
    for name in [&keys.rootfs, &keys.image].into_iter().flatten() {
        if name.get_ref().trim().is_empty() || name.get_ref().starts_with('-') {
            let message = "this names neither a directory nor an image";
            collector.error(Code::BadValue, &name.span(), message, "not allowed here", "");
        }
    }
    let mut needs = |key: &str, span: Span, what: &str| {
        let message = format!("`{key}` needs {what}");
        collector.error(Code::Contradiction, &span, message, "has no effect here", "");
    };
    match (&keys.rootfs, &keys.image) {
        (None, None) => {
            if let Some(flag) = &keys.read_only {
                needs("read_only", flag.span(), "`rootfs` or `image`");
            }
        }
        (Some(_), Some(_)) => collector.error(
            Code::Contradiction,
            head,
            "a host has either `rootfs` or `image`",
            "has both",
            "remove one of the two",
        ),
        _ => {}
    }
    if let (None, Some(engine)) = (&keys.image, &keys.engine) {
        let message = "`engine` needs `image`";
        collector.error(Code::Contradiction, &engine.span(), message, "has no effect here", "");
    }
    match (&keys.image, &keys.rootfs) {
        (Some(name), _) => Root::Image {
            name: name.get_ref().clone(),
            engine: keys.engine.as_ref().map(|engine| *engine.get_ref()),
            read_only,
        },
        (None, Some(path)) => Root::Directory { path: path.get_ref().clone(), read_only },
        (None, None) => Root::Machine,
    }
}

fn words(command: &Spanned<raw::OneOrMore>, collector: &mut Collector<'_>) -> Option<Words> {
    let words = match command.get_ref() {
        raw::OneOrMore::One(text) => Words::Shell(text.clone()),
        raw::OneOrMore::More(list) => Words::List(list.clone()),
    };
    let first = command.get_ref().names().first().map_or("", |word| word.trim());
    let has_nul = command.get_ref().names().iter().any(|word| word.contains('\0'));
    if first.is_empty() || has_nul {
        collector.error(
            Code::BadValue,
            &command.span(),
            "this is no command",
            "expected a program",
            "for example `[\"iperf3\", \"-s\"]`, or a text for the shell",
        );
        return None;
    }
    Some(words)
}

fn volume(text: &raw::Text, collector: &mut Collector<'_>) -> Option<Volume> {
    let parts: Vec<&str> = text.get_ref().split(':').collect();
    let (host, inside, read_only) = match parts.as_slice() {
        [host, inside] => (host, inside, false),
        [host, inside, "ro"] => (host, inside, true),
        _ => (&"", &"", false),
    };
    let is_plain = inside.starts_with('/')
        && inside.len() > 1
        && !inside.split('/').any(|part| part == "..")
        && !inside.contains(['\0', ',']);
    if host.is_empty() || host.contains(['\0', ',']) || !is_plain {
        collector.error(
            Code::BadValue,
            &text.span(),
            format!("`{}` is no volume", text.get_ref()),
            "expected `host:inside` or `host:inside:ro`",
            "`inside` is an absolute path below `/`, without `..` and commas: \
             `volumes = [\"./www:/var/www:ro\"]`",
        );
        return None;
    }
    Some(Volume { host: (*host).to_owned(), inside: (*inside).to_owned(), read_only })
}

fn health(keys: &HealthKeys, collector: &mut Collector<'_>) -> Option<Health> {
    let mut time = |text: &Option<raw::Text>, what, default| match text {
        Some(text) => collector.time(text, what, Nanos::from_millis(1)),
        None => Some(default),
    };
    let interval = time(&keys.interval, "an interval", DEFAULT_INTERVAL);
    let timeout = time(&keys.timeout, "a timeout", DEFAULT_TIMEOUT);
    let retries = collector.number(
        keys.retries.as_ref(),
        "a number of retries",
        DEFAULT_RETRIES,
        1,
        MAX_RETRIES,
    ) as u32;
    let command = words(&keys.command, collector);
    Some(Health { command: command?, interval: interval?, timeout: timeout?, retries })
}

/// Resolves the names of the hosts that programs wait for, and reports cycles.
pub(super) fn resolve(
    all: Vec<Option<Unresolved>>,
    names: &[String],
    numbers: &BTreeMap<String, usize>,
    collector: &mut Collector<'_>,
) -> Vec<Option<Box<HostProgram>>> {
    let runs: Vec<bool> = all.iter().map(Option::is_some).collect();
    let mut places = Vec::new();
    let mut programs: Vec<Option<Box<HostProgram>>> = Vec::new();
    for unresolved in all {
        let Some(Unresolved { mut program, after }) = unresolved else {
            places.push(None);
            programs.push(None);
            continue;
        };
        places.push(after.first().map(Spanned::span));
        for text in &after {
            let (name, ended) = match text.get_ref().split_once(':') {
                Some((name, "ended")) => (name, true),
                _ => (text.get_ref().as_str(), false),
            };
            let Some(node) = names::node(name, &text.span(), numbers, collector) else { continue };
            if !runs[node] {
                let message = format!("`{name}` runs no program");
                let help = "a host waits for hosts with `command` or `image`";
                let label = "nothing to wait for";
                collector.error(Code::Contradiction, &text.span(), message, label, help);
            }
            program.after.push(After { node, ended });
        }
        programs.push(Some(Box::new(program)));
    }
    if let Some(cycle) = cycle(&programs) {
        let path: Vec<&str> = cycle.iter().map(|&node| names[node].as_str()).collect();
        let span = cycle.first().and_then(|&node| places[node].clone()).unwrap_or(0..0);
        let message = format!("these hosts wait for each other: {}", path.join(" → "));
        let help = "none of them could ever start: remove one of the entries of `after`";
        collector.error(Code::Contradiction, &span, message, "part of a circle", help);
    }
    programs
}

/// Hosts that wait for each other in a cycle. The first host is repeated at the end.
fn cycle(programs: &[Option<Box<HostProgram>>]) -> Option<Vec<usize>> {
    /// The state of a host: not visited, on the path of the search, or finished.
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; programs.len()];
    let after = |node: usize| programs[node].as_ref().map_or(&[][..], |program| &program.after);
    for start in 0..programs.len() {
        // The hosts on the path from `start`, each with the number of entries in its `after` that
        // were followed. The search is not recursive, because a file may have a chain of many
        // thousands of hosts.
        let mut path = vec![(start, 0)];
        if marks[start] != Mark::New {
            continue;
        }
        marks[start] = Mark::Open;
        while let Some((node, followed)) = path.last_mut() {
            let Some(next) = after(*node).get(*followed).map(|after| after.node) else {
                marks[*node] = Mark::Done;
                path.pop();
                continue;
            };
            *followed += 1;
            match marks[next] {
                Mark::Done => {}
                Mark::New => {
                    marks[next] = Mark::Open;
                    path.push((next, 0));
                }
                Mark::Open => {
                    let begin = path.iter().position(|&(node, _)| node == next).unwrap_or(0);
                    let nodes = path[begin..].iter().map(|&(node, _)| node);
                    return Some(nodes.chain([next]).collect());
                }
            }
        }
    }
    None
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

const DEFAULT_INTERVAL: Nanos = Nanos::from_millis(500);
const DEFAULT_TIMEOUT: Nanos = Nanos::from_secs(2);
const DEFAULT_RETRIES: i64 = 20;
const MAX_RETRIES: i64 = 10_000;

#[cfg(test)]
mod tests {
    use weir_rules::NoFiles;

    use super::*;
    use crate::scenario::{EngineName, Scenario, parse};

    fn text(nodes: &str) -> String {
        format!("duration = \"1s\"\n{nodes}")
    }

    fn read(nodes: &str) -> Scenario {
        let checked = parse(&text(nodes), "lab.toml", &NoFiles);
        checked.scenario.unwrap_or_else(|| panic!("{}", checked.diagnostics))
    }

    fn refused(nodes: &str) -> String {
        let checked = parse(&text(nodes), "lab.toml", &NoFiles);
        assert!(checked.scenario.is_none(), "{nodes}");
        checked.diagnostics.render(false)
    }

    #[test]
    fn all_keys_of_a_host_are_read() {
        let scenario = read(
            r#"
            [[node]]
            name = "db"
            image = "box"
            engine = "podman"
            [[node]]
            name = "web"
            rootfs = "root"
            read_only = true
            command = "exec serve"
            env = { PORT = "80" }
            volumes = ["./www:/var/www:ro"]
            after = ["db", "job:ended"]
            health = { command = ["true"], interval = "20ms", timeout = "1s", retries = 3 }
            [[node]]
            name = "job"
            command = ["sleep", "1"]
            ends = true
            "#,
        );
        let program = |node: usize| scenario.nodes[node].program.as_deref().expect("a program");
        assert_eq!(
            program(0).root,
            Root::Image { name: "box".into(), engine: Some(EngineName::Podman), read_only: false }
        );
        let web = program(1);
        assert_eq!(web.root, Root::Directory { path: "root".into(), read_only: true });
        assert_eq!(
            web.command.as_ref().map(Words::to_execute),
            Some(vec!["/bin/sh".into(), "-c".into(), "exec serve".into()])
        );
        assert_eq!(
            web.volumes,
            [Volume { host: "./www".into(), inside: "/var/www".into(), read_only: true }]
        );
        assert_eq!(web.after, [After { node: 0, ended: false }, After { node: 2, ended: true }]);
        let health = web.health.as_ref().expect("a check");
        assert_eq!((health.interval, health.retries), (Nanos::from_millis(20), 3));
        assert!(program(2).ends && !web.ends);
    }

    #[test]
    fn wrong_keys_are_refused_with_their_line() {
        for (keys, part) in [
            ("rootfs = \"r\"", "`command` is missing"),
            ("rootfs = \"r\"\nimage = \"i\"", "either `rootfs` or `image`"),
            ("command = []", "this is no command"),
            ("command = [\"\"]", "this is no command"),
            ("command = \" \"", "this is no command"),
            ("image = \"--privileged\"", "neither a directory nor an image"),
            ("command = \"x\"\nengine = \"docker\"", "`engine` needs `image`"),
            ("command = \"x\"\nread_only = true", "`read_only` needs"),
            ("command = \"x\"\nvolumes = [\"a:b\"]", "`a:b` is no volume"),
            ("command = \"x\"\nvolumes = [\"a:/b/../c\"]", "is no volume"),
            ("command = \"x\"\nvolumes = [\"a:/b:rw:x\"]", "is no volume"),
            ("command = \"x\"\nenv = { \"A=B\" = \"c\" }", "no name of an environment variable"),
            ("command = \"x\"\nafter = [\"b\"]", "there is no node `b`"),
            ("command = \"x\"\nafter = [\"idle\"]", "`idle` runs no program"),
            ("command = \"x\"\nhealth = { command = \"t\", retries = 0 }", "out of range"),
            ("command = \"x\"\nhealth = { command = \"t\", interval = \"5\" }", "unit of time"),
            ("command = \"x\"\nhealth = { interval = \"5s\" }", "`command` is missing"),
            ("comand = \"x\"", "did you mean `command`?"),
            ("kind = \"router\"\ncommand = \"x\"", "a router"),
        ] {
            let message =
                refused(&format!("[[node]]\nname = \"idle\"\n[[node]]\nname = \"a\"\n{keys}\n"));
            assert!(message.contains(part), "{keys}: {message}");
        }
    }

    #[test]
    fn hosts_that_wait_for_each_other_are_refused() {
        let node = |name: &str, after: &str| {
            format!("[[node]]\nname = \"{name}\"\ncommand = \"x\"\nafter = [{after}]\n")
        };
        let nodes = [node("a", "\"b\""), node("b", "\"c\""), node("c", "\"d\", \"b:ended\"")];
        let message = refused(&(nodes.concat() + &node("d", "")));
        assert!(message.contains("wait for each other: b → c → b"), "{message}");
        assert!(message.contains("lab.toml:9"), "{message}");
        let message = refused(&node("a", "\"a\""));
        assert!(message.contains("a → a"), "{message}");
    }

    #[test]
    fn long_chains_of_hosts_are_read() {
        let node = |n: usize| {
            let after = if n == 0 { String::new() } else { format!("\"n{}\"", n - 1) };
            format!("[[node]]\nname = \"n{n}\"\ncommand = \"x\"\nafter = [{after}]\n")
        };
        let nodes: String = (0..20_000).rev().map(node).collect();
        assert_eq!(read(&nodes).nodes.len(), 20_000);
    }
}
