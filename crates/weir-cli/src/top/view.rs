//! The state of the view that the user changes with keys: order, filter, selection, pages, and the
//! line in which a change is written. This module draws nothing.

use std::rc::Rc;

use clap::ValueEnum;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::activity::Kind;
use super::board::{Board, Key, Row, Source};
use super::check::{Target, Verdict, check};

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// Session by session, each with its links in their own order.
    #[default]
    Name,
    /// The rate of arrivals.
    Offered,
    /// The rate of departures.
    Carried,
    /// Packets inside.
    Queue,
    /// Queueing delay.
    Delay,
    /// Drops per second.
    Drops,
    /// Lateness of departures.
    Late,
}

impl Order {
    pub(super) const ALL: [Self; 7] = [
        Self::Name,
        Self::Offered,
        Self::Carried,
        Self::Queue,
        Self::Delay,
        Self::Drops,
        Self::Late,
    ];

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Offered => "offered",
            Self::Carried => "carried",
            Self::Queue => "queue",
            Self::Delay => "delay",
            Self::Drops => "drops",
            Self::Late => "late",
        }
    }

    fn value(self, row: &Row) -> f64 {
        let activity = &row.activity;
        match self {
            Self::Name => 0.0,
            Self::Offered => activity.offered,
            Self::Carried => activity.carried.unwrap_or(-1.0),
            Self::Queue => activity.inside as f64,
            Self::Delay => activity.delay.ns().unwrap_or(-1.0),
            Self::Drops => activity.drops,
            Self::Late => activity.late_ns().unwrap_or(-1.0),
        }
    }
}

/// An action that a key requests, besides a change of the view.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    Nothing,
    Quit,
    /// Suspends this process, as ^Z does.
    Suspend,
    /// Draws everything anew.
    Redraw,
    /// Changes the target with these words.
    Change(Target, String),
    /// Resets a link to its configuration at the start of its session.
    Reset(Key),
    /// Requests details of this row, or of none.
    Focus(Option<Key>),
}

/// A line of text that is being written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Line {
    pub(super) text: String,
    /// The place of the cursor, in characters.
    pub(super) at: usize,
}

impl Line {
    fn of(text: &str) -> Self {
        Self { text: text.to_owned(), at: text.chars().count() }
    }

    fn byte(&self, at: usize) -> usize {
        self.text.char_indices().nth(at).map_or(self.text.len(), |(byte, _)| byte)
    }

    /// Handles a key. Returns whether the text or the cursor may have changed.
    fn key(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('u') if control => *self = Self::default(),
            KeyCode::Char('a') if control => self.at = 0,
            KeyCode::Char('e') if control => self.at = self.text.chars().count(),
            KeyCode::Char('w') if control => {
                let before = self.text[..self.byte(self.at)].trim_end();
                let start = before.rfind(' ').map_or(0, |space| space + 1);
                let end = self.byte(self.at);
                self.text.replace_range(start..end, "");
                self.at = self.text[..start].chars().count();
            }
            KeyCode::Char(c) if !control && self.text.len() < LONGEST && !c.is_control() => {
                self.text.insert(self.byte(self.at), c);
                self.at += 1;
            }
            KeyCode::Backspace if self.at > 0 => {
                self.at -= 1;
                self.text.remove(self.byte(self.at));
            }
            KeyCode::Delete if self.at < self.text.chars().count() => {
                self.text.remove(self.byte(self.at));
            }
            KeyCode::Left => self.at = self.at.saturating_sub(1),
            KeyCode::Right => self.at = (self.at + 1).min(self.text.chars().count()),
            KeyCode::Home => self.at = 0,
            KeyCode::End => self.at = self.text.chars().count(),
            _ => return false,
        }
        true
    }
}

/// The part of the view that receives the keys.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Mode {
    List,
    /// One row on the whole screen.
    Detail,
    Help,
    /// The filter is being written.
    Filter(Line),
    /// A change is being written. The verdict says whether the text may be sent. `detail` says
    /// whether one row is shown on the whole screen meanwhile and afterwards.
    Change {
        target: Target,
        line: Line,
        verdict: Verdict,
        detail: bool,
    },
    /// A reset that waits for its confirmation. `detail` is as for a change.
    Confirm {
        key: Key,
        detail: bool,
    },
}

