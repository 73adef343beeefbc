//! Runs the Markdown files in `spec/`.
//!
//! A fenced block `spec` contains a specification, a block `script` contains a script. A line `---`
//! and the expected outcome follow: the canonical form, with `= ` before each line, then the
//! diagnostics. Blocks `file NAME` are files that specifications and scripts may name. A script
//! with the first line `# checked` is also checked as a whole. The words `SCHEDULERS`, `AQMS`,
//! `KEYWORDS` and `QUEUE-KEYWORDS` replace the lists of all schedulers, AQMs, keywords of a link
//! and keywords of a queue, so that a new entry in one of these lists changes no case.
//!
//! `WEIR_UPDATE_SPEC=1` rewrites the outcomes; read the difference before you commit it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use weir_rules::{Code, canonical, check_spec, keyword, script};

/// A fenced block, or the text between two blocks.
enum Part {
    Text(String),
    Block { info: String, body: String },
}

#[test]
fn every_case_has_the_outcome_in_its_file() {
    let update = std::env::var_os("WEIR_UPDATE_SPEC").is_some();
    let mut failures = String::new();
    let mut cases = 0;
    for path in documents() {
        let text = std::fs::read_to_string(&path).unwrap();
        let parts = split(&text);
        let files = files(&parts);
        let mut rewritten = String::new();
        for part in &parts {
            match part {
                Part::Text(text) => rewritten.push_str(text),
                Part::Block { info, body } if info == "spec" || info == "script" => {
                    let (input, expected) = body.split_once("---\n").unwrap_or((body, ""));
                    let outcome = if info == "spec" {
                        outcome(input.trim_end_matches('\n'), &files)
                    } else {
                        script_outcome(input, &files)
                    };
                    cases += 1;
                    if outcome != expected {
                        write!(
                            failures,
                            "{}:\n{input}--- expected\n{expected}--- found\n{outcome}\n",
                            path.display()
                        )
                        .unwrap();
                    }
                    write!(rewritten, "```{info}\n{input}---\n{outcome}```\n").unwrap();
                }
                Part::Block { info, body } => write!(rewritten, "```{info}\n{body}```\n").unwrap(),
            }
        }
        if update {
            std::fs::write(&path, rewritten).unwrap();
        }
    }
    assert!(cases > 0, "no case found");
    assert!(
        update || failures.is_empty(),
        "{failures}\nset WEIR_UPDATE_SPEC=1 to rewrite the outcomes"
    );
}

#[test]
fn every_keyword_and_every_diagnostic_has_a_case() {
    if std::env::var_os("WEIR_UPDATE_SPEC").is_some() {
        // Another test rewrites the files at the same time.
        return;
    }
    let (mut inputs, mut outcomes) = (BTreeSet::new(), String::new());
    for path in documents() {
        for part in split(&std::fs::read_to_string(path).unwrap()) {
            if let Part::Block { info, body } = part
                && (info == "spec" || info == "script")
            {
                let (input, outcome) = body.split_once("---\n").unwrap();
                inputs.extend(input.split_whitespace().map(str::to_owned));
                outcomes.push_str(outcome);
            }
        }
    }
    let script = script::commands()
        .chain(script::actions())
        .chain(script::options())
        .flat_map(|entry| entry.words().collect::<Vec<_>>());
    let words = keyword::words().chain(script).chain(script::REFUSED.iter().map(|row| row.name));
    let missing: Vec<_> = words.filter(|word| !inputs.contains(*word)).collect();
    assert!(missing.is_empty(), "keywords without a case: {missing:?}");
    let missing: Vec<_> = Code::ALL
        .iter()
        // This warning is about scenarios, which the files do not contain.
        .filter(|code| **code != Code::LongRun)
        .map(|c| c.name())
        .filter(|name| !outcomes.contains(&format!("[{name}]")))
        .collect();
    assert!(missing.is_empty(), "diagnostics without a case: {missing:?}");
}

#[test]
fn a_file_name_with_a_control_character_is_refused_because_of_it() {
    for name in ["a\u{1b}[31mb", "a\tb"] {
        let text =
            check_spec(&format!("trace \"{name}\""), &weir_rules::NoFiles).diagnostics.to_string();
        assert!(text.contains("must not contain control characters"), "{text}");
    }
}

