//! The variables of a script, and bounds on what they expand to.
//!
//! A variable may contain other variables several times, so a few short lines can expand to
//! gigabytes of text. The bound on the expanded text grows with the length of the script, so that a
//! long script may use its variables in every line.

use std::collections::HashMap;

#[derive(Debug, Default)]
pub(crate) struct Variables {
    values: HashMap<String, String>,
    /// Bytes of all names and values.
    bytes: usize,
    /// Bytes of all values that have replaced a variable so far.
    expanded: usize,
    /// Bytes of the lines read so far.
    read: usize,
}

/// A bound on variables that a script exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooMuch {
    /// More than [`MOST_VARIABLES`].
    #[error("a script has up to {MOST_VARIABLES} variables")]
    Variables,
    /// More than [`MOST_BYTES`].
    #[error("all variables together have up to {MOST_BYTES} bytes")]
    Bytes,
    /// More bytes than [`BASE_EXPANSION`] plus [`MOST_GROWTH`] times the length of the script.
    #[error(
        "variables expand to up to {BASE_EXPANSION} bytes, and {MOST_GROWTH} bytes more for each \
         byte of the script"
    )]
    Expansion,
}

impl TooMuch {
    /// The remedy.
    pub(crate) fn help(self) -> &'static str {
        match self {
            Self::Variables => "assign a name again instead of a new one, or divide the script",
            Self::Bytes | Self::Expansion => {
                "put a long list into a table: `table NAME add ADDRESS`, then `table(NAME)`"
            }
        }
    }
}

impl Variables {
    /// Notes that a line of `len` bytes is read.
    pub(crate) fn begin_line(&mut self, len: usize) {
        self.read = self.read.saturating_add(len);
    }

    /// The value that replaces a variable; `None` if it was never assigned.
    pub(crate) fn expand(&mut self, name: &str) -> Option<Result<&str, TooMuch>> {
        let value = self.values.get(name)?;
        let expanded = self.expanded.saturating_add(value.len());
        let most = BASE_EXPANSION.saturating_add(self.read.saturating_mul(MOST_GROWTH));
        if expanded > most {
            return Some(Err(TooMuch::Expansion));
        }
        self.expanded = expanded;
        Some(Ok(value))
    }

    /// Assigns a value.
    ///
    /// # Errors
    /// There would be too many variables, or they would be too long.
    pub(crate) fn assign(&mut self, name: &str, value: &str) -> Result<(), TooMuch> {
        let before = self.values.get(name).map_or(0, |old| name.len() + old.len());
        if before == 0 && self.values.len() >= MOST_VARIABLES {
            return Err(TooMuch::Variables);
        }
        let bytes = self.bytes - before + name.len() + value.len();
        if bytes > MOST_BYTES {
            return Err(TooMuch::Bytes);
        }
        self.bytes = bytes;
        self.values.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }
}

/// Maximum number of variables of a script. Scripts for a firewall have some dozens.
const MOST_VARIABLES: usize = 1000;
/// Maximum number of bytes of all variables with their names. Longer lists belong in tables.
const MOST_BYTES: usize = 1 << 20;
/// Bytes to which the variables of any script may expand.
const BASE_EXPANSION: usize = 4 << 20;
/// Additional bytes to which variables may expand for each byte of the script. A shell script in
/// which the program's name and a network are variables in every line needs about 2.
const MOST_GROWTH: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assigning_again_frees_the_old_value() {
        let mut variables = Variables::default();
        let long = "x".repeat(MOST_BYTES - 1);
        for _ in 0..3 {
            assert_eq!(variables.assign("a", &long), Ok(()));
        }
        assert_eq!(variables.assign("b", ""), Err(TooMuch::Bytes));
        assert_eq!(variables.assign("a", ""), Ok(()));
        assert_eq!(variables.assign("b", &long), Err(TooMuch::Bytes));
    }

    #[test]
    fn a_longer_script_may_expand_more() {
        let mut variables = Variables::default();
        variables.assign("a", &"x".repeat(1 << 20)).unwrap_err();
        variables.assign("a", &"x".repeat(1 << 19)).unwrap();
        let times = |variables: &mut Variables| {
            (0..).take_while(|_| matches!(variables.expand("a"), Some(Ok(_)))).count()
        };
        assert_eq!(times(&mut variables), 8);
        variables.begin_line(1 << 17);
        assert_eq!(times(&mut variables), 4);
    }
}
