//! Checks the keys of a file and builds a scenario: names become indices, and inconsistent settings
//! are errors.

use std::collections::{BTreeMap, BTreeSet};

use toml::Spanned;
use toml::de::DeValue;
use weir_core::Nanos;
use weir_core::config::FlowsetConfig;
use weir_rules::{Code, Files, Span, closest};

use super::collector::Collector;
use super::names::{check_name, free_name, node, unreachable};
use super::read::{self, Document};
use super::{
    Axis, Edited, Link, MANY_PACKETS, MAX_FLOWS, MAX_NODES, MAX_POINTS, MAX_PORTS, MAX_RUNS,
    Measure, Node, NodeKind, Route, Scenario, Traffic, lab, links, raw, traffic,
};
use crate::switch::SwitchConfig;
use crate::topology::{PathError, Topology};

/// Builds a scenario from a file's parts.
pub(super) fn check(
    document: Document<'_>,
    files: &dyn Files,
    collector: &mut Collector<'_>,
) -> Option<Scenario> {
    let Document { head, nodes, links, routes, traffic, measure, sweep } = document;
    let duration = collector.time(&head.duration, "a duration", Nanos(1));
    let warmup = head
        .warmup
        .as_ref()
        .map(|text| (collector.time(text, "a warm-up", Nanos::ZERO), text.span()));
    if let (Some(duration), Some((Some(warmup), span))) = (duration, &warmup)
        && *warmup >= duration
    {
        let help = "the duration includes the warm-up";
        collector.error(
            Code::Contradiction,
            span,
            "the warm-up leaves nothing to measure",
            format!("below {duration}"),
            help,
        );
    }
    let seed = collector.number(head.seed.as_ref(), "a seed", 1, 0, i64::MAX);
    let runs = collector.number(head.runs.as_ref(), "a number of runs", 1, 1, MAX_RUNS);
    let measure = measure.map_or_else(Measure::default, |raw| check_measure(&raw, collector));
    let names = Names::of(nodes, collector);
    let nodes = names.nodes;
    // References to nodes with errors would cause misleading errors.
    if collector.has_errors() {
        return None;
    }
    let raw_links = links;
    let links = check_links(&raw_links, &names.numbers, files, collector);
    let links_failed = collector.has_errors();
    let topology = Topology::new(&nodes, &links);
    check_switches(&nodes, &links, &raw_links, collector);
    let routes = if links_failed {
        Vec::new()
    } else {
        check_routes(&routes, &names.numbers, &nodes, &topology, collector)
    };
    let mut topology = topology.with_routes(&routes);
    let known = if links_failed { None } else { Some(&mut topology) };
    let traffic = traffic::check(traffic, &names.numbers, &nodes, known, files, collector);
    let points =
        sweep.iter().fold(1usize, |points, (axis, _)| points.saturating_mul(axis.values.len()));
    if let Some((_, span)) =
        sweep.last().filter(|_| points.saturating_mul(runs as usize) > MAX_POINTS)
    {
        collector.error(
            Code::TooMuch,
            span,
            format!("{points} points of {runs} runs are too many"),
            format!("at most {MAX_POINTS} runs"),
            "",
        );
    }
    check_sweep(&sweep, collector);
    let scenario = Scenario {
        name: head.name.map_or_else(String::new, Spanned::into_inner),
        duration: duration?,
        warmup: warmup.and_then(|(time, _)| time).unwrap_or_default(),
        seed: seed as u64,
        runs: runs as u32,
        nodes,
        links,
        routes,
        traffic,
        measure,
        sweep: sweep.into_iter().map(|(axis, _)| axis).collect(),
    };
    warn_of_size(&scenario, &head.duration, collector);
    Some(scenario)
}

/// Reports keys that a sweep sets twice, and keys that cannot be set.
fn check_sweep(sweep: &[(Axis, Span)], collector: &mut Collector<'_>) {
    let mut seen = BTreeSet::new();
    for (axis, span) in sweep {
        if !seen.insert(axis.key.as_str()) {
            collector.error(
                Code::Repeated,
                span,
                format!("`{}` is swept twice", axis.key),
                "the second time",
                "remove one of the two",
            );
        }
        let mut trial = Edited::new(collector.text);
        if let Err(error) = trial.set(&axis.key, &axis.values[0]) {
            collector.error(Code::BadValue, span, error.to_string(), "cannot be set", "");
        }
    }
}

