//! Enforces the structure of the workspace: which crate may use which crates, which file may import
//! which files, where `unsafe` is allowed, which crates need no `std`, clock or I/O, where the live
//! loop is started, and which libraries have documentation tests.
//!
//! The layers are those of `docs/architecture.md`, and also include `weir-load` of `bench/load`. A
//! new crate must be added to the layers here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::imports;

/// Crates by layer, lowest first. A crate uses only crates of lower layers, none of its own layer
/// and none of a higher one.
const LAYERS: &[&[&str]] = &[
    &["weir-measure"],
    &["weir-core"],
    &["weir-wire"],
    &["weir-rules"],
    &["weir-control", "weir-linux", "weir-sim", "weir-rig"],
    // weir-probe reads the kernel's queues; it enters namespaces and queries the kernel through
    // weir-linux. weir-attach redirects the packets of running processes through a link, with
    // programs that it loads into the kernel.
    &["weir-attach", "weir-probe"],
    // weir-report uses the types of the drivers' measurements; no driver uses weir-report.
    // weir-traffic, the traffic generator, sends the traffic of the simulator's sources.
    &["weir-report", "weir-traffic"],
    // weir-live combines the layers below into live links, and weir-campaign into stores of runs.
    // Above them are repeated experiments, watches of queues, and the traffic generator's command
    // line for tests and benches.
    &["weir-campaign", "weir-live"],
    &["weir-experiments", "weir-watch", "weir-load"],
    // The crates that users call: the command, and the compiled part of the Python package.
    &["weir-cli", "weir-python"],
];

/// Crates that are built without `std`, because they must not need an operating system.
const NO_STD: &[&str] = &["weir-measure", "weir-core", "weir-wire"];

/// Crates that must not read a clock, wait, or perform I/O. They receive the time as an argument.
const SANS_IO: &[&str] = &["weir-measure", "weir-core", "weir-wire", "weir-rules"];

/// The only places with `unsafe` code: system calls, and a prefetch hint.
const UNSAFE_HOMES: [&str; 2] = ["weir-linux/src/sys/", "weir-core/src/prefetch.rs"];

/// Files that contain a table, in which each row comes from a file beside or below the table's
/// file. A row needs the types of the table, and the table names each row, so that the two files
/// import each other. This is allowed.
const TABLES: &[(&str, &str)] = &[
    ("weir-core/src/aqm/mod.rs", "the table of AQMs"),
    ("weir-core/src/sched/mod.rs", "the table of schedulers"),
    ("weir-sim/src/switch/rank/mod.rs", "the table of programs that rank packets"),
    ("weir-sim/src/tcp/cc/mod.rs", "the table of congestion controls"),
];

#[test]
fn files_import_one_another_in_one_direction() {
    for package in packages() {
        let name = package["name"].as_str().expect("a package has a name");
        let manifest = package["manifest_path"].as_str().expect("a manifest path");
        let src = Path::new(manifest).with_file_name("src");
        let below = |path: &Path| path.strip_prefix(&src).map(|p| p.to_string_lossy().into_owned());
        let texts = sources(&src)
            .into_iter()
            .map(|(path, text)| (below(&path).expect("it is below src"), text))
            .collect();
        let mut imports = imports::read(&texts);
        for (table, _) in TABLES {
            let Some(table) = table.strip_prefix(&format!("{name}/src/")) else { continue };
            let rows = table.strip_suffix("mod.rs").expect("a table is in a mod.rs");
            let edges = imports.get_mut(table).expect("a table of TABLES exists");
            edges.retain(|file| !file.starts_with(rows));
        }
        let circles = imports::circles(&imports);
        assert!(circles.is_empty(), "files of {name} import one another in circles: {circles:?}");
    }
}

