//! Quantities of scenario files: text with a unit, as in the command language.
//!
//! A time always needs a unit, because a plain `20` is ambiguous. Quantities are written in a form
//! that gives exactly the same value when read back.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_core::Nanos;
use weir_core::units::{Bytes, Rate};
use weir_rules::quantity::{self, QuantityError};

/// A point or a span of time, as `"20ms"` or `"1.5s"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Nanos);

/// A rate above zero, as `"5Mbit/s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RateText(pub Rate);

/// A size in bytes, as `"1000B"`, `"64KiB"` or the number `1000`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl Time {
    /// A time in whole milliseconds.
    pub const fn millis(ms: u64) -> Self {
        Self(Nanos::from_millis(ms))
    }

    /// Nanoseconds.
    pub const fn ns(self) -> u64 {
        self.0.0
    }

    /// Parses a time.
    ///
    /// # Errors
    /// The text is not a time with a unit, or the time is above [`MAX_TIME`]; the error is a
    /// message.
    pub fn read(text: &str) -> Result<Self, String> {
        let read = match quantity::time(text, MAX_TIME) {
            Ok(_) if text.ends_with(|last: char| last.is_ascii_digit() || last == '.') => {
                Err(QuantityError::Unit)
            }
            other => other,
        };
        read.map(Self).map_err(|error| match error {
            QuantityError::NotANumber => format!(
                "`{text}` is no time; write a number and its unit, such as `20ms` or `1.5s`"
            ),
            QuantityError::Negative => format!("`{text}` is negative; a time is 0 or more"),
            QuantityError::Unit | QuantityError::Bare => format!(
                "`{text}` has no unit of time; write `s`, `ms`, `us` or `ns` behind the number"
            ),
            QuantityError::OutOfRange => {
                format!("`{text}` is too long; the longest time is 365 days, `31536000s`")
            }
        })
    }
}

impl RateText {
    /// Bits per second.
    pub const fn bps(self) -> u64 {
        self.0.bps()
    }

    /// Parses a rate.
    ///
    /// # Errors
    /// The text is not a rate, or the rate is zero or above 400 Gbit/s; the error is a message.
    pub fn read(text: &str) -> Result<Self, String> {
        match quantity::rate(text) {
            Ok(Some(rate)) => Ok(Self(rate)),
            Ok(None) => {
                Err(format!("`{text}` is no rate here; it must be above 0 and at most `400Gbit/s`"))
            }
            Err(QuantityError::Negative) => Err(format!("`{text}` is negative; a rate is above 0")),
            Err(QuantityError::OutOfRange) => {
                Err(format!("`{text}` is out of range; a rate is from `1bit/s` to `400Gbit/s`"))
            }
            Err(QuantityError::NotANumber | QuantityError::Unit | QuantityError::Bare) => {
                Err(format!("`{text}` is no rate; write a number and its unit, such as `5Mbit/s`"))
            }
        }
    }
}

impl Size {
    /// Parses a size.
    ///
    /// # Errors
    /// The text is not a size, or the size is above 1 TB; the error is a message.
    pub fn read(text: &str) -> Result<Self, String> {
        quantity::size(text).map(Self).map_err(|error| match error {
            QuantityError::Negative => format!("`{text}` is negative; a size is 0 or more"),
            QuantityError::OutOfRange => {
                format!("`{text}` is too large; the largest size is `1TB`")
            }
            QuantityError::NotANumber | QuantityError::Unit | QuantityError::Bare => {
                format!("`{text}` is no size; write a number of bytes, such as `1000B` or `64KiB`")
            }
        })
    }

    /// The same size as a value of the engine.
    pub const fn bytes(self) -> Bytes {
        Bytes(self.0)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quantity::write_time(self.0))
    }
}

impl fmt::Display for RateText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quantity::write_rate(self.0))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quantity::write_size(self.0))
    }
}