fn check_measure(raw: &raw::Measure, collector: &mut Collector<'_>) -> Measure {
    let default = Measure::default();
    let interval = raw
        .interval
        .as_ref()
        .and_then(|text| collector.time(text, "an interval", Nanos::from_micros(1)));
    Measure {
        interval: interval.unwrap_or(default.interval),
        trace: raw.trace.unwrap_or(default.trace),
        inversions: raw.inversions.unwrap_or(default.inversions),
    }
}

/// The nodes, and the index of each name.
struct Names {
    nodes: Vec<Node>,
    numbers: BTreeMap<String, usize>,
}

/// A node's kind, and the program of a host.
type Kind = (NodeKind, Option<lab::Unresolved>);

impl Names {
    fn of(raw: Vec<read::Entry<'_, raw::Node>>, collector: &mut Collector<'_>) -> Self {
        let mut names = Self { nodes: Vec::new(), numbers: BTreeMap::new() };
        let mut programs = Vec::new();
        if raw.is_empty() {
            let help = "for example `[[node]]` with `name = \"h1\"`";
            collector.error(Code::MissingValue, &(0..0), "the scenario has no nodes", "", help);
        }
        for read::Entry { common: raw::Node { name, kind }, settings } in raw {
            if names.nodes.len() >= MAX_NODES {
                collector.error(
                    Code::TooMuch,
                    &name.span(),
                    "too many nodes",
                    format!("at most {MAX_NODES}"),
                    "",
                );
                break;
            }
            check_name(&name, "node", collector);
            let text = name.get_ref().clone();
            if names.numbers.contains_key(&text) {
                let message = format!("there are two nodes `{text}`");
                collector.error(
                    Code::Repeated,
                    &name.span(),
                    message,
                    "the second one",
                    "each node needs a name of its own",
                );
                continue;
            }
            names.numbers.insert(text.clone(), names.nodes.len());
            let (kind, program) =
                node_kind(kind.as_ref(), settings, collector).unwrap_or((NodeKind::Host, None));
            names.nodes.push(Node { name: text, kind, program: None });
            programs.push(program);
        }
        let all: Vec<String> = names.nodes.iter().map(|node| node.name.clone()).collect();
        let programs = lab::resolve(programs, &all, &names.numbers, collector);
        for (node, program) in names.nodes.iter_mut().zip(programs) {
            node.program = program;
        }
        names
    }
}

/// Checks the kind of a node; `settings` holds the keys of that kind.
fn node_kind(
    kind: Option<&raw::Text>,
    settings: Spanned<DeValue<'_>>,
    collector: &mut Collector<'_>,
) -> Option<Kind> {
    let name = kind.map_or("host", |kind| kind.get_ref().as_str());
    match name {
        "host" => return Some((NodeKind::Host, lab::host(settings, collector))),
        "router" => {}
        "switch" => {
            let head = collector.first_line(settings.span());
            let config: SwitchConfig = read::item(collector, settings)?;
            if let Err(error) = config.check() {
                collector.error(Code::BadValue, &head, error.to_string(), "about this switch", "");
            }
            return Some((NodeKind::Switch(Box::new(config)), None));
        }
        other => {
            let label = closest(other, KINDS)
                .map_or("expected a kind".to_owned(), |meant| format!("did you mean `{meant}`?"));
            let help = "allowed: host (sends and receives), router (forwards), switch (forwards \
                        through queues that are programmed)";
            collector.error(
                Code::BadValue,
                &kind?.span(),
                format!("`{other}` is no kind of node"),
                label,
                help,
            );
            return None;
        }
    }
    let unknown = settings.get_ref().as_table().and_then(|table| table.keys().next());
    if let Some(key) = unknown {
        let name = key.get_ref();
        let label = closest(name, raw::NODE_KEYS)
            .map_or("no key of a router".to_owned(), |meant| format!("did you mean `{meant}`?"));
        let help = "allowed: name, kind; hosts and switches have more keys";
        collector.error(
            Code::UnknownKeyword,
            &key.span(),
            format!("`{name}` is no key"),
            label,
            help,
        );
    }
    Some((NodeKind::Router, None))
}

