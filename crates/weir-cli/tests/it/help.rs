//! The command line as a newcomer sees it: help, suggestions, exit codes, completions.

use std::process::{Command, Output};

fn weir(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(words).output().expect("weir can be started")
}

fn stdout(words: &[&str]) -> String {
    let output = weir(words);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn help_that_cannot_be_written_is_a_failure() {
    for words in [&["--help"][..], &["--version"], &["help", "run"], &["run", "--help"]] {
        let full = std::fs::File::create("/dev/full").expect("Linux has this device");
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let output = command.args(words).stdout(full).output().expect("weir can be started");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{words:?}: {said}");
        assert!(said.contains("cannot write to standard output"), "{words:?}: {said}");
    }
}

#[test]
fn the_help_lists_commands_in_groups() {
    let help = stdout(&["--help"]);
    for part in [
        "\nEmulate networks:\n  run ",
        "\nCheck and look up:\n  check ",
        "\nConfigure a daemon, in the language of ipfw and dnctl:\n  pipe ",
        "\nOptions:\n",
        "\nExamples:\n",
    ] {
        assert!(help.contains(part), "{part:?} is not in {help}");
    }
    assert!(!help.contains("\nCommands:"), "{help}");
    assert!(stdout(&["run", "--help"]).contains("--no-outside"), "commands keep their own help");
}

#[test]
fn a_misspelt_command_gets_a_suggestion() {
    for (word, meant) in [("rn", "run"), ("wacth", "watch"), ("chekc", "check")] {
        let output = weir(&[word]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(&format!("exists: '{meant}'")), "{text}");
    }
}

#[test]
fn completions_offer_values() {
    let script = stdout(&["completions", "bash"]);
    let offers =
        |part: &str| script.lines().any(|line| line.contains("compgen -W") && line.contains(part));
    assert!(offers("4M/20ms"), "--link");
    assert!(offers("wf2q+"), "--alg");
    assert!(offers("codel"), "--aqm");
}

#[test]
fn another_name_of_a_scheduler_is_explained() {
    let output = weir(&["rig", "--alg", "rr", "--flows", "2:w1", "--pairs", "1000", "--runs", "1"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("rr is another name of drr"), "{text}");
}
