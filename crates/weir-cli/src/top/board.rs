//! The rows of the view with their recent past. The board keeps the reports of the sources; it
//! neither queries a source nor draws.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use weir_measure::latency::Latency;

use super::activity::{Activity, Kind};

/// The identity of a source: the path of its socket.
pub(super) type Id = Arc<str>;

/// A message of a source.
#[derive(Clone, Debug)]
pub(super) enum News {
    /// The sources that exist now.
    Found(Vec<Id>),
    /// The source answered; `activity` is `None` before its second reading.
    Sample { source: Id, about: About, activity: Option<Vec<Activity>> },
    /// The source does not answer.
    Silent { source: Id, name: String, why: String },
    /// The source has ended.
    Ended { source: Id },
    /// Details of the chosen object.
    Detail { source: Id, kind: Kind, name: String, detail: Detail },
    /// The answer to a change.
    Changed { words: String, answer: Result<String, String> },
}

/// A session or daemon in words.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct About {
    pub(super) name: String,
    /// The command that runs the links: `run`, `serve`.
    pub(super) kind: String,
    /// The programs or interfaces.
    pub(super) program: String,
    /// The process number; 0 for the daemon, and for a process of another PID namespace.
    pub(super) pid: u32,
    /// Whether changes are commands of the rules' language.
    pub(super) rules: bool,
    pub(super) daemon: bool,
    /// The specifications of links by name, or of the daemon's objects by kind and number, such as
    /// `pipe 1`.
    pub(super) specs: Arc<BTreeMap<String, String>>,
    /// Problems, a sentence each.
    pub(super) problems: Vec<String>,
}

/// Details that only the chosen object shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Detail {
    /// Settings and counters in words: a name and a value each.
    pub(super) lines: Vec<(String, String)>,
    /// Queueing delay since the start.
    pub(super) delay: Option<Latency>,
    /// Drops since the start, by reason in words.
    pub(super) reasons: Vec<(&'static str, u64)>,
    /// Instances of a mask: key, packets that wait, bytes that arrived, drops.
    pub(super) instances: Vec<(String, u64, u64, u64)>,
    /// The number of all instances.
    pub(super) total: u64,
}

/// A session or daemon with its rows.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) id: Id,
    pub(super) about: About,
    /// Why the source does not answer; `None` while it answers.
    pub(super) silent: Option<String>,
    pub(super) rows: Vec<Row>,
}

/// A link, path, lane, pipe, scheduler or queue, with recent values of its activity.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) activity: Activity,
    pub(super) offered: History,
    pub(super) carried: History,
    pub(super) inside: History,
    pub(super) drops: History,
}

/// The last values of a quantity, one for each reading.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    values: Vec<f32>,
    /// The index of the oldest value; 0 until the history is full.
    oldest: usize,
    /// The number of values that the history has ever received.
    pub(super) count: u64,
}

impl History {
    fn push(&mut self, value: f64) {
        let value = value as f32;
        if self.values.len() < KEPT {
            self.values.push(value);
        } else {
            self.values[self.oldest] = value;
            self.oldest = (self.oldest + 1) % KEPT;
        }
        self.count += 1;
    }

    /// The values, oldest first.
    pub(super) fn values(&self) -> impl ExactSizeIterator<Item = f32> + '_ {
        let (new, old) = self.values.split_at(self.oldest);
        let all = self.values.len();
        (0..all).map(move |n| if n < old.len() { old[n] } else { new[n - old.len()] })
    }

    pub(super) fn peak(&self) -> f32 {
        self.values.iter().copied().fold(0.0, f32::max)
    }
}

/// The identity of a row. It does not change when rows are sorted anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) source: Id,
    pub(super) kind: Kind,
    pub(super) name: String,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Board {
    pub(super) sources: Vec<Source>,
    /// Grows with each message that changes sources, rows or details.
    pub(super) version: u64,
    /// The chosen object, and its details.
    pub(super) detail: Option<(Key, Detail)>,
}

impl Board {
    /// Applies a message. Returns a note for the user, if there is one.
    pub(super) fn enter(&mut self, news: News) -> Option<String> {
        match news {
            News::Found(_) => return None,
            News::Sample { source, about, activity } => {
                let source = self.source(source, || about.name.clone());
                source.about = about;
                source.silent = None;
                if let Some(activity) = activity {
                    source.update(activity);
                }
            }
            News::Silent { source, name, why } => {
                self.source(source, || name).silent = Some(why);
            }
            News::Ended { source } => {
                let place = self.sources.iter().position(|known| known.id == source)?;
                let ended = self.sources.remove(place);
                self.version += 1;
                return Some(format!("{} has ended", ended.about.name));
            }
            News::Detail { source, kind, name, detail } => {
                self.detail = Some((Key { source, kind, name }, detail));
            }
            News::Changed { words, answer } => {
                return Some(match answer {
                    Ok(now) => format!("in force: {now}"),
                    Err(why) => format!("`{words}` changed nothing: {why}"),
                });
            }
        }
        self.version += 1;
        None
    }

    fn source(&mut self, id: Id, name: impl FnOnce() -> String) -> &mut Source {
        let place = self.sources.iter().position(|known| known.id == id);
        let place = place.unwrap_or_else(|| {
            let about = About { name: name(), ..About::default() };
            self.sources.push(Source { id, about, silent: None, rows: Vec::new() });
            self.sources.len() - 1
        });
        &mut self.sources[place]
    }

    /// The row with this identity, and its source.
    pub(super) fn find(&self, key: &Key) -> Option<(&Source, &Row)> {
        let source = self.sources.iter().find(|source| source.id == key.source)?;
        let is_row = |row: &&Row| row.activity.kind == key.kind && row.activity.name == key.name;
        Some((source, source.rows.iter().find(is_row)?))
    }