#[test]
fn examples_of_the_table_are_accepted() {
    let files: BTreeMap<String, String> = files(
        &documents()
            .iter()
            .flat_map(|p| split(&std::fs::read_to_string(p).unwrap()))
            .collect::<Vec<_>>(),
    );
    for row in keyword::TABLE.iter().filter(|row| !matches!(row.group, keyword::Group::Flow)) {
        let checked = check_spec(row.example, &files);
        assert!(checked.spec.is_some(), "{}: {}", row.name, checked.diagnostics);
    }
    for row in keyword::TABLE.iter().filter(|row| row.group == keyword::Group::Flow) {
        let parsed =
            script::parse(&format!("queue 1 config sched 1 {}", row.example), "rules", &files);
        assert!(!parsed.diagnostics.has_errors(), "{}: {}", row.name, parsed.diagnostics);
    }
}

fn outcome(input: &str, files: &BTreeMap<String, String>) -> String {
    let checked = check_spec(input, files);
    let mut out = String::new();
    if let Some(spec) = &checked.spec {
        let text = canonical(spec);
        writeln!(out, "{}", format!("= {text}").trim_end()).unwrap();
        assert_eq!(
            check_spec(&text, files).spec.as_ref(),
            Some(spec),
            "the canonical form reads back: {text}"
        );
    }
    for line in with_lists_named(&checked.diagnostics.to_string()).lines() {
        writeln!(out, "{}", line.trim_end()).unwrap();
    }
    out
}

fn script_outcome(text: &str, files: &BTreeMap<String, String>) -> String {
    let parsed = script::parse(text, "rules", files);
    let mut out = String::new();
    for command in &parsed.commands {
        writeln!(out, "= {}", script::print(&command.command)).unwrap();
    }
    let printed: Vec<String> = parsed.commands.iter().map(|c| script::print(&c.command)).collect();
    let again = script::parse(&printed.join("\n"), "again", files);
    assert!(
        again.commands.iter().map(|c| &c.command).eq(parsed.commands.iter().map(|c| &c.command)),
        "the canonical form reads back:\n{out}"
    );
    let mut diagnostics = parsed.diagnostics;
    // The check of a whole script requires that each line can be read.
    if !diagnostics.has_errors() && text.starts_with("# checked") {
        diagnostics.append(script::check(&parsed.commands, text, "rules"), |_| {});
    }
    for line in with_lists_named(&diagnostics.to_string()).lines() {
        writeln!(out, "{}", line.trim_end()).unwrap();
    }
    out
}

/// Replaces the lists of all schedulers, all AQMs, all keywords of a link and all keywords of a
/// queue by one word each.
fn with_lists_named(text: &str) -> String {
    let schedulers: Vec<_> = weir_core::sched::TABLE.iter().map(|row| row.name).collect();
    let aqms: Vec<_> = weir_core::aqm::TABLE.iter().map(|row| row.name).collect();
    let keywords = |object| -> Vec<_> {
        let rows = keyword::TABLE.iter().filter(|row| row.objects.contains(&object));
        rows.map(|row| row.name).collect()
    };
    [
        (schedulers, "SCHEDULERS"),
        (aqms, "AQMS"),
        (keywords(keyword::Object::Link), "KEYWORDS"),
        (keywords(keyword::Object::Queue), "QUEUE-KEYWORDS"),
    ]
    .into_iter()
    .fold(text.to_owned(), |text, (names, word)| text.replace(&names.join(", "), word))
}

fn documents() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("spec");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "md"));
    paths.sort();
    paths
}

fn files(parts: &[Part]) -> BTreeMap<String, String> {
    let named = parts.iter().filter_map(|part| match part {
        Part::Block { info, body } => Some((info.strip_prefix("file ")?.to_owned(), body.clone())),
        Part::Text(_) => None,
    });
    named.collect()
}

fn split(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut lines = text.split_inclusive('\n');
    while let Some(line) = lines.next() {
        if let Some(info) = line.strip_prefix("```") {
            let body = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            parts.push(Part::Block { info: info.trim().to_owned(), body });
        } else {
            parts.push(Part::Text(line.to_owned()));
        }
    }
    parts
}
