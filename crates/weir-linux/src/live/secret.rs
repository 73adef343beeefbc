//! The secret of this process for look-ups of flows.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use weir_core::LookupKey;

/// The key of look-ups for all engines of this process. Workers that share instances need the same
/// key, so it is drawn once.
pub(super) fn lookup_key() -> LookupKey {
    static KEY: OnceLock<LookupKey> = OnceLock::new();
    // The standard library's hasher has random keys from the operating system; its hashes of two
    // constants are 128 bits that cannot be predicted.
    *KEY.get_or_init(|| {
        let random = RandomState::new();
        LookupKey::secret([random.hash_one(0u64), random.hash_one(1u64)])
    })
}
