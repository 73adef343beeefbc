//! The changes of a source, each with the state that takes it back.

use std::collections::VecDeque;

use super::{ChangeView, EditError, KEPT_CHANGES};

/// The changes so far. `T` restores the state before a change.
#[derive(Debug)]
pub struct Log<T> {
    /// The last changes. `None` for a change that cannot be taken back, or has been taken back.
    kept: VecDeque<(ChangeView, Option<T>)>,
    /// The number of changes so far.
    count: u64,
}

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self { kept: VecDeque::new(), count: 0 }
    }
}

impl<T> Log<T> {
    /// Adds a change that is in force, and returns its number. The field `number` of
    /// `change` is ignored.
    pub fn add(&mut self, change: ChangeView, back: Option<T>) -> u64 {
        self.count += 1;
        let cut = |text: String| match text.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        };
        let change = ChangeView {
            number: self.count,
            what: cut(change.what),
            before: cut(change.before),
            after: cut(change.after),
            ..change
        };
        self.kept.push_back((change, back));
        if self.kept.len() > KEPT_CHANGES {
            self.kept.pop_front();
        }
        self.count
    }

    /// Forgets how to take back the newest change that `keep` rejects, and all changes before it.
    /// They remain in the log. `keep` sees the newest change first.
    pub fn limit(&mut self, mut keep: impl FnMut(&T) -> bool) {
        let mut kept = true;
        for (_, back) in self.kept.iter_mut().rev() {
            kept = kept && back.as_ref().is_none_or(&mut keep);
            if !kept {
                *back = None;
            }
        }
    }

    /// The number of changes so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The changes with numbers above `after`, and the number of changes that are no longer kept.
    #[must_use]
    pub fn after(&self, after: u64) -> (Vec<ChangeView>, u64) {
        let newer = self.kept.iter().map(|(change, _)| change).filter(|one| one.number > after);
        (newer.cloned().collect(), self.count - self.kept.len() as u64)
    }

    /// The change with this number, if it is the newest that can still be taken back.
    ///
    /// # Errors
    /// Another change must be taken back first, or no change can be taken back.
    pub fn undoable(&self, number: u64) -> Result<(&ChangeView, &T), EditError> {
        let newest = self.kept.iter().rev().find(|(_, back)| back.is_some());
        match newest {
            Some((change, Some(back))) if change.number == number => Ok((change, back)),
            Some((change, _)) => Err(EditError::Impossible(format!(
                "change {} comes first: changes are taken back from the newest on",
                change.number
            ))),
            None => Err(EditError::Impossible("no change can be taken back".to_owned())),
        }
    }

    /// Records that a change was taken back, so that the change before it can be taken back too.
    pub fn undone(&mut self, number: u64) {
        if let Some((_, back)) = self.kept.iter_mut().find(|(change, _)| change.number == number) {
            *back = None;
        }
    }
}

/// The longest text of a change, in characters.
const LONGEST: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_taken_back_from_the_newest_on() {
        let mut log = Log::default();
        for n in 1..=3u64 {
            assert_eq!(log.add(ChangeView::default(), Some(n * 10)), n);
        }
        assert!(log.undoable(2).unwrap_err().to_string().contains("change 3 comes first"));
        assert_eq!(*log.undoable(3).unwrap().1, 30);
        log.undone(3);
        log.add(ChangeView { undoes: Some(3), ..ChangeView::default() }, None);
        assert_eq!(*log.undoable(2).unwrap().1, 20);
        assert_eq!(log.after(3).0.len(), 1);
    }

    #[test]
    fn a_limit_forgets_the_oldest_states() {
        let mut log = Log::default();
        for n in 1..=4u64 {
            log.add(ChangeView::default(), Some(n));
        }
        let mut room = 2;
        log.limit(|_| {
            room -= 1;
            room >= 0
        });
        assert_eq!(log.after(0).0.len(), 4, "the changes are still listed");
        for n in [4, 3] {
            assert!(log.undoable(n).is_ok());
            log.undone(n);
        }
        assert!(log.undoable(2).unwrap_err().to_string().contains("no change can be taken back"));
    }

    #[test]
    fn the_log_is_bounded_in_number_and_length() {
        let mut log = Log::default();
        for _ in 0..KEPT_CHANGES + 7 {
            log.add(ChangeView { what: "ü".repeat(10_000), ..ChangeView::default() }, Some(()));
        }
        let (kept, more) = log.after(0);
        assert_eq!((kept.len(), more), (KEPT_CHANGES, 7));
        assert_eq!(kept[0].what.chars().count(), LONGEST + 1);
    }
}
