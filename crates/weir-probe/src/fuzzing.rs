//! Entry points of the fuzz targets to private parsers of the kernel's answers.

/// Parses a datagram of the kernel as a list of disciplines, and returns their number.
pub fn queue_answers(bytes: &[u8]) -> usize {
    crate::netlink::count_answers(bytes)
}
