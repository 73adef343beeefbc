//! The key of a run: a hash of everything that decides its result.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// A SHA-256 hash: the key of a run, or the hash of an input's content, under which the store keeps
/// the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key([u8; 32]);

/// The program that carries out a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Runner {
    /// The simulator. Two runs with the same key give results that are equal byte for byte.
    #[default]
    Sim,
    /// `weir live`, on real frames. Two runs with the same key in general give different bytes.
    Live,
}

impl Runner {
    /// The runner's name in keys and in `meta.json`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Live => "live",
        }
    }
}

impl FromStr for Runner {
    type Err = NoRunner;

    fn from_str(name: &str) -> Result<Self, NoRunner> {
        [Self::Sim, Self::Live].into_iter().find(|one| one.name() == name).ok_or(NoRunner)
    }
}

/// The text does not name a [`Runner`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a run is carried out by `sim` or `live`")]
pub struct NoRunner;

/// Everything that decides the result of a run.
#[derive(Clone, Copy, Debug)]
pub struct Made<'a> {
    /// The version of the engine.
    pub engine: &'a str,
    /// The name of the [`Runner`]: `sim` or `live`.
    pub source: &'a str,
    /// The scenario in canonical form, after a line with the run's seed.
    pub text: &'a str,
    /// The files that the scenario refers to: the name of each, and the hash of its content.
    pub inputs: &'a [(String, Key)],
}

impl Key {
    /// The hash of `content`.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        Self(Sha256::digest(content).into())
    }

    /// The key of a run.
    #[must_use]
    pub fn of_run(made: &Made<'_>) -> Self {
        let mut hash = Sha256::new();
        // The length of each part precedes it, so that different lists of parts never give the
        // same bytes.
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        for text in [FORMAT, made.engine, made.source, made.text] {
            part(text.as_bytes());
        }
        for (name, content) in made.inputs {
            part(name.as_bytes());
            part(&content.0);
        }
        Self(hash.finalize().into())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The text is not a hash: 64 hexadecimal digits in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key has 64 hexadecimal digits")]
pub struct NoKey;

impl FromStr for Key {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        let digits = text.as_bytes();
        let lower = |b: &u8| b.is_ascii_digit() || (b'a'..=b'f').contains(b);
        if digits.len() != 64 || !digits.iter().all(lower) {
            return Err(NoKey);
        }
        let mut bytes = [0; 32];
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| NoKey)?;
        }
        Ok(Self(bytes))
    }
}

/// The first hashed part: the version of the list of parts. Changing it changes all keys.
const FORMAT: &str = "weir run 1";

#[cfg(test)]
mod tests {
    use super::*;

    fn key(engine: &str, text: &str, inputs: &[(&str, &[u8])]) -> Key {
        let inputs: Vec<_> =
            inputs.iter().map(|(name, content)| ((*name).to_owned(), Key::of(content))).collect();
        Key::of_run(&Made { engine, source: "sim", text, inputs: &inputs })
    }

    #[test]
    fn a_key_depends_on_everything_that_decides_the_result() {
        let all = [
            key("1", "seed = 1\n", &[]),
            key("2", "seed = 1\n", &[]),
            key("1", "seed = 2\n", &[]),
            key("1", "seed = 1\n", &[("a", b"x")]),
            key("1", "seed = 1\n", &[("a", b"y")]),
            key("1", "seed = 1\n", &[("b", b"x")]),
            key("1s", "eed = 1\n", &[]),
        ];
        for (n, one) in all.iter().enumerate() {
            assert!(!all[n + 1..].contains(one), "{n}");
        }
        assert_eq!(key("1", "seed = 1\n", &[]), all[0]);
    }

    #[test]
    fn the_text_of_a_key_is_read_back() {
        let key = Key::of(b"");
        let text = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(key.to_string(), text);
        assert_eq!(text.parse(), Ok(key));
        for wrong in ["", "e3", &text.to_uppercase(), &text.replace('e', "é")] {
            assert_eq!(wrong.parse::<Key>(), Err(NoKey), "{wrong}");
        }
    }
}
