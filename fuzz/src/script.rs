//! Scripts: no text makes the parser panic, each printed command parses to the same command, and
//! formatting changes no meaning.

use weir_rules::command::Command;
use weir_rules::script::{Parsed, check, format, parse, parse_command, print};

use super::parts;

/// The bytes are a script and the content of the files `f`, `f.csv` and `f.dist`.
pub fn run(data: &[u8]) {
    let Some(([text, content], _)) = parts::split(data) else { return };
    let files = parts::files(content);
    let parsed = parse(text, "script", &files);
    let _ = parsed.diagnostics.render(false);
    let _ = check(&parsed.commands, text, "script").render(false);
    let printed: Vec<String> = parsed.commands.iter().map(|c| print(&c.command)).collect();
    let again = parse(&printed.join("\n"), "printed", &files);
    assert_eq!(commands(&again), commands(&parsed), "{printed:?}\n{}", again.diagnostics);
    if let Ok(formatted) = format(text, "script", &files) {
        let same = parse(&formatted, "formatted", &files);
        assert_eq!(commands(&same), commands(&parsed), "{formatted:?}\n{}", same.diagnostics);
        assert_eq!(format(&formatted, "formatted", &files).as_ref(), Ok(&formatted));
    }
    // Parse the words of the same text, as if a shell had split it.
    let argv: Vec<String> = text.split(' ').map(str::to_owned).collect();
    let one = parse_command(&argv, &files);
    let _ = one.diagnostics.render(false);
    for command in &one.commands {
        let printed = print(&command.command);
        let again = parse(&printed, "printed", &files);
        assert_eq!(commands(&again), [&command.command], "{printed:?}\n{}", again.diagnostics);
    }
}

fn commands(parsed: &Parsed) -> Vec<&Command> {
    parsed.commands.iter().map(|c| &c.command).collect()
}
