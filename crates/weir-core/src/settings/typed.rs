//! Typed settings: an algorithm declares its settings once, and reads their values as fields.

use core::marker::PhantomData;

use super::domain::{ALL_STANDARD, Domain, Parameter, SWITCH, four};
use crate::units::Nanos;

/// A setting with a value of type `T`: the allowed values, the default, and the effect. Its name is
/// the name of its field in [`settings!`](crate::settings!).
#[derive(Debug)]
pub struct Setting<T> {
    domain: Domain,
    default: u64,
    summary: &'static str,
    value: PhantomData<T>,
}

/// A whole number of 32 bits.
pub type Count = Setting<u32>;
/// A whole number of 64 bits.
pub type Number = Setting<u64>;
/// A span of time.
pub type Time = Setting<Nanos>;
/// A fraction or a factor.
pub type Part = Setting<Fraction>;
/// A switch, off or on.
pub type Switch = Setting<bool>;

/// Four numbers; `None` leaves a number to the algorithm.
pub type Four = Setting<[Option<u16>; 4]>;

/// A fraction or a factor in billionths; [`super::UNIT`] is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fraction(pub u64);

/// The type of a setting's value.
pub trait Value: Copy {
    /// Converts a number of the setting's [`Domain`] to the value.
    fn of(number: u64) -> Self;
}

impl<T> Setting<T> {
    /// A setting with the given domain, default and description.
    const fn new_in(domain: Domain, default: u64, summary: &'static str) -> Self {
        Self { domain, default, summary, value: PhantomData }
    }

    /// A choice among several words; the default is an index. [`choice!`](crate::choice) calls
    /// this.
    pub const fn choice(
        words: &'static [&'static str],
        default: u64,
        summary: &'static str,
    ) -> Self {
        Self::new_in(Domain::Choice(words), default, summary)
    }

    /// The same setting with another description.
    #[must_use]
    pub const fn described(&self, summary: &'static str) -> Self {
        Self::new_in(self.domain, self.default, summary)
    }

    /// The parameter with this name, for a row.
    pub const fn parameter(&self, name: &'static str) -> Parameter {
        Parameter { name, domain: self.domain, default: self.default, summary: self.summary }
    }
}

macro_rules! whole {
    ($($type:ty),*) => {
        $(
            impl Setting<$type> {
                /// A whole number from `least` to `most`; `unit` is the name of its unit, or empty.
                pub const fn new(
                    least: $type,
                    most: $type,
                    unit: &'static str,
                    default: $type,
                    summary: &'static str,
                ) -> Self {
                    let domain = Domain::Number { least: least as u64, most: most as u64, unit };
                    Self::new_in(domain, default as u64, summary)
                }

                /// The same setting with another default.
                #[must_use]
                pub const fn or(&self, default: $type) -> Self {
                    Self::new_in(self.domain, default as u64, self.summary)
                }
            }
        )*
    };
}
whole!(u32, u64);

impl Time {
    /// A time from `least` to `most`; all three numbers are in ns.
    pub const fn new(least: u64, most: u64, default: u64, summary: &'static str) -> Self {
        Self::new_in(Domain::Time { least, most }, default, summary)
    }
}

impl Part {
    /// A fraction from `least` to `most`; all three numbers are in billionths.
    pub const fn new(least: u64, most: u64, default: u64, summary: &'static str) -> Self {
        Self::new_in(Domain::Fraction { least, most }, default, summary)
    }

    /// The same setting with another default, in billionths.
    #[must_use]
    pub const fn or(&self, default: u64) -> Self {
        Self::new_in(self.domain, default, self.summary)
    }
}

impl Switch {
    /// A switch.
    pub const fn new(default: bool, summary: &'static str) -> Self {
        Self::new_in(SWITCH, default as u64, summary)
    }

    /// The same switch with another default.
    #[must_use]
    pub const fn or(&self, default: bool) -> Self {
        Self::new_in(self.domain, default as u64, self.summary)
    }
}

impl Four {
    /// Four numbers from `least` to `most`, all left to the algorithm by default.
    pub const fn new(least: u16, most: u16, unit: &'static str, summary: &'static str) -> Self {
        Self::new_in(Domain::Four { least, most, unit }, ALL_STANDARD, summary)
    }
}

impl Value for [Option<u16>; 4] {
    fn of(number: u64) -> Self {
        four(number)
    }
}

impl Value for u32 {
    fn of(number: u64) -> Self {
        // The bounds of the domain fit this type, so the number does too.
        number as Self
    }
}

impl Value for u64 {
    fn of(number: u64) -> Self {
        number
    }
}

impl Value for Nanos {
    fn of(number: u64) -> Self {
        Self(number)
    }
}

