//! Variables of scripts: a short text does not expand without bound.

use weir_rules::script::{Parsed, parse};
use weir_rules::{Code, NoFiles};

/// A script with a variable `f` of about 900,000 bytes, which repeats `unit`, and these lines.
fn script(unit: &str, lines: impl Iterator<Item = String>) -> Parsed {
    let ten = |to, from: &str| format!("{to}=\"{}\"\n", format!("${from}").repeat(10));
    let mut text = format!("a=\"{}\"\n", unit.repeat(100 / unit.len()));
    text += &[ten("b", "a"), ten("c", "b"), ten("d", "c"), format!("f=\"{}\"\n", "$d".repeat(9))]
        .concat();
    text.extend(lines.map(|line| line + "\n"));
    parse(&text, "script", &NoFiles)
}

fn messages(parsed: &Parsed) -> Vec<(Code, String)> {
    parsed.diagnostics.iter().map(|found| (found.code, found.message.clone())).collect()
}

fn assert_refused(parsed: &Parsed, bound: &str) {
    let found = messages(parsed);
    let first = found.first().unwrap_or_else(|| panic!("nothing is refused"));
    assert!(first.0 == Code::TooMuch && first.1.contains(bound), "{first:?}");
}

#[test]
fn copies_of_a_long_variable_are_refused() {
    assert_refused(&script("0123456789", (0..500).map(|n| format!("v{n}=$f"))), "1048576 bytes");
}

#[test]
fn a_long_variable_in_every_line_is_refused() {
    let lines = (0..100).map(|n| format!("add {} allow ip from any to any // $f", n + 1));
    assert!(!script("0123456789", lines).diagnostics.has_errors(), "comments are not expanded");
    let lines = (0..100).map(|n| format!("add {} allow ip from ${{f}}10.0.0.1 to any", n + 1));
    assert_refused(&script("10.0.0.1,", lines), "4194304 bytes");
}

#[test]
fn a_word_of_many_variables_is_refused_before_it_is_built() {
    assert_refused(
        &script("0123456789", [format!("x=\"{}\"", "$f".repeat(1000))].into_iter()),
        "4194304 bytes",
    );
}

#[test]
fn the_words_of_a_line_are_bounded() {
    assert_refused(&script("a ", ["add $f".to_owned()].into_iter()), "65536 words");
    let many = format!("add allow {}", "a ".repeat(70_000));
    assert_refused(&parse(&many, "script", &NoFiles), "65536 words");
}

#[test]
fn the_number_of_variables_is_bounded() {
    let text: String = (0..2000).map(|n| format!("v{n}=1\n")).collect();
    assert_refused(&parse(&text, "script", &NoFiles), "1000 variables");
}

#[test]
fn a_long_script_may_use_its_variables_in_every_line() {
    let head = "fwcmd=\"/sbin/ipfw -q\"\nnet=\"10.0.0.0/8,192.168.0.0/16,172.16.0.0/12\"\n";
    let line = "${fwcmd} add allow ip from ${net} to ${net} out\n";
    let parsed = parse(&(head.to_owned() + &line.repeat(60_000)), "script", &NoFiles);
    assert_eq!(messages(&parsed), []);
    assert_eq!(parsed.commands.len(), 60_000);
}
