//! Random streams: one for each random process, all from one seed.
//!
//! A stream is determined by the seed, by a purpose, and by a *path*: a number that identifies a
//! component, such as an instance of a pipe. Adding an impairment to a link therefore does not
//! change the draws of the link's other impairments.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::units::Probability;

/// One seeded stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream(Pcg64Mcg);

impl Stream {
    /// The stream for `purpose` in the component with this `path`.
    pub fn new(seed: u64, path: u64, purpose: Purpose) -> Self {
        let low = mix(seed ^ mix(path ^ mix(purpose as u64 + 1)));
        let high = mix(low ^ seed.rotate_left(32));
        Self(Pcg64Mcg::from_seed((u128::from(high) << 64 | u128::from(low)).to_le_bytes()))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// 32 random bits.
    pub fn bits32(&mut self) -> u32 {
        (self.0.next_u64() >> 32) as u32
    }

    /// Draws whether an event of probability `p` happens.
    pub fn happens(&mut self, p: Probability) -> bool {
        self.bits() >> 1 < p.raw()
    }

    /// A number within `0..n`; `n` must not be 0.
    pub fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.bits32()) * u64::from(n)) >> 32) as u32
    }
}

/// The purpose of a stream.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Purpose {
    LossBeforeQueue,
    Loss,
    Duplicate,
    Corrupt,
    Jitter,
    Reorder,
    Profile,
    Aqm,
    Scheduler,
    Classifier,
    Generator,
}

/// One step of SplitMix64.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_repeatable_and_differ_by_purpose_and_path() {
        let first = |path, purpose| Stream::new(7, path, purpose).bits();
        assert_eq!(first(1, Purpose::Loss), first(1, Purpose::Loss));
        assert_ne!(first(1, Purpose::Loss), first(2, Purpose::Loss));
        assert_ne!(first(1, Purpose::Loss), first(1, Purpose::Jitter));
    }

    #[test]
    fn never_and_always_are_exact() {
        let mut stream = Stream::new(1, 1, Purpose::Loss);
        for _ in 0..10_000 {
            assert!(!stream.happens(Probability::ZERO));
            assert!(stream.happens(Probability::ONE));
        }
    }
}