#[test]
fn crates_use_only_lower_layers() {
    let layer_of: BTreeMap<&str, usize> = LAYERS
        .iter()
        .enumerate()
        .flat_map(|(layer, names)| names.iter().map(move |name| (*name, layer)))
        .collect();
    let packages = packages();
    for name in layer_of.keys() {
        assert!(
            packages.iter().any(|package| package["name"] == *name),
            "LAYERS names {name}, which is no crate of this workspace"
        );
    }
    let mut edges = 0;
    for package in packages {
        let name = package["name"].as_str().expect("a package has a name");
        let layer = *layer_of.get(name).unwrap_or_else(|| {
            panic!("{name} has no layer: put it into LAYERS and docs/architecture.md")
        });
        for dependency in
            package["dependencies"].as_array().expect("a package lists its dependencies")
        {
            let used = dependency["name"].as_str().expect("a dependency has a name");
            // The tests of a crate may use the crate itself, to enable a feature.
            if !used.starts_with("weir-") || used == name {
                continue;
            }
            edges += 1;
            let below = layer_of
                .get(used)
                .unwrap_or_else(|| panic!("{name} uses {used}, which has no layer"));
            assert!(*below < layer, "{name} (layer {layer}) must not use {used} (layer {below})");
        }
    }
    assert!(
        edges > 0,
        "no dependency between our crates was found: this test cannot read the metadata"
    );
}

#[test]
fn engine_and_wire_need_no_std() {
    for name in NO_STD {
        let root = std::fs::read_to_string(crate_dir(name).join("src/lib.rs"))
            .expect("the crate has a lib.rs");
        assert!(
            root.lines().any(|line| line.starts_with("#![") && line.contains("no_std")),
            "{name} must be #![no_std]"
        );
        assert!(
            !root.lines().any(|line| line.trim() == "extern crate std;"),
            "{name} brings std back"
        );
    }
}

#[test]
fn only_sessions_start_the_live_loop() {
    let crates = workspace().join("crates");
    // The examples and tests of weir-linux drive the loop without a session.
    let linux = crates.join("weir-linux");
    let starts: Vec<PathBuf> = sources(&crates)
        .into_iter()
        .filter(|(path, _)| !path.starts_with(&linux))
        .filter(|(_, text)| code_lines(text).any(|(_, line)| line.contains("Live::new(")))
        .map(|(path, _)| path)
        .collect();
    assert!(
        starts.len() == 1 && starts[0].ends_with("weir-live/src/session/mod.rs"),
        "the live loop is started in {starts:?}: build a weir_live::LiveSession instead"
    );
}

#[test]
fn deciding_crates_have_no_clock_thread_or_io() {
    let forbidden = [
        "std::time::",
        "std::thread",
        "std::fs",
        "TcpStream",
        "TcpListener",
        "UdpSocket",
        "ToSocketAddrs",
        "std::process",
        "std::env",
        "std::io::std",
        "println!",
        "Instant::now",
        "SystemTime",
        "File::open",
    ];
    for name in SANS_IO {
        for (path, text) in sources(&crate_dir(name).join("src")) {
            for (number, line) in code_lines(&text) {
                let found = forbidden.iter().find(|word| line.contains(**word));
                assert!(
                    found.is_none(),
                    "{}:{number}: {} in a crate that may not do I/O or read a clock",
                    path.display(),
                    found.unwrap_or(&"")
                );
            }
        }
    }
}

#[test]
fn libraries_without_examples_skip_documentation_tests() {
    // Cargo searches each library for examples, which takes seconds, so a library without examples
    // must say so.
    for package in packages() {
        let targets = package["targets"].as_array().expect("a package has targets");
        let Some(library) = targets.iter().find(|target| target["kind"][0] == "lib") else {
            continue;
        };
        let (name, root) = (&package["name"], library["src_path"].as_str().expect("a path"));
        let src = Path::new(root).parent().expect("a directory");
        let examples: Vec<String> = sources(src)
            .iter()
            .filter_map(|(path, text)| {
                example(text).map(|line| format!("{}:{line}", path.display()))
            })
            .collect();
        assert_eq!(
            library["doctest"] == true,
            !examples.is_empty(),
            "{name}: `doctest = false` belongs into the manifest of a library without examples, \
             and into no other; examples: {examples:?}"
        );
    }
}

#[test]
fn the_search_for_examples_sees_code_and_not_drawings() {
    for text in [
        "/// ```\n/// f();\n/// ```\n",
        "//! ```no_run\n",
        "    /// ~~~ compile_fail\n",
        "/// ```text\n/// a\n/// ```\n///\n/// ```rust\n",
        "/// Words.\n///\n///     f();\n",
        "#![doc = include_str!(\"a.md\")]\n",
    ] {
        assert!(example(text).is_some(), "{text}");
    }
    for text in [
        "/// ```text\n///\n///     a\n/// ```\n",
        "// ```\n",
        "/// - one item\n///   goes on\n",
        "let a = \"```\";\n",
    ] {
        assert_eq!(example(text), None, "{text}");
    }
}

