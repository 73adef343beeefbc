//! Prints views as text, in the formats of `ipfw` and `dnctl`.
//!
//! Numbers get more digits where necessary: for delays that are not whole milliseconds and for
//! rates finer than a thousandth of the unit. Settings that the two programs do not have are
//! printed on a separate line, in the language.

use core::fmt;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use weir_core::aqm;
use weir_core::sched::Kind;
use weir_core::units::{Nanos, Rate};

use super::objects::BUCKETS;
use super::{
    Answer, AqmView, DynamicKind, DynamicView, FlowView, LinkView, LookupView, ObjectView,
    QueueView, RuleView, TableView,
};
use crate::mask;
use crate::quantity::{write_rate, write_size, write_time};
use crate::script::names::write_protocol;

/// Options of the output.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// `-a`: show counters of rules. `show` always prints them.
    pub counters: bool,
    /// `-t`: show the last match of each rule. The function formats seconds since 1970 in 24
    /// columns.
    pub time: Option<&'a dyn Fn(u64) -> String>,
    /// `-T`: show the last match in seconds since 1970.
    pub seconds: bool,
    /// `-d`: include dynamic rules.
    pub dynamic: bool,
    /// `-D`: show only dynamic rules.
    pub dynamic_only: bool,
    /// `-S`: show the sets of rules, and include the rules of disabled sets.
    pub sets: bool,
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("counters", &self.counters)
            .field("sets", &self.sets)
            .finish_non_exhaustive()
    }
}

/// The answer as text. Every line ends with a newline.
pub fn text(answer: &Answer, options: &Options<'_>) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = match answer {
        Answer::Objects(views) => views.iter().try_for_each(|view| match view {
            ObjectView::Pipe(link) => pipe(&mut out, link),
            ObjectView::Sched(link) => sched(&mut out, link),
            ObjectView::Queue(view) => queue(&mut out, view),
        }),
        Answer::Rules { rules: list, dynamic, counters } => {
            let options = Options { counters: options.counters || *counters, ..*options };
            rules(&mut out, list, &options).and_then(|()| dynamics(&mut out, dynamic, &options))
        }
        Answer::Sets { disabled, enabled } => sets(&mut out, disabled, enabled),
        Answer::Tables(tables) => tables.iter().try_for_each(|view| table(&mut out, view)),
        Answer::TableInfo(tables) => tables.iter().try_for_each(|view| table_info(&mut out, view)),
        Answer::Lookup(view) => lookup(&mut out, view),
        Answer::NetConfigs(lines) => lines.iter().try_for_each(|line| writeln!(out, "{line}")),
    };
    out
}

/// Writes the first lines of a pipe or scheduler: rate, delay and burst; the profile; extras.
fn head(out: &mut String, link: &LinkView) -> fmt::Result {
    writeln!(
        out,
        "{:05}: {} {:>4} ms burst {}",
        link.number,
        rate(link.rate_bps),
        milliseconds(link.delay_ns),
        link.burst_bytes
    )?;
    if let Some(profile) = &link.profile {
        writeln!(
            out,
            "\t profile: name \"{}\" loss {:.6} samples {}",
            profile.name, profile.loss_level, profile.samples
        )?;
    }
    if !link.extras.is_empty() {
        writeln!(out, "\t {}", link.extras)?;
    }
    Ok(())
}

/// Writes a pipe. As in dummynet, its own FIFO is scheduler N + 65536, and its queue is N + 131072.
fn pipe(out: &mut String, link: &LinkView) -> fmt::Result {
    head(out, link)?;
    let number = u32::from(link.number);
    let (fifo, own) = (number + HIDDEN, number + 2 * HIDDEN);
    write!(out, "q{own:05} ")?;
    flowset(out, &link.queue)?;
    write!(out, "0 flows (1 buckets) sched {fifo} weight 0 lmax 0 pri 0 ")?;
    aqm(out, link.queue.aqm.as_ref())?;
    let shown = if link.scheduler.queues.is_empty() { fifo } else { number };
    scheduler(out, link, shown)
}