    /// The number of rows of sessions, and of the daemon.
    pub(super) fn counts(&self) -> (usize, usize) {
        let of = |daemon: bool| {
            let sources = self.sources.iter().filter(|source| source.about.daemon == daemon);
            sources.map(|source| source.rows.len()).sum()
        };
        (of(false), of(true))
    }
}

impl Source {
    /// Replaces the statistics. Rows keep their history; rows that are no longer reported vanish.
    fn update(&mut self, activity: Vec<Activity>) {
        let same =
            self.rows.len() == activity.len()
                && self.rows.iter().zip(&activity).all(|(row, new)| {
                    row.activity.kind == new.kind && row.activity.name == new.name
                });
        if !same {
            let mut known: HashMap<(Kind, String), Row> = self
                .rows
                .drain(..)
                .map(|row| ((row.activity.kind, row.activity.name.clone()), row))
                .collect();
            self.rows = activity
                .iter()
                .map(|new| {
                    known.remove(&(new.kind, new.name.clone())).unwrap_or_else(|| Row::new(new))
                })
                .collect();
        }
        for (row, new) in self.rows.iter_mut().zip(activity) {
            row.take(new);
        }
    }

    /// The specification of a row, if the source has reported it.
    pub(super) fn spec(&self, row: &Row) -> Option<&str> {
        let Activity { kind, name, .. } = &row.activity;
        let spec = match kind {
            Kind::Link => self.about.specs.get(name),
            kind => self.about.specs.get(&format!("{}{name}", kind.word())),
        };
        spec.map(String::as_str)
    }

    /// The name of a row. For a row of a session, the session's name comes first.
    pub(super) fn label(&self, row: &Row) -> String {
        let Activity { kind, name, .. } = &row.activity;
        if self.about.daemon {
            format!("{}{name}", kind.word())
        } else {
            format!("{} {}{name}", self.about.name, kind.word())
        }
    }

    pub(super) fn key(&self, row: &Row) -> Key {
        Key {
            source: Arc::clone(&self.id),
            kind: row.activity.kind,
            name: row.activity.name.clone(),
        }
    }
}

impl Row {
    fn new(activity: &Activity) -> Self {
        Self {
            activity: activity.clone(),
            offered: History::default(),
            carried: History::default(),
            inside: History::default(),
            drops: History::default(),
        }
    }

    fn take(&mut self, activity: Activity) {
        self.offered.push(activity.offered);
        self.carried.push(activity.carried.unwrap_or(0.0));
        self.inside.push(activity.inside as f64);
        self.drops.push(activity.drops);
        self.activity = activity;
    }
}

/// Number of values of a quantity that are kept.
pub(super) const KEPT: usize = 120;

/// An activity for tests.
#[cfg(test)]
pub(super) fn example(kind: Kind, name: &str, carried: f64) -> Activity {
    Activity {
        kind,
        name: name.to_owned(),
        offered: carried * 1.5,
        carried: Some(carried),
        inside: 3,
        drops: 0.0,
        reasons: Vec::new(),
        delay: super::activity::Delay::Unknown,
        late: None,
        packets: [1, 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(source: &str, activity: Vec<Activity>) -> News {
        let about = About { name: source.to_owned(), ..About::default() };
        News::Sample { source: source.into(), about, activity: Some(activity) }
    }

    #[test]
    fn a_history_keeps_the_newest_values_in_order() {
        let mut history = History::default();
        for value in 0..KEPT + 5 {
            history.push(value as f64);
        }
        let values: Vec<f32> = history.values().collect();
        assert_eq!((values[0], values[KEPT - 1], values.len()), (5.0, KEPT as f32 + 4.0, KEPT));
        assert!(values.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(history.peak(), KEPT as f32 + 4.0);
    }

    #[test]
    fn rows_keep_their_past_while_others_come_and_go() {
        let mut board = Board::default();
        let pipe = |name: &str, rate| example(Kind::Pipe, name, rate);
        board.enter(sample("s", vec![pipe("1", 1.0), pipe("3", 3.0)]));
        board.enter(sample("s", vec![pipe("1", 2.0), pipe("2", 9.0), pipe("3", 4.0)]));
        let carried = |board: &Board, n: usize| -> Vec<f32> {
            board.sources[0].rows[n].carried.values().collect()
        };
        assert_eq!(carried(&board, 0), [1.0, 2.0]);
        assert_eq!(carried(&board, 1), [9.0]);
        assert_eq!(carried(&board, 2), [3.0, 4.0]);
        board.enter(sample("s", vec![pipe("3", 5.0)]));
        assert_eq!(carried(&board, 0), [3.0, 4.0, 5.0]);
        let key = board.sources[0].key(&board.sources[0].rows[0]);
        assert!(board.find(&key).is_some());
        let said = board.enter(News::Ended { source: "s".into() });
        assert_eq!(said.as_deref(), Some("s has ended"));
        assert!(board.find(&key).is_none());
    }

    #[test]
    fn a_source_that_does_not_answer_keeps_its_rows() {
        let mut board = Board::default();
        board.enter(sample("s", vec![example(Kind::Link, "up", 1.0)]));
        let silent = News::Silent { source: "s".into(), name: "s".into(), why: "late".into() };
        board.enter(silent);
        assert_eq!((board.sources[0].rows.len(), board.counts()), (1, (1, 0)));
        assert_eq!(board.sources[0].silent.as_deref(), Some("late"));
        board.enter(sample("s", vec![example(Kind::Link, "up", 2.0)]));
        assert_eq!(board.sources[0].silent, None);
    }
}
