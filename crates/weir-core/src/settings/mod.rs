//! Settings of algorithms: parameters with their allowed values, tables of algorithms, and an
//! algorithm of a table with values for its settings.
//!
//! One call of [`table!`](crate::table) defines a table. One call of
//! [`settings!`](crate::settings!) defines the settings of an algorithm: its lines generate both
//! the typed values that the algorithm reads and the parameters of its row, from which the command
//! language, help and documentation are generated.

mod chosen;
mod domain;
mod table;
mod typed;

pub use chosen::{Chosen, MOST, SettingError};
pub use domain::{Domain, Parameter, SWITCH, UNIT};
pub use table::{Entry, Row};
pub use typed::{Count, Four, Fraction, Number, Part, Setting, Switch, Time, Value};