fn sched(out: &mut String, link: &LinkView) -> fmt::Result {
    match link.scheduler.parent {
        None => head(out, link)?,
        Some(parent) => {
            let settings =
                if link.spec.is_empty() { String::new() } else { format!(" {}", link.spec) };
            writeln!(out, "{:05}: parent {parent}{settings}", link.number)?;
        }
    }
    scheduler(out, link, link.number.into())
}

fn scheduler(out: &mut String, link: &LinkView, number: u32) -> fmt::Result {
    let scheduler = &link.scheduler;
    let masked = !scheduler.mask.is_empty();
    let (flags, buckets) = if masked { (1, BUCKETS) } else { (0, 0) };
    let name = scheduler.algorithm.to_uppercase();
    writeln!(
        out,
        " sched {number} type {name} flags 0x{flags:x} {buckets} buckets {} active",
        scheduler.active
    )?;
    let row = Kind::from_name(&scheduler.algorithm).map(Kind::row);
    let changed = |name: &str, value: &str| {
        let setting = row.and_then(|row| row.parameter(name));
        setting.is_none_or(|setting| setting.domain.write(setting.default) != value)
    };
    let settings = scheduler.settings.iter().map(|(name, value)| (name.as_str(), value.clone()));
    settings_line(out, settings.filter(|(name, value)| changed(name, value)))?;
    if masked {
        mask_line(out, &scheduler.mask)?;
    }
    flows(out, &link.instances, scheduler.active)?;
    if !scheduler.children.is_empty() {
        out.push_str("   Children schedulers: ");
        scheduler.children.iter().try_for_each(|child| write!(out, "{child} "))?;
        out.push('\n');
    }
    if !scheduler.queues.is_empty() {
        out.push_str("   Children flowsets: ");
        scheduler.queues.iter().try_for_each(|queue| write!(out, "{queue} "))?;
        out.push('\n');
    }
    Ok(())
}

fn queue(out: &mut String, queue: &QueueView) -> fmt::Result {
    let masked = !queue.mask.is_empty();
    let buckets = if masked { BUCKETS } else { 1 };
    write!(out, "q{:05} ", queue.number)?;
    flowset(out, queue)?;
    let QueueView { active, scheduler, weight, max_packet, priority, .. } = queue;
    write!(
        out,
        "{active} flows ({buckets} buckets) sched {scheduler} weight {weight} lmax {max_packet} \
         pri {priority} "
    )?;
    aqm(out, queue.aqm.as_ref())?;
    let rate = |bps: Option<u64>| bps.and_then(Rate::new).map(write_rate);
    let settings = [
        ("rate", rate(queue.rate_bps)),
        ("ceil", rate(queue.ceil_bps)),
        ("burst", (queue.burst_bytes > 0).then(|| write_size(queue.burst_bytes))),
        ("deadline", (queue.deadline_ns > 0).then(|| write_time(Nanos(queue.deadline_ns)))),
    ];
    settings_line(out, settings.into_iter().filter_map(|(name, value)| Some((name, value?))))?;
    if masked {
        mask_line(out, &queue.mask)?;
    }
    flows(out, &queue.flows, *active)
}

/// Ends a queue's line with `droptail`, or adds a line with the AQM and all its settings, as
/// dummynet does.
fn aqm(out: &mut String, view: Option<&AqmView>) -> fmt::Result {
    let Some(view) = view else { return writeln!(out, "droptail") };
    write!(out, "\n\t AQM {}", view.algorithm.to_uppercase())?;
    let row = aqm::Kind::from_name(&view.algorithm).map(aqm::Kind::row);
    let place = |name: &str| {
        row.and_then(|row| row.parameters.iter().position(|setting| setting.name == name))
    };
    let mut settings: Vec<_> = view.settings.iter().collect();
    settings.sort_by_key(|(name, _)| place(name));
    settings.into_iter().try_for_each(|(name, value)| write!(out, " {name} {value}"))?;
    writeln!(out)
}

