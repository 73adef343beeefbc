//! Tables of algorithms: schedulers, AQMs and the congestion controls of simulated senders.

use super::domain::Parameter;

/// A row of a table: the description of an algorithm for the command language and the
/// documentation.
#[derive(Clone, Copy, Debug)]
pub struct Row<T: 'static> {
    /// Name in the command language.
    pub name: &'static str,
    /// Other accepted names.
    pub aliases: &'static [&'static str],
    /// The algorithm in one line.
    pub summary: &'static str,
    /// The origin of the algorithm.
    pub source: &'static str,
    /// The algorithm's own parameters, which follow its name in a command.
    pub parameters: &'static [Parameter],
    /// The properties that only this table has.
    pub traits: T,
}

impl<T> Row<T> {
    /// The algorithm's own parameter with this name, in upper or lower case.
    pub fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        self.parameters.iter().find(|parameter| parameter.name.eq_ignore_ascii_case(name))
    }
}

/// An entry of a table.
pub trait Entry: Copy + Eq + 'static {
    /// The type of [`Row::traits`].
    type Traits: 'static;

    /// The noun for an entry in messages, such as `AQM`.
    const NOUN: &'static str;

    /// All entries, in the order of the table.
    fn all() -> &'static [Self];

    /// The entry's row.
    fn row(self) -> &'static Row<Self::Traits>;

    /// The entry that the program has added under this name.
    fn added(_name: &str) -> Option<Self> {
        None
    }

    /// The entry with this name or alias, in upper or lower case.
    fn named(name: &str) -> Option<Self> {
        let is_it = |row: &Row<Self::Traits>| {
            core::iter::once(&row.name)
                .chain(row.aliases)
                .any(|known| known.eq_ignore_ascii_case(name))
        };
        let mut all = Self::all().iter().copied();
        all.find(|entry| is_it(entry.row())).or_else(|| Self::added(name))
    }
}

/// Generates a table from a line for each algorithm, `Kind: module::Type`: the enum `Kind`, the
/// constant `TABLE` of the rows `module::ROW`, and the re-exports of the types.
///
/// `added` is the trait of the factories of algorithms that a program adds while it runs. These
/// algorithms are in the registry `ADDED`, and their kind is `Kind::Added`.
///
/// `with` names a macro that generates the rest of the table, such as the dispatch to the types. It
/// receives the lines as `Kind: Type`.
#[macro_export]
macro_rules! table {
    (
        noun $noun:literal, traits $traits:ty, added $added:ty, with $rest:ident;
        $($(#[$doc:meta])* $kind:ident: $module:ident::$type:ident),+ $(,)?
    ) => {
        $(pub use $module::$type;)+

        /// An algorithm.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[$doc])* $kind,)+
            /// An algorithm that the program has added.
            Added($crate::settings::Added<$added>),
        }

        /// The algorithms that the program has added.
        pub static ADDED: $crate::settings::Registry<$added> = $crate::settings::Registry::new();

        /// All algorithms, in the order of [`Kind`], without those that the program has added.
        pub const TABLE: &[$crate::settings::Row<$traits>] = &[$($module::ROW),+];

        impl Kind {
            /// All kinds, in the order of [`TABLE`].
            pub const ALL: [Self; TABLE.len()] = [$(Self::$kind),+];

            /// The algorithm's row.
            pub fn row(self) -> &'static $crate::settings::Row<$traits> {
                enum Index { $($kind),+ }
                match self {
                    $(Self::$kind => &TABLE[Index::$kind as usize],)+
                    Self::Added(added) => added.0.row(),
                }
            }

            /// The algorithm with this name or alias, in upper or lower case.
            pub fn from_name(name: &str) -> Option<Self> {
                <Self as $crate::settings::Entry>::named(name)
            }
        }

        impl $crate::settings::Entry for Kind {
            type Traits = $traits;

            const NOUN: &'static str = $noun;

            fn all() -> &'static [Self] {
                &Self::ALL
            }

            fn row(self) -> &'static $crate::settings::Row<$traits> {
                Self::row(self)
            }

            fn added(name: &str) -> Option<Self> {
                ADDED.find(name).map(Self::Added)
            }
        }

        $rest! { $($kind: $type),+ }

        #[cfg(test)]
        mod table {
            use super::{Kind, TABLE};

            #[test]
            fn names_are_distinct_and_defaults_are_within_their_ranges() {
                let names = |n: usize| core::iter::once(&TABLE[n].name).chain(TABLE[n].aliases);
                for (n, kind) in Kind::ALL.into_iter().enumerate() {
                    assert!(names(n).all(|name| Kind::from_name(name) == Some(kind)));
                    let parameters = TABLE[n].parameters;
                    assert!(parameters.len() <= $crate::settings::MOST, "{}", TABLE[n].name);
                    for p in parameters {
                        let text = p.domain.write(p.default);
                        let read = p.domain.parse(&text);
                        assert_eq!(read, Some(p.default), "{} {}", TABLE[n].name, p.name);
                    }
                }
            }
        }
    };
}
