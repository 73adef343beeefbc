//! Embeds the files of the web page: every file below `page/`, plain and compressed, with its type
//! and a hash of its content. The page's own build writes these files; this build script needs no
//! other program.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

fn main() {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("page");
    let out = PathBuf::from(variable("OUT_DIR"));
    println!("cargo::rerun-if-changed={}", root.display());
    let mut paths = Vec::new();
    collect(&root, &mut paths);
    paths.sort();
    let mut table = String::from("&[\n");
    for (index, path) in paths.iter().enumerate() {
        let content = fs::read(path).expect("a file of the page can be read");
        let name = path.strip_prefix(&root).expect("it is below the root").to_string_lossy();
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&content).expect("writing to memory works");
        let packed = packed.finish().expect("writing to memory works");
        let packed_path = out.join(format!("{index}.gz"));
        fs::write(&packed_path, packed).expect("the output directory can be written");
        let hash: String =
            Sha256::digest(&content).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let kind = kind(path);
        writeln!(
            table,
            "File {{ path: {name:?}, kind: {kind:?}, hash: {hash:?}, plain: include_bytes!({:?}), \
             packed: include_bytes!({:?}) }},",
            path.display().to_string(),
            packed_path.display().to_string(),
        )
        .expect("writing to a string works");
    }
    table.push_str("]\n");
    fs::write(out.join("page.rs"), table).expect("the output directory can be written");
}

fn variable(name: &str) -> String {
    env::var(name).expect("cargo sets it")
}

fn collect(directory: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("the directory of the page can be read") {
        let path = entry.expect("its entries can be read").path();
        if path.is_dir() {
            collect(&path, paths);
        } else {
            paths.push(path);
        }
    }
}

fn kind(path: &Path) -> &'static str {
    match path.extension().and_then(|ending| ending.to_str()).unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "woff2" => "font/woff2",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