/// Writes the settings that dummynet's lines cannot express.
fn settings_line<'a>(
    out: &mut String,
    settings: impl Iterator<Item = (&'a str, String)>,
) -> fmt::Result {
    let words: String = settings.map(|(name, value)| format!(" {name} {value}")).collect();
    if words.is_empty() { Ok(()) } else { writeln!(out, "   Settings:{words}") }
}

/// Writes the limit and the loss of a queue.
fn flowset(out: &mut String, queue: &QueueView) -> fmt::Result {
    match (queue.limit_packets, queue.limit_bytes) {
        (Some(packets), _) => write!(out, "{packets:3} sl.")?,
        (None, Some(bytes)) if bytes >= 8192 && bytes % 1024 == 0 => {
            write!(out, "{} KB", bytes / 1024)?;
        }
        (None, bytes) => write!(out, "{} B", bytes.unwrap_or(0))?,
    }
    if !queue.plr.is_empty() {
        out.push_str("plr ");
        for (n, part) in queue.plr.split(',').enumerate() {
            let comma = if n > 0 { "," } else { "" };
            match crate::quantity::probability(part) {
                Ok(p) => write!(out, "{comma}{:.6}", p.as_f64())?,
                Err(_) => write!(out, "{comma}{part}")?,
            }
        }
    }
    out.push(' ');
    Ok(())
}

/// Writes `mask:  proto src-ip/port -> dst-ip/port`. IPv6 has its own line, and other fields
/// follow in words.
fn mask_line(out: &mut String, words: &str) -> fmt::Result {
    let Some(mask) = mask::read(words) else { return writeln!(out, "    mask: {words}") };
    let v6 = mask.src_ip6 | mask.dst_ip6 != 0 || mask.flow_id != 0;
    let v4 = mask.src_ip | mask.dst_ip != 0 || !v6;
    if v4 {
        let (src, dst) = (mask.src_ip, mask.dst_ip);
        write!(
            out,
            "    mask:  0x{:02x} 0x{src:08x}/0x{:04x} -> 0x{dst:08x}/0x{:04x}",
            mask.proto, mask.src_port, mask.dst_port
        )?;
    }
    if v6 {
        let (src, dst) =
            (std::net::Ipv6Addr::from(mask.src_ip6), std::net::Ipv6Addr::from(mask.dst_ip6));
        let lead = if v4 { "\n" } else { "" };
        write!(
            out,
            "{lead}        mask: proto: 0x{:02x}, flow_id: 0x{:08x},  ",
            mask.proto, mask.flow_id
        )?;
        write!(out, "{src}/0x{:04x} -> {dst}/0x{:04x}", mask.src_port, mask.dst_port)?;
    }
    for (name, bits) in [
        ("vlan", u64::from(mask.vlan)),
        ("dscp", u64::from(mask.dscp)),
        ("src-mac", mask.src_mac),
        ("dst-mac", mask.dst_mac),
    ] {
        if bits != 0 {
            write!(out, " {name} 0x{bits:x}")?;
        }
    }
    out.push('\n');
    Ok(())
}

/// Writes the table of instances or flows, IPv4 first.
fn flows(out: &mut String, list: &[FlowView], active: u64) -> fmt::Result {
    for (v6, header) in [(false, HEADER_V4), (true, HEADER_V6)] {
        let mut of_version = list.iter().filter(|flow| flow.src.is_ipv6() == v6).peekable();
        if of_version.peek().is_some() {
            writeln!(out, "{header}")?;
        }
        of_version.try_for_each(|view| flow(out, view))?;
    }
    match active.saturating_sub(list.len() as u64) {
        0 => Ok(()),
        more => writeln!(out, "    and {more} more"),
    }
}

