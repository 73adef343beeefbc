//! Instructions and cache misses per pair, counted by valgrind's cachegrind.
//!
//! The caller starts the rig twice under cachegrind, with different numbers of pairs. The
//! difference between the two runs cancels the start, the filling and the warm-up. The remaining
//! count of instructions is exact and repeatable. Cachegrind simulates two cache levels. The second
//! one gets the size of the processor's second level, so its misses are the accesses that go to the
//! third level or to memory. Cachegrind simulates neither hardware prefetching nor prefetch
//! instructions.

use std::ffi::OsString;
use std::path::Path;

/// The geometry of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// The size in bytes.
    pub size: u64,
    /// The associativity.
    pub ways: u32,
    /// The length of a line in bytes.
    pub line: u32,
}

impl Cache {
    /// A cache of `size` bytes with eight ways of 64-byte lines.
    ///
    /// # Errors
    /// [`CountError::Cache`] when the number of sets is not a power of two, which cachegrind
    /// requires.
    pub fn of_size(size: u64) -> Result<Self, CountError> {
        let cache = Self { size, ..Self::default() };
        let sets = size / u64::from(cache.ways * cache.line);
        let whole = sets * u64::from(cache.ways * cache.line) == size;
        if whole && sets.is_power_of_two() { Ok(cache) } else { Err(CountError::Cache(size)) }
    }

    /// The second-level cache of the first processor, as Linux describes it. `None` without a
    /// description, or if cachegrind cannot simulate the cache.
    pub fn second_level() -> Option<Self> {
        let read = |name: &str| {
            std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index2/{name}"))
                .ok()
        };
        let size = read("size")?.trim().strip_suffix('K')?.parse::<u64>().ok()? * 1024;
        let number = |name| read(name)?.trim().parse::<u32>().ok();
        let cache = Self {
            size,
            ways: number("ways_of_associativity")?,
            line: number("coherency_line_size")?,
        };
        let sets = cache.size.checked_div(u64::from(cache.ways) * u64::from(cache.line))?;
        sets.is_power_of_two().then_some(cache)
    }
}

/// 2 MiB, eight ways of 64-byte lines.
impl Default for Cache {
    fn default() -> Self {
        Self { size: 2 << 20, ways: 8, line: 64 }
    }
}

/// The arguments for valgrind that precede the program and its arguments.
pub fn arguments(cache: &Cache, out_file: &Path) -> Vec<OsString> {
    let mut out = OsString::from("--cachegrind-out-file=");
    out.push(out_file);
    let last = format!("--LL={},{},{}", cache.size, cache.ways, cache.line);
    vec!["--tool=cachegrind".into(), "--cache-sim=yes".into(), last.into(), out]
}

/// The totals that cachegrind counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Instructions.
    pub instructions: u64,
    /// Data reads and writes that missed the first level.
    pub first_misses: u64,
    /// Data reads and writes that missed the second level.
    pub second_misses: u64,
}

impl Events {
    /// Reads the totals from cachegrind's file.
    ///
    /// # Errors
    /// [`CountError::File`] when the file does not contain them.
    pub fn read(text: &str) -> Result<Self, CountError> {
        let line = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)).ok_or(CountError::File)
        };
        let names: Vec<&str> = line("events:")?.split_whitespace().collect();
        let totals: Vec<u64> =
            line("summary:")?.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let total = |name| {
            names
                .iter()
                .position(|known| *known == name)
                .and_then(|index| totals.get(index))
                .copied()
        };
        let sum =
            |reads, writes| total(reads).zip(total(writes)).map(|(reads, writes)| reads + writes);
        let all = (total("Ir"), sum("D1mr", "D1mw"), sum("DLmr", "DLmw"));
        let (Some(instructions), Some(first_misses), Some(second_misses)) = all else {
            return Err(CountError::File);
        };
        Ok(Self { instructions, first_misses, second_misses })
    }

    /// The events per pair, when `self` counted `pairs` more pairs than `short`.
    pub fn per_pair(&self, short: &Self, pairs: u64) -> PerPair {
        let each = |long: u64, short: u64| long.saturating_sub(short) as f64 / pairs as f64;
        PerPair {
            instructions: each(self.instructions, short.instructions),
            first_misses: each(self.first_misses, short.first_misses),
            second_misses: each(self.second_misses, short.second_misses),
        }
    }
}

/// Events per pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerPair {
    /// Instructions.
    pub instructions: f64,
    /// Misses of the first level, data only.
    pub first_misses: f64,
    /// Misses of the second level, data only.
    pub second_misses: f64,
}

/// The reason why nothing was counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    /// Cachegrind cannot simulate a cache of this size.
    #[error(
        "a second-level cache of {0} bytes cannot be simulated: its size is 512 bytes times a \
         power of two; for example 2MiB"
    )]
    Cache(u64),
    /// The file has no totals.
    #[error("cachegrind's file has no totals of instructions and cache misses")]
    File,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_found_by_their_names() {
        let text = "desc: x\nevents: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw \nfn=x\n1 2\nsummary: \
                    1000 1 2 300 40 5 60 7 8 \n";
        let events = Events::read(text).unwrap();
        assert_eq!(events, Events { instructions: 1000, first_misses: 47, second_misses: 13 });
        let per_pair =
            events.per_pair(&Events { instructions: 200, first_misses: 7, second_misses: 13 }, 10);
        assert_eq!(per_pair, PerPair { instructions: 80.0, first_misses: 4.0, second_misses: 0.0 });
        for text in ["", "events: Ir\nsummary: 5", "events: Ir Dr\n", "summary: 1 2 3 4 5 6 7 8 9"]
        {
            assert_eq!(Events::read(text), Err(CountError::File), "{text}");
        }
    }

    #[test]
    fn only_caches_with_a_power_of_two_of_sets_are_simulated() {
        assert_eq!(Cache::of_size(1 << 20).unwrap().ways, 8);
        for size in [0, 1000, 3 << 20] {
            assert_eq!(Cache::of_size(size), Err(CountError::Cache(size)));
        }
    }
}
