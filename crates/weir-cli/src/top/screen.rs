//! The terminal while it shows the view: the alternate screen, with keys that need no Enter.
//! Afterwards everything is restored, even when a thread panics or the process is suspended.

use std::io::{self, IsTerminal as _, Stdout, Write as _};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use rustix::process::{Signal, getpid, kill_process};

use super::board::Board;
use super::draw::{Look, draw};
use super::view::View;

/// The screen; dropping it restores the terminal.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

/// Whether the terminal must be restored. This is a static, because the panic hook reads it.
static TAKEN: AtomicBool = AtomicBool::new(false);

impl Screen {
    /// Takes over the terminal on standard output.
    ///
    /// # Errors
    /// Standard output is not a terminal, or the system refuses.
    pub(super) fn take() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                before(panic);
            }));
        });
        enter()?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(Self { terminal })
    }

    /// Draws a frame. Only the parts that changed are sent to the terminal. After a panic, nothing
    /// is drawn, so that the message stays visible.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn draw(&mut self, view: &mut View, board: &Board, look: Look) -> io::Result<()> {
        if !TAKEN.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.terminal.draw(|frame| {
            if let Some(cursor) = draw(frame.buffer_mut(), view, board, look) {
                frame.set_cursor_position(cursor);
            }
        })?;
        Ok(())
    }

    /// Makes the next frame draw everything.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.terminal.clear()
    }

    /// Stops this process as ^Z does, with the terminal restored, and takes the terminal again when
    /// the process continues.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        give_back();
        // The process stops in this call, which returns when the process continues.
        kill_process(getpid(), Signal::TSTP)?;
        enter()?;
        self.terminal.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Whether standard output and standard input are terminals.
pub(super) fn is_terminal() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::Relaxed);
    execute!(io::stdout(), EnterAlternateScreen)
}

/// Restores the terminal, if it was changed.
pub(super) fn give_back() {
    if TAKEN.swap(false, Ordering::Relaxed) {
        // A terminal that was hung up needs no restoring.
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = io::stdout().flush();
        let _ = disable_raw_mode();
    }
}
