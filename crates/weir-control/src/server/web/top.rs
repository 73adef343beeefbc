//! The members of large groups: thousands of instances of a mask, or of pipes. They are read once a
//! second for all clients. Each client gets the few members that it asks for. This module searches
//! and sorts them.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use crate::dashboard::{Group, Member};

/// The time between two readings of a group's members.
pub(super) const TOP_PERIOD: Duration = Duration::from_secs(1);

/// The groups that clients watch.
#[derive(Default)]
pub(super) struct Tops(BTreeMap<Group, Watched>);

#[derive(Default)]
struct Watched {
    /// The numbers of the clients.
    users: BTreeSet<u64>,
    /// When the members were last read.
    read: Option<Instant>,
    ranking: Arc<Ranking>,
}

/// The members of a group with their rates.
#[derive(Clone, Default)]
pub(super) struct Ranking {
    /// When the members were read; 0 before the first reading.
    at_ns: u64,
    pub(super) rows: Vec<Arc<Ranked>>,
    /// The same members by [`Member::id`].
    by_id: HashMap<u64, Arc<Ranked>>,
}

/// A member with its rates in the last second.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranked {
    pub(super) member: Member,
    /// The rate of arrivals.
    pub(super) in_bps: f64,
    /// The rate of departures: the arrivals without the bytes that were dropped, and without the
    /// bytes by which the queue grew. A dropped packet counts with the mean length of the arrivals.
    pub(super) out_bps: f64,
    /// Drops in the last second.
    pub(super) drops: u64,
    /// How long the waiting bytes take to depart at the rate of departures; `None` while nothing
    /// departs.
    pub(super) wait_ns: Option<u64>,
    /// The last rates of arrivals, the oldest first.
    rates: VecDeque<f32>,
}

/// The value by which members are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sort {
    /// The rate of arrivals.
    #[default]
    Rate,
    Drops,
    /// Waiting bytes.
    Queue,
    /// How long the waiting bytes take to depart.
    Wait,
    Name,
}

/// What a client wants to see of a group.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) sort: Sort,
    pub(super) ascending: bool,
    /// The maximum number of members to show.
    pub(super) n: usize,
    /// The number of members to skip first.
    pub(super) offset: usize,
    pub(super) search: Search,
}

/// A search for members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Search {
    All,
    /// Members with this text in their names, in lower case.
    Text(String),
    /// Members with an address in this network.
    Network(IpAddr, u8),
}

impl Search {
    pub(super) fn new(text: &str) -> Self {
        let text = text.trim();
        let network = || {
            let (address, bits) = text.split_once('/')?;
            let (address, bits) = (address.parse::<IpAddr>().ok()?, bits.parse::<u8>().ok()?);
            let most = if address.is_ipv4() { 32 } else { 128 };
            (bits <= most).then_some(Self::Network(address, bits))
        };
        match network() {
            Some(network) => network,
            None if text.is_empty() => Self::All,
            None => Self::Text(text.to_lowercase()),
        }
    }

    fn finds(&self, member: &Member) -> bool {
        match self {
            Self::All => true,
            Self::Text(text) => member.name.to_lowercase().contains(text),
            Self::Network(network, bits) => {
                member.addresses.iter().any(|address| is_in(*address, *network, *bits))
            }
        }
    }
}

/// Whether an address is in the network that the first `bits` bits of `network` describe.
fn is_in(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let same = |one: u128, other: u128, length: u32| {
        let shift = length - u32::from(bits);
        shift >= length || one >> shift == other >> shift
    };
    match (address, network) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            same(u32::from(one).into(), u32::from(other).into(), 32)
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            bits == 0 || one.to_bits() >> (128 - bits) == other.to_bits() >> (128 - bits)
        }
        _ => false,
    }
}

impl Tops {
    pub(super) fn join(&mut self, group: Group, user: u64) {
        self.0.entry(group).or_default().users.insert(user);
    }

    /// Removes a client from all groups. The list of a group that no client watches is not kept,
    /// because it may be long.
    pub(super) fn leave(&mut self, user: u64) {
        for watched in self.0.values_mut() {
            watched.users.remove(&user);
        }
        self.0.retain(|_, watched| !watched.users.is_empty());
    }

