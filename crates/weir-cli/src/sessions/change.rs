//! `weir change`: changes links while they run.

use std::process::ExitCode;

use serde_json::json;
use weir_control::api::{ChangeReply, ChangeRequest, SessionView};
use weir_control::directory::Found;
use weir_rules::{check_spec, keyword, script};
use weir_sim::disk::Disk;

use super::args::ChangeArgs;
use super::find::{Asked, SERVE, failure, running_in_words, session, sockets};
use crate::files::Recorded;
use crate::output::{Failure, USAGE, print, say};

/// Changes the links or rules that the words name, and prints what is now in force.
pub(crate) fn change(args: &ChangeArgs) -> Result<ExitCode, Failure> {
    let (words, shown) = options(args);
    let (name, rest) = named(&words, &sockets())?;
    let Asked { mut client, view } = session(name)?;
    let (link, words) = of_link(&view, rest)?;
    let failed = |error| failure(&view.name, &error);
    let reply = if words == "reset" {
        client.reset(link).map_err(failed)?
    } else {
        let request = request(&view, words);
        client.change(link, &request).map_err(failed)?
    };
    show(shown, &reply)
}

/// What to print after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shown {
    json: bool,
    quiet: bool,
}

/// Separates the options from the words. Options may follow the words, since no word of the
/// language looks like an option.
fn options(args: &ChangeArgs) -> (Vec<String>, Shown) {
    let mut shown = Shown { json: args.json, quiet: args.quiet };
    let mut words = args.words.clone();
    words.retain(|word| {
        match word.as_str() {
            "--json" => shown.json = true,
            "--quiet" | "-q" => shown.quiet = true,
            _ => return true,
        }
        false
    });
    (words, shown)
}

/// Splits off the name of a session: the first word, if it is `serve` or the name of a session in
/// `found`. If the only word may be both a name and a change, it is a change. With several
/// sessions, a first word that is neither a name nor the beginning of a change is refused.
fn named<'a>(
    words: &'a [String],
    found: &[Found],
) -> Result<(Option<&'a str>, &'a [String]), Failure> {
    let Some((first, rest)) = words.split_first() else { return Ok((None, words)) };
    let is_name = first == SERVE || found.iter().any(|found| found.name.as_str() == first);
    let word = first.split_whitespace().next().unwrap_or_default();
    if is_name && !(rest.is_empty() && begins_change(word)) {
        return Ok((Some(first.as_str()), rest));
    }
    if found.len() > 1 && !begins_change(word) {
        return Err(Failure::new(
            USAGE,
            format!(
                "`{word}` is no session; {}: name one of them before the link and the words",
                running_in_words(found)
            ),
        ));
    }
    Ok((None, words))
}

/// Splits off the name of a link, and joins the other words. In a session without rules, a first
/// word that is neither a link nor a word of the language is refused, because it is probably a
/// misspelt name.
fn of_link<'a>(
    view: &SessionView,
    words: &'a [String],
) -> Result<(Option<&'a str>, String), Failure> {
    let joined = |words: &[String]| words.join(" ").trim().to_owned();
    let (link, rest) = match words {
        [first, rest @ ..] if view.names_links(first) => (Some(first.as_str()), joined(rest)),
        words => (None, joined(words)),
    };
    if rest.is_empty() {
        return Err(Failure::new(
            USAGE,
            "say what to change, such as `delay 80ms loss 2%`, or `reset`",
        ));
    }
    let first = rest.split_whitespace().next().unwrap_or_default();
    if link.is_none() && !view.rules && !begins_change(first) {
        let links: Vec<&str> = view.links.iter().map(|link| link.name.as_str()).collect();
        return Err(Failure::new(
            USAGE,
            format!(
                "`{first}` is no session, no link and no word of the language of links: {}; {}",
                running_in_words(&sockets()),
                match links.as_slice() {
                    [] => format!("{} has no links now", view.name),
                    links => format!("its links are {}", links.join(", ")),
                }
            ),
        ));
    }
    Ok((link, rest))
}

/// Whether a word may begin a change of a link.
fn begins_change(word: &str) -> bool {
    let is_short_form = word.starts_with(|c: char| c.is_ascii_digit() || "./-".contains(c));
    word == "reset" || is_short_form || keyword::lookup(word).is_some()
}

/// The request, with the contents of the files that the words name. The session may have another
/// current directory, so this command reads the files.
fn request(view: &SessionView, words: String) -> ChangeRequest {
    let files = Recorded::new(Disk);
    // The session checks the words. Parsing them here only finds the names of files.
    if view.rules {
        script::parse(&words, "the command", &files);
    } else {
        check_spec(&words, &files);
    }
    ChangeRequest { words, files: files.into_contents() }
}

fn show(shown: Shown, reply: &ChangeReply) -> Result<ExitCode, Failure> {
    if shown.json {
        print(&format!("{:#}\n", json!(reply)))?;
    }
    if !reply.applied {
        let text = format!("weir: nothing was changed\n{}\n", reply.rendered.trim_end());
        return Err(Failure::new(USAGE, text));
    }
    if !reply.rendered.is_empty() && !shown.quiet {
        say(format_args!("{}\n", reply.rendered.trim_end()));
    }
    if shown.json || shown.quiet {
        return Ok(ExitCode::SUCCESS);
    }
    let width = reply.links.iter().map(|link| link.name.chars().count()).max().unwrap_or(0);
    let line = |link: &weir_control::api::SessionLink| {
        let spec = if link.spec.is_empty() { "(a perfect link)" } else { &link.spec };
        format!("{:width$}  {spec}\n", link.name)
    };
    print(&reply.links.iter().map(line).collect::<String>())
}

