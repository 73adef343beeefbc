//! `weir top`: the links of all sessions and of the daemon in a terminal, while they run.
//!
//! `feed` queries the control sockets, each on a thread of its own. `board` keeps their reports and
//! the recent past. `view` is the state that keys change. `draw` draws board and view into a frame.

mod activity;
mod args;
mod bars;
mod board;
mod check;
mod draw;
mod feed;
mod once;
mod screen;
#[cfg(test)]
mod tests;
mod view;
mod words;

use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use weir_linux::process::Signals;

pub(crate) use args::TopArgs;

use crate::output::{Failure, USAGE, colours_allowed};
use board::Board;
use draw::Look;
use feed::{Feed, Request};
use screen::Screen;
use view::{Act, View};

/// Shows what the links do until the user ends the view.
pub(crate) fn top(args: TopArgs) -> Result<ExitCode, Failure> {
    let mut view = View::new(args.sort, &args.filter);
    if args.once {
        let feed = Feed::start(args.interval, args.name);
        return once::once(&feed, &mut view, args.interval);
    }
    if !screen::is_terminal() {
        let message = "weir top needs a terminal; `weir top --once` prints the table as text";
        return Err(Failure::new(USAGE, message));
    }
    // Signals are blocked before any thread starts, because threads inherit the set of blocked
    // signals.
    let signals = Signals::take()
        .map_err(|error| Failure::of_weir(format!("cannot take signals: {error}")))?;
    let look = Look { colour: colours_allowed(), period: args.interval.as_secs_f64() };
    let feed = Feed::start(args.interval, args.name);
    let gone = |error: io::Error| Failure::of_weir(format!("the terminal: {error}"));
    let mut screen = Screen::take().map_err(gone)?;
    std::thread::spawn(move || end_by(&signals));
    follow(&mut screen, &feed, &mut view, look).map_err(gone)?;
    Ok(ExitCode::SUCCESS)
}

fn follow(screen: &mut Screen, feed: &Feed, view: &mut View, look: Look) -> io::Result<()> {
    let mut board = Board::default();
    let mut drawn: Option<Instant> = None;
    loop {
        let due = drawn.is_none_or(|at| at.elapsed() >= FRAME);
        let mut changed = drawn.is_none();
        for news in feed.news.try_iter().take(MOST_NEWS) {
            changed = true;
            if let Some(words) = board.enter(news) {
                view.message = words;
            }
        }
        while event::poll(if changed && due { Duration::ZERO } else { FRAME })? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    let act = view.key(key, &board);
                    if act_on(&act, screen, feed, &mut board)? {
                        return Ok(());
                    }
                }
                Event::Resize(..) => {}
                _ => continue,
            }
            changed = true;
            // Keys that were typed ahead are all handled before the next frame.
            if !event::poll(Duration::ZERO)? {
                break;
            }
        }
        if changed {
            screen.draw(view, &board, look)?;
            drawn = Some(Instant::now());
        }
    }
}

/// Carries out the action of a key. Returns whether the view ends.
fn act_on(act: &Act, screen: &mut Screen, feed: &Feed, board: &mut Board) -> io::Result<bool> {
    match act {
        Act::Nothing => {}
        Act::Quit => return Ok(true),
        Act::Suspend => screen.suspend()?,
        Act::Redraw => screen.clear()?,
        Act::Change(target, words) => {
            let files = check::files(target, words);
            let request =
                Request::Change { link: target.link.clone(), words: words.clone(), files };
            feed.ask(&target.source, request);
        }
        Act::Reset(key) => feed.ask(&key.source, Request::Reset { link: key.name.clone() }),
        Act::Focus(key) => {
            board.detail = None;
            feed.focus(key.as_ref());
        }
    }
    Ok(false)
}

/// Waits for a signal that ends this process, on a thread of its own. [`follow`] cannot do this,
/// because reading the keys of a terminal that was hung up may never return.
fn end_by(signals: &Signals) {
    loop {
        let mut ready = [PollFd::new(signals, PollFlags::IN)];
        if !matches!(poll(&mut ready, None), Ok(_) | Err(Errno::INTR)) {
            return;
        }
        while let Ok(Some(signal)) = signals.next() {
            let is_it = |ends: Signal| ends.as_raw() == signal.number;
            if [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].into_iter().any(is_it) {
                screen::give_back();
                std::process::exit(128 + signal.number);
            }
        }
    }
}

/// The shortest time between two frames, unless a key is pressed. Even a slow connection carries
/// ten frames a second.
const FRAME: Duration = Duration::from_millis(100);
/// Maximum number of messages that the board takes between two frames.
const MOST_NEWS: usize = 64;