fn check_links(
    raw: &[Spanned<raw::Link>],
    numbers: &BTreeMap<String, usize>,
    files: &dyn Files,
    collector: &mut Collector<'_>,
) -> Vec<Link> {
    let mut links = Vec::new();
    let mut taken = BTreeSet::new();
    let mut queues = 0;
    // Names from the file are reserved first, so that generated names differ from them.
    for name in raw.iter().filter_map(|link| link.get_ref().name.as_ref()) {
        check_name(name, "link", collector);
        if !taken.insert(name.get_ref().clone()) {
            let message = format!("there are two links `{}`", name.get_ref());
            collector.error(
                Code::Repeated,
                &name.span(),
                message,
                "the second one",
                "each link needs a name of its own",
            );
        }
    }
    for spanned in raw {
        let link = spanned.get_ref();
        let Some(ends) = ends(&link.between, numbers, collector) else { continue };
        let between = link.between.get_ref();
        let [first, second] = [&between[0], &between[1]].map(|name| name.get_ref().as_str());
        let (name, ports) = match &link.name {
            Some(name) => (
                name.get_ref().clone(),
                [name.get_ref().clone(), format!("{}.back", name.get_ref())],
            ),
            None => {
                let plain = format!("{first}-{second}");
                let name = free_name(&plain, &taken);
                let serial = name.strip_prefix(&plain).unwrap_or_default().to_owned();
                taken.insert(name.clone());
                (name, [format!("{first}>{second}{serial}"), format!("{second}>{first}{serial}")])
            }
        };
        let [forward, back] = ports;
        let directions = [
            links::direction(link, 0, forward, files, collector),
            links::direction(link, 1, back, files, collector),
        ];
        queues += directions.iter().map(|direction| direction.queues.len()).sum::<usize>();
        links.push(Link { name, ends, directions });
        if links.len() * 2 > MAX_PORTS || queues > MAX_PORTS {
            let label = format!("at most {} links, and {MAX_PORTS} queues", MAX_PORTS / 2);
            collector.error(
                Code::TooMuch,
                &link.between.span(),
                "too many links or queues",
                label,
                "",
            );
            break;
        }
    }
    links
}

/// Reports too many queues, switches with too many links, and links out of a switch with settings
/// that the switch itself determines, such as the scheduler.
fn check_switches(
    nodes: &[Node],
    links: &[Link],
    raw: &[Spanned<raw::Link>],
    collector: &mut Collector<'_>,
) {
    let mut used = vec![0usize; nodes.len()];
    for (side, link) in links.iter().flat_map(|link| [(0, link), (1, link)]) {
        used[link.ends[side]] += 1;
    }
    let queues = nodes.iter().zip(&used).map(|(node, &links)| match &node.kind {
        NodeKind::Switch(config) => config.queues(links),
        _ => 0,
    });
    let of_links = links.iter().flat_map(|link| &link.directions).map(|side| side.queues.len());
    if queues.chain(of_links).sum::<usize>() > MAX_PORTS
        && let Some(last) = raw.last()
    {
        collector.error(
            Code::TooMuch,
            &last.get_ref().between.span(),
            "too many queues",
            format!("at most {MAX_PORTS}, those of switches included"),
            "a switch has a queue for each input and up to 8 for each output",
        );
    }
    used.fill(0);
    // If some links had errors, the two lists do not correspond.
    for (link, raw) in links.iter().zip(raw).filter(|_| links.len() == raw.len()) {
        for (side, direction) in link.directions.iter().enumerate() {
            let node = &nodes[link.ends[side]];
            let NodeKind::Switch(config) = &node.kind else { continue };
            used[link.ends[side]] += 1;
            let span = raw.get_ref().between.span();
            if used[link.ends[side]] > usize::from(config.ports) {
                let message = format!("the switch `{}` has more links than ports", node.name);
                collector.error(
                    Code::TooMuch,
                    &span,
                    message,
                    "one too many",
                    &format!("it has `ports = {}`", config.ports),
                );
            }
            if direction.scheduler.is_some()
                || direction.spec.pipe.scheduler.is_some()
                || direction.spec.pipe.queue != FlowsetConfig::default()
            {
                let message = format!("the switch `{}` has queues of its own", node.name);
                let help =
                    "its `manager` is the scheduler, and `queue` its size: leave them out here";
                collector.error(
                    Code::Contradiction,
                    &span,
                    message,
                    "a scheduler or queue of its output",
                    help,
                );
            }
            if direction.spec.pipe.link.device.is_some() {
                let message = format!("the switch `{}` has an interface of its own", node.name);
                collector.error(
                    Code::Contradiction,
                    &span,
                    message,
                    "a ring of its output",
                    "its `interface` and `egress` are the sizes",
                );
            }
        }
    }
}

