//! Settings of algorithms: parameters with the values that they may have, tables of algorithms, and
//! an algorithm of a table with its settings chosen.
//!
//! A table is one call of [`table!`](crate::table), an algorithm's settings are one call of
//! [`settings!`](crate::settings!): from its lines come the typed values that the algorithm reads
//! and the parameters of its row, which drive the command language, help and documentation.

mod chosen;
mod domain;
mod table;
mod typed;

pub use chosen::{Chosen, MOST, SettingError};
pub use domain::{Domain, Parameter, SWITCH, UNIT};
pub use table::{Entry, Row};
pub use typed::{Count, Fraction, Number, Part, Setting, Switch, Time, Value};
