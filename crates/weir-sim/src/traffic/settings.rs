//! Words and tables that occur in the settings of traffic.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::units::{RateText, Size, Time};

/// The ECN field of packets that are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    None,
    /// ECT(0): the network may mark congestion.
    Ect0,
    /// ECT(1): the packet requests low latency (RFC 9331).
    Ect1,
}

impl From<Ecn> for weir_core::packet::Ecn {
    fn from(ecn: Ecn) -> Self {
        match ecn {
            Ecn::None => Self::NotEct,
            Ecn::Ect0 => Self::Ect0,
            Ecn::Ect1 => Self::Ect1,
        }
    }
}

/// The distribution of the intervals between packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Gaps {
    /// Constant.
    #[default]
    Constant,
    /// Exponentially distributed.
    Exponential,
}

/// The distribution of the lengths of periods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Periods {
    /// Exponentially distributed.
    #[default]
    Exponential,
    /// Pareto-distributed. With a shape below 2, the sum of many sources is self-similar.
    Pareto,
    /// Constant.
    Constant,
}

/// A state of a Markov chain.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MarkovState {
    /// Mean network-layer bits per second; silent by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateText>,
    /// Mean time in the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Time>,
    /// With `hold`: the weight of each state as the next one; by default all other states have the
    /// same weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Vec<f64>>,
    /// Instead of `hold` and `next`: the number of changes per second to each state. The entry of
    /// the state itself is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leave: Option<Vec<f64>>,
}

/// The format of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TraceFormat {
    /// Lines `time_s,bytes`: seconds from the start and network-layer bytes.
    Csv,
    /// A capture, pcap or pcapng.
    Pcap,
}

/// A speech codec. IP, UDP and RTP headers are 40 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// ITU-T G.711, 64 kbit/s: 160 bytes every 20 ms.
    #[default]
    G711,
    /// ITU-T G.722, 64 kbit/s: 160 bytes every 20 ms.
    G722,
    /// ITU-T G.726, 32 kbit/s: 80 bytes every 20 ms.
    G726,
    /// ITU-T G.729, 8 kbit/s: 20 bytes every 20 ms.
    G729,
    /// ITU-T G.723.1, 6.3 kbit/s: 24 bytes every 30 ms.
    G723,
}

impl Codec {
    /// The interval between packets, and the payload bytes of a packet.
    pub fn frame(self) -> (Time, u32) {
        match self {
            Self::G711 | Self::G722 => (Time::millis(20), 160),
            Self::G726 => (Time::millis(20), 80),
            Self::G729 => (Time::millis(20), 20),
            Self::G723 => (Time::millis(30), 24),
        }
    }
}

/// A congestion control of a real stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StackControl {
    /// Reno, with the same results on all machines.
    #[default]
    NewReno,
    /// CUBIC, computed in floating point: the last bits of its results may differ between machines.
    Cubic,
}

/// Sizes of flows, responses and objects: the name of a published distribution, a size, or a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Sizes {
    /// A published distribution.
    Named(Published),
    /// One constant size.
    Fixed(Size),
    /// A distribution with parameters.
    Drawn(Distribution),
}

/// A published distribution of flow sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Published {
    /// A web search cluster (DCTCP, SIGCOMM 2010).
    WebSearch,
    /// A data mining cluster (VL2, SIGCOMM 2009).
    DataMining,
}

/// A distribution of sizes.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Distribution {
    /// Exponential.
    Exponential {
        /// Mean.
        mean: Size,
    },
    /// Pareto: many small sizes, and a few large ones that hold most of the bytes.
    Pareto {
        /// Shape; must be above 1 with `mean`.
        shape: f64,
        /// Mean.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mean: Option<Size>,
        /// Smallest size, instead of `mean`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scale: Option<Size>,
        /// Largest size; larger values are drawn again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        most: Option<Size>,
    },
    /// Log-normal.
    LogNormal {
        /// Mean.
        mean: Size,
        /// Standard deviation.
        deviation: Size,
    },
    /// Uniform.
    Uniform {
        /// Smallest size.
        least: Size,
        /// Largest size.
        most: Size,
    },
    /// A file with lines `bytes,probability`: points of a cumulative distribution function.
    File {
        /// The file's name, relative to the scenario.
        path: String,
    },
}

impl<'de> Deserialize<'de> for Sizes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Sizes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "`web-search`, `data-mining`, a size such as \"10KB\", or a table with `kind`",
                )
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Sizes, E> {
                match text {
                    "web-search" => Ok(Sizes::Named(Published::WebSearch)),
                    "data-mining" => Ok(Sizes::Named(Published::DataMining)),
                    _ => Size::read(text).map(Sizes::Fixed).map_err(|_| {
                        E::custom(format!(
                            "`{text}` is no size and no distribution; allowed: \
                                           `web-search`, `data-mining`, a size such as `10KB`, or \
                                           a table with `kind`"
                        ))
                    }),
                }
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Sizes, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Sizes, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Sizes, A::Error> {
                Distribution::deserialize(MapAccessDeserializer::new(map)).map(Sizes::Drawn)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl JsonSchema for Sizes {
    fn schema_name() -> Cow<'static, str> {
        "Sizes".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<Distribution>();
        json_schema!({ "anyOf": [
            { "type": "string", "description": "`web-search`, `data-mining`, or a size such as \
                                                `10KB`" },
            { "type": "integer", "minimum": 1 },
            table,
        ] })
    }
}
