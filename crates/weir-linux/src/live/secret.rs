//! The secret hash key with which this process looks up flows and instances.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use weir_core::LookupKey;

/// The hash key of all engines of this process. Workers that share instances need the same key, so
/// the key is drawn once.
pub(super) fn lookup_key() -> LookupKey {
    static KEY: OnceLock<LookupKey> = OnceLock::new();
    // The standard library's hasher has random keys from the operating system. Its hashes of two
    // constants are therefore 128 bits that cannot be predicted.
    *KEY.get_or_init(|| {
        let random = RandomState::new();
        LookupKey::secret([random.hash_one(0u64), random.hash_one(1u64)])
    })
}
