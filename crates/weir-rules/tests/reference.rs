//! The reference in `docs/link-spec.md` is what the tables say; `WEIR_UPDATE_DOCS=1` writes it anew.

use std::path::Path;

#[test]
fn the_reference_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/link-spec.md");
    let reference = weir_rules::docs::reference();
    if std::env::var_os("WEIR_UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &reference).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == reference, "{} is out of date: run WEIR_UPDATE_DOCS=1 cargo test -p weir-rules", path.display());
}