#[cfg(test)]
mod tests {
    use weir_control::api::{SessionKind, SessionLink};

    use super::*;

    fn view(rules: bool) -> SessionView {
        let link = |name: &str| SessionLink {
            name: name.into(),
            spec: String::new(),
            whole: Some("both".into()),
        };
        SessionView {
            name: "curl".into(),
            kind: SessionKind::Run,
            program: "curl".into(),
            pid: Some(1),
            since: String::new(),
            uptime_ns: 0,
            rules,
            links: if rules { Vec::new() } else { vec![link("up"), link("down")] },
            problems: Vec::new(),
            nodes: Vec::new(),
            version: String::new(),
        }
    }

    fn split(words: &str) -> Result<(Option<String>, String), String> {
        let words: Vec<String> = words.split('|').map(str::to_owned).collect();
        of_link(&view(false), &words)
            .map(|(link, words)| (link.map(str::to_owned), words))
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_link_is_optional_and_words_may_be_quoted_or_not() {
        let some = |link: &str, words: &str| Ok((Some(link.to_owned()), words.to_owned()));
        assert_eq!(split("down|loss 2% delay 80ms"), some("down", "loss 2% delay 80ms"));
        assert_eq!(split("down|loss|2%"), some("down", "loss 2%"));
        assert_eq!(split("loss|2%"), Ok((None, "loss 2%".to_owned())));
        assert_eq!(split("4M/20ms"), Ok((None, "4M/20ms".to_owned())));
        assert_eq!(split("up|reset"), some("up", "reset"));
        assert_eq!(split("both|loss 2%"), some("both", "loss 2%"));
        assert_eq!(split("up,down|loss|2%"), some("up,down", "loss 2%"));
    }

    #[test]
    fn a_session_may_be_named_before_the_words() {
        let split = |words: &str, sessions: &[&str]| {
            let words: Vec<String> = words.split('|').map(str::to_owned).collect();
            let found: Vec<Found> = sessions
                .iter()
                .map(|name| Found { name: name.parse().expect("a name"), path: name.into() })
                .collect();
            named(&words, &found)
                .map(|(name, rest)| (name.map(str::to_owned), rest.join("|")))
                .map_err(|failure| failure.to_string())
        };
        let some = |name: &str, rest: &str| Ok((Some(name.to_owned()), rest.to_owned()));
        let none = |rest: &str| Ok((None, rest.to_owned()));
        assert_eq!(split("curl|down|loss 2%", &["curl", "wget"]), some("curl", "down|loss 2%"));
        assert_eq!(split("serve|loss 2%", &[]), some("serve", "loss 2%"));
        assert_eq!(split("curl", &["curl"]), some("curl", ""));
        assert_eq!(split("wget", &["curl", "wget"]), some("wget", ""));
        assert_eq!(split("reset", &["reset"]), none("reset"));
        assert_eq!(split("reset|reset", &["reset"]), some("reset", "reset"));
        assert_eq!(split("down|loss 2%", &["curl"]), none("down|loss 2%"));
        assert_eq!(split("loss 2%", &["curl", "wget"]), none("loss 2%"));
        let error = split("crul|down|loss 2%", &["curl", "wget"]).unwrap_err();
        assert!(error.contains("`crul` is no session; there are curl, wget"), "{error}");
    }

    #[test]
    fn options_may_follow_the_words() {
        let args = |words: &[&str]| ChangeArgs {
            json: false,
            quiet: false,
            words: words.iter().map(|&word| word.to_owned()).collect(),
        };
        let (words, shown) = options(&args(&["curl", "down", "loss 2%", "--json"]));
        assert_eq!((words.join("|").as_str(), shown.json), ("curl|down|loss 2%", true));
        let (words, shown) = options(&args(&["curl", "-q", "-/20ms"]));
        assert_eq!(words.join("|"), "curl|-/20ms");
        assert_eq!(shown, Shown { json: false, quiet: true });
    }

    #[test]
    fn a_session_without_links_has_none_to_list() {
        let view = SessionView { links: Vec::new(), ..view(false) };
        let error = of_link(&view, &["dwn".to_owned(), "loss 2%".to_owned()]).unwrap_err();
        assert!(error.to_string().ends_with("; curl has no links now"), "{error}");
    }

    #[test]
    fn a_misspelt_name_is_refused_with_the_existing_names() {
        let error = split("dwn|loss 2%").unwrap_err();
        assert!(error.contains("`dwn` is no session, no link"), "{error}");
        assert!(error.contains("up, down"), "{error}");
        assert!(split("down").unwrap_err().contains("say what to change"));
        assert!(of_link(&view(false), &[]).unwrap_err().to_string().contains("say what to change"));
        let words = ["pipe".to_owned(), "1 config bw 2M".to_owned()];
        assert_eq!(of_link(&view(true), &words).unwrap(), (None, "pipe 1 config bw 2M".to_owned()));
    }
}
