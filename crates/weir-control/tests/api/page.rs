//! Checks that the built files of the page are those of its source. `scripts/web test` compares
//! them byte by byte, but needs Node. This test compares the hash of the sources with the hash that
//! the build wrote into the page.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

#[test]
fn the_page_is_built_from_its_present_source() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = crates.parent().and_then(Path::parent).expect("the crate is in the workspace");
    let mut paths = Vec::new();
    collect(&root.join("web/src"), &mut paths);
    for path in [
        "web/build.mjs",
        "web/package.json",
        "web/package-lock.json",
        "crates/weir-report/src/html/report.css",
        "crates/weir-report/src/plot/plot.css",
    ] {
        paths.push(root.join(path));
    }
    let mut names: Vec<String> = Vec::new();
    for path in &paths {
        let name = path.strip_prefix(root).expect("every source is in the workspace");
        names.push(name.to_str().expect("names are ASCII").to_owned());
    }
    names.sort();
    let mut hash = Sha256::new();
    for name in &names {
        let content = fs::read(root.join(name)).expect("a source can be read");
        hash.update(format!("{name}\0{}\0", content.len()));
        hash.update(content);
    }
    let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let page = fs::read_to_string(crates.join("page/index.html")).expect("the page is in git");
    assert!(
        page.contains(&format!("<meta name=\"weir-sources\" content=\"{hash}\">")),
        "the page is not built from its present source; run web/build"
    );
}

fn collect(directory: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("the source of the page can be read") {
        let path = entry.expect("its entries can be read").path();
        if path.is_dir() {
            collect(&path, paths);
        } else {
            paths.push(path);
        }
    }
}
