//! Computes a fingerprint of the sources that decide the results of a simulation, so that two
//! builds of one version with different engines never share results.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

fn main() {
    let mut files = Vec::new();
    for name in CRATES {
        let source = Path::new("..").join(name).join("src");
        println!("cargo:rerun-if-changed={}", source.display());
        collect(&source, &mut files);
    }
    for name in OWN {
        println!("cargo:rerun-if-changed=src/{name}");
        files.push(Path::new("src").join(name));
    }
    files.sort();
    let mut hash = Sha256::new();
    for file in &files {
        let content = fs::read(file).unwrap_or_default();
        // The lengths say where each name and each content ends.
        let name = file.to_string_lossy();
        hash.update(format!("{} {name} {} ", name.len(), content.len()));
        hash.update(&content);
    }
    let digits: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("cargo:rustc-env=WEIR_ENGINE={}", &digits[..12]);
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}

/// The crates that determine the content of a run's files.
const CRATES: [&str; 5] = ["weir-core", "weir-measure", "weir-report", "weir-rules", "weir-sim"];
/// The files of this crate that also determine the content of a run's files.
const OWN: [&str; 3] = ["canonical.rs", "key.rs", "work.rs"];
