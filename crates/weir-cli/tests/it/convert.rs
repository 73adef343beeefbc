//! Tests `weir convert` as a user runs it: its output passes `weir check`, and wrong inputs are
//! refused.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn weir(words: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("weir can be started");
    // The command may end before it has read everything.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("weir ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn example(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/convert");
    path.join(name).display().to_string()
}

#[test]
fn a_converted_network_passes_the_check() {
    let directory = std::env::temp_dir().join(format!("weir-convert-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let scenario = directory.join("net.toml").display().to_string();
    for (tool, name, links) in [("mininet", "script.py", 4), ("mininet", "network.mn", 2)] {
        let printed = weir(&["convert", tool, &example(name)], b"");
        assert!(printed.status.success(), "{name}: {}", text(&printed.stderr));
        // The simulator cannot run the programs of nodes.
        let plain: String = text(&printed.stdout)
            .lines()
            .filter(|line| !line.starts_with("command = "))
            .flat_map(|line| [line, "\n"])
            .collect();
        std::fs::write(&scenario, &plain).expect("a file");
        let checked = weir(&["check", &scenario], b"");
        let said = text(&checked.stdout) + &text(&checked.stderr);
        assert!(checked.status.success(), "{name}: {said}\n{plain}");
        assert_eq!(said.matches("\nlink ").count(), 2 * links, "{name}: {said}");
        let written = weir(&["convert", tool, &example(name), "-o", &scenario], b"");
        assert!(written.status.success() && written.stdout.is_empty(), "{name}");
        assert_eq!(std::fs::read(&scenario).expect("the scenario"), printed.stdout, "{name}");
    }
    std::fs::remove_dir_all(directory).expect("the directory can be removed");
}

#[test]
fn standard_input_is_read() {
    let clab = std::fs::read(example("topology.clab.yml")).expect("the example");
    let done = weir(&["convert", "containerlab", "-"], &clab);
    let scenario = text(&done.stdout);
    assert!(scenario.starts_with("# Converted from -.\n"), "{scenario}");
    assert_eq!(scenario.matches("\n[[node]]\n").count(), 4, "{scenario}");
}

#[test]
fn what_cannot_be_converted_is_refused_with_the_reason() {
    let large = vec![b'a'; (1 << 20) + 1];
    for (tool, input, part) in [
        ("containerlab", &b"a: ["[..], "line 2: "),
        ("containerlab", b"services: {}", "is it one of Containerlab?"),
        ("containerlab", &large, "more than 1024 KiB"),
        ("mininet", &large, "more than 1024 KiB"),
        ("mininet", b"{}", "is it one of MiniEdit?"),
        ("mininet", b"print(1)", "without executing"),
        ("mininet", b"\xff", "cannot read it"),
    ] {
        let done = weir(&["convert", tool, "-"], input);
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{tool}: {said}");
        assert!(said.contains(part), "{tool}: {part}: {said}");
    }
    let mut bomb = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n".to_owned();
    for level in 1..9 {
        let below = vec![format!("*a{}", level - 1); 10].join(",");
        bomb += &format!("a{level}: &a{level} [{below}]\n");
    }
    let bomb = weir(&["convert", "containerlab", "-"], bomb.as_bytes());
    assert!(text(&bomb.stderr).contains("more than 200000 values"), "{bomb:?}");
    let missing = weir(&["convert", "mininet", "/no/such/file"], b"");
    assert!(text(&missing.stderr).contains("/no/such/file: cannot read it"), "{missing:?}");
}
