//! The secret hash key with which this process looks up flows and instances.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use weir_core::LookupKey;

/// The hash key of all engines of this process. Workers that share instances need the same key, so
/// the key is drawn once.
pub(super) fn lookup_key() -> LookupKey {
    static KEY: OnceLock<LookupKey> = OnceLock::new();
    *KEY.get_or_init(|| LookupKey::secret(random_words()))
}

/// 128 bits that cannot be predicted: the hashes of two constants by the standard library's hasher,
/// which has random keys from the operating system.
fn random_words() -> [u64; 2] {
    let random = RandomState::new();
    [random.hash_one(0u64), random.hash_one(1u64)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_secret_and_its_words_differ_from_draw_to_draw() {
        assert!(format!("{:?}", lookup_key()).contains("is_secret: true"));
        let mut words: Vec<u64> = (0..8).flat_map(|_| random_words()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 16, "two of 16 draws of 64 bits are equal");
    }
}
