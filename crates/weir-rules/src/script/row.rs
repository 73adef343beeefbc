//! The rows of the tables of commands, actions and options.

/// A word of the language with its documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The word.
    pub name: &'static str,
    /// Other words with the same meaning.
    pub aliases: &'static [&'static str],
    /// The syntax of its argument.
    pub argument: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
    /// A line that uses it.
    pub example: &'static str,
}

impl Entry {
    /// All words of the entry.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

/// A row of the tables: an entry, and the reader of the words after the entry's word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<T: 'static> {
    pub(crate) entry: Entry,
    pub(crate) take: T,
}

pub(crate) const fn row<T: Copy>(
    name: &'static str,
    aliases: &'static [&'static str],
    argument: &'static str,
    meaning: &'static str,
    example: &'static str,
    take: T,
) -> Row<T> {
    Row { entry: Entry { name, aliases, argument, meaning, example }, take }
}

impl<T> Row<T> {
    pub(crate) fn is(&self, word: &str) -> bool {
        self.entry.name == word || self.entry.aliases.contains(&word)
    }

    pub(crate) fn words(&self) -> impl Iterator<Item = &'static str> {
        self.entry.words()
    }
}
