//! Fingerprints of long values: one comparison usually shows that two values differ.
//!
//! A configuration may have tables with a million rows. At every change it is compared with the
//! previous configuration, also on the thread that forwards packets.

use core::hash::{Hash, Hasher};

use crate::siphash::SipHash;

/// A hash of a value. As the first field of a struct that derives `PartialEq`, it is compared
/// before the other fields, which are compared only if the fingerprints are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    pub(crate) fn of(value: &impl Hash) -> Self {
        let mut chain = Chain(0);
        value.hash(&mut chain);
        Self(chain.0)
    }
}

/// A hasher that hashes each word together with the hash of all words before it. The key is
/// constant, because a collision only costs time.
struct Chain(u64);

impl Hasher for Chain {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut add = |word| self.0 = SipHash::new([0, 0]).words([self.0, word]);
        words.iter().for_each(|&word| add(u64::from_le_bytes(word)));
        if !rest.is_empty() {
            // The last word includes the length, because a value may end with zero bytes.
            let word =
                rest.iter().fold(rest.len() as u64, |word, &byte| word << 8 | u64::from(byte));
            add(word);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_differ_anywhere_have_different_fingerprints() {
        let of = |values: &[u64]| Fingerprint::of(&values);
        assert_eq!(of(&[1, 2, 3]), of(&[1, 2, 3]));
        for other in [&[1, 2, 4][..], &[0, 2, 3], &[1, 2], &[1, 2, 3, 0], &[2, 1, 3]] {
            assert_ne!(of(&[1, 2, 3]), of(other), "{other:?}");
        }
        assert_ne!(Fingerprint::of(&[7u8]), Fingerprint::of(&[7u8, 0]));
    }
}
