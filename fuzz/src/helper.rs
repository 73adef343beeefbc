//! Messages between Weir's processes, and the frames that reach the proxy: no bytes make a reader
//! panic, and an accepted message stays the same when it is sent again.

use weir_linux::fuzzing::{helper_messages, opening_frame};

/// The bytes are read three times: as a message with its length, as the JSON of a message, and as a
/// frame.
pub fn run(data: &[u8]) {
    helper_messages(data);
    if let Ok(length) = u32::try_from(data.len()) {
        helper_messages(&[&length.to_le_bytes(), data].concat());
    }
    opening_frame(data);
}
