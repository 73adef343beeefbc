//! Finds workers that hang. A worker counts the turns of its loop, so the count of a worker that
//! hangs stays the same.

/// A watchdog over the workers of one loop, with the count of each worker at the last check.
#[derive(Clone, Debug, Default)]
pub struct Watchdog {
    workers: Vec<Worker>,
}

#[derive(Clone, Debug, Default)]
struct Worker {
    /// Number of turns at the last check.
    turns: u64,
    /// Number of consecutive checks that found the same number of turns.
    same: u32,
}

impl Watchdog {
    /// Compares the numbers of turns with those of the previous check. Returns the workers that
    /// hang, counted from 0. A worker hangs if [`CHECKS`] consecutive checks find no new turn.
    ///
    /// Let at least 200 ms pass between two checks, because an idle worker completes a turn in 100
    /// ms. The watchdog counts checks and measures no time, so a process that was stopped for a
    /// while has no hanging worker when it continues.
    pub fn check(&mut self, turns: &[u64]) -> Vec<usize> {
        self.workers.resize(turns.len(), Worker::default());
        let mut hanging = Vec::new();
        for (number, (worker, &turns)) in self.workers.iter_mut().zip(turns).enumerate() {
            worker.same = if worker.turns == turns { worker.same.saturating_add(1) } else { 0 };
            worker.turns = turns;
            if worker.same >= CHECKS {
                hanging.push(number);
            }
        }
        hanging
    }
}

/// Number of consecutive checks without a new turn after which a worker counts as hanging.
pub const CHECKS: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_without_turns_hangs_after_some_checks_until_it_continues() {
        let mut watchdog = Watchdog::default();
        for turn in 1..=u64::from(CHECKS) {
            assert!(watchdog.check(&[turn, 7]).is_empty(), "turn {turn}");
        }
        assert_eq!(watchdog.check(&[100, 7]), [1]);
        assert_eq!(watchdog.check(&[101, 7]), [1]);
        assert!(watchdog.check(&[102, 8]).is_empty());
    }

    #[test]
    fn no_worker_hangs_without_workers() {
        assert!(Watchdog::default().check(&[]).is_empty());
    }
}
