//! Parses dummynet's air-time profile files.
//!
//! A file has lines of `key value` in any order and case: `name`, `bw`, `loss-level` (0 to 1: the
//! quantile above which a packet is lost; default 1, no loss) and `samples` (default 100). The
//! header `delay prob` or `prob delay` and at least two points follow, with delays in ms. `#`
//! starts a comment.

use weir_core::link::{DEFAULT_SAMPLES, MAX_SAMPLES, Profile};
use weir_core::units::{Nanos, Probability, Rate};

use crate::diagnostic::{Code, Diagnostic, span_of};
use crate::quantity::{self, MAX_DELAY};
use crate::suggest::closest;

/// The content of a profile file.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileFile {
    /// The distribution of the extra air-time.
    pub profile: Profile,
    /// The rate in the file, if any.
    pub rate: Option<Rate>,
}

/// Parses a profile file.
///
/// # Errors
/// A line cannot be parsed, a value is out of range, the header is missing, or there are fewer than
/// two points.
pub fn parse(text: &str, name: &str) -> Result<ProfileFile, Box<Diagnostic>> {
    let mut reader = Reader {
        text,
        name,
        title: name.to_owned(),
        rate: None,
        loss_level: None,
        samples: None,
        header: None,
        points: Vec::new(),
    };
    for line in text.lines() {
        let words: Vec<&str> =
            line.split('#').next().unwrap_or_default().split_whitespace().collect();
        if !words.is_empty() {
            reader.line(&words)?;
        }
    }
    reader.finish()
}

struct Reader<'a> {
    text: &'a str,
    /// The name of the file.
    name: &'a str,
    /// The name of the profile: that in the file or, without one, the name of the file.
    title: String,
    rate: Option<Rate>,
    loss_level: Option<Probability>,
    samples: Option<usize>,
    /// Whether the delay is the first column; `None` before the header.
    header: Option<bool>,
    points: Vec<(Probability, Nanos)>,
}

impl Reader<'_> {
    fn error(&self, part: &str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Code::BadFile, self.text, span_of(self.text, part), message)
            .in_file(self.name)
    }

    fn line(&mut self, words: &[&str]) -> Result<(), Box<Diagnostic>> {
        let key = words[0].to_ascii_lowercase();
        let &[_, value] = words else {
            let wrong = words.get(2).unwrap_or(&words[0]);
            return Err(self
                .error(wrong, "a line of a profile has two words")
                .label(format!("{} here", words.len()))
                .into());
        };
        match (key.as_str(), value.to_ascii_lowercase().as_str()) {
            ("delay", "prob") => self.header = Some(true),
            ("prob", "delay") => self.header = Some(false),
            ("name", _) => self.title = value.to_owned(),
            ("bw" | "bandwidth", _) => {
                self.rate =
                    self.value(value, "a rate of at most 400 Gbit/s", quantity::rate(value).ok())?;
            }
            ("loss-level", _) => {
                self.loss_level =
                    Some(self.value(value, "0 to 1", quantity::probability(value).ok())?);
            }
            ("samples", _) => {
                let samples = quantity::count(value, MAX_SAMPLES as u32).ok().filter(|&n| n >= 2);
                self.samples =
                    Some(self.value(value, &format!("2 to {MAX_SAMPLES}"), samples)? as usize);
            }
            _ => return self.point(words[0], value),
        }
        Ok(())
    }

    /// Adds a point. A first word that is not a number is an unknown key.
    fn point(&mut self, first: &str, second: &str) -> Result<(), Box<Diagnostic>> {
        let is_number = first.starts_with(|c: char| c.is_ascii_digit() || ".-".contains(c));
        let Some(delay_first) = self.header.filter(|_| is_number) else {
            if is_number {
                let error = self.error(first, "a point comes before the header").label("a point");
                return Err(error
                    .help("a line `delay prob` or `prob delay` must come before the points")
                    .into());
            }
            let meant = closest(first, KEYS)
                .map_or_else(|| "unknown key".to_owned(), |k| format!("did you mean `{k}`?"));
            return Err(self
                .error(first, format!("unknown key `{first}`"))
                .label(meant)
                .help(format!("keys are {}", KEYS.join(", ")))
                .into());
        };
        let (delay, prob) = if delay_first { (first, second) } else { (second, first) };
        let delay = self.value(
            delay,
            "a delay in ms, at most an hour",
            quantity::time(delay, MAX_DELAY).ok(),
        )?;
        let prob = self.value(prob, "a probability, 0 to 1", quantity::probability(prob).ok())?;
        self.points.push((prob, delay));
        Ok(())
    }

    fn value<T>(&self, word: &str, allowed: &str, value: Option<T>) -> Result<T, Box<Diagnostic>> {
        value.ok_or_else(|| {
            self.error(word, format!("`{word}` is not allowed here"))
                .label(format!("expected {allowed}"))
                .into()
        })
    }

    fn finish(self) -> Result<ProfileFile, Box<Diagnostic>> {
        let end = &self.text[self.text.trim_end().len()..][..0];
        if self.header.is_none() {
            let error =
                self.error(end, "the profile has no header line").label("the file ends here");
            return Err(error
                .help("a line `delay prob` or `prob delay` must come before the points")
                .into());
        }
        let failure = self.error(end, String::new()).label("the file ends here");
        let (samples, loss_level) =
            (self.samples.unwrap_or(DEFAULT_SAMPLES), self.loss_level.unwrap_or(Probability::ONE));
        match Profile::new(self.title, self.points, samples, loss_level) {
            Ok(profile) => Ok(ProfileFile { profile, rate: self.rate }),
            Err(problem) => Err(Box::new(Diagnostic { message: problem.to_string(), ..failure })),
        }
    }
}