#[test]
fn unsafe_code_is_only_in_the_listed_places() {
    let mut seen_at_home = false;
    for package in packages() {
        let dir = PathBuf::from(package["manifest_path"].as_str().expect("a manifest path"))
            .parent()
            .expect("a directory")
            .to_owned();
        let manifest =
            std::fs::read_to_string(dir.join("Cargo.toml")).expect("the manifest is readable");
        assert!(
            manifest.contains("[lints]\nworkspace = true"),
            "{}: the workspace's lints (unsafe_code among them) must apply",
            dir.display()
        );
        for (path, text) in sources(&dir) {
            let home = UNSAFE_HOMES.iter().any(|home| path.to_string_lossy().contains(home));
            for (number, line) in text.lines().enumerate().filter(|(_, line)| opens_unsafe(line)) {
                seen_at_home |= home;
                assert!(
                    home,
                    "{}:{}: unsafe outside {UNSAFE_HOMES:?}: {}",
                    path.display(),
                    number + 1,
                    line.trim()
                );
            }
        }
    }
    assert!(
        seen_at_home || !crate_dir("weir-linux").join("src/sys/packet.rs").exists(),
        "system calls without unsafe: the search is broken"
    );
}

#[test]
fn the_search_for_unsafe_sees_code_and_not_words() {
    assert!(opens_unsafe("    let n = unsafe { read(fd) };"));
    assert!(opens_unsafe("pub unsafe fn map() {"));
    assert!(opens_unsafe("#![expect(unsafe_code, reason = \"system calls\")]"));
    assert!(!opens_unsafe("// unsafe { not code }"));
    assert!(!opens_unsafe("/// Why `unsafe fn` is avoided."));
    assert!(!opens_unsafe("let not_unsafe = 1;"));
}

/// The packages of this workspace, in the form of `cargo metadata`.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"])
        .arg(workspace().join("Cargo.toml"))
        .output()
        .expect("cargo can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value =
        serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    metadata["packages"].as_array().expect("a list of packages").clone()
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates/weir-cli is two levels down")
        .to_owned()
}

fn crate_dir(name: &str) -> PathBuf {
    workspace().join("crates").join(name)
}

/// Every Rust file under `dir` with its text, in a stable order, except this file, which contains
/// the searched words.
fn sources(dir: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).expect("the directory is readable") {
            let path = entry.expect("a directory entry").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !path.ends_with("tests/it/architecture.rs")
            {
                let text = std::fs::read_to_string(&path).expect("a source file is readable");
                found.push((path, text));
            }
        }
    }
    found.sort();
    found
}

/// The numbered lines of a file, without comments and without unit tests, which are not restricted.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .take_while(|line| !line.starts_with("mod tests"))
        .enumerate()
        .map(|(index, line)| (index + 1, line.split("//").next().unwrap_or("")))
}

/// The line number of the first example in the documentation of a file, if there is one. An example
/// is a block of code. Documentation from another file or in a block comment counts as an example
/// without being read.
fn example(text: &str) -> Option<usize> {
    let (mut is_fenced, mut follows_empty) = (false, false);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if line.contains("doc = include_str!") || line.starts_with("/**") || line.starts_with("/*!")
        {
            return Some(index + 1);
        }
        let Some(words) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            (is_fenced, follows_empty) = (false, true);
            continue;
        };
        let mark = ["```", "~~~"].iter().find_map(|mark| words.trim_start().strip_prefix(mark));
        if let Some(kind) = mark {
            if !is_fenced && !kind.trim().starts_with("text") {
                return Some(index + 1);
            }
            is_fenced = !is_fenced;
        } else if !is_fenced && follows_empty && words.starts_with("     ") {
            return Some(index + 1);
        }
        follows_empty = words.trim().is_empty();
    }
    None
}

/// Whether a line contains the keyword `unsafe`, or disables the lint against it, outside a line
/// comment.
fn opens_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or("");
    let lifts =
        (code.contains("expect(") || code.contains("allow(")) && code.contains("unsafe_code");
    let keyword =
        ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe trait", "unsafe("]
            .iter()
            .any(|form| {
                code.match_indices(form).any(|(at, _)| {
                    !code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_')
                })
            });
    lifts || keyword
}