    pub(super) fn is_used(&self) -> bool {
        !self.0.is_empty()
    }

    /// The groups that are due.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Group> {
        let mut due = Vec::new();
        for (&group, watched) in &mut self.0 {
            let soon = |read: Instant| now.duration_since(read) + TOP_PERIOD / 4 >= TOP_PERIOD;
            if watched.read.is_none_or(soon) {
                watched.read = Some(now);
                due.push(group);
            }
        }
        due
    }

    /// The last list of a group, to compare the next one with.
    pub(super) fn last(&self, group: Group) -> Option<Arc<Ranking>> {
        self.ranking(group)
    }

    pub(super) fn put(&mut self, group: Group, ranking: Ranking) {
        if let Some(watched) = self.0.get_mut(&group) {
            watched.ranking = Arc::new(ranking);
        }
    }

    pub(super) fn ranking(&self, group: Group) -> Option<Arc<Ranking>> {
        self.0.get(&group).map(|watched| Arc::clone(&watched.ranking))
    }
}

impl Ranking {
    /// The ranking after a reading of the members at `at_ns`.
    pub(super) fn update(&self, members: Vec<Member>, at_ns: u64) -> Self {
        let span_ns = at_ns.saturating_sub(self.at_ns);
        let rows: Vec<Arc<Ranked>> = members
            .into_iter()
            .map(|member| {
                let known = self.by_id.get(&member.id).map(|known| &**known);
                Arc::new(Ranked::new(member, known, span_ns))
            })
            .collect();
        let by_id = rows.iter().map(|row| (row.member.id, Arc::clone(row))).collect();
        Self { at_ns, rows, by_id }
    }

    /// Writes the part of the list that a client wants to see, as the members of a JSON object.
    pub(super) fn write(&self, view: &View, out: &mut String) {
        let mut found: Vec<&Ranked> = self
            .rows
            .iter()
            .map(|row| &**row)
            .filter(|row| view.search.finds(&row.member))
            .collect();
        let matched = found.len();
        let mut bins = [0u32; BINS];
        for row in &found {
            bins[bin(row.value(view.sort))] += 1;
        }
        let order = |a: &&Ranked, b: &&Ranked| {
            let order = match view.sort {
                Sort::Name => natural(&a.member.name).cmp(&natural(&b.member.name)),
                sort => a.value(sort).total_cmp(&b.value(sort)),
            };
            let order = if view.ascending { order } else { order.reverse() };
            order.then_with(|| a.member.id.cmp(&b.member.id))
        };
        let end = view.offset.saturating_add(view.n).min(found.len());
        if end > 0 && end < found.len() {
            found.select_nth_unstable_by(end - 1, order);
        }
        found.truncate(end);
        found.sort_by(order);
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "\"total\":{},\"matched\":{matched},\"complete\":{},\"fields\":{},\"rows\":[",
            self.rows.len(),
            self.at_ns != 0,
            FIELDS
        );
        for (n, row) in found.iter().skip(view.offset).enumerate() {
            out.push_str(if n > 0 { ",[" } else { "[" });
            row.write(out);
            out.push(']');
        }
        let unit = match view.sort {
            Sort::Rate => "bit/s",
            Sort::Drops => "packets",
            Sort::Queue => "bytes",
            Sort::Wait => "ns",
            Sort::Name => "",
        };
        let last = bins.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        let _ = write!(
            out,
            "],\"heat\":{{\"scale\":\"log2\",\"unit\":\"{unit}\",\"least\":0,\"bins\":{:?}}}",
            &bins[..last]
        );
    }
}

