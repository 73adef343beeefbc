//! Instructions and cache misses of a pair, counted by valgrind's cachegrind.
//!
//! The caller starts the rig twice under cachegrind, once with more pairs than the other time. What
//! both do alike, starting up, filling and warming up, falls out of the difference; what remains is
//! exact to the instruction, and the same on each machine. Cachegrind knows two levels: the first,
//! and one that is here given the size of the processor's second level. So its misses are what goes
//! on to the third level or to memory. It does not know of prefetching, by the hardware or by
//! instructions.

use std::ffi::OsString;
use std::path::Path;

/// A cache's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Bytes.
    pub size: u64,
    /// Associativity.
    pub ways: u32,
    /// Bytes of a line.
    pub line: u32,
}

impl Cache {
    /// A cache of `size` bytes with eight ways of 64-byte lines.
    ///
    /// # Errors
    /// [`CountError::Cache`] when the number of sets is no power of two, as cachegrind requires.
    pub fn of_size(size: u64) -> Result<Self, CountError> {
        let cache = Self { size, ..Self::default() };
        let sets = size / u64::from(cache.ways * cache.line);
        let whole = sets * u64::from(cache.ways * cache.line) == size;
        if whole && sets.is_power_of_two() { Ok(cache) } else { Err(CountError::Cache(size)) }
    }

    /// The first processor's second-level cache, as Linux describes it.
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

/// Arguments for valgrind, in front of the program's own.
pub fn arguments(cache: &Cache, out_file: &Path) -> Vec<OsString> {
    let mut out = OsString::from("--cachegrind-out-file=");
    out.push(out_file);
    let last = format!("--LL={},{},{}", cache.size, cache.ways, cache.line);
    vec!["--tool=cachegrind".into(), "--cache-sim=yes".into(), last.into(), out]
}

/// What cachegrind counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Instructions.
    pub instructions: u64,
    /// Reads and writes of data that missed the first level.
    pub first_misses: u64,
    /// Reads and writes of data that missed the second.
    pub second_misses: u64,
}

impl Events {
    /// The totals of cachegrind's file.
    ///
    /// # Errors
    /// [`CountError::File`] when they are not in it.
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
                .and_then(|place| totals.get(place))
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

    /// Events of one pair, when `self` had `pairs` more of them than `short`.
    pub fn per_pair(&self, short: &Self, pairs: u64) -> PerPair {
        let each = |long: u64, short: u64| long.saturating_sub(short) as f64 / pairs as f64;
        PerPair {
            instructions: each(self.instructions, short.instructions),
            first_misses: each(self.first_misses, short.first_misses),
            second_misses: each(self.second_misses, short.second_misses),
        }
    }
}

/// Events of one pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerPair {
    /// Instructions.
    pub instructions: f64,
    /// Misses of the first level, data only.
    pub first_misses: f64,
    /// Misses of the second level, data only.
    pub second_misses: f64,
}

/// Why nothing was counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    /// A cache that cannot be simulated.
    #[error(
        "a second-level cache of {0} bytes cannot be simulated: its size is 512 bytes times a power of two; for example 2MiB"
    )]
    Cache(u64),
    /// The file is not cachegrind's.
    #[error("cachegrind's file has no totals of instructions and cache misses")]
    File,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_found_by_their_names() {
        let text = "desc: x\nevents: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw \nfn=x\n1 2\nsummary: 1000 1 2 300 40 5 60 7 8 \n";
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
