//! What a scenario says of traffic, kind by kind.
//!
//! Each kind is a struct of its own, so that a setting that another kind has is refused by name.
//! One macro makes the structs, gives all of them the settings that every traffic has, and keeps
//! the words in which help and documentation speak of them.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::units::{RateText, Size, Time};

use super::settings::{Codec, Ecn, Gaps, MarkovState, Periods, Sizes, StackControl, TraceFormat};

/// A kind of traffic, for help and documentation.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The word behind `kind`.
    pub name: &'static str,
    /// What it is.
    pub summary: &'static str,
    /// Its own settings and what they are; those of [`COMMON`] besides.
    pub settings: &'static [(&'static str, &'static str)],
    /// Whether it goes over TCP, and has the settings of [`TRANSPORT`] too.
    pub transport: bool,
}

/// Settings of kinds that go over TCP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transport<'a> {
    pub(super) cc: &'a str,
    pub(super) mss: Size,
    pub(super) initial_window: u32,
    pub(super) handshake: bool,
    pub(super) pacing: Option<bool>,
    pub(super) min_rto: Time,
    pub(super) ack_every: u32,
    pub(super) ack_delay: Time,
    pub(super) receive_buffer: Size,
    pub(super) small_queue: Option<Size>,
    pub(super) train: u8,
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
    /// ECN field of its packets; over TCP, whether it uses ECN.
    pub ecn: Option<Ecn>,
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
        $name:ident $word:literal $(over $transport:ident)? {
            $( $(#[doc = $words:literal])+ $(#[serde($serde:meta)])? $field:ident: $type:ty, )*
        }
    )*) => {
        $(
            $(#[doc = $summary])+
            #[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
            #[serde(deny_unknown_fields)]
            pub struct $name {
                $( $(#[doc = $words])+ $(#[serde($serde)])? pub $field: $type, )*
                $(
                    /// Congestion control, with settings of its own behind its name; `cubic` by
                    /// default.
                    #[cfg_attr(any(), $transport)]
                    #[serde(default = "default_cc")]
                    pub cc: String,
                    /// Payload of a full segment; 1448B by default.
                    #[serde(default = "default_mss")]
                    pub mss: Size,
                    /// Initial window in segments; 10 by default.
                    #[serde(default = "default_initial_window")]
                    pub initial_window: u32,
                    /// Whether a handshake comes before data; it does by default.
                    #[serde(default = "default_true")]
                    pub handshake: bool,
                    /// Whether packets are paced; by default as the congestion control has it.
                    #[serde(default, skip_serializing_if = "Option::is_none")]
                    pub pacing: Option<bool>,
                    /// Least retransmission timeout; 200ms by default.
                    #[serde(default = "default_min_rto")]
                    pub min_rto: Time,
                    /// Full segments for which one acknowledgement is sent; 2 by default.
                    #[serde(default = "default_ack_every")]
                    pub ack_every: u32,
                    /// How long an acknowledgement may wait; 40ms by default.
                    #[serde(default = "default_ack_delay")]
                    pub ack_delay: Time,
                    /// Receive buffer; 4MiB by default.
                    #[serde(default = "default_receive_buffer")]
                    pub receive_buffer: Size,
                    /// Most bytes in the own host's queue and device; no limit by default.
                    #[serde(default, skip_serializing_if = "Option::is_none")]
                    pub small_queue: Option<Size>,
                    /// Segments that go to the device as one packet; 1 by default.
                    #[serde(default = "default_train")]
                    pub train: u8,
                )?
                /// When it begins; at 0s by default.
                #[serde(default)]
                pub start: Time,
                /// When it ends; by default with the run.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub stop: Option<Time>,
                /// A span from 0 to this one, drawn at random, is added to `start`.
                #[serde(default)]
                pub start_jitter: Time,
                /// ECN field of its packets, `none` by default. Over TCP the congestion control
                /// says which field: `none` turns ECN off, the others turn it on, and by default it
                /// is as the congestion control has it.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub ecn: Option<Ecn>,
                /// DSCP of its packets, 0 to 63.
                #[serde(default)]
                pub dscp: u8,
                /// Label of its packets, which ranks and deadlines go by.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub label: Option<u64>,
                /// Label of its packets as a time from sending on, kept in nanoseconds; instead of
                /// `label`.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub deadline: Option<Time>,
            }
        )*

        /// Traffic as a scenario describes it: a table whose key `kind` says which settings belong
        /// there.
        #[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
        #[serde(tag = "kind")]
        pub enum Spec {
            $( $(#[doc = $summary])+ #[serde(rename = $word)] $name($name), )*
        }

        impl Spec {
            /// Reads the settings of one kind from a table without the key `kind`. Unlike the
            /// whole, this keeps the places of values, so that an error can point at them. `None`:
            /// there is no such kind; [`KINDS`] has all.
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

        impl Spec {
            /// Settings of the transport, of kinds that have one.
            pub(super) fn transport(&self) -> Option<Transport<'_>> {
                match self {
                    $( Self::$name(_spec) => {
                        let has: &[Transport<'_>] = &[$(Transport {
                            #[cfg_attr(any(), $transport)]
                            cc: &_spec.cc,
                            mss: _spec.mss,
                            initial_window: _spec.initial_window,
                            handshake: _spec.handshake,
                            pacing: _spec.pacing,
                            min_rto: _spec.min_rto,
                            ack_every: _spec.ack_every,
                            ack_delay: _spec.ack_delay,
                            receive_buffer: _spec.receive_buffer,
                            small_queue: _spec.small_queue,
                            train: _spec.train,
                        })?];
                        has.first().copied()
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
                transport: {
                    let has: &[&str] = &[$( stringify!($transport) )?];
                    !has.is_empty()
                },
            } ),*
        ];
    };
}

/// Names of the settings that every kind has.
pub const COMMON: &[&str] = &["start", "stop", "start_jitter", "ecn", "dscp", "label", "deadline"];

/// Names of the settings that kinds over TCP have.
pub const TRANSPORT: &[&str] = &[
    "cc",
    "mss",
    "initial_window",
    "handshake",
    "pacing",
    "min_rto",
    "ack_every",
    "ack_delay",
    "receive_buffer",
    "small_queue",
    "train",
];

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
        /// Least distance of packets, instead of `rate`; the mean is `shape` · `scale` / (`shape` −
        /// 1).
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
        /// How the lengths of periods are distributed: `exponential` (the default), `pareto` or
        /// `constant`.
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
    /// One side of a telephone call: frames of a codec in talk spurts, with exponentially
    /// distributed spurts and pauses.
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
        /// What the file is: `csv` (lines `time_s,bytes`), or `pcap` (pcapng too); by default as
        /// its name ends.
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
    /// One TCP connection.
    Tcp "tcp" over tcp {
        /// Payload bytes that it sends; without end by default.
        #[serde(default)]
        bytes: Option<Size>,
    }
    /// One connection of a real stack, which is driven by the simulation's clock.
    RealStack "stack" {
        /// The stack: `smoltcp` (TCP) or `quic` (quinn-proto), where this build has it.
        stack: String,
        /// Payload bytes that it sends; without end by default.
        #[serde(default)]
        bytes: Option<Size>,
        /// Congestion control of the stack: `newreno` (the default) or `cubic`.
        #[serde(default)]
        cc: StackControl,
        /// Receive window; 1MiB by default.
        #[serde(default = "default_window")]
        window: Size,
        /// Largest packet, 1280 to 9000 bytes; 1500B by default.
        #[serde(default = "default_mtu")]
        mtu: Size,
    }
    /// Flows of random sizes over TCP that begin at random times.
    Flows "flows" over tcp {
        /// Payload of a flow: `web-search`, `data-mining`, a size, or a table.
        sizes: Sizes,
        /// Offered payload bits a second: flows arrive as a Poisson process.
        #[serde(default)]
        rate: Option<RateText>,
        /// Offered payload as a part of the rate `of`, instead of `rate`.
        #[serde(default)]
        load: Option<f64>,
        /// Rate that `load` is a part of.
        #[serde(default)]
        of: Option<RateText>,
        /// Flows that arrive in a second, instead of `rate`.
        #[serde(default)]
        per_second: Option<f64>,
        /// Users who each have one flow at a time, instead of `rate`.
        #[serde(default)]
        users: Option<u32>,
        /// Mean time between the flows of a user; 0s by default.
        #[serde(default)]
        think: Option<Time>,
        /// Flows after which it ends; no limit by default.
        #[serde(default)]
        flows: Option<u64>,
    }
    /// Users at the destination ask the source for responses, one after the other; completion times
    /// are from request to response.
    Requests "requests" over tcp {
        /// Payload of a response: `web-search`, `data-mining`, a size, or a table.
        sizes: Sizes,
        /// Users; 1 by default.
        #[serde(default = "default_users")]
        users: u32,
        /// Mean time before a request; 1s by default.
        #[serde(default = "default_think")]
        think: Time,
        /// Network-layer bytes of a request; 200B by default.
        #[serde(default = "default_request")]
        request: Size,
        /// Whether a user keeps one connection; by default each response has its own.
        #[serde(default)]
        persistent: bool,
    }
    /// A user at the destination reads web pages from the source; completion times are those of
    /// pages.
    Web "web" over tcp {
        /// Payload of a page's document; by default log-normal, 10.7 kB in the mean.
        #[serde(default)]
        document: Option<Sizes>,
        /// Payload of an object of a page; by default log-normal, 7.8 kB in the mean.
        #[serde(default)]
        object: Option<Sizes>,
        /// Objects of a page; by default Pareto-distributed, 5.6 in the mean and 53 at most.
        #[serde(default)]
        objects: Option<u32>,
        /// Connections at once; 6 by default.
        #[serde(default = "default_connections")]
        connections: u32,
        /// Mean time between the document and the requests for its objects; 130ms by default.
        #[serde(default = "default_parse")]
        parse: Time,
        /// Mean time between pages; 30s by default.
        #[serde(default = "default_read")]
        read: Time,
        /// Network-layer bytes of a request; 350B by default.
        #[serde(default = "default_web_request")]
        request: Size,
    }
    /// All sources answer the destination at once, again and again; completion times are until the
    /// last response has come.
    Incast "incast" over tcp {
        /// Payload that each source answers with.
        #[serde(default)]
        size: Option<Size>,
        /// Payload of all sources together, instead of `size`.
        #[serde(default)]
        total: Option<Size>,
        /// Time from one query to the next, which waits for the last one; 100ms by default.
        #[serde(default = "default_incast_interval")]
        interval: Time,
        /// Queries after which it ends; no limit by default.
        #[serde(default)]
        queries: Option<u64>,
        /// Network-layer bytes of a request; 200B by default.
        #[serde(default = "default_request")]
        request: Size,
        /// Whether connections are kept from query to query; they are by default.
        #[serde(default = "default_true")]
        persistent: bool,
    }
    /// A program that runs on the source host, in live runs only.
    Program "program" {
        /// What it is, for a shell; it reaches hosts by their names.
        command: String,
    }
}

fn default_cc() -> String {
    "cubic".to_owned()
}

fn default_mss() -> Size {
    Size(1448)
}

fn default_initial_window() -> u32 {
    10
}

fn default_true() -> bool {
    true
}

fn default_min_rto() -> Time {
    Time::millis(200)
}

fn default_ack_every() -> u32 {
    2
}

fn default_ack_delay() -> Time {
    Time::millis(40)
}

fn default_receive_buffer() -> Size {
    Size(4 << 20)
}

fn default_train() -> u8 {
    1
}

fn default_window() -> Size {
    Size(1 << 20)
}

fn default_mtu() -> Size {
    Size(1500)
}

fn default_users() -> u32 {
    1
}

fn default_think() -> Time {
    Time::millis(1000)
}

fn default_request() -> Size {
    Size(200)
}

fn default_connections() -> u32 {
    6
}

fn default_parse() -> Time {
    Time::millis(130)
}

fn default_read() -> Time {
    Time::millis(30_000)
}

fn default_web_request() -> Size {
    Size(350)
}

fn default_incast_interval() -> Time {
    Time::millis(100)
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

/// Talk spurts and pauses of Brady's model, as most studies of packet voice use it. ITU-T P.59 has
/// 1.004 s and 1.587 s.
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
        let spec: Spec = toml::from_str(
            "kind = 'poisson'\nrate = '5Mbit/s'\nstart = '1s'\necn = 'ect0'\ndeadline = '20ms'",
        )
        .unwrap();
        let Spec::Poisson(poisson) = &spec else { panic!("{spec:?}") };
        assert_eq!((poisson.rate.map(RateText::bps), poisson.size), (Some(5_000_000), Size(1000)));
        assert_eq!(spec.common().start, Time::millis(1000));
        assert_eq!(spec.common().ecn, Some(Ecn::Ect0));
        assert_eq!(spec.kind(), "poisson");
        let settings = toml::Deserializer::parse(
            "rate = '5Mbit/s'\nstart = '1s'\necn = 'ect0'\ndeadline = '20ms'",
        )
        .unwrap();
        assert_eq!(Spec::read("poisson", settings).unwrap().unwrap(), spec);
        assert!(Spec::read("fish", toml::Deserializer::parse("").unwrap()).is_none());
    }

    #[test]
    fn a_setting_of_another_kind_is_refused_by_name() {
        for text in [
            "kind = 'cbr'\nrate = '1M'\nshape = 2",
            "kind = 'cbr'\nrate = '1M'\nstates = []",
            "kind = 'fish'",
        ] {
            let error = toml::from_str::<Spec>(text).unwrap_err().to_string();
            assert!(
                error.contains("unknown field `shape`")
                    || error.contains("unknown field `states`")
                    || error.contains("`fish`"),
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
            r#"{"kind":"tcp","cc":"newreno","pacing":true,"bytes":"1MB"}"#,
            r#"{"kind":"flows","sizes":"web-search","load":0.6,"of":"10Gbit/s"}"#,
            r#"{"kind":"flows","sizes":{"kind":"pareto","shape":1.2,"mean":"100KB"},"users":4}"#,
            r#"{"kind":"requests","sizes":"10KB"}"#,
        ] {
            let spec: Spec = serde_json::from_str(text).unwrap();
            assert_eq!(
                serde_json::from_str::<Spec>(&serde_json::to_string(&spec).unwrap()).unwrap(),
                spec
            );
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
