//! The labels of a container, or the annotations of a pod, as two links.
//!
//! Labels are hostile input, because every user who may start a container writes them. They cannot
//! name files, and a message about them is one line of bounded length.

use std::io;

use weir_attach::{LONGEST_LABEL, Labels};
use weir_report::format::printable;
use weir_rules::presets::preset;
use weir_rules::{Diagnostic, Diagnostics, Files, LinkSpec, Severity, check_spec, closest};

/// The two links of a container.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    /// The link for packets that the container sends.
    pub(super) up: LinkSpec,
    /// The link for packets that the container receives.
    pub(super) down: LinkSpec,
}

/// Whether a label or annotation with this name is for Weir.
pub(super) fn is_ours(name: &str) -> bool {
    name.starts_with("weir.") || name.starts_with("weir/")
}

/// Reads labels. `up` and `down` take precedence over `link`, and `link` over `preset`.
///
/// # Errors
/// The first mistake, in one line.
pub(super) fn read(labels: &Labels) -> Result<Wish, String> {
    let (mut up, mut down, mut link, mut chosen) = (None, None, None, None);
    for (name, value) in labels.iter().filter(|(name, _)| is_ours(name)) {
        let about = |why: &str| one_line(&format!("{name}: {why}"));
        if value.len() > LONGEST_LABEL {
            return Err(about(&format!("it is longer than {LONGEST_LABEL} bytes")));
        }
        if value.trim().is_empty() {
            return Err(about(EMPTY));
        }
        // Both prefixes, `weir.` and `weir/`, have the same length.
        match &name["weir.".len()..] {
            "up" => up = Some((name, value)),
            "down" => down = Some((name, value)),
            "link" => link = Some((name, value)),
            "preset" => chosen = Some(preset(value).map_err(|why| about(&why.to_string()))?),
            other => {
                let meant = match closest(other, NAMES) {
                    Some(meant) => format!("; did you mean {}{meant}?", &name[.."weir.".len()]),
                    None => String::new(),
                };
                let all = NAMES.join(", ");
                return Err(about(&format!("there is no such label{meant} (there are {all})")));
            }
        }
    }
    let spec = |own: Option<(&String, &String)>, preset: Option<&str>| match own.or(link) {
        Some((name, value)) => {
            parse(value).map_err(|diagnostics| one_line(&format!("{name}: {}", why(&diagnostics))))
        }
        None => parse(preset.unwrap_or("")).map_err(|diagnostics| why(&diagnostics)),
    };
    Ok(Wish {
        up: spec(up, chosen.map(|preset| preset.up))?,
        down: spec(down, chosen.map(|preset| preset.down))?,
    })
}

fn parse(text: &str) -> Result<LinkSpec, Diagnostics> {
    let checked = check_spec(text, &Refused);
    checked.spec.ok_or(checked.diagnostics)
}

/// Refuses every file that a label names.
struct Refused;

impl Files for Refused {
    fn read(&self, _: &str) -> io::Result<String> {
        Err(io::Error::other("labels cannot name files"))
    }
}

/// The first error, with the part of the text that it concerns.
fn why(diagnostics: &Diagnostics) -> String {
    let is_error = |one: &&Diagnostic| one.code.severity() == Severity::Error;
    let Some(first) = diagnostics.iter().find(is_error).or_else(|| diagnostics.iter().next())
    else {
        return "it is not understood".to_owned();
    };
    let help = first.help.first().map(|help| format!(" ({help})")).unwrap_or_default();
    format!("{}{help}, in `{}`", first.message, first.text.trim())
}

/// A text as one line of bounded length without control characters.
pub(super) fn one_line(text: &str) -> String {
    let more = if text.chars().nth(LONGEST_REASON).is_some() { "…" } else { "" };
    let short: String = text.chars().take(LONGEST_REASON).collect();
    format!("{}{more}", printable(&short))
}

/// The reason in the message about an empty label. An empty label is refused, because it more often
/// comes from a variable without a value than from the wish for a perfect link.
const EMPTY: &str = "it is empty; give a link such as `4M/20ms`, or `delay 0` for a perfect link";
/// The labels without their prefix.
const NAMES: [&str; 4] = ["up", "down", "link", "preset"];
/// Maximum length of a message in characters, without the ellipsis of a shortened message.
const LONGEST_REASON: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(labels: &[(&str, &str)]) -> Result<Wish, String> {
        read(&labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    fn texts(labels: &[(&str, &str)]) -> (String, String) {
        let wish = of(labels).expect("valid labels");
        (weir_rules::canonical(&wish.up), weir_rules::canonical(&wish.down))
    }

    #[test]
    fn a_direction_takes_precedence_over_a_link_and_a_link_over_a_preset() {
        let (fast, slow) = ("bw 10Mbit/s".to_owned(), "bw 1Mbit/s".to_owned());
        assert_eq!(texts(&[("weir.link", "10M")]), (fast.clone(), fast.clone()));
        assert_eq!(texts(&[("weir.link", "10M"), ("weir.up", "1M")]), (slow.clone(), fast.clone()));
        assert_eq!(texts(&[("weir/down", "1M")]), (String::new(), slow.clone()));
        let preset = texts(&[("weir.preset", "3g")]);
        assert!(!preset.0.is_empty() && preset.0 != preset.1);
        assert_eq!(texts(&[("weir.preset", "3g"), ("weir.up", "1M")]), (slow, preset.1));
        assert_eq!(texts(&[("other", "1M")]), (String::new(), String::new()));
        assert_eq!(texts(&[("weir.link", "delay 0")]), (String::new(), String::new()));
    }

    #[test]
    fn wrong_labels_are_refused_in_one_harmless_line() {
        let long = "x".repeat(100_000);
        for (labels, part) in [
            ([("weir.up", "bw 4Mbitx")], "weir.up"),
            ([("weir.up", "4M\n\x1b[2J<b>")], "weir.up"),
            ([("weir.up", &*long)], "longer than 4096 bytes"),
            ([("weir.up", &long[..4000])], "weir.up"),
            ([("weir.dwon", "4M")], "weir.down?"),
            ([("weir/", "4M")], "no such label"),
            ([("weir.preset", "3h")], "3g"),
            // A label never makes Weir read a file.
            ([("weir.down", "trace /etc/passwd")], "weir.down"),
            ([("weir.link", "trace /etc/passwd")], "labels cannot name files"),
            ([("weir.link", "schedule /etc/passwd")], "labels cannot name files"),
            ([("weir.link", " ")], "weir.link: it is empty"),
            ([("weir/up", "")], "weir/up: it is empty"),
        ] {
            let why = of(&labels).expect_err(part);
            assert!(why.contains(part), "{part}: {why}");
            assert!(why.chars().count() <= LONGEST_REASON + 1, "{why}");
            assert!(!why.contains(char::is_control) && !why.contains("root:"), "{why:?}");
        }
    }
}