fn flow(out: &mut String, flow: &FlowView) -> fmt::Result {
    let proto = if flow.proto == 0 { "ip".to_owned() } else { write_protocol(flow.proto) };
    let FlowView {
        bucket,
        src_port,
        dst_port,
        flow_id,
        packets,
        bytes,
        queue_packets,
        queue_bytes,
        reasons,
        ..
    } = flow;
    let drops = reasons.total_drops();
    write!(out, "{bucket:3} ")?;
    match (flow.src, flow.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            // Formatted as text first, so that the width of the column applies.
            let (src, dst) = (src.to_string(), dst.to_string());
            write!(out, "{proto:<4} {src:>15}/{src_port:<5} {dst:>15}/{dst_port:<5} ")?;
        }
        (src, dst) => {
            let (src, dst) = (src.to_string(), dst.to_string());
            write!(
                out,
                "{proto:>9} {flow_id:7}  {src:>39}/{src_port:<5}  {dst:>39}/{dst_port:<5} "
            )?;
        }
    }
    write!(out, "{packets:4} {bytes:8} {queue_packets:2} {queue_bytes:4} {drops:3}")?;
    if !flow.extras.is_empty() {
        write!(out, " {}", flow.extras)?;
    }
    out.push('\n');
    state(out, flow)
}