impl Ranked {
    /// `known` is the member at the previous reading, `span_ns` earlier.
    fn new(member: Member, known: Option<&Self>, span_ns: u64) -> Self {
        // The counters begin again when a member is deleted and created again.
        let goes_on =
            |old: &Member| old.packets_in <= member.packets_in && old.bytes_in <= member.bytes_in;
        let Some(known) = known.filter(|known| goes_on(&known.member)) else {
            return Self { member, ..Self::default() };
        };
        let old = &known.member;
        let seconds = (span_ns.max(1)) as f64 / 1e9;
        let arrived = (member.bytes_in - old.bytes_in) as f64;
        let packets = member.packets_in - old.packets_in;
        let drops = member.drops.saturating_sub(old.drops);
        let length = if packets > 0 { arrived / packets as f64 } else { 0.0 };
        let more_waiting = member.queue_bytes as f64 - old.queue_bytes as f64;
        let departed = (arrived - drops as f64 * length - more_waiting).max(0.0);
        let wait = member.queue_bytes as f64 * 1e9 * seconds / departed;
        let in_bps = arrived * 8.0 / seconds;
        let mut rates = known.rates.clone();
        if rates.len() >= SPARKS {
            rates.pop_front();
        }
        rates.push_back(in_bps as f32);
        Self {
            in_bps,
            out_bps: departed * 8.0 / seconds,
            drops,
            wait_ns: (departed > 0.0).then_some(wait as u64),
            rates,
            member,
        }
    }

    /// The value by which `sort` sorts; 0 for names.
    fn value(&self, sort: Sort) -> f64 {
        match sort {
            Sort::Rate => self.in_bps,
            Sort::Drops => self.drops as f64,
            Sort::Queue => self.member.queue_bytes as f64,
            Sort::Wait => self.wait_ns.map_or(0.0, |wait| wait as f64),
            Sort::Name => 0.0,
        }
    }

    /// Writes the values of [`FIELDS`].
    fn write(&self, out: &mut String) {
        let member = &self.member;
        let text = |text: &str| serde_json::to_string(text).unwrap_or_default();
        let object = member.object.as_ref().map(|object| text(&object.to_string()));
        let wait = self.wait_ns.map(|wait| wait.to_string());
        let _ = write!(
            out,
            "{},{},{:.0},{:.0},{},{},{},{},[",
            text(&member.name),
            object.as_deref().unwrap_or("null"),
            self.in_bps,
            self.out_bps,
            member.queue_packets,
            member.queue_bytes,
            wait.as_deref().unwrap_or("null"),
            self.drops,
        );
        for (n, rate) in self.rates.iter().enumerate() {
            let _ = write!(out, "{}{rate:.0}", if n > 0 { "," } else { "" });
        }
        out.push(']');
    }
}

/// The bin of a value: 0 for values below 1, and i for values from 2^(i-1) to below 2^i.
fn bin(value: f64) -> usize {
    let whole = value as u64;
    ((u64::BITS - whole.leading_zeros()) as usize).min(BINS - 1)
}

/// A name in parts, so that `pipe 9` comes before `pipe 10`.
fn natural(name: &str) -> Vec<(u64, &str)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text_end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let digits = &rest[text_end..];
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        // The text before a number decides first.
        parts.push((0, &rest[..text_end]));
        parts.push((digits[..end].parse().unwrap_or(u64::MAX), ""));
        rest = &digits[end..];
    }
    parts
}

/// The fields of a row, as a JSON array.
const FIELDS: &str = "[\"key\",\"object\",\"in_bps\",\"out_bps\",\"queue_packets\",\
                      \"queue_bytes\",\"wait_ns\",\"drops\",\"spark\"]";
