//! Link specifications and the files they name: no text makes the parser panic, and printed
//! specifications parse to themselves.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use weir_rules::{canonical, check_spec, parse_spec};

fuzz_target!(|data: (&str, &str)| {
    let (text, content) = data;
    let names = ["f", "f.csv", "f.dist"];
    let files: BTreeMap<String, String> =
        names.iter().map(|name| ((*name).to_owned(), content.to_owned())).collect();
    let checked = check_spec(text, &files);
    let _ = checked.diagnostics.render(false);
    if let Some(spec) = checked.spec {
        let printed = canonical(&spec);
        match parse_spec(&printed, &files) {
            Ok(again) => assert_eq!(again, spec, "{printed}"),
            Err(error) => panic!("{printed}\n{error}"),
        }
    }
    // Call the file parsers directly, so that the search does not depend on finding their keywords.
    let _ = weir_rules::profile::parse(content, "f");
    let _ = weir_rules::trace::parse_csv(content, "f", true);
    let _ = weir_rules::trace::parse_mahimahi(content, "f");
    let _ = weir_rules::dist::parse(content, "f");
});