/// Implements reading, writing and the schema of a quantity.
macro_rules! quantity {
    ($name:ident, $numbers:expr, $expects:literal, $pattern:literal) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Reader;
                impl Visitor<'_> for Reader {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expects)
                    }

                    fn visit_str<E: Error>(self, text: &str) -> Result<$name, E> {
                        $name::read(text).map_err(E::custom)
                    }

                    fn visit_i64<E: Error>(self, number: i64) -> Result<$name, E> {
                        if $numbers { $name::read(&number.to_string()).map_err(E::custom) } else { Err(E::invalid_type(Unexpected::Signed(number), &self)) }
                    }

                    fn visit_u64<E: Error>(self, number: u64) -> Result<$name, E> {
                        if $numbers { $name::read(&number.to_string()).map_err(E::custom) } else { Err(E::invalid_type(Unexpected::Unsigned(number), &self)) }
                    }
                }
                deserializer.deserialize_any(Reader)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                if $numbers {
                    json_schema!({ "type": ["string", "integer"], "pattern": $pattern, "minimum": 0, "description": $expects })
                } else {
                    json_schema!({ "type": "string", "pattern": $pattern, "description": $expects })
                }
            }
        }
    };
}

quantity!(
    Time,
    false,
    "a time with its unit, such as \"20ms\"",
    "^[0-9.eE+]+(s|secs?|ms|msecs?|us|usecs?|µs|μs|ns|nsecs?)$"
);
quantity!(
    RateText,
    false,
    "a rate with its unit, such as \"5Mbit/s\"",
    "^[0-9.eE+]+([kKmMgGtT]i?)?[A-Za-z/]*$"
);
quantity!(
    Size,
    true,
    "a size, such as \"1000B\", \"64KiB\" or 1000",
    "^[0-9.eE+]+([kKmMgGtT]i?)?[A-Za-z]*$"
);

/// The longest [`Time`]: 365 days.
pub const MAX_TIME: Nanos = Nanos::from_secs(365 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, Serialize, PartialEq)]
    struct All {
        t: Time,
        r: RateText,
        s: Size,
    }

    #[test]
    fn quantities_are_read_from_text_and_written_so_that_they_read_the_same() {
        let all: All = toml::from_str("t = '1.5ms'\nr = '5Mbit/s'\ns = '64KiB'").unwrap();
        assert_eq!(
            all,
            All {
                t: Time(Nanos(1_500_000)),
                r: RateText(Rate::new(5_000_000).unwrap()),
                s: Size(65_536)
            }
        );
        assert_eq!(
            serde_json::to_string(&all).unwrap(),
            r#"{"t":"1.5ms","r":"5Mbit/s","s":"65.536KB"}"#
        );
        assert_eq!(
            serde_json::from_str::<All>(&serde_json::to_string(&all).unwrap()).unwrap(),
            all
        );
        assert_eq!(
            toml::from_str::<All>("t = '0s'\nr = '1bit/s'\ns = 1000").unwrap().s,
            Size(1000)
        );
    }

    #[test]
    fn a_text_that_is_no_quantity_gets_an_example() {
        let cases: [(&str, Result<Time, String>); 5] = [
            ("negative; a time is 0 or more", Time::read("-5ms")),
            ("has no unit of time", Time::read("20")),
            ("has no unit of time", Time::read("20 parsecs")),
            ("is no time", Time::read("soon")),
            ("the longest time is 365 days", Time::read("31536001s")),
        ];
        for (words, result) in cases {
            let message = result.unwrap_err();
            assert!(message.contains(words), "{message}");
        }
        assert!(RateText::read("0").unwrap_err().contains("above 0"));
        assert!(RateText::read("unlimited").unwrap_err().contains("above 0"));
        assert!(RateText::read("500Gbit/s").unwrap_err().contains("400Gbit/s"));
        assert!(Size::read("2TB").unwrap_err().contains("1TB"));
        let error = toml::from_str::<All>("t = 5\nr = '1M'\ns = 1").unwrap_err().to_string();
        assert!(error.contains("a time with its unit"), "{error}");
        let error = toml::from_str::<All>("t = '5s'\nr = '1M'\ns = -1").unwrap_err().to_string();
        assert!(error.contains("negative"), "{error}");
    }
}
