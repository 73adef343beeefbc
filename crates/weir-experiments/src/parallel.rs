//! Independent runs on several threads, with the results in the order of the runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

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
}
