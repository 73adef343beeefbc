//! The packets of one strict-priority queue: when they entered and left it, and how many were in
//! it.

/// When the packets of one queue entered and left it, ns.
#[derive(Clone, Debug, Default)]
pub(super) struct Passages {
    pub(super) entries: Vec<u64>,
    pub(super) exits: Vec<u64>,
}

impl Passages {
    /// The number of packets in the queue just after each of the ascending `times`.
    pub(super) fn depths(&self, times: impl Iterator<Item = u64>) -> Vec<u64> {
        let (mut entered, mut left) = (0, 0);
        let advance = |list: &[u64], place: &mut usize, time: u64| {
            *place += list[*place..].iter().take_while(|&&at| at <= time).count();
        };
        times
            .map(|time| {
                advance(&self.entries, &mut entered, time);
                advance(&self.exits, &mut left, time);
                entered.saturating_sub(left) as u64
            })
            .collect()
    }

    /// For packets that entered in `from..until`: the number of other packets that each of them
    /// found in the queue, sorted in ascending order. The first packet counted is the first after
    /// whose entry the queue held at least `full_length` packets.
    pub(super) fn found_on_entry(&self, from: u64, until: u64, full_length: u64) -> Vec<u64> {
        let entries_in_range =
            self.entries.iter().copied().filter(|time| (from..until).contains(time));
        let mut found: Vec<u64> = self
            .depths(entries_in_range)
            .into_iter()
            .skip_while(|&packets| packets < full_length)
            .map(|packets| packets.saturating_sub(1))
            .collect();
        found.sort_unstable();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_are_entries_minus_exits() {
        let passages = Passages { entries: vec![0, 10, 20, 30], exits: vec![15, 25, 40] };
        assert_eq!(passages.depths([0, 10, 15, 20, 30, 40].into_iter()), [1, 2, 1, 2, 2, 1]);
        // The first packet enters before the queue holds two packets.
        assert_eq!(passages.found_on_entry(0, 30, 2), [1, 1]);
        assert!(passages.found_on_entry(0, 30, 3).is_empty());
    }
}