/// The keys of a profile file.
const KEYS: [&str; 6] = ["name", "bw", "loss-level", "samples", "delay", "prob"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_with_comments_and_either_header() {
        let text = "# from a paper\nNAME wlan\nbw 20Mbit/s\nSamples 4\nloss-level 0.86\nprob \
                    delay\n0 0.5 # first\n1.0\t1.5\n";
        let file = parse(text, "p").map_err(|e| e.message).unwrap();
        assert_eq!(file.rate, Rate::new(20_000_000));
        assert_eq!(file.profile.name(), "wlan");
        assert_eq!(file.profile.samples(), [500_000, 750_000, 1_000_000, 1_250_000].map(Nanos));
        assert_eq!(Some(file.profile.loss_level()), Probability::new(0.86));
        let swapped =
            text.replace("prob delay\n0 0.5 # first\n1.0\t1.5", "delay prob\n1.5 1\n0.5 0");
        assert_eq!(parse(&swapped, "p").map_err(|e| e.message), Ok(file));
    }

    #[test]
    fn more_samples_than_1024_are_accepted() {
        let text = format!(
            "samples 5000\ndelay prob\n{}",
            (0..3000).map(|i| format!("{i} {}\n", f64::from(i) / 3000.0)).collect::<String>()
        );
        assert_eq!(
            parse(&text, "p").map_err(|e| e.message).map(|f| f.profile.samples().len()),
            Ok(5000)
        );
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let cases = [
            ("sample 5\n", 1, "unknown key"),
            ("name x\n1 0\n", 2, "before the header"),
            ("name x\n", 1, "no header"),
            ("delay prob\n1 0\n", 2, "at least two points"),
            ("delay prob\n1 2\n", 2, "not allowed"),
            ("delay prob 3\n", 1, "two words"),
            ("samples 1\n", 1, "not allowed"),
        ];
        for (text, line, message) in cases {
            let error = parse(text, "p").unwrap_err();
            assert!(error.line == line && error.message.contains(message), "{text:?}: {error:?}");
        }
    }
}