impl Value for Fraction {
    fn of(number: u64) -> Self {
        Self(number)
    }
}

impl Value for bool {
    fn of(number: u64) -> Self {
        number != 0
    }
}

/// Generates the settings of one algorithm: a struct with a field for each setting, and
/// `PARAMETERS`, the parameters for the algorithm's row. `of` reads the chosen values.
///
/// A line is `field: Type = SETTING`, where `SETTING` is a constant expression of type
/// [`Setting<Type>`](crate::settings::Setting). The parameter has the name of the field, or another
/// name with `field as "name"`.
#[macro_export]
macro_rules! settings {
    (
        $(#[$doc:meta])*
        $vis:vis struct $name:ident {
            $($(#[$field_doc:meta])* $field:ident $(as $word:literal)?: $type:ty = $setting:expr,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $name {
            $($(#[$field_doc])* $vis $field: $type,)+
        }

        impl $name {
            /// The parameters for the row, in the order of the fields.
            $vis const PARAMETERS: &'static [$crate::settings::Parameter] = &[
                $({
                    const SETTING: $crate::settings::Setting<$type> = $setting;
                    SETTING.parameter($crate::settings!(@name $field $($word)?))
                },)+
            ];

            /// The values that were chosen for the algorithm.
            $vis fn of<K: $crate::settings::Entry>(chosen: &$crate::settings::Chosen<K>) -> Self {
                let mut numbers = chosen.numbers(Self::PARAMETERS).iter().copied();
                let mut next = || numbers.next().unwrap_or_default();
                Self { $($field: $crate::settings::Value::of(next()),)+ }
            }
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $word:literal) => { $word };
}

/// Generates an enum with a variant for each word of a setting.
///
/// A line is `Variant = "word"`. `setting` returns a [`Setting`](crate::settings::Setting) of the
/// enum.
#[macro_export]
macro_rules! choice {
    (
        $(#[$doc:meta])*
        $vis:vis enum $name:ident {
            $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// A setting that selects one of the words.
            $vis const fn setting(
                default: Self,
                summary: &'static str,
            ) -> $crate::settings::Setting<Self> {
                $crate::settings::Setting::choice(&[$($word),+], default as u64, summary)
            }
        }

        impl $crate::settings::Value for $name {
            fn of(number: u64) -> Self {
                const ALL: &[$name] = &[$($name::$variant),+];
                ALL[number as usize]
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::super::{Chosen, Entry, Row};
    use super::*;
    use crate::settings::UNIT;

    choice! {
        enum Colour {
            Red = "red",
            Green = "green",
        }
    }

    settings! {
        /// One setting of each type.
        struct Settings {
            count: u32 = Count::new(1, 9, "packets", 2, "a count"),
            number: u64 = Number::new(0, u64::MAX, "", 3, "a number"),
            time: Nanos = Time::new(0, 1_000_000_000, 4_000_000, "a time"),
            part: Fraction = Part::new(0, UNIT, UNIT / 4, "a part").or(UNIT / 2),
            on: bool = Switch::new(false, "a switch"),
            colour as "its-colour": Colour = Colour::setting(Colour::Green, "a colour"),
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Only;

    const ROW: Row<()> = Row {
        name: "only",
        aliases: &["one"],
        summary: "",
        source: "",
        parameters: Settings::PARAMETERS,
        traits: (),
    };

    impl Entry for Only {
        type Traits = ();
        const NOUN: &'static str = "thing";

        fn all() -> &'static [Self] {
            &[Self]
        }

        fn row(self) -> &'static Row<()> {
            &ROW
        }
    }

    #[test]
    fn fields_have_the_defaults_or_the_values_that_are_set() {
        let mut chosen = Chosen::new(Only::named("ONE").unwrap());
        let defaults = Settings::of(&chosen);
        assert_eq!((defaults.count, defaults.number, defaults.on), (2, 3, false));
        assert_eq!((defaults.time, defaults.part), (Nanos::from_millis(4), Fraction(UNIT / 2)));
        assert_eq!(defaults.colour, Colour::Green);
        for (name, value) in [
            ("count", "9"),
            ("number", "18446744073709551615"),
            ("time", "5us"),
            ("part", "1/8"),
            ("on", "on"),
            ("its-colour", "RED"),
        ] {
            chosen.set(name, value).unwrap();
        }
        let set = Settings::of(&chosen);
        assert_eq!((set.count, set.number, set.on), (9, u64::MAX, true));
        assert_eq!((set.time, set.part), (Nanos::from_micros(5), Fraction(UNIT / 8)));
        assert_eq!(set.colour, Colour::Red);
    }
}
