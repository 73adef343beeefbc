//! Link specifications from the command line: parsing, checking, and `weir check`.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use weir_rules::presets::preset;
use weir_rules::{Checked, Diagnostics, LinkSpec, canonical, check_spec};

use crate::args::{AccessArgs, CheckArgs};
use crate::output::{Failure, USAGE, colour, print, say_coloured};
use crate::{script, sim};

use weir_sim::disk::Disk;

/// Both directions of a link.
#[derive(Debug)]
pub(crate) struct Directions {
    /// From the left (or the program) to the right (or the network).
    pub(crate) forth: LinkSpec,
    /// From the right to the left.
    pub(crate) back: LinkSpec,
}

/// The options that specify the two directions of a link, as given on the command line.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    /// The text of `--link`, for both directions.
    pub(crate) link: Option<&'a str>,
    /// From left to right: the name of the option, and its text if the option is given.
    pub(crate) forth: (&'static str, Option<&'a str>),
    /// From right to left: the name of the option, and its text if the option is given.
    pub(crate) back: (&'static str, Option<&'a str>),
    /// The name of a preset.
    pub(crate) preset: Option<&'a str>,
    /// Whether the preset's user is on the left. The preset's `up` is then the direction from left
    /// to right.
    pub(crate) user_is_left: bool,
}

impl<'a> Wanted<'a> {
    /// The options of an access link. The program or target is on its left.
    pub(crate) fn access(args: &'a AccessArgs) -> Self {
        Self {
            link: args.link.as_deref(),
            forth: ("--up", args.up.as_deref()),
            back: ("--down", args.down.as_deref()),
            preset: args.preset.as_deref(),
            user_is_left: true,
        }
    }
}

/// Parses both directions. A direction's own option takes precedence over `--link`, and `--link`
/// over the preset. Warnings go to stderr.
pub(crate) fn directions(wanted: &Wanted<'_>) -> Result<Directions, Failure> {
    let preset = wanted
        .preset
        .map(preset)
        .transpose()
        .map_err(|error| Failure::new(USAGE, format!("{error}; `weir presets` lists them")))?;
    let (forth_preset, back_preset) = if wanted.user_is_left {
        (preset.map(|p| p.up), preset.map(|p| p.down))
    } else {
        (preset.map(|p| p.down), preset.map(|p| p.up))
    };
    let parse = |(option, text): (&'static str, Option<&str>), preset: Option<&'static str>| {
        let (option, text) = match (text, wanted.link, preset) {
            (Some(text), _, _) => (option, text),
            (None, Some(text), _) => ("--link", text),
            (None, None, preset) => ("--preset", preset.unwrap_or("")),
        };
        read(option, text)
    };
    let forth = parse(wanted.forth, forth_preset)?;
    // A text for both directions is parsed once, so that its warnings appear once.
    let is_shared = wanted.forth.1.is_none() && wanted.back.1.is_none() && wanted.link.is_some();
    let back = if is_shared { forth.clone() } else { parse(wanted.back, back_preset)? };
    Ok(Directions { forth, back })
}

fn read(option: &str, text: &str) -> Result<LinkSpec, Failure> {
    let Checked { spec, diagnostics } = check_spec(text, &Disk);
    let Some(spec) = spec else {
        return Err(refusal(option, &diagnostics));
    };
    if !diagnostics.is_empty() {
        say_coloured(format_args!(
            "weir: about {option}:\n{}\n",
            diagnostics.render(colour()).trim_end()
        ));
    }
    Ok(spec)
}

fn refusal(option: &str, diagnostics: &Diagnostics) -> Failure {
    let mut text = format!("weir: {option} cannot be used\n{}", diagnostics.render(colour()));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Failure::new(USAGE, text)
}

/// `weir check`.
pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode, Failure> {
    // `--json` may also follow the specification, because no specification contains this word.
    let (words, json) = match args.spec.as_slice() {
        [words @ .., last] if last == "--json" => (words, true),
        words => (words, args.json),
    };
    if let Some(name) = script::named(words) {
        let is_scenario = name.len() > 5 && name[name.len() - 5..].eq_ignore_ascii_case(".toml");
        return if is_scenario { sim::check(name, json) } else { script::check(name, json) };
    }
    let word = if let [word] = words { word.as_str() } else { "" };
    let special = script::special(word);
    if json {
        let why = special.map_or_else(
            || format!("there is no file `{}`", words.join(" ")),
            |kind| format!("`{word}` is {kind}"),
        );
        return Err(Failure::new(USAGE, format!("--json is for scripts, and {why}")));
    }
    let spec = read("the specification", &words.join(" ")).map_err(|failure| match special {
        Some(kind) if word.contains('/') => {
            Failure::new(USAGE, format!("cannot check {word}: it is {kind}; name a file"))
        }
        Some(kind) => failure.and(&format!("weir: `{word}` is {kind}; name a file\n")),
        None if is_like_a_file(word) => {
            failure.and(&format!("weir: there is no file `{word}` either\n"))
        }
        None => failure,
    })?;
    let text = canonical(&spec);
    print(&format!(
        "{}\n",
        if text.is_empty() { "(a perfect link: no rate limit, no delay)" } else { &text }
    ))
}

/// Whether a word is more likely the name of a file than a specification. Specifications also
/// contain slashes and dots, as in `1.5M/20ms`.
fn is_like_a_file(word: &str) -> bool {
    let path = Path::new(word);
    let has_letters =
        |end: &OsStr| !end.is_empty() && end.as_encoded_bytes().iter().all(u8::is_ascii_alphabetic);
    let is_in_a_directory =
        || path.parent().is_some_and(|parent| !parent.as_os_str().is_empty() && parent.is_dir());
    !word.contains(char::is_whitespace)
        && (["/", "./", "../"].iter().any(|start| word.starts_with(start))
            || path.extension().is_some_and(has_letters)
            || is_in_a_directory())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_told_from_specifications() {
        for word in ["/nowhere", "./a", "../a", "lab.toml", "rules.ipfw", "no/lab.toml", "/tmp/no"]
        {
            assert!(is_like_a_file(word), "{word}");
        }
        for word in ["", "bw 1.5Mbit/s", "trace no.trace", "1.5M/20ms", "NaN/20ms", ".5Mbit/s"] {
            assert!(!is_like_a_file(word), "{word}");
        }
    }
}
