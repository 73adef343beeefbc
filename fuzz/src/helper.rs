//! Messages between Weir's processes, and the frames that reach the proxy: no bytes make a reader
//! panic, and an accepted message stays the same when it is sent on.

use weir_linux::fuzzing::{helper_messages, opening_frame};

/// The bytes are a message with its length, the JSON of a message, and a frame.
pub fn run(data: &[u8]) {
    helper_messages(data);
    if let Ok(length) = u32::try_from(data.len()) {
        helper_messages(&[&length.to_le_bytes(), data].concat());
    }
    opening_frame(data);
}
