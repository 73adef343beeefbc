//! The schema that `weir schema results` prints, and the check of documents against it.

use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::check::assert_follows;

/// Parses the output of a command: a document, or a list of documents. Fails when a document does
/// not follow the schema of results.
pub(crate) fn document(bytes: &[u8]) -> Value {
    let text = String::from_utf8_lossy(bytes);
    let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_valid(&value);
    value
}

fn assert_valid(document: &Value) {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    let schema = SCHEMA.get_or_init(|| {
        let text = printed(&["schema", "results"]);
        serde_json::from_str(&text).expect("the schema is JSON")
    });
    assert_follows(schema, document);
}

/// The standard output of `weir` with these arguments.
pub(crate) fn printed(words: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_weir")).args(words).output().expect("weir can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}
