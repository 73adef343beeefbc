//! The terminal while it shows the view: the alternate screen, without a cursor, with keys that
//! need no Enter. Afterwards everything is restored, even if a thread panics.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, Once, PoisonError};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

/// A key of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Pause,
    Sort,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

/// The alternate screen; dropping it restores the terminal.
#[derive(Debug)]
pub(super) struct Screen {
    /// Whether keys are read from standard input.
    keys: bool,
}

/// The state of the terminal to restore. This is a static, because the panic hook reads it.
static CHANGED: Mutex<Option<Changed>> = Mutex::new(None);

#[derive(Debug)]
struct Changed {
    /// The original settings of standard input, if it is a terminal.
    input: Option<Termios>,
}

impl Screen {
    /// Takes over the screen of the terminal on standard error. With `keys`, it also reads keys
    /// from standard input, if that is a terminal.
    pub(super) fn take(keys: bool) -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                before(panic);
            }));
        });
        let input = if keys && io::stdin().is_terminal() { take_keys() } else { None };
        let keys = input.is_some();
        *CHANGED.lock().unwrap_or_else(PoisonError::into_inner) = Some(Changed { input });
        write(ENTER);
        Self { keys }
    }

    /// Whether keys can be read from standard input.
    pub(super) fn has_keys(&self) -> bool {
        self.keys
    }

    /// The current number of columns and rows of the terminal.
    pub(super) fn size(&self) -> (usize, usize) {
        let size =
            tcgetwinsize(io::stderr()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        size.map_or((80, 24), |size| (size.ws_col.into(), size.ws_row.into()))
    }

    /// Draws these lines from the top in one step. After a panic it draws nothing, so that the
    /// panic message stays visible.
    pub(super) fn draw(&self, lines: &[String]) {
        if CHANGED.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            return;
        }
        // Terminals that support synchronized output show all text between \x1b[?2026h and
        // \x1b[?2026l at once.
        let mut text = String::from("\x1b[?2026h\x1b[H");
        for (number, line) in lines.iter().enumerate() {
            // Writing to a String cannot fail.
            let _ = write!(text, "{}{line}\x1b[0m\x1b[K", if number > 0 { "\r\n" } else { "" });
        }
        text.push_str("\x1b[J\x1b[?2026l");
        write(&text);
    }

    /// The keys that were typed since the last call.
    pub(super) fn keys(&self) -> Vec<Key> {
        let mut buffer = [0u8; 256];
        let typed =
            if self.keys { rustix::io::read(io::stdin(), &mut buffer).unwrap_or(0) } else { 0 };
        keys(&buffer[..typed])
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the terminal, if it was changed.
pub(super) fn give_back() {
    let changed = CHANGED.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(changed) = changed {
        write(LEAVE);
        if let Some(input) = changed.input {
            // A terminal that was hung up returns an error and needs no restoring.
            let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &input);
        }
    }
}

/// Makes the terminal deliver each key at once and without an echo. ^C still sends a signal. ^Z is
/// disabled, because it would suspend this process without restoring the screen.
fn take_keys() -> Option<Termios> {
    let before = tcgetattr(io::stdin()).ok()?;
    let mut raw = before.clone();
    raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    raw.special_codes[SpecialCodeIndex::VMIN] = 0;
    raw.special_codes[SpecialCodeIndex::VTIME] = 0;
    raw.special_codes[SpecialCodeIndex::VSUSP] = 0;
    tcsetattr(io::stdin(), OptionalActions::Now, &raw).ok()?;
    Some(before)
}

/// Decodes keys from the bytes of a terminal; unknown keys are omitted.
fn keys(mut bytes: &[u8]) -> Vec<Key> {
    const NAMES: [(&[u8], Key); 19] = [
        (b"q", Key::Quit),
        (b"Q", Key::Quit),
        (b"p", Key::Pause),
        (b" ", Key::Pause),
        (b"s", Key::Sort),
        (b"k", Key::Up),
        (b"\x1b[A", Key::Up),
        (b"\x1bOA", Key::Up),
        (b"j", Key::Down),
        (b"\x1b[B", Key::Down),
        (b"\x1bOB", Key::Down),
        (b"\x1b[5~", Key::PageUp),
        (b"\x1b[6~", Key::PageDown),
        (b"\x1b[H", Key::Home),
        (b"\x1bOH", Key::Home),
        (b"g", Key::Home),
        (b"\x1b[F", Key::End),
        (b"\x1bOF", Key::End),
        (b"G", Key::End),
    ];
    let mut found = Vec::new();
    while !bytes.is_empty() {
        if let Some((name, key)) = NAMES.iter().find(|(name, _)| bytes.starts_with(name)) {
            found.push(*key);
            bytes = &bytes[name.len()..];
        } else if let Some(sequence) = bytes.strip_prefix(b"\x1b[") {
            // An unknown sequence is skipped with its last byte.
            let last = sequence.iter().position(|byte| (0x40..=0x7e).contains(byte));
            bytes = last.map_or(&[][..], |at| &sequence[at + 1..]);
        } else {
            bytes = &bytes[1..];
        }
    }
    found
}

fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    // A terminal that has disappeared does not end the watch.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// Switches to the alternate screen without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
/// Shows the cursor again and returns to the original screen.
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_key_sequences_are_ignored() {
        assert_eq!(keys(b"\x1b[A\x1b[Bq"), [Key::Up, Key::Down, Key::Quit]);
        assert_eq!(keys(b"x\x1b[1;5Cp\xffs"), [Key::Pause, Key::Sort]);
        assert_eq!(keys(b"\x1b"), []);
        assert_eq!(keys(b"\x1b[12"), []);
    }
}
