//! Link specifications and the files that they name: no text makes the parser panic, and each
//! printed specification parses to the same specification.

use weir_rules::{canonical, check_spec, parse_spec};

use super::parts;

/// The bytes are a specification and the content of the files `f`, `f.csv` and `f.dist`.
pub fn run(data: &[u8]) {
    let Some(([text, content], _)) = parts::split(data) else { return };
    let files = parts::files(content);
    let checked = check_spec(text, &files);
    let _ = checked.diagnostics.render(false);
    if let Some(spec) = checked.spec {
        let printed = canonical(&spec);
        match parse_spec(&printed, &files) {
            Ok(again) => assert_eq!(again, spec, "{printed}"),
            Err(error) => panic!("{printed}\n{error}"),
        }
    }
    // Call the parsers of files directly, so that the fuzzer reaches them without finding their
    // keywords first.
    let _ = weir_rules::profile::parse(content, "f");
    let _ = weir_rules::trace::parse_csv(content, "f", true);
    let _ = weir_rules::trace::parse_mahimahi(content, "f");
    let _ = weir_rules::dist::parse(content, "f");
}