/// The state of the view.
#[derive(Debug)]
pub(super) struct View {
    pub(super) order: Order,
    pub(super) reversed: bool,
    pub(super) filter: String,
    pub(super) mode: Mode,
    pub(super) selected: Option<Key>,
    /// The index of the first row on the screen.
    pub(super) top: usize,
    /// The number of rows that fitted into the last frame.
    pub(super) page: usize,
    /// The board that is shown while the view is paused.
    pub(super) paused: Option<Rc<Board>>,
    /// The last message to the user.
    pub(super) message: String,
    /// The rows to show, in order: for each, the index of its source on the board, and its index in
    /// the source.
    rows: Vec<(u32, u32)>,
    /// The version of the board for which `rows` was made; `None` if `rows` is out of date.
    made: Option<u64>,
}

impl View {
    pub(super) fn new(order: Order, filter: &str) -> Self {
        Self {
            order,
            reversed: false,
            filter: filter.to_owned(),
            mode: Mode::List,
            selected: None,
            top: 0,
            page: 1,
            paused: None,
            message: String::new(),
            rows: Vec::new(),
            made: None,
        }
    }

    /// Filters and sorts the rows of the board, if the board or the view has changed since the last
    /// call.
    pub(super) fn arrange(&mut self, board: &Board) {
        if self.made == Some(board.version) {
            return;
        }
        self.made = Some(board.version);
        self.rows.clear();
        let words: Vec<String> = self.filter.split_whitespace().map(str::to_lowercase).collect();
        let mut sources: Vec<usize> = (0..board.sources.len()).collect();
        let by =
            |n: &usize| (board.sources[*n].about.daemon, board.sources[*n].about.name.as_str());
        sources.sort_by(|a, b| by(a).cmp(&by(b)));
        for n in sources {
            let source = &board.sources[n];
            for (place, row) in source.rows.iter().enumerate() {
                if words.is_empty() || matches(source, row, &words) {
                    self.rows.push((n as u32, place as u32));
                }
            }
        }
        if self.order != Order::Name {
            let value = |&(source, row): &(u32, u32)| {
                self.order.value(&board.sources[source as usize].rows[row as usize])
            };
            self.rows.sort_by(|a, b| value(b).total_cmp(&value(a)));
        }
        if self.reversed {
            self.rows.reverse();
        }
    }

    fn invalidate(&mut self) {
        self.made = None;
    }

