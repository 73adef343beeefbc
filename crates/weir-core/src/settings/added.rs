//! Algorithms that a program adds to a table while it runs, such as those of a scripting language.
//!
//! The rows of a table are constants, and its algorithms are compiled into enums without virtual
//! calls. Each of these enums has one more variant for all added algorithms. An added algorithm has
//! a factory, which creates the algorithm as a trait object. Nothing changes for the algorithms of
//! the table, and every reader of names (the command language, scenarios, the rig) also finds the
//! added algorithms.
//!
//! The name of an added algorithm contains a dot; the names of a table contain none. An added
//! algorithm cannot be removed, because its handle is valid for the rest of the program.

use alloc::boxed::Box;
use core::fmt;
use core::hash::{Hash, Hasher};

use once_cell::race::OnceBox;

use super::table::Row;

/// The factory of an added algorithm. Each table extends this trait with a method that creates the
/// algorithm.
pub trait Factory: Sync {
    /// The type of [`Row::traits`].
    type Traits: 'static;

    /// The algorithm's row.
    fn row(&self) -> &'static Row<Self::Traits>;
}

/// The handle of an added algorithm. Two handles are equal if they have the same row.
pub struct Added<F: ?Sized + 'static>(pub &'static F);

impl<F: ?Sized> Clone for Added<F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: ?Sized> Copy for Added<F> {}

impl<F: Factory + ?Sized> PartialEq for Added<F> {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.0.row(), other.0.row())
    }
}

impl<F: Factory + ?Sized> Eq for Added<F> {}

impl<F: Factory + ?Sized> Hash for Added<F> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.row().name.hash(state);
    }
}

impl<F: Factory + ?Sized> fmt::Debug for Added<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.row().name)
    }
}

/// The algorithms that were added to a table, in the order of their addition.
pub struct Registry<F: ?Sized + 'static> {
    first: OnceBox<Node<F>>,
}

struct Node<F: ?Sized + 'static> {
    factory: &'static F,
    next: OnceBox<Node<F>>,
}

impl<F: Factory + Sync + ?Sized> Registry<F> {
    /// A registry without algorithms.
    #[expect(clippy::new_without_default, reason = "a registry is the constant of its table")]
    pub const fn new() -> Self {
        Self { first: OnceBox::new() }
    }

    /// Adds an algorithm.
    ///
    /// # Errors
    /// The name has no dot, or an algorithm of this name was added before.
    pub fn add(&self, factory: &'static F) -> Result<(), NameError> {
        let name = factory.row().name;
        if !name.contains('.') {
            return Err(NameError::NoDot);
        }
        let mut node = Box::new(Node { factory, next: OnceBox::new() });
        let mut place = &self.first;
        loop {
            while let Some(entry) = place.get() {
                if entry.factory.row().name.eq_ignore_ascii_case(name) {
                    return Err(NameError::Taken);
                }
                place = &entry.next;
            }
            match place.set(node) {
                Ok(()) => return Ok(()),
                // Another thread has appended an algorithm here.
                Err(back) => node = back,
            }
        }
    }

    /// The algorithm with this name, in upper or lower case.
    pub fn find(&self, name: &str) -> Option<Added<F>> {
        // Names of tables have no dot, so the list is not searched.
        if !name.contains('.') {
            return None;
        }
        let mut node = self.first.get();
        while let Some(entry) = node {
            if entry.factory.row().name.eq_ignore_ascii_case(name) {
                return Some(Added(entry.factory));
            }
            node = entry.next.get();
        }
        None
    }
}

/// Why an algorithm cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name has no dot.
    #[error("the name of an added algorithm must contain a dot")]
    NoDot,
    /// An algorithm of this name was added before.
    #[error("an algorithm of this name was added before")]
    Taken,
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Only(Row<()>);

    impl Factory for &'static Only {
        type Traits = ();

        fn row(&self) -> &'static Row<()> {
            &self.0
        }
    }

    const fn named(name: &'static str) -> Only {
        Only(Row { name, aliases: &[], summary: "", source: "", parameters: &[], traits: () })
    }

    static FIRST: Only = named("test.First");
    static SECOND: Only = named("test.Second");
    static AGAIN: Only = named("test.first");
    static PLAIN: Only = named("first");

    #[test]
    fn added_algorithms_are_found_by_name() {
        static REGISTRY: Registry<&'static Only> = Registry::new();
        static FACTORIES: [&Only; 4] = [&FIRST, &SECOND, &AGAIN, &PLAIN];
        assert!(REGISTRY.find("test.first").is_none());
        assert_eq!(REGISTRY.add(&FACTORIES[0]), Ok(()));
        assert_eq!(REGISTRY.add(&FACTORIES[1]), Ok(()));
        assert_eq!(REGISTRY.add(&FACTORIES[2]), Err(NameError::Taken));
        assert_eq!(REGISTRY.add(&FACTORIES[3]), Err(NameError::NoDot));
        let (first, second) = (REGISTRY.find("TEST.FIRST"), REGISTRY.find("test.Second"));
        assert_eq!(first, Some(Added(&FACTORIES[0])));
        assert!(first != second && second.is_some());
        assert!(REGISTRY.find("first").is_none());
    }
}
