//! Independent runs on several threads, with the results in the order of the runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::experiment::{Options, Progress};

/// Calls `run` for each of `items` with each seed of the options, on the threads of the options.
/// Returns for each item the results by seed. Results at the same index in two lists have the same
/// seed.
pub(crate) fn over_seeds<T: Sync, R: Send>(
    options: &Options,
    progress: &Progress<'_>,
    items: &[T],
    run: impl Fn(&T, u64) -> R + Sync,
) -> Vec<Vec<R>> {
    let seeds = options.seeds();
    let jobs: Vec<(&T, u64)> = items
        .iter()
        .flat_map(|item| (0..seeds).map(move |n| (item, options.seed.wrapping_add(n))))
        .collect();
    let mut results =
        counted(options, progress, &jobs, |&(item, seed)| run(item, seed)).into_iter();
    items.iter().map(|_| results.by_ref().take(seeds as usize).collect()).collect()
}

/// Does the same as [`parallel`], with the threads of the options, and reports the progress.
pub(crate) fn counted<T: Sync, R: Send>(
    options: &Options,
    progress: &Progress<'_>,
    items: &[T],
    run: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let done = AtomicUsize::new(0);
    parallel(options.threads, items, |item| {
        let result = run(item);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, items.len());
        result
    })
}

/// Calls `run` for each of `items` on `threads` threads (0 for one per processor). The results are
/// in the order of the items, so they do not depend on which thread is faster.
///
/// # Panics
/// A call of `run` panics.
pub fn parallel<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    run: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let threads = if threads == 0 {
        std::thread::available_parallelism().map_or(1, usize::from)
    } else {
        threads
    };
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(items.len()) {
            scope.spawn(|| {
                while let Some(number) = Some(next.fetch_add(1, Ordering::Relaxed))
                    .filter(|&number| number < items.len())
                {
                    *done[number].lock().unwrap_or_else(PoisonError::into_inner) =
                        Some(run(&items[number]));
                }
            });
        }
    });
    done.into_iter()
        .filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_their_items_on_any_number_of_threads() {
        let items: Vec<u64> = (0..100).collect();
        let squares: Vec<u64> = items.iter().map(|n| n * n).collect();
        for threads in [0, 1, 2, 7, 200] {
            assert_eq!(parallel(threads, &items, |n| n * n), squares);
        }
        assert!(parallel(2, &[], |n: &u64| *n).is_empty());
    }

    #[test]
    fn each_item_has_its_results_by_seed_and_every_run_is_reported() {
        let options = Options { quick: true, seed: 5, threads: 2 };
        let most = AtomicUsize::new(0);
        let progress = |done: usize, all: usize| {
            assert_eq!(all, 6);
            most.fetch_max(done, Ordering::Relaxed);
        };
        let results = over_seeds(&options, &progress, &[10, 20], |item, seed| item + seed);
        assert_eq!(results, [[15, 16, 17], [25, 26, 27]]);
        assert_eq!(most.into_inner(), 6);
    }
}
