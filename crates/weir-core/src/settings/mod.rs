//! Settings of algorithms: parameters with their allowed values, tables of algorithms, and
//! [`Chosen`], an algorithm with the values of its settings.
//!
//! One call of [`table!`](crate::table) defines a table. One call of
//! [`settings!`](crate::settings!) defines the settings of an algorithm. The call generates the
//! typed values that the algorithm reads, and the parameters in the algorithm's row of the table.
//! The command language, the help and the documentation are generated from these parameters.

mod added;
mod chosen;
mod domain;
mod table;
mod typed;

pub use added::{Added, Factory, NameError, Registry};
pub use chosen::{Chosen, MOST, SettingError};
pub use domain::{Domain, Parameter, SWITCH, UNIT};
pub use table::{Entry, Row};
pub use typed::{Count, Four, Fraction, Number, Part, Setting, Switch, Time, Value};
