//! Values that shells offer for options with free text.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};
use weir_core::sched;
use weir_rules::manager::Manager;

/// A parser that accepts any text, and the values that completion scripts offer for the option.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offered(fn() -> Vec<&'static str>);

impl Offered {
    /// A link specification. Offers examples of the short form.
    pub(crate) const LINKS: Self = Self(|| LINKS.to_vec());
    /// A list of schedulers. Offers `all`, `none`, and the names and aliases of all schedulers.
    pub(crate) const SCHEDULERS: Self = Self(|| {
        let names = sched::TABLE
            .iter()
            .flat_map(|row| [row.name].into_iter().chain(row.aliases.iter().copied()));
        ["all", "none"].into_iter().chain(names).collect()
    });
    /// A list of AQMs to compare. Offers `all`, `none`, and the names of all AQMs and of the
    /// schedulers that contain one.
    pub(crate) const AQMS: Self = Self(|| {
        let names = Manager::all().map(|manager| manager.name());
        ["all", "none"].into_iter().chain(names).collect()
    });
}

impl TypedValueParser for Offered {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

/// Links in short form: a DSL line, a fast line, a mobile network with loss, and a long path.
const LINKS: [&str; 4] = ["4M/20ms", "100M/5ms", "10M/50ms/1%", "10M/300ms"];