/// Names and counts as words, in the order of the names.
fn counts(of: impl Iterator<Item = (&'static str, u64)>) -> String {
    let sorted: BTreeMap<&str, u64> = of.collect();
    sorted.iter().map(|(reason, n)| format!("{reason} {n}")).collect::<Vec<_>>().join(" ")
}

/// Writes a flow's drops and marks by reason, and the state of its AQM. Writes nothing if there are
/// neither marks nor such a state.
fn state(out: &mut String, flow: &FlowView) -> fmt::Result {
    if flow.reasons.mark_counts().is_empty() && flow.aqm.is_empty() {
        return Ok(());
    }
    let drops = flow.reasons.drop_counts().iter().map(|(reason, n)| (reason.name(), n));
    let marks = flow.reasons.mark_counts().iter().map(|(reason, n)| (reason.name(), n));
    let variables = flow
        .aqm
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect::<Vec<_>>()
        .join(" ");
    let parts = [("drops", counts(drops)), ("marks", counts(marks)), ("state", variables)];
    for (name, words) in parts.iter().filter(|(_, words)| !words.is_empty()) {
        writeln!(out, "      {name}: {words}")?;
    }
    Ok(())
}

fn rules(out: &mut String, list: &[RuleView], options: &Options<'_>) -> fmt::Result {
    if options.dynamic_only {
        return Ok(());
    }
    let shown = list.iter().filter(|rule| rule.enabled || options.sets);
    let width = |number: fn(&RuleView) -> u64| {
        list.iter().map(|rule| digits(number(rule))).max().unwrap_or(1)
    };
    let (packets, bytes) = (width(|rule| rule.packets), width(|rule| rule.bytes));
    for rule in shown {
        if !rule.enabled {
            out.push_str("# DISABLED ");
        }
        write!(out, "{:05} ", rule.number)?;
        if options.counters {
            write!(out, "{:packets$} {:bytes$} ", rule.packets, rule.bytes)?;
        }
        match (options.seconds, options.time, rule.last_s) {
            (true, _, last) => write!(out, "{:10} ", last.unwrap_or(0))?,
            (false, Some(time), Some(last)) => write!(out, "{:<24} ", time(last))?,
            (false, Some(_), None) => write!(out, "{:25}", "")?,
            (false, None, _) => {}
        }
        if options.sets {
            write!(out, "set {} ", rule.set)?;
        }
        writeln!(out, "{}", rule.rule)?;
    }
    Ok(())
}

fn dynamics(out: &mut String, list: &[DynamicView], options: &Options<'_>) -> fmt::Result {
    if list.is_empty() || !(options.dynamic || options.dynamic_only) {
        return Ok(());
    }
    let width = |number: fn(&DynamicView) -> u64| {
        list.iter().map(|rule| digits(number(rule))).max().unwrap_or(1)
    };
    let (packets, bytes) = (width(|rule| rule.packets), width(|rule| rule.bytes));
    writeln!(out, "## Dynamic rules ({}):", list.len())?;
    for rule in list {
        let kind = match rule.kind {
            DynamicKind::State => "STATE",
            DynamicKind::Limit => "LIMIT",
        };
        write!(
            out,
            "{:05} {:packets$} {:bytes$} ({}s) {kind} ",
            rule.rule, rule.packets, rule.bytes, rule.expires_s
        )?;
        let proto = write_protocol(rule.proto);
        writeln!(
            out,
            "{proto} {} {} <-> {} {} :{}",
            rule.src, rule.src_port, rule.dst, rule.dst_port, rule.name
        )?;
    }
    Ok(())
}

fn sets(out: &mut String, disabled: &[u8], enabled: &[u8]) -> fmt::Result {
    let mut words = Vec::new();
    for (word, sets) in [("disable", disabled), ("enable", enabled)] {
        if !sets.is_empty() {
            words.push(word.to_owned());
            words.extend(sets.iter().map(u8::to_string));
        }
    }
    writeln!(out, "{}", words.join(" "))
}

fn table(out: &mut String, table: &TableView) -> fmt::Result {
    writeln!(out, "--- table({}), set(0) ---", table.name)?;
    table.entries.iter().try_for_each(|entry| writeln!(out, "{} {}", entry.key, entry.value))
}

fn table_info(out: &mut String, table: &TableView) -> fmt::Result {
    writeln!(out, "--- table({}), set(0) ---", table.name)?;
    writeln!(out, " type: {}{}", table.kind, if table.locked { ", locked" } else { "" })?;
    writeln!(out, " references: {}, valtype: number", table.references)?;
    write!(out, " items: {}", table.items)?;
    table.limit.map_or(Ok(()), |limit| write!(out, ", limit: {limit}"))?;
    out.push('\n');
    Ok(())
}

fn lookup(out: &mut String, lookup: &LookupView) -> fmt::Result {
    match &lookup.found {
        Some(entry) => writeln!(out, "{} {}", entry.key, entry.value),
        None => writeln!(out, "{} is not in table {}", lookup.key, lookup.table),
    }
}

/// A rate in seven columns with its unit; it has more digits if three decimals are not exact.
fn rate(bps: Option<u64>) -> String {
    let Some(bps) = bps else { return "unlimited     ".to_owned() };
    let (unit, digits, name) = match bps {
        1_000_000_000.. => (1_000_000_000, 9, "Gbit/s"),
        1_000_000.. => (1_000_000, 6, "Mbit/s"),
        1_000.. => (1_000, 3, "Kbit/s"),
        _ => (1, 0, "bit/s "),
    };
    let (whole, part) = (bps / unit, bps % unit);
    let fraction = if digits == 0 { "000".to_owned() } else { format!("{part:0digits$}") };
    let least = fraction.trim_end_matches('0').len().max(3);
    format!("{:>7} {name}", format!("{whole}.{}", &fraction[..least]))
}

/// A time in milliseconds, with as many decimals as necessary.
fn milliseconds(ns: u64) -> String {
    crate::decimal::write(ns, 1_000_000)
}

fn digits(number: u64) -> usize {
    number.to_string().len()
}

/// The difference between the number of dummynet's hidden scheduler and the pipe's number. For the
/// hidden queue it is twice as large.
const HIDDEN: u32 = 65_536;
const HEADER_V4: &str =
    "BKT Prot ___Source IP/port____ ____Dest. IP/port____ Tot_pkt/bytes Pkt/Byte Drp";
const HEADER_V6: &str = "BKT ___Prot___ _flow-id_ ______________Source IPv6/port_______________ \
    _______________Dest. IPv6/port_______________ Tot_pkt/bytes Pkt/Byte Drp";
