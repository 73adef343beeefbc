//! Hosts of one CAKE tin: how many queues with a standing backlog each source and each destination
//! has. These are the *bulk* queues of [`super::tin`].
//!
//! A hash selects a set of eight places for each host and one place in it, as it selects a queue
//! for each flow. If another host has that place, the host uses a place of the set that counts no
//! queue. If there is no such place, the two hosts share the selected place.

use alloc::vec::Vec;

use super::super::flow_queues::spread;

/// The places of a queue's two hosts, or [`NO_HOST`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    source: u16,
    destination: u16,
}

impl Pair {
    pub(super) const NONE: Self = Self { source: NO_HOST, destination: NO_HOST };
}

#[derive(Debug)]
pub(super) struct Hosts {
    sources: Option<Table>,
    destinations: Option<Table>,
}

impl Hosts {
    /// No hosts yet. `sources` and `destinations` select the hosts that count.
    pub(super) fn new(sources: bool, destinations: bool) -> Self {
        let table = |counts: bool| counts.then(Table::new);
        Self { sources: table(sources), destinations: table(destinations) }
    }

    /// The places of the hosts with these hashes; a hash of 0 means an unknown host.
    pub(super) fn find(&mut self, [source, destination]: [u32; 2]) -> Pair {
        let place = |table: &mut Option<Table>, hash| match table {
            Some(table) if hash != 0 => table.find(hash),
            _ => NO_HOST,
        };
        Pair {
            source: place(&mut self.sources, source),
            destination: place(&mut self.destinations, destination),
        }
    }

    /// Adds a queue of these hosts to their counts if its standing backlog `begins`; otherwise
    /// removes the queue from the counts.
    pub(super) fn count(&mut self, hosts: Pair, begins: bool) {
        let change = |table: &mut Option<Table>, place: u16| {
            let queues = table.as_mut().and_then(|table| table.queues.get_mut(usize::from(place)));
            if let Some(queues) = queues {
                *queues = if begins { *queues + 1 } else { queues.saturating_sub(1) };
            }
        };
        change(&mut self.sources, hosts.source);
        change(&mut self.destinations, hosts.destination);
    }

    /// The number by which the quantum of a queue of these hosts is divided, at least 1.
    #[inline]
    pub(super) fn load(&self, hosts: Pair) -> u16 {
        let of = |table: &Option<Table>, place: u16| {
            let queues = table.as_ref().and_then(|table| table.queues.get(usize::from(place)));
            queues.copied().unwrap_or(1)
        };
        of(&self.sources, hosts.source).max(of(&self.destinations, hosts.destination)).max(1)
    }
}

/// The places of all sources, or of all destinations.
#[derive(Debug)]
struct Table {
    /// For each place, the hash of the host that has it or had it last.
    tags: Vec<u32>,
    /// For each place, the number of the host's queues that have a standing backlog.
    queues: Vec<u16>,
}

impl Table {
    fn new() -> Self {
        Self { tags: (0..PLACES).map(|_| 0).collect(), queues: (0..PLACES).map(|_| 0).collect() }
    }

    fn find(&mut self, hash: u32) -> u16 {
        let own = spread(hash, PLACES);
        let set = own & !(WAYS - 1);
        let mut ways = (0..WAYS).map(|n| (set | own.wrapping_add(n) & (WAYS - 1)) as usize);
        let known = ways.clone().find(|&way| self.tags[way] == hash);
        let free = || ways.find(|&way| self.queues[way] == 0);
        let place = known.or_else(free).unwrap_or(own as usize);
        self.tags[place] = hash;
        place as u16
    }
}

/// The place of a host that is unknown or does not count.
const NO_HOST: u16 = u16::MAX;
/// The number of places.
const PLACES: u32 = 1024;
/// The number of places in a set.
const WAYS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busier_of_a_queues_hosts_divides_its_quantum() {
        let mut hosts = Hosts::new(true, true);
        let pairs = [[1, 9], [1, 8], [1, 7], [2, 9]].map(|hashes| hosts.find(hashes));
        pairs.iter().for_each(|&pair| hosts.count(pair, true));
        assert_eq!(pairs.map(|pair| hosts.load(pair)), [3, 3, 3, 2]);
        hosts.count(pairs[1], false);
        assert_eq!(pairs.map(|pair| hosts.load(pair)), [2, 2, 2, 2]);
        let mut sources = Hosts::new(true, false);
        let pairs = [[1, 9], [2, 9], [0, 9]].map(|hashes| sources.find(hashes));
        pairs.iter().for_each(|&pair| sources.count(pair, true));
        assert_eq!(pairs.map(|pair| sources.load(pair)), [1; 3]);
    }

    #[test]
    fn eight_hosts_of_a_set_are_told_apart() {
        let mut hosts = Hosts::new(true, false);
        let set = spread(1, PLACES) / WAYS;
        let hashes = (1..).filter(|&hash| spread(hash, PLACES) / WAYS == set).take(9);
        let places: Vec<u16> = hashes
            .map(|hash| {
                let pair = hosts.find([hash, 0]);
                hosts.count(pair, true);
                pair.source
            })
            .collect();
        let mut first = places[..8].to_vec();
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), 8);
        assert!(places[..8].contains(&places[8]), "the ninth host shares a place");
    }
}
