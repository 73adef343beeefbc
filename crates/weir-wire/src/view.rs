//! Reads and writes big-endian fields. An access outside the bounds returns `None` instead of
//! panicking.

/// The `N` bytes at `at`.
#[inline(always)]
pub(crate) fn bytes<const N: usize>(frame: &[u8], at: usize) -> Option<[u8; N]> {
    frame.get(at..)?.first_chunk().copied()
}

/// The 16-bit field at `at`.
#[inline(always)]
pub(crate) fn u16_at(frame: &[u8], at: usize) -> Option<u16> {
    bytes(frame, at).map(u16::from_be_bytes)
}

/// The 32-bit field at `at`.
#[inline(always)]
pub(crate) fn u32_at(frame: &[u8], at: usize) -> Option<u32> {
    bytes(frame, at).map(u32::from_be_bytes)
}

/// Writes `value` at `at`; if the frame is too short, returns `None` and writes nothing.
#[inline(always)]
pub(crate) fn put<const N: usize>(frame: &mut [u8], at: usize, value: [u8; N]) -> Option<()> {
    *frame.get_mut(at..)?.first_chunk_mut()? = value;
    Some(())
}
