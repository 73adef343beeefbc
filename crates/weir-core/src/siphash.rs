//! SipHash-1-3 of messages with a length that is known at compile time.
//!
//! A hasher for messages of any length loops over the words and gathers the bytes of the last word
//! one by one. For a known length, the compiler unrolls the loop, so that only the rounds remain.
//!
//! # Reference
//! Aumasson and Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012. The names are those
//! of the paper: the key is `k0`, `k1`, the state `v0` to `v3`, a word of the message `m`.
//!
//! # Validation
//! A property test compares the hashes with those of the crate `siphasher`.

/// The initial state of a hash, which the key determines.
#[derive(Clone, Copy)]
pub(crate) struct SipHash {
    v: [u64; 4],
}

impl SipHash {
    /// The hash function with the key `k0`, `k1`.
    pub(crate) const fn new([k0, k1]: [u64; 2]) -> Self {
        Self { v: [k0 ^ INITIAL[0], k1 ^ INITIAL[1], k0 ^ INITIAL[2], k1 ^ INITIAL[3]] }
    }

    /// The hash of a message of `N` words in little-endian order.
    #[inline]
    pub(crate) fn words<const N: usize>(&self, message: [u64; N]) -> u64 {
        self.finish(message, (8 * N as u64) << LENGTH)
    }

    /// The hash of a message of `N` words and four further bytes, all in little-endian order.
    #[inline]
    pub(crate) fn words_and<const N: usize>(&self, message: [u64; N], rest: u32) -> u64 {
        self.finish(message, (8 * N as u64 + 4) << LENGTH | u64::from(rest))
    }

    /// The hash of a message with the last word `last`, which contains the length.
    #[inline(always)] // So that the number of words is a constant and the loop has no branch.
    fn finish<const N: usize>(&self, message: [u64; N], last: u64) -> u64 {
        let mut v = self.v;
        for m in message {
            v = compress(v, m);
        }
        v = compress(v, last);
        v[2] ^= 0xff;
        v = round(round(round(v)));
        v[0] ^ v[1] ^ v[2] ^ v[3]
    }
}

#[inline(always)]
fn compress([v0, v1, v2, v3]: [u64; 4], m: u64) -> [u64; 4] {
    let [v0, v1, v2, v3] = round([v0, v1, v2, v3 ^ m]);
    [v0 ^ m, v1, v2, v3]
}

/// One round (SipRound).
#[inline(always)]
fn round([mut v0, mut v1, mut v2, mut v3]: [u64; 4]) -> [u64; 4] {
    v0 = v0.wrapping_add(v1);
    v2 = v2.wrapping_add(v3);
    v1 = v1.rotate_left(13) ^ v0;
    v3 = v3.rotate_left(16) ^ v2;
    v0 = v0.rotate_left(32);
    v2 = v2.wrapping_add(v1);
    v0 = v0.wrapping_add(v3);
    v1 = v1.rotate_left(17) ^ v2;
    v3 = v3.rotate_left(21) ^ v0;
    v2 = v2.rotate_left(32);
    [v0, v1, v2, v3]
}

/// The constants of the initial state: the letters "somepseudorandomlygeneratedbytes".
const INITIAL: [u64; 4] =
    [0x736f_6d65_7073_6575, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];
/// The position of the message's length, modulo 256, in the last word.
const LENGTH: u32 = 56;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;
    use siphasher::sip::SipHasher13;

    use super::*;

    /// The hash that the crate `siphasher` computes of the bytes of `words` and of `rest`.
    fn by_the_crate(key: [u64; 2], words: &[u64], rest: &[u8]) -> u64 {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend_from_slice(rest);
        SipHasher13::new_with_keys(key[0], key[1]).hash(&bytes)
    }

    proptest! {
        #[test]
        fn agrees_with_the_crate(key: [u64; 2], long: [u64; 8], rest: u32) {
            let hash = SipHash::new(key);
            let short = [long[0], long[1]];
            prop_assert_eq!(hash.words(long), by_the_crate(key, &long, &[]));
            prop_assert_eq!(hash.words(short), by_the_crate(key, &short, &[]));
            prop_assert_eq!(
                hash.words_and(short, rest),
                by_the_crate(key, &short, &rest.to_le_bytes())
            );
        }
    }
}
