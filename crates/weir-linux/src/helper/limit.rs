//! The number of connections that a helper process can carry.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the descriptor limit to what [`LIMIT`] connections need, or as far as possible. Returns
/// the number of connections, with two descriptors each, that the limit permits in addition to
/// `reserved` other descriptors.
pub(super) fn raise_descriptor_limit(reserved: usize) -> usize {
    let wanted = (2 * LIMIT + reserved) as u64;
    let now = getrlimit(Resource::Nofile);
    let possible = now.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let current = now.current.unwrap_or(wanted);
    if current < possible
        && setrlimit(Resource::Nofile, Rlimit { current: Some(possible), maximum: now.maximum })
            .is_ok()
    {
        return connections(possible, reserved);
    }
    connections(current, reserved)
}

fn connections(descriptors: u64, reserved: usize) -> usize {
    let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
    (descriptors.saturating_sub(reserved) / 2).clamp(1, LIMIT)
}

/// Maximum number of concurrent connections, including those that are not established yet.
pub(super) const LIMIT: usize = 4096;
/// Descriptors that a helper reserves for purposes other than connections.
pub(super) const RESERVED: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptor_limit_bounds_the_connections() {
        assert_eq!(connections(1024, RESERVED), (1024 - 32) / 2);
        assert_eq!(connections(u64::MAX, RESERVED), LIMIT);
        assert_eq!(connections(8, RESERVED), 1);
    }
}
