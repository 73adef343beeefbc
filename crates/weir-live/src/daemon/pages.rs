//! Gathers lists of instances in slices. Packets wait while a worker looks at its instances, so a
//! worker looks at a bounded number of them between two turns of its loop.

use std::ops::Range;

/// A part of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    /// The position after which the next page begins; `None` in the last page.
    pub(super) next: Option<u64>,
}

/// The instances of one pipe, queue or scheduler on several workers. Each worker numbers the
/// instances of all queues together, and those of all pipes and schedulers together. Many numbers
/// may therefore belong to other pipes, queues or schedulers.
pub(super) trait Slices<T> {
    /// Why a worker gave no answer.
    type Error;

    /// A number above all numbers of worker `worker`.
    fn bound(&mut self, worker: usize) -> Result<u32, Self::Error>;

    /// The instances of worker `worker` in this range of numbers, each with its number. The worker
    /// collects them between two turns of its loop.
    fn slice(&mut self, worker: usize, numbers: Range<u32>) -> Result<Vec<(u32, T)>, Self::Error>;
}

/// Gathers up to `limit` instances after the position `after`, or from the first one.
///
/// Pages list the instances of one worker after another. A position consists of the worker, in the
/// upper half, and the number of the last listed instance of that worker.
pub(super) fn gather<T, S: Slices<T>>(
    slices: &mut S,
    workers: usize,
    after: Option<u64>,
    limit: usize,
) -> Result<Page<T>, S::Error> {
    let mut page = Page { items: Vec::new(), next: None };
    let (mut worker, mut from) =
        after.map_or((0, 0), |after| ((after >> 32) as usize, (after as u32).saturating_add(1)));
    while worker < workers {
        let bound = slices.bound(worker)?;
        while from < bound {
            let to = from.saturating_add(PER_SLICE).min(bound);
            for (number, item) in slices.slice(worker, from..to)? {
                page.items.push(item);
                if page.items.len() == limit {
                    page.next = Some((worker as u64) << 32 | u64::from(number));
                    return Ok(page);
                }
            }
            from = to;
        }
        (worker, from) = (worker + 1, 0);
    }
    Ok(page)
}

/// Maximum number of instances that a worker looks at between two turns of its loop. An instance
/// takes some 0.2 us, so packets wait for some 50 us.
pub(super) const PER_SLICE: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// Workers with these instances, which record how many numbers each slice covers.
    struct Recorded {
        instances: Vec<Vec<u32>>,
        slices: Vec<usize>,
    }

    impl Slices<u32> for Recorded {
        type Error = std::convert::Infallible;

        fn bound(&mut self, worker: usize) -> Result<u32, Self::Error> {
            Ok(self.instances[worker].last().map_or(0, |last| last + 1))
        }

        fn slice(
            &mut self,
            worker: usize,
            numbers: Range<u32>,
        ) -> Result<Vec<(u32, u32)>, Self::Error> {
            self.slices.push(numbers.len());
            let all = self.instances[worker].iter().filter(|number| numbers.contains(number));
            Ok(all.map(|&number| (number, number)).collect())
        }
    }

    #[test]
    fn a_long_page_is_gathered_in_many_slices() {
        let all: Vec<u32> = (0..10_000).collect();
        let mut workers = Recorded { instances: vec![all.clone()], slices: Vec::new() };
        let Ok(page) = gather(&mut workers, 1, None, 10_000);
        assert_eq!(page.items, all);
        assert!(workers.slices.iter().all(|&looked| looked <= 300), "a slice takes little time");
        assert_eq!(workers.slices.iter().sum::<usize>(), 10_000, "none is looked at twice");
    }

    #[test]
    fn instances_with_numbers_far_apart_are_gathered_in_short_slices_too() {
        let mut workers = Recorded { instances: vec![vec![7, 99_999]], slices: Vec::new() };
        let Ok(page) = gather(&mut workers, 1, None, 10);
        assert_eq!((page.items, page.next), (vec![7, 99_999], None));
        assert!(workers.slices.iter().all(|&looked| looked <= 300), "a slice takes little time");
    }

    #[test]
    fn pages_of_any_length_list_each_instance_of_all_workers_once() {
        let instances = vec![(0..700).collect::<Vec<u32>>(), Vec::new(), vec![3, 600, 601]];
        let all: Vec<u32> = instances.concat();
        for limit in [1, 255, 256, 257, 350, 703, 10_000] {
            let mut workers = Recorded { instances: instances.clone(), slices: Vec::new() };
            let (mut listed, mut after) = (Vec::new(), None);
            loop {
                let Ok(page) = gather(&mut workers, 3, after, limit);
                assert!(page.items.len() <= limit);
                listed.extend(page.items);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(listed, all, "pages of {limit}");
        }
    }
}
