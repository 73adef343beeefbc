//! When a user runs Weir with a text from another person, the text cannot make Weir show the
//! content of files outside the text's directory.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs `weir` in `directory`. Returns all that it prints.
fn weir(directory: &Path, args: &[&str]) -> String {
    let done = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(args)
        .current_dir(directory)
        .output()
        .expect("weir can be started");
    let text = [done.stdout, done.stderr].concat();
    String::from_utf8(text).expect("the output is text")
}

/// A new directory with a file `secret` and a directory `below` for the scripts of another person.
fn workspace(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("weir-untrusted-{}-{name}", std::process::id()));
    fs::create_dir_all(dir.join("below/deeper")).expect("a directory can be made");
    fs::write(dir.join("secret"), "root:pass0phrase:19000:0\n").expect("a file can be written");
    dir
}

#[test]
fn errors_do_not_quote_files_outside_the_directory_of_the_script() {
    let dir = workspace("elsewhere");
    let secret = dir.join("secret").display().to_string();
    let below = dir.join("below");
    symlink(&secret, below.join("link")).expect("a link can be made");
    for word in ["profile", "trace", "schedule"] {
        for name in [secret.as_str(), "../secret", "link"] {
            let script = format!("pipe 1 config bw 1Mbit/s\npipe 1 config {word} {name}\n");
            fs::write(below.join("script"), script).expect("a script can be written");
            for args in [
                &["check", "script"][..],
                &["check", "--json", "script"],
                &["fmt", "script"],
                &["run", "--rules", "script", "--", "true"],
                &["apply", "--dry-run", "script"],
            ] {
                let said = weir(&below, args);
                assert!(!said.contains("pass0phrase"), "{args:?} {word} {name}: {said}");
            }
            // The error has the number of the wrong line of the secret file, but not its text.
            let said = weir(&below, &["check", "script"]);
            assert!(said.contains("line 1") && said.contains("not shown"), "{said}");
        }
    }
    let scenario = format!("[[link]]\nfrom = \"a\"\nto = \"b\"\nspec = \"profile {secret}\"\n");
    fs::write(below.join("s.toml"), scenario).expect("a scenario can be written");
    let said = weir(&below, &["check", "s.toml"]);
    assert!(!said.contains("pass0phrase"), "{said}");
    fs::remove_dir_all(dir).expect("the directory can be removed");
}

#[test]
fn errors_quote_files_in_the_directory_of_the_script_and_on_the_command_line() {
    let dir = workspace("below");
    let below = dir.join("below");
    fs::write(below.join("deeper/p"), "name x\nnonsense here\n").expect("a file can be written");
    fs::write(below.join("script"), "pipe 1 config profile deeper/p\n").expect("a script");
    assert!(weir(&below, &["check", "script"]).contains("nonsense here"));
    let from_above = weir(&dir, &["check", "below/script"]);
    assert!(
        from_above.contains("nonsense here"),
        "the file is looked up in the directory of the script: {from_above}"
    );
    let secret = dir.join("secret").display().to_string();
    assert!(weir(&below, &["check", &format!("profile {secret}")]).contains("pass0phrase"));
    // As root, a file that only root may read is not quoted, wherever it is.
    if rustix::process::geteuid().is_root() {
        let path = below.join("deeper/p");
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("a mode can be set");
        let said = weir(&below, &["check", "script"]);
        assert!(!said.contains("nonsense") && said.contains("line 2"), "{said}");
    }
    fs::remove_dir_all(dir).expect("the directory can be removed");
}