/// Number of rates of a member that are kept.
const SPARKS: usize = 30;
/// Number of bins of the distribution of values.
const BINS: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn member(id: u64, bytes_in: u64, queue_bytes: u64) -> Member {
        Member {
            id,
            name: format!("10.0.{}.{} → *", id / 256, id % 256),
            addresses: vec![IpAddr::from([10, 0, (id / 256) as u8, (id % 256) as u8])],
            packets_in: bytes_in / 1000,
            bytes_in,
            queue_bytes,
            ..Member::default()
        }
    }

    fn shown(ranking: &Ranking, sort: Sort, n: usize, offset: usize, search: &str) -> Value {
        let view =
            View { sort, ascending: sort == Sort::Name, n, offset, search: Search::new(search) };
        let mut text = String::from("{");
        ranking.write(&view, &mut text);
        text.push('}');
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_greatest_of_ten_thousand_come_first_and_searches_narrow_them() {
        let at = |second: u64| {
            (0..10_000).map(|id| member(id, second * id * 1000, id % 7 * 1000)).collect::<Vec<_>>()
        };
        let first = Ranking::default().update(at(1), 1_000_000_000);
        let ranking = first.update(at(2), 2_000_000_000);
        let top = shown(&ranking, Sort::Rate, 3, 0, "");
        assert_eq!((&top["total"], &top["matched"]), (&10_000.into(), &10_000.into()));
        let keys: Vec<&str> =
            top["rows"].as_array().unwrap().iter().map(|row| row[0].as_str().unwrap()).collect();
        assert_eq!(keys, ["10.0.39.15 → *", "10.0.39.14 → *", "10.0.39.13 → *"]);
        assert_eq!(top["rows"][0][2], 9999 * 8000);
        let bins = top["heat"]["bins"].as_array().unwrap();
        assert_eq!(bins.iter().map(|bin| bin.as_u64().unwrap()).sum::<u64>(), 10_000);
        assert_eq!(bins[0], 1, "one member has no traffic");
        let net = shown(&ranking, Sort::Rate, 2, 0, "10.0.3.0/24");
        assert_eq!((&net["matched"], &net["rows"][0][0]), (&256.into(), &"10.0.3.255 → *".into()));
        let text = shown(&ranking, Sort::Name, 2, 1, "10.0.3.1");
        assert_eq!(text["rows"][0][0], "10.0.3.10 → *");
        assert_eq!(shown(&ranking, Sort::Queue, 1, 0, "")["rows"][0][5], 6000);
        assert_eq!(shown(&ranking, Sort::Rate, 5, 20_000, "")["rows"].as_array().unwrap().len(), 0);
    }

    #[test]
    fn a_member_that_was_created_again_with_shorter_packets_has_no_rate_yet() {
        let before = Member { packets_in: 1, bytes_in: 1500, ..member(1, 0, 0) };
        let after = Member { packets_in: 5, bytes_in: 300, ..member(1, 0, 0) };
        let first = Ranking::default().update(vec![before], 1_000_000_000);
        let second = first.update(vec![after], 2_000_000_000);
        assert_eq!(shown(&second, Sort::Rate, 1, 0, "")["rows"][0][2], 0);
    }

    #[test]
    fn an_offset_may_have_any_value() {
        let ranking = Ranking::default().update(vec![member(1, 0, 0)], 1);
        assert_eq!(shown(&ranking, Sort::Rate, 5, usize::MAX, "")["rows"], Value::Array(vec![]));
    }

    #[test]
    fn names_with_markup_are_only_text() {
        let evil = Member { name: "\"],<script>".into(), ..member(1, 0, 0) };
        let ranking = Ranking::default().update(vec![evil], 1);
        assert_eq!(shown(&ranking, Sort::Rate, 1, 0, "<SCRIPT")["rows"][0][0], "\"],<script>");
    }

    #[test]
    fn numbers_in_names_are_compared_as_numbers() {
        assert!(natural("pipe 9") < natural("pipe 10") && natural("pipe 10") < natural("queue 1"));
    }

    #[test]
    fn networks_are_compared_by_their_bits() {
        let is = |address: &str, network: &str| {
            let Search::Network(net, bits) = Search::new(network) else { panic!("{network}") };
            is_in(address.parse().unwrap(), net, bits)
        };
        assert!(is("10.1.2.3", "10.0.0.0/8") && is("10.1.2.3", "0.0.0.0/0"));
        assert!(!is("11.1.2.3", "10.0.0.0/8") && !is("fd00::1", "10.0.0.0/8"));
        assert!(is("fd00::1", "fd00::/16") && is("fd00::1", "::/0") && !is("fe00::1", "fd00::/16"));
        assert_eq!(Search::new("10.0.0.0/33"), Search::Text("10.0.0.0/33".into()));
    }
}
