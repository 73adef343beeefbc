//! Checks that the references in `docs/` match the tables; `WEIR_UPDATE_DOCS=1` rewrites them.

use std::path::Path;

#[test]
fn the_references_are_up_to_date() {
    compare("link-spec.md", &weir_rules::docs::reference());
    compare("rules.md", &weir_rules::script::docs::reference());
}

fn compare(file: &str, reference: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file);
    if std::env::var_os("WEIR_UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, reference).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == reference,
        "{} is out of date: run WEIR_UPDATE_DOCS=1 cargo test -p weir-rules",
        path.display()
    );
}