    /// The number of rows that match the filter.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// A row and its source.
    pub(super) fn row<'a>(&self, board: &'a Board, place: usize) -> Option<(&'a Source, &'a Row)> {
        let &(source, row) = self.rows.get(place)?;
        let source = board.sources.get(source as usize)?;
        Some((source, source.rows.get(row as usize)?))
    }

    /// The index of the selected row among the rows to show. Without a selection, this is 0. If the
    /// selected row is not among them, it is the index of the first row on the screen.
    pub(super) fn place(&self, board: &Board) -> usize {
        let Some(key) = &self.selected else { return 0 };
        let is_it = |place: &usize| {
            self.row(board, *place).is_some_and(|(source, row)| {
                source.id == key.source
                    && row.activity.kind == key.kind
                    && row.activity.name == key.name
            })
        };
        (0..self.len()).find(is_it).unwrap_or_else(|| self.top.min(self.len().saturating_sub(1)))
    }

    fn select(&mut self, board: &Board, place: usize) {
        let place = place.min(self.len().saturating_sub(1));
        self.selected = self.row(board, place).map(|(source, row)| source.key(row));
    }

    /// Handles a key.
    pub(super) fn key(&mut self, key: KeyEvent, live: &Board) -> Act {
        let paused = self.paused.clone();
        let board = paused.as_deref().unwrap_or(live);
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Act::Quit,
            KeyCode::Char('z') if control => return Act::Suspend,
            KeyCode::Char('l') if control => return Act::Redraw,
            _ => {}
        }
        match std::mem::replace(&mut self.mode, Mode::List) {
            Mode::Help => Act::Nothing,
            Mode::Filter(line) => self.filter_key(line, key),
            Mode::Change { target, line, verdict, detail } => {
                self.change_key(key, (target, line, verdict, detail))
            }
            Mode::Confirm { key: row, detail } => {
                self.mode = if detail { Mode::Detail } else { Mode::List };
                match key.code {
                    KeyCode::Char('y' | 'Y') => Act::Reset(row),
                    _ => Act::Nothing,
                }
            }
            mode => {
                self.mode = mode;
                self.message.clear();
                self.list_key(key, board)
            }
        }
    }

    fn list_key(&mut self, key: KeyEvent, board: &Board) -> Act {
        let detail = self.mode == Mode::Detail;
        self.arrange(board);
        let (place, page) = (self.place(board), self.page.max(1));
        if !detail {
            // The marked row becomes the selection, because the filter may hide the selected row.
            self.select(board, place);
        }
        let to = match key.code {
            KeyCode::Up | KeyCode::Char('k') => place.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => place + 1,
            KeyCode::PageUp => place.saturating_sub(page),
            KeyCode::PageDown => place + page,
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => usize::MAX,
            code => return self.other_key(code, board),
        };
        self.select(board, to);
        if detail { Act::Focus(self.selected.clone()) } else { Act::Nothing }
    }

    fn other_key(&mut self, code: KeyCode, board: &Board) -> Act {
        let detail = self.mode == Mode::Detail;
        match code {
            KeyCode::Char('q') if detail => return self.leave(),
            KeyCode::Char('q') => return Act::Quit,
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left if detail => return self.leave(),
            KeyCode::Enter | KeyCode::Right if !detail && self.selected.is_some() => {
                self.mode = Mode::Detail;
                return Act::Focus(self.selected.clone());
            }
            KeyCode::Esc if !self.filter.is_empty() => {
                self.filter.clear();
                self.invalidate();
            }
            KeyCode::Char('/') if !detail => self.mode = Mode::Filter(Line::of(&self.filter)),
            KeyCode::Char('s') if !detail => {
                let at = Order::ALL.iter().position(|order| *order == self.order).unwrap_or(0);
                self.order = Order::ALL[(at + 1) % Order::ALL.len()];
                self.top = 0;
                self.selected = None;
                self.invalidate();
            }
            KeyCode::Char('S') if !detail => {
                self.reversed = !self.reversed;
                self.invalidate();
            }
            KeyCode::Char('p' | ' ') => {
                self.paused = match self.paused.take() {
                    Some(_) => None,
                    None => Some(Rc::new(board.clone())),
                };
                self.invalidate();
            }
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Char('c') => self.begin_change(board, detail),
            KeyCode::Char('r') => match self.chosen(board) {
                Some((source, row)) if row.activity.kind == Kind::Link && !source.about.rules => {
                    self.mode = Mode::Confirm { key: source.key(row), detail };
                }
                _ => self.message = "only a link of a session has a start to go back to".into(),
            },
            _ => {}
        }
        Act::Nothing
    }

    fn leave(&mut self) -> Act {
        self.mode = Mode::List;
        Act::Focus(None)
    }

    /// The selected row, if it is still on the board.
    pub(super) fn chosen<'a>(&self, board: &'a Board) -> Option<(&'a Source, &'a Row)> {
        board.find(self.selected.as_ref()?)
    }

    fn begin_change(&mut self, board: &Board, detail: bool) {
        let Some((source, row)) = self.chosen(board) else { return };
        if source.silent.is_some() {
            self.message = format!("{} does not answer", source.about.name);
            return;
        }
        match Target::of(source, row) {
            Ok((target, text)) => {
                let verdict = check(&target, &text);
                let line = Line::of(&text);
                self.mode = Mode::Change { target, line, verdict, detail };
            }
            Err(why) => self.message = why,
        }
    }

    fn filter_key(&mut self, mut line: Line, key: KeyEvent) -> Act {
        match key.code {
            KeyCode::Enter => return Act::Nothing,
            KeyCode::Esc => line = Line::default(),
            _ => {
                line.key(key);
                self.mode = Mode::Filter(line.clone());
            }
        }
        if self.filter != line.text {
            self.filter = line.text;
            self.top = 0;
            self.invalidate();
        }
        Act::Nothing
    }

    fn change_key(
        &mut self,
        key: KeyEvent,
        (target, mut line, mut verdict, detail): (Target, Line, Verdict, bool),
    ) -> Act {
        match key.code {
            KeyCode::Esc => {}
            KeyCode::Enter if verdict.allowed => {
                self.mode = if detail { Mode::Detail } else { Mode::List };
                return Act::Change(target, line.text);
            }
            code => {
                if code != KeyCode::Enter && line.key(key) {
                    verdict = check(&target, &line.text);
                }
                self.mode = Mode::Change { target, line, verdict, detail };
                return Act::Nothing;
            }
        }
        self.mode = if detail { Mode::Detail } else { Mode::List };
        Act::Nothing
    }
}

/// Whether each of the words occurs in the row's name, program or specification.
fn matches(source: &Source, row: &Row, words: &[String]) -> bool {
    let mut text = source.label(row);
    for more in [Some(source.about.program.as_str()), source.spec(row)].into_iter().flatten() {
        text.push(' ');
        text.push_str(more);
    }
    let text = text.to_lowercase();
    words.iter().all(|word| text.contains(word.as_str()))
}

/// The longest text of a line, bytes.
const LONGEST: usize = 4096;
