//! Properties of scripts: no text makes the reader panic, printed text reads back, formatting
//! preserves the meaning, and very long texts are read quickly and give few messages.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_rules::command::Command;
use weir_rules::script::{
    Parsed, actions, check, commands, format, options, parse, parse_command, print,
};
use weir_rules::{NoFiles, keyword};

fn read(parsed: &Parsed) -> Vec<&Command> {
    parsed.commands.iter().map(|c| &c.command).collect()
}

/// Checks the properties that hold for every text.
fn assert_properties(text: &str) -> Result<(), TestCaseError> {
    let parsed = parse(text, "script", &NoFiles);
    let _ = (parsed.diagnostics.render(true), parsed.diagnostics.render(false));
    let _ = check(&parsed.commands, text, "script").render(false);
    let printed: Vec<String> = parsed.commands.iter().map(|c| print(&c.command)).collect();
    let again = parse(&printed.join("\n"), "printed", &NoFiles);
    prop_assert_eq!(read(&again), read(&parsed), "{:?}\n{}", printed, again.diagnostics);
    if let Ok(formatted) = format(text, "script", &NoFiles) {
        let same = parse(&formatted, "formatted", &NoFiles);
        prop_assert_eq!(read(&same), read(&parsed), "{:?}\n{}", formatted, same.diagnostics);
        prop_assert_eq!(format(&formatted, "formatted", &NoFiles).ok(), Some(formatted));
    }
    let argv: Vec<String> = text.split(' ').map(str::to_owned).collect();
    for command in parse_command(&argv, &NoFiles).commands {
        let printed = print(&command.command);
        let again = parse(&printed, "printed", &NoFiles);
        prop_assert_eq!(
            read(&again),
            vec![&command.command],
            "{:?}\n{}",
            printed,
            again.diagnostics
        );
    }
    Ok(())
}

/// A value of the kind that options take, or a similar text.
fn value() -> impl Strategy<Value = String> {
    let fixed = [
        "any",
        "me",
        "me6",
        "10.0.0.0/8",
        "10.1.2.0/24{1,3-5}",
        "1.2.3.4:255.0.255.0",
        "2001:db8::/32",
        "::1",
        "table(t,5)",
        "table(1)",
        "tablearg",
        "not",
        "{",
        "}",
        "(",
        ")",
        "or",
        "from",
        "to",
        "80,443",
        "1-5",
        "ftp-data",
        "tcp",
        "udp",
        "ip",
        "00:11:22:33:44:55",
        "any",
        "syn,!ack",
        "ef",
        "eth0",
        "eth*",
        ":web",
        "src-addr",
        "dst-port",
        "prob",
        "0.3",
        "set",
        "log",
        "tag",
        "7",
        "// a # b",
        "# c",
        "'q'",
        "\"q q\"",
        "\\{",
        "x=1",
        "$x",
        "config",
        "type",
        "fifo",
        "wf2q+",
        "IN",
        "OUT",
        "expire",
        "client",
        "create",
        "add",
        "all",
        "show",
        "-q",
        "ipfw",
        "\\",
        "\n",
        "\\\n",
        ";",
    ];
    prop_oneof![4 => proptest::sample::select(fixed.to_vec()).prop_map(str::to_owned), 1 => "[0-9a-f:./,!-]{0,9}", 1 => "\\PC{0,5}"]
}

/// Text that resembles a script: the words of the language, values and noise.
fn nearly() -> impl Strategy<Value = String> {
    let words: Vec<&'static str> = commands()
        .chain(actions())
        .chain(options())
        .flat_map(|e| e.words().collect::<Vec<_>>())
        .chain(keyword::words())
        .collect();
    let word = prop_oneof![proptest::sample::select(words).prop_map(str::to_owned), value()];
    let line = (
        prop_oneof![
            Just("add "),
            Just("add 100 pipe 1 ip from any to any "),
            Just("pipe 1 config "),
            Just("table t "),
            Just("")
        ],
        proptest::collection::vec(word, 0..10),
    );
    let line = line.prop_map(|(start, words)| format!("{start}{}", words.join(" ")));
    proptest::collection::vec(line, 1..4).prop_map(|lines| lines.join("\n"))
}

/// Rules that combine several options, each possibly negated.
fn rules() -> impl Strategy<Value = String> {
    let bodies: Vec<String> = options()
        .filter_map(|e| {
            let at = e.example.split(' ').position(|w| e.words().any(|name| name == w))?;
            Some(e.example.split(' ').skip(at).collect::<Vec<_>>().join(" "))
        })
        .collect();
    let states = ["keep-state", "limit", "record-state"];
    let option = (proptest::sample::select(bodies), any::<bool>()).prop_map(move |(body, not)| {
        let is_state = states.iter().any(|state| body.starts_with(state));
        if not && !is_state { format!("not {body}") } else { body }
    });
    let from_to = proptest::sample::select(vec![
        "",
        "tcp from any to any",
        "{ udp or not 47 } from me 53,80 to { 10.0.0.0/8 or table(t) } not 1-9",
        "ip from any to any",
    ]);
    let starts = proptest::sample::select(vec![
        "add 5 set 3 prob 0.25 pipe 7 log tag 4 untag tablearg",
        "add setdscp af11",
        "add check-state :x",
        "add queue tablearg",
    ]);
    (starts, from_to, proptest::collection::vec(option, 0..5))
        .prop_map(|(start, from_to, options)| format!("{start} {from_to} {}", options.join(" ")))
}

proptest! {
    #[test]
    fn no_text_causes_a_panic(text in "[\\PC\n\r\t]{0,60}") {
        assert_properties(&text)?;
    }

    #[test]
    fn no_near_script_panics(text in nearly()) {
        assert_properties(&text)?;
    }

    #[test]
    fn rules_of_all_options_read_back(text in rules()) {
        let parsed = parse(&text, "rules", &NoFiles);
        prop_assert!(!parsed.diagnostics.has_errors(), "{}\n{}", text, parsed.diagnostics);
        assert_properties(&text)?;
    }

    #[test]
    fn a_line_is_read_alike_after_any_text(before in nearly(), text in rules()) {
        // A `\` at the end of `before` would make `text` part of its last line.
        let before = before.trim_end_matches('\\');
        let both = parse(&format!("{before}\n{text}"), "both", &NoFiles);
        let alone = parse(&text, "alone", &NoFiles);
        prop_assert_eq!(
            both.commands.last().map(|c| &c.command),
            alone.commands.last().map(|c| &c.command)
        );
    }
}

#[test]
fn absurd_texts_are_read_in_bounded_time_and_words() {
    let map = BTreeMap::new();
    let long = [
        "add pipe 1 ip from ".to_owned() + &"10.0.0.1,".repeat(200_000),
        "add ".to_owned() + &"{ ".repeat(400_000),
        "pipe 1 config ".to_owned() + &"bw x ".repeat(190_000),
        "x=1".to_owned() + &"\nx=\"$x$x\"".repeat(100),
        "a=1\n".repeat(300_000),
        "\\\n".repeat(600_000),
        "table t add ".to_owned() + &"1 1 ".repeat(240_000),
        "\"".repeat(900_001),
        "9".repeat(3_000_000),
        "pipe 1 config bw 1M bw 1M\n".repeat(100_000),
    ];
    for text in &long {
        let parsed = parse(text, "long", &map);
        assert!(parsed.diagnostics.iter().count() <= 3 * 101);
        assert!(parsed.diagnostics.render(false).len() < 2_000_000);
    }
}
