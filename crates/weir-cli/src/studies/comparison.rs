//! Compares two results, in the process of a study.

use std::os::unix::net::UnixStream;

use serde_json::json;
use weir_report::sim::{Summary, compare as compared};

use super::messages::{self, RESULTS};
use crate::compare::{blocks, heads, remark, text};

/// Sends the comparison that `weir compare` makes of two results.
pub(super) fn compare(request: &[Vec<u8>], stream: &UnixStream) -> Result<(), String> {
    let [left, right] = request else { return Err("two results are compared".to_owned()) };
    let read = |bytes: &[u8]| {
        let value = serde_json::from_slice(bytes).ok();
        value.and_then(|value| Summary::of(&value)).ok_or("this result cannot be compared")
    };
    let comparison = compared(&read(left)?, &read(right)?);
    let answer = json!({
        "sides": heads(&comparison),
        "blocks": blocks(&comparison, false)
            .into_iter()
            .map(|(name, rows)| json!({"name": name, "rows": rows}))
            .collect::<Vec<_>>(),
        "only_left": comparison.only_left,
        "only_right": comparison.only_right,
        "remark": remark(&comparison),
        "text": text(&comparison, false),
        "comparison": comparison,
    });
    messages::send(stream, RESULTS, answer.to_string().as_bytes()).map_err(|e| e.to_string())
}
