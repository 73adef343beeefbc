//! Checks the documentation: the commands and options in it exist, its link specifications can be
//! parsed, the files to which it links exist, the reference of results is up to date, and each
//! entry of the gallery has a picture.
//!
//! The checked documents are docs/*.md, README.md, CONTRIBUTING.md, CHANGELOG.md and SECURITY.md.
//! Commands are taken from fenced `sh` blocks and from code spans that begin with `weir `.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use weir_rules::{Files, parse_spec, presets};

/// Replaces the traces and tables that examples name. The extension of the name selects the
/// content.
struct ExampleFiles;

impl Files for ExampleFiles {
    fn read(&self, path: &str) -> std::io::Result<String> {
        Ok(match path.rsplit('.').next() {
            Some("csv") => "time,rate\n0,1000000\n1,2000000\n".to_owned(),
            Some("dist") => "-100 0 100\n".repeat(20),
            _ => "1\n2\n3\n".to_owned(),
        })
    }
}

#[test]
fn link_specifications_in_the_documentation_parse() {
    let mut seen = 0;
    for (place, words) in commands() {
        for pair in words.windows(2).take_while(|pair| pair[0] != "--") {
            if matches!(pair[0].as_str(), "--up" | "--down" | "--link") && !is_placeholder(&pair[1])
            {
                let result = parse_spec(&pair[1], &ExampleFiles);
                assert!(
                    result.is_ok(),
                    "{place}: '{}' does not parse: {:?}",
                    pair[1],
                    result.err()
                );
                seen += 1;
            }
            if pair[0] == "--preset" && !is_placeholder(&pair[1]) {
                assert!(presets::preset(&pair[1]).is_ok(), "{place}: no preset '{}'", pair[1]);
                seen += 1;
            }
        }
    }
    assert!(seen > 10, "only {seen} specifications were found: the search is broken");
}

#[test]
fn the_reference_of_results_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let (start, _) = page.split_once(REFERENCE).expect("the page has a mark before the reference");
    let expected = format!(
        "{start}{REFERENCE}{}",
        crate::schema::printed(&["schema", "results", "--markdown"])
    );
    if std::env::var_os("WEIR_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).expect("the page can be written");
    } else {
        assert!(
            page == expected,
            "{} is out of date: run WEIR_UPDATE_DOCS=1 cargo test -p weir-cli --test it reference",
            path.display()
        );
    }
}

#[test]
fn commands_and_options_in_the_documentation_exist() {
    let mut help_of: BTreeMap<String, String> = BTreeMap::new();
    for (place, words) in commands() {
        let Some(name) =
            words.get(1).filter(|word| word.starts_with(|first: char| first.is_ascii_lowercase()))
        else {
            continue;
        };
        let mut allowed = help_of
            .entry(name.clone())
            .or_insert_with(|| {
                help(&[name])
                    .unwrap_or_else(|| panic!("{place}: there is no command 'weir {name}'"))
            })
            .clone();
        // A subcommand has further options.
        if let Some(inner) = words.get(2).filter(|inner| allowed.contains(&format!("\n  {inner} ")))
        {
            allowed += help_of
                .entry(format!("{name} {inner}"))
                .or_insert_with(|| help(&[name, inner]).unwrap_or_default())
                .as_str();
        }
        for option in
            words.iter().take_while(|word| *word != "--").filter(|word| word.starts_with("--"))
        {
            let option = option.split('=').next().unwrap_or(option);
            assert!(allowed.contains(option), "{place}: 'weir {name}' has no option {option}");
        }
    }
    assert!(help_of.len() >= 4, "only {:?} were found: the search is broken", help_of.keys());
}

/// The output of a command with `--help`, if the command exists.
fn help(command: &[&str]) -> Option<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(command)
        .arg("--help")
        .output()
        .expect("weir can be started");
    output.status.success().then(|| String::from_utf8(output.stdout).expect("help is text"))
}

#[test]
fn files_named_by_the_documentation_exist() {
    for path in documents() {
        let text = std::fs::read_to_string(&path).expect("a document is readable");
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = target.split('#').next().unwrap_or("");
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let file = path.parent().expect("a document has a directory").join(target);
            assert!(file.exists(), "{}: the link to {target} leads nowhere", path.display());
        }
    }
}

#[test]
fn words_are_split_as_a_shell_does() {
    assert_eq!(
        split("weir run --link 'bw 1M delay 2' -- a"),
        ["weir", "run", "--link", "bw 1M delay 2", "--", "a"]
    );
    assert_eq!(split("weir x \"a b\"   # why"), ["weir", "x", "a b"]);
    assert_eq!(split("a ''"), ["a", ""]);
}

/// Every `weir …` command of the documents, as words, with the place where it occurs.
fn commands() -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for path in documents() {
        let text = std::fs::read_to_string(&path).expect("a document is readable");
        let mut in_shell = false;
        for (number, line) in text.lines().enumerate() {
            let place = format!("{}:{}", path.display(), number + 1);
            if let Some(fence) = line.strip_prefix("```") {
                in_shell = fence.trim() == "sh";
            } else if in_shell {
                let start = line.strip_prefix("sudo ").unwrap_or(line);
                if start.starts_with("weir ") {
                    found.push((place, split(start)));
                }
            } else {
                // If a line is split at backticks, every second part is a code span.
                let spans =
                    line.split('`').skip(1).step_by(2).filter(|span| span.starts_with("weir "));
                found.extend(spans.map(|span| (place.clone(), split(span))));
            }
        }
    }
    found
}

#[test]
fn every_entry_of_the_gallery_has_a_picture() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let text = std::fs::read_to_string(docs.join("gallery.md")).unwrap();
    let entries: Vec<&str> = text.split("\n## ").skip(1).collect();
    assert!(entries.len() > 5);
    for entry in entries {
        let (_, link) = entry.split_once("](images/").expect("a picture below the command");
        let (name, _) = link.split_once(')').unwrap();
        assert!(docs.join("images").join(name).exists(), "{name}");
    }
}

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates/weir-cli is two levels down");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(root.join("docs"))
        .expect("there is a docs directory")
        .map(|entry| entry.expect("a directory entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    paths.extend(
        ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"].map(|name| root.join(name)),
    );
    paths.sort();
    paths
}

/// Whether a word is a placeholder for the reader's own value, such as `SPEC` or `…`.
fn is_placeholder(word: &str) -> bool {
    word.contains('…') || word.chars().all(|letter| letter.is_ascii_uppercase()) && !word.is_empty()
}

/// Splits a command line into words: blanks separate them, quotes of either kind group them, and
/// ` #` begins a comment.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// The line before the generated part of `docs/results.md`.
const REFERENCE: &str = "<!-- Generated from the code by WEIR_UPDATE_DOCS=1 cargo test -p weir-cli \
    --test it reference; do not edit below. -->\n\n";
