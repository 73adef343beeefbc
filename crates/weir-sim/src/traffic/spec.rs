//! What a scenario says of traffic, kind by kind.
//!
//! Each kind is a struct of its own, so that a setting that another kind has is refused by name. One macro makes the structs, gives
//! all of them the settings that every traffic has, and keeps the words in which help and documentation speak of them.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::units::{RateText, Size, Time};

use super::settings::{Codec, Ecn, Gaps, MarkovState, Periods, TraceFormat};

/// A kind of traffic, for help and documentation.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The word behind `kind`.
    pub name: &'static str,
    /// What it is.
    pub summary: &'static str,
    /// Its own settings and what they are; those of [`COMMON`] besides.
    pub settings: &'static [(&'static str, &'static str)],
}

/// Settings that every kind has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Common {
    /// When it begins.
    pub start: Time,
    /// When it ends.
    pub stop: Option<Time>,
    /// Bound of the random span that is added to `start`.
    pub start_jitter: Time,
    /// ECN field of its packets.
    pub ecn: Ecn,
    /// DSCP of its packets.
    pub dscp: u8,
    /// Label of its packets.
    pub label: Option<u64>,
    /// Label of its packets in nanoseconds.
    pub deadline: Option<Time>,
}

macro_rules! kinds {
    ($(
        $(#[doc = $summary:literal])+
        $name:ident $word:literal {
            $( $(#[doc = $words:literal])+ $(#[serde($serde:meta)])? $field:ident: $type:ty, )*
        }
    )*) => {
        $(
            $(#[doc = $summary])+
            #[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
            #[serde(deny_unknown_fields)]
            pub struct $name {
                $( $(#[doc = $words])+ $(#[serde($serde)])? pub $field: $type, )*
                /// When it begins; at 0s by default.
                #[serde(default)]
                pub start: Time,
                /// When it ends; by default with the run.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub stop: Option<Time>,
                /// A span from 0 to this one, drawn at random, is added to `start`.
                #[serde(default)]
                pub start_jitter: Time,
                /// ECN field of its packets.
                #[serde(default)]
                pub ecn: Ecn,
                /// DSCP of its packets, 0 to 63.
                #[serde(default)]
                pub dscp: u8,
                /// Label of its packets, which ranks and deadlines go by.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub label: Option<u64>,
                /// Label of its packets as a time from sending on, kept in nanoseconds; instead of `label`.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub deadline: Option<Time>,
            }
        )*

        /// Traffic as a scenario describes it: a table whose key `kind` says which settings belong there.
        #[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
        #[serde(tag = "kind")]
        pub enum Spec {
            $( $(#[doc = $summary])+ #[serde(rename = $word)] $name($name), )*
        }

        impl Spec {
            /// Reads the settings of one kind from a table without the key `kind`. Unlike the whole, this keeps the places of
            /// values, so that an error can point at them. `None`: there is no such kind; [`KINDS`] has all.
            pub fn read<'de, D: Deserializer<'de>>(kind: &str, settings: D) -> Option<Result<Self, D::Error>> {
                match kind {
                    $( $word => Some($name::deserialize(settings).map(Self::$name)), )*
                    _ => None,
                }
            }

            /// The word of its kind.
            pub fn kind(&self) -> &'static str {
                match self {
                    $( Self::$name(_) => $word, )*
                }
            }

            /// The settings that every kind has.
            pub fn common(&self) -> Common {
                match *self {
                    $( Self::$name($name { start, stop, start_jitter, ecn, dscp, label, deadline, .. }) => {
                        Common { start, stop, start_jitter, ecn, dscp, label, deadline }
                    } )*
                }
            }
        }

        /// Every kind, in the order of the documentation.
        pub const KINDS: &[Kind] = &[
            $( Kind {
                name: $word,
                summary: concat!($($summary),+),
                settings: &[$( (stringify!($field), concat!($($words),+)) ),*],
            } ),*
        ];
    };
}

/// Names of the settings that every kind has.
pub const COMMON: &[&str] = &["start", "stop", "start_jitter", "ecn", "dscp", "label", "deadline"];

kinds! {
    /// Packets of one size at equal distances.
    Cbr "cbr" {
        /// Network-layer bits a second.
        #[serde(default)]
        rate: Option<RateText>,
        /// Distance of packets, instead of `rate`.
        #[serde(default)]
        interval: Option<Time>,
        /// Network-layer bytes of a packet; 1000B by default.
        #[serde(default = "default_size")]
        size: Size,
    }
    /// Packets of one size at exponentially distributed distances.
    Poisson "poisson" {
        /// Network-layer bits a second in the mean.
        #[serde(default)]
        rate: Option<RateText>,
        /// Mean distance of packets, instead of `rate`.
        #[serde(default)]
        interval: Option<Time>,
        /// Network-layer bytes of a packet; 1000B by default.
        #[serde(default = "default_size")]
        size: Size,
    }
    /// Packets of one size at Pareto-distributed distances.
    Pareto "pareto" {
        /// Network-layer bits a second in the mean.
        #[serde(default)]
        rate: Option<RateText>,
        /// Mean distance of packets, instead of `rate`.
        #[serde(default)]
        interval: Option<Time>,
        /// Least distance of packets, instead of `rate`; the mean is `shape` · `scale` / (`shape` − 1).
        #[serde(default)]
        scale: Option<Time>,
        /// Shape of the distribution; 2 by default. `rate` and `interval` need one above 1.
        #[serde(default = "default_shape")]
        shape: f64,
        /// Network-layer bytes of a packet; 1000B by default.
        #[serde(default = "default_size")]
        size: Size,
    }
    /// A constant rate in random periods, and silence between them.
    OnOff "on-off" {
        /// Network-layer bits a second while on.
        rate: RateText,
        /// Mean length of the periods in which it sends.
        on: Time,
        /// Mean length of the periods in which it is silent.
        off: Time,
        /// How the lengths of periods are distributed: `exponential` (the default), `pareto` or `constant`.
        #[serde(default)]
        periods: Periods,
        /// Shape of Pareto-distributed periods, above 1; 1.5 by default.
        #[serde(default = "default_period_shape")]
        shape: f64,
        /// Network-layer bytes of a packet; 1000B by default.
        #[serde(default = "default_size")]
        size: Size,
    }
    /// A rate for each state of a Markov chain in continuous time.
    Markov "markov" {
        /// The states; it begins in the first.
        states: Vec<MarkovState>,
        /// Distances of packets within a state: `constant` (the default) or `exponential`.
        #[serde(default)]
        gaps: Gaps,
        /// Network-layer bytes of a packet; 1000B by default.
        #[serde(default = "default_size")]
        size: Size,
    }
    /// One side of a telephone call: frames of a codec in talk spurts, with exponentially distributed spurts and pauses.
    Voip "voip" {
        /// The codec: `g711` (the default), `g722`, `g726`, `g729` or `g723`.
        #[serde(default)]
        codec: Codec,
        /// Mean length of a talk spurt; 1s by default.
        #[serde(default = "default_talk")]
        talk: Time,
        /// Mean length of a pause; 1.35s by default, and 0s where the codec sends in pauses too.
        #[serde(default = "default_silence")]
        silence: Time,
    }
    /// Packets of several sizes, mixed at random.
    Imix "imix" {
        /// Network-layer bits a second in the mean.
        rate: RateText,
        /// Distances of packets: `constant` (the default) or `exponential`.
        #[serde(default)]
        gaps: Gaps,
        /// Sizes and their weights; `[[40, 7], [576, 4], [1500, 1]]` by default.
        #[serde(default = "default_mix")]
        mix: Vec<(Size, f64)>,
    }
    /// Packets as they were captured, or as a table says.
    Trace "trace" {
        /// The file, from where the scenario is.
        file: String,
        /// What the file is: `csv` (lines `time_s,bytes`), or `pcap` (pcapng too); by default as its name ends.
        #[serde(default)]
        format: Option<TraceFormat>,
        /// Whether it begins anew at its end; not by default.
        #[serde(default)]
        repeat: bool,
        /// How many times faster than it was recorded; 1 by default.
        #[serde(default = "default_speed")]
        speed: f64,
    }
    /// Small packets at equal distances, to measure delay by.
    Probe "probe" {
        /// Distance of packets; 10ms by default.
        #[serde(default = "default_probe_interval")]
        interval: Time,
        /// Network-layer bytes of a packet; 64B by default.
        #[serde(default = "default_probe_size")]
        size: Size,
    }
    /// Echo requests, which the destination sends back; completion times are round-trip times.
    Ping "ping" {
        /// Distance of requests; 100ms by default.
        #[serde(default = "default_ping_interval")]
        interval: Time,
        /// Network-layer bytes of requests and replies; 84B by default.
        #[serde(default = "default_ping_size")]
        size: Size,
    }
}

fn default_size() -> Size {
    Size(1000)
}

fn default_shape() -> f64 {
    2.0
}

fn default_period_shape() -> f64 {
    1.5
}

/// Talk spurts and pauses of Brady's model, as most studies of packet voice use it. ITU-T P.59 has 1.004 s and 1.587 s.
fn default_talk() -> Time {
    Time::millis(1000)
}

fn default_silence() -> Time {
    Time::millis(1350)
}

/// The simple Internet mix of makers of test equipment: 7 packets to 4 to 1.
fn default_mix() -> Vec<(Size, f64)> {
    vec![(Size(40), 7.0), (Size(576), 4.0), (Size(1500), 1.0)]
}

fn default_speed() -> f64 {
    1.0
}

fn default_probe_interval() -> Time {
    Time::millis(10)
}

fn default_probe_size() -> Size {
    Size(64)
}

fn default_ping_interval() -> Time {
    Time::millis(100)
}

/// What `ping` sends unless told otherwise: 56 bytes behind IP and ICMP headers.
fn default_ping_size() -> Size {
    Size(84)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_read_with_its_own_settings_and_the_common_ones() {
        let spec: Spec = toml::from_str("kind = 'poisson'\nrate = '5Mbit/s'\nstart = '1s'\necn = 'ect0'\ndeadline = '20ms'").unwrap();
        let Spec::Poisson(poisson) = &spec else { panic!("{spec:?}") };
        assert_eq!((poisson.rate.map(RateText::bps), poisson.size), (Some(5_000_000), Size(1000)));
        assert_eq!(spec.common().start, Time::millis(1000));
        assert_eq!(spec.common().ecn, Ecn::Ect0);
        assert_eq!(spec.kind(), "poisson");
        let settings = toml::Deserializer::parse("rate = '5Mbit/s'\nstart = '1s'\necn = 'ect0'\ndeadline = '20ms'").unwrap();
        assert_eq!(Spec::read("poisson", settings).unwrap().unwrap(), spec);
        assert!(Spec::read("fish", toml::Deserializer::parse("").unwrap()).is_none());
    }

    #[test]
    fn a_setting_of_another_kind_is_refused_by_name() {
        for text in ["kind = 'cbr'\nrate = '1M'\nshape = 2", "kind = 'cbr'\nrate = '1M'\nstates = []", "kind = 'fish'"] {
            let error = toml::from_str::<Spec>(text).unwrap_err().to_string();
            assert!(
                error.contains("unknown field `shape`") || error.contains("unknown field `states`") || error.contains("`fish`"),
                "{error}"
            );
        }
        let settings = toml::Deserializer::parse("rate = '1M'\nsize = '1kg'").unwrap();
        let error = Spec::read("cbr", settings).unwrap().unwrap_err();
        assert_eq!(error.span(), Some(19..24), "{error}");
    }

    #[test]
    fn specs_are_written_so_that_they_read_the_same() {
        for text in [
            r#"{"kind":"cbr","rate":"1Mbit/s"}"#,
            r#"{"kind":"markov","states":[{"rate":"1Mbit/s","hold":"1s"},{"hold":"2s"}]}"#,
            r#"{"kind":"imix","rate":"1Mbit/s","mix":[[64,1],["1500B",2]]}"#,
            r#"{"kind":"trace","file":"a.csv","format":"pcap","stop":"9s"}"#,
        ] {
            let spec: Spec = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::from_str::<Spec>(&serde_json::to_string(&spec).unwrap()).unwrap(), spec);
        }
    }

    #[test]
    fn the_table_of_kinds_is_that_of_the_schema() {
        let schema = serde_json::to_value(schemars::schema_for!(Spec)).unwrap();
        let kinds = schema["oneOf"].as_array().unwrap();
        assert_eq!(kinds.len(), KINDS.len());
        for kind in KINDS {
            assert!(kind.summary.starts_with(' ') && kind.summary.ends_with('.'), "{kind:?}");
        }
    }
}