fn ends(
    between: &Spanned<Vec<raw::Text>>,
    numbers: &BTreeMap<String, usize>,
    collector: &mut Collector<'_>,
) -> Option<[usize; 2]> {
    let [first, second] = between.get_ref().as_slice() else {
        let message = format!("a link is between two nodes, not {}", between.get_ref().len());
        collector.error(
            Code::BadValue,
            &between.span(),
            message,
            "expected two names",
            "for example `between = [\"h1\", \"r1\"]`",
        );
        return None;
    };
    let [one, two] =
        [first, second].map(|name| node(name.get_ref(), &name.span(), numbers, collector));
    let ends = [one?, two?];
    if ends[0] == ends[1] {
        let message = format!("a link from `{}` to itself", first.get_ref());
        collector.error(
            Code::Contradiction,
            &between.span(),
            message,
            "the same node twice",
            "a link is between two nodes",
        );
        return None;
    }
    Some(ends)
}

fn check_routes(
    raw: &[Spanned<raw::Route>],
    numbers: &BTreeMap<String, usize>,
    nodes: &[Node],
    topology: &Topology,
    collector: &mut Collector<'_>,
) -> Vec<Route> {
    let mut routes = Vec::new();
    let mut given = BTreeSet::new();
    for spanned in raw {
        let raw::Route { from, to, via } = spanned.get_ref();
        let places = std::iter::once(from).chain(via.get_ref()).chain(std::iter::once(to));
        let stops: Vec<_> = places
            .map(|name| (node(name.get_ref(), &name.span(), numbers, collector), name.span()))
            .collect();
        let Some(stops) =
            stops.into_iter().map(|(stop, span)| Some((stop?, span))).collect::<Option<Vec<_>>>()
        else {
            continue;
        };
        let (first, last) = (stops[0].0, stops[stops.len() - 1].0);
        if !given.insert((first, last)) {
            let message =
                format!("there are two routes from `{}` to `{}`", from.get_ref(), to.get_ref());
            collector.error(
                Code::Repeated,
                &to.span(),
                message,
                "the second one",
                "remove one of the two",
            );
            continue;
        }
        routes.extend(along(&stops, nodes, topology, collector));
    }
    routes
}

/// Makes the path along the stops. The path must neither visit a node twice nor lead through a
/// host.
fn along(
    stops: &[(usize, Span)],
    nodes: &[Node],
    topology: &Topology,
    collector: &mut Collector<'_>,
) -> Option<Route> {
    let mut path = vec![stops[0].0];
    for pair in stops.windows(2) {
        let ((from, _), (to, span)) = (&pair[0], &pair[1]);
        let leg = match topology.nodes_between(*from, *to) {
            Ok(leg) => leg,
            Err(error) => {
                unreachable(&error, span, [*from, *to], nodes, collector);
                return None;
            }
        };
        for next in leg.into_iter().skip(1) {
            if path.contains(&next) {
                let name = &nodes[next].name;
                let message = format!("the route goes through `{name}` twice");
                collector.error(
                    Code::Contradiction,
                    span,
                    message,
                    "on the way to here",
                    "a route has no loops: leave a node out, or add a link",
                );
                return None;
            }
            path.push(next);
        }
    }
    if let Some(&host) =
        path[1..path.len() - 1].iter().find(|&&node| nodes[node].kind == NodeKind::Host)
    {
        let error = PathError::OverHost(host);
        unreachable(
            &error,
            &stops[stops.len() - 1].1,
            [path[0], path[path.len() - 1]],
            nodes,
            collector,
        );
        return None;
    }
    Some(Route { nodes: path })
}

/// Reports an error if there are too many flows, and warns if a run would take hours.
fn warn_of_size(scenario: &Scenario, duration: &raw::Text, collector: &mut Collector<'_>) {
    let flows = scenario.traffic.iter().map(Traffic::flows).fold(0u64, u64::saturating_add);
    if flows > MAX_FLOWS {
        collector.error(
            Code::TooMuch,
            &duration.span(),
            format!("{flows} flows are too many"),
            format!("at most {MAX_FLOWS}"),
            "",
        );
        return;
    }
    let packets = scenario
        .traffic
        .iter()
        .map(|traffic| traffic.expected_packets(scenario.duration))
        .fold(0u64, u64::saturating_add);
    if packets > MANY_PACKETS {
        let message = format!("about {packets} packets are expected in each run");
        let help = "a processor simulates some million packets a second: a shorter duration or \
                    lower rates take less";
        let warning = collector
            .diagnostic(Code::LongRun, &duration.span(), message)
            .label("this takes hours")
            .help(help);
        collector.push(warning);
    }
}

const KINDS: [&str; 3] = ["host", "router", "switch"];
