//! The form of a saved configuration: one comment line with format, revision and checksum, then the
//! commands.
//!
//! ```text
//! # Saved by weir serve in format 2, revision 7, SHA-256 …; change it with weir's commands.
//! pipe 1 config bw 4Mbit/s
//! ```
//!
//! The checksum covers the revision and the commands. Format 1 had no checksum. A file without such
//! a first line counts as written by hand: it has the revision 0 and is not checked.

use sha2::{Digest as _, Sha256};

/// Why a saved configuration is not sound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsound {
    /// The file is empty, or its first line is cut.
    #[error("it is cut short")]
    Cut,
    /// The content does not match the checksum.
    #[error(
        "it does not match its checksum: the disk damaged it, or it was edited (without its first \
         line, an edited file is accepted)"
    )]
    Changed,
    /// A later version wrote the file.
    #[error(
        "it is in format {0}, which a newer version of Weir wrote; this one reads formats up to \
         {FORMAT}"
    )]
    Newer(u32),
}

/// The text of a configuration with its first line.
pub(super) fn seal(revision: u64, script: &str) -> String {
    let sum = checksum(revision, script);
    format!("{HEAD}{FORMAT}, revision {revision}, SHA-256 {sum}{TAIL}\n{script}")
}

/// Checks the first line of a configuration and its checksum, and returns its revision.
pub(super) fn unseal(text: &str) -> Result<u64, Unsound> {
    let (first, script) = text.split_once('\n').unwrap_or((text, ""));
    if let Some(rest) = first.strip_prefix(OLD_HEAD) {
        return rest.parse().map_err(|_| Unsound::Cut);
    }
    let Some(rest) = first.strip_prefix(HEAD) else {
        // An empty file, or a file that ends inside its first line, was not written by hand.
        let cut = script.is_empty() && HEAD.starts_with(first);
        return if cut { Err(Unsound::Cut) } else { Ok(0) };
    };
    let (format, rest) = rest.split_once(',').ok_or(Unsound::Cut)?;
    match format.parse() {
        Ok(FORMAT) => {}
        Ok(newer) if newer > FORMAT => return Err(Unsound::Newer(newer)),
        _ => return Err(Unsound::Changed),
    }
    let parts = rest.strip_prefix(" revision ").and_then(|rest| rest.split_once(", SHA-256 "));
    let (revision, rest) = parts.ok_or(Unsound::Cut)?;
    let sum = rest.strip_suffix(TAIL).ok_or(Unsound::Cut)?;
    let revision = revision.parse().map_err(|_| Unsound::Changed)?;
    if sum == checksum(revision, script) { Ok(revision) } else { Err(Unsound::Changed) }
}

/// Lower-case hexadecimal digits of the first `bytes` bytes of a hash.
pub(super) fn digits(hash: impl AsRef<[u8]>, bytes: usize) -> String {
    hash.as_ref().iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}

fn checksum(revision: u64, script: &str) -> String {
    let hash = Sha256::new().chain_update(format!("{revision}\n")).chain_update(script).finalize();
    digits(hash, usize::MAX)
}

/// The format that this version writes.
const FORMAT: u32 = 2;
/// The start of the first line.
const HEAD: &str = "# Saved by weir serve in format ";
/// The end of the first line.
const TAIL: &str = "; change it with weir's commands.";
/// The start of the first line in format 1. The revision follows it.
const OLD_HEAD: &str = "# Saved by weir serve; change it with weir's commands. Revision ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_text_that_changes_anywhere_or_is_cut_anywhere_is_refused() {
        let text = seal(7, "pipe 1 config bw 1Mbit/s\npipe 2 config bw 2Mbit/s\n");
        assert_eq!(unseal(&text), Ok(7));
        for at in 0..text.len() {
            assert!(unseal(&text[..at]).is_err(), "cut at {at}");
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            // If the start of the first line changes, that line is an ordinary comment, as in a
            // file that a user wrote.
            if changed.starts_with(HEAD) {
                assert!(unseal(&changed).is_err(), "changed at {at}");
            }
        }
    }

    #[test]
    fn files_of_other_formats_and_of_users_are_told_apart() {
        assert_eq!(unseal(&format!("{OLD_HEAD}12\npipe 1 config\n")), Ok(12));
        assert_eq!(unseal("pipe 1 config\n"), Ok(0));
        assert_eq!(unseal("# mine\n"), Ok(0));
        assert_eq!(unseal(""), Err(Unsound::Cut));
        assert_eq!(unseal(&format!("{HEAD}3, something else\n")), Err(Unsound::Newer(3)));
    }
}
