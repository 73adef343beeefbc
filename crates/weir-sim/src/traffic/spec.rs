//! The settings of traffic in a scenario, kind by kind.
//!
//! Each kind has its own struct, so a setting of another kind is refused by name. One macro defines
//! the structs, adds the common settings to all of them, and keeps their descriptions for help and
//! documentation.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::units::{RateText, Size, Time};

use super::settings::{Codec, Ecn, Gaps, MarkovState, Periods, Sizes, StackControl, TraceFormat};

/// A kind of traffic, for help and documentation.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The value of the key `kind`.
    pub name: &'static str,
    /// The description of the kind.
    pub summary: &'static str,
    /// The settings of this kind with their descriptions, in addition to those of [`COMMON`].
    pub settings: &'static [(&'static str, &'static str)],
    /// Whether the kind uses TCP and therefore also has the settings of [`TRANSPORT`].
    pub transport: bool,
}

/// Settings of kinds over TCP.
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
    /// When the traffic starts.
    pub start: Time,
    /// When the traffic ends.
    pub stop: Option<Time>,
    /// Bound of the random time that is added to `start`.
    pub start_jitter: Time,
    /// ECN field of packets; over TCP, also whether TCP uses ECN.
    pub ecn: Option<Ecn>,
    /// DSCP of packets.
    pub dscp: u8,
    /// Label of packets.
    pub label: Option<u64>,
    /// Label of packets as a time.
    pub deadline: Option<Time>,
    /// Time added to the deadline for each switch with a rank program on the path.
    pub deadline_per_switch: Option<Time>,
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
                    /// Congestion control, with its own settings after the name; `cubic` by
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
                    /// Whether a handshake precedes the data; true by default.
                    #[serde(default = "default_true")]
                    pub handshake: bool,
                    /// Whether packets are paced; by default the congestion control decides.
                    #[serde(default, skip_serializing_if = "Option::is_none")]
                    pub pacing: Option<bool>,
                    /// Minimum retransmission timeout; 200ms by default.
                    #[serde(default = "default_min_rto")]
                    pub min_rto: Time,
                    /// Segments for which one acknowledgement is sent; 2 by default.
                    #[serde(default = "default_ack_every")]
                    pub ack_every: u32,
                    /// How long an acknowledgement may wait; 40ms by default.
                    #[serde(default = "default_ack_delay")]
                    pub ack_delay: Time,
                    /// Receive buffer; 4MiB by default.
                    #[serde(default = "default_receive_buffer")]
                    pub receive_buffer: Size,
                    /// Maximum number of bytes in the sending host's queue and device; no limit by
                    /// default.
                    #[serde(default, skip_serializing_if = "Option::is_none")]
                    pub small_queue: Option<Size>,
                    /// Segments that go to the device as one packet; 1 by default.
                    #[serde(default = "default_train")]
                    pub train: u8,
                )?
                /// Start time; 0s by default.
                #[serde(default)]
                pub start: Time,
                /// End time; by default the end of the run.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub stop: Option<Time>,
                /// A random time from 0 to this one is added to `start`.
                #[serde(default)]
                pub start_jitter: Time,
                /// ECN field of packets, `none` by default. Over TCP, `none` turns ECN off and the
                /// other values turn it on; without this key, the congestion control decides. The
                /// congestion control also selects the field.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub ecn: Option<Ecn>,
                /// DSCP of packets, 0 to 63.
                #[serde(default)]
                pub dscp: u8,
                /// Label of packets, which ranks and deadlines use.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub label: Option<u64>,
                /// Label of packets as a time, which they carry in nanoseconds; instead of
                /// `label`.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub deadline: Option<Time>,
                /// Time added to `deadline` for each switch with a rank program on the path of the
                /// packets.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub deadline_per_switch: Option<Time>,
            }
        )*

        /// Traffic of a scenario: a table with a key `kind`, which determines the other settings.
        #[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
        #[serde(tag = "kind")]
        pub enum Spec {
            $( $(#[doc = $summary])+ #[serde(rename = $word)] $name($name), )*
        }

        impl Spec {
            /// Reads the settings of one kind from a table without the key `kind`. Unlike the
            /// deserialisation of a whole table, this method keeps the positions of values, so that
            /// an error can point at them. `None` if there is no such kind; [`KINDS`] lists all.
            pub fn read<'de, D: Deserializer<'de>>(kind: &str, settings: D) -> Option<Result<Self, D::Error>> {
                match kind {
                    $( $word => Some($name::deserialize(settings).map(Self::$name)), )*
                    _ => None,
                }
            }

            /// The name of the kind.
            pub fn kind(&self) -> &'static str {
                match self {
                    $( Self::$name(_) => $word, )*
                }
            }

            /// The settings that every kind has.
            pub fn common(&self) -> Common {
                match *self {
                    $( Self::$name($name {
                        start, stop, start_jitter, ecn, dscp, label, deadline, deadline_per_switch, ..
                    }) => {
                        Common { start, stop, start_jitter, ecn, dscp, label, deadline, deadline_per_switch }
                    } )*
                }
            }
        }

        impl Spec {
            /// The settings of TCP; `None` for kinds that do not use it.
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
pub const COMMON: &[&str] =
    &["start", "stop", "start_jitter", "ecn", "dscp", "label", "deadline", "deadline_per_switch"];

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
    /// Packets of one size at equal intervals.
    Cbr "cbr" {
        /// Network-layer bits per second.
        #[serde(default)]
        rate: Option<RateText>,
        /// Interval between packets, instead of `rate`.
        #[serde(default)]
        interval: Option<Time>,
        /// Network-layer bytes of a packet; 1000B by default.
        #[serde(default = "default_size")]
        size: Size,
    }
    /// Packets of one size at exponentially distributed intervals.
    Poisson "poisson" {
        /// Mean network-layer bits per second.
        #[serde(default)]
        rate: Option<RateText>,
        /// Mean interval between packets, instead of `rate`.
        #[serde(default)]
        interval: Option<Time>,
        /// Network-layer bytes of a packet; 1000B by default.
        #[serde(default = "default_size")]
        size: Size,
    }
    /// Packets of one size at Pareto-distributed intervals.
    Pareto "pareto" {
        /// Mean network-layer bits per second.
        #[serde(default)]
        rate: Option<RateText>,
        /// Mean interval between packets, instead of `rate`.
        #[serde(default)]
        interval: Option<Time>,
        /// Minimum interval between packets, instead of `rate`; the mean is `shape` · `scale` /
        /// (`shape` − 1).
        #[serde(default)]
        scale: Option<Time>,
        /// Shape of the distribution; 2 by default. `rate` and `interval` need a shape above 1.
        #[serde(default = "default_shape")]
        shape: f64,
        /// Network-layer bytes of a packet; 1000B by default.
        #[serde(default = "default_size")]
        size: Size,
    }
    /// A constant rate in random periods, and silence between them.
    OnOff "on-off" {
        /// Network-layer bits per second while on.
        rate: RateText,
        /// Mean length of the sending periods.
        on: Time,
        /// Mean length of the silent periods.
        off: Time,
        /// Distribution of the lengths of periods: `exponential` (the default), `pareto` or
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
        /// The states; the traffic starts in the first state.
        states: Vec<MarkovState>,
        /// Intervals between packets within a state: `constant` (the default) or `exponential`.
        #[serde(default)]
        gaps: Gaps,
        /// Network-layer bytes of a packet; 1000B by default.
        #[serde(default = "default_size")]
        size: Size,
    }
    /// One side of a telephone call: frames of a codec, in exponential talk spurts and pauses.
    Voip "voip" {
        /// The codec: `g711` (the default), `g722`, `g726`, `g729` or `g723`.
        #[serde(default)]
        codec: Codec,
        /// Mean length of a talk spurt; 1s by default.
        #[serde(default = "default_talk")]
        talk: Time,
        /// Mean length of a pause; 1.35s by default. Set 0s if the codec also sends in pauses.
        #[serde(default = "default_silence")]
        silence: Time,
    }
    /// Packets of several sizes, mixed at random.
    Imix "imix" {
        /// Mean network-layer bits per second.
        rate: RateText,
        /// Intervals between packets: `constant` (the default) or `exponential`.
        #[serde(default)]
        gaps: Gaps,
        /// Sizes and their weights; `[[40, 7], [576, 4], [1500, 1]]` by default.
        #[serde(default = "default_mix")]
        mix: Vec<(Size, f64)>,
    }
    /// Packets from a capture or a table.
    Trace "trace" {
        /// The file, relative to the scenario.
        file: String,
        /// Format of the file: `csv` (lines `time_s,bytes`), or `pcap` (also pcapng); by default
        /// taken from the name of the file.
        #[serde(default)]
        format: Option<TraceFormat>,
        /// Whether the file is repeated after its end; false by default.
        #[serde(default)]
        repeat: bool,
        /// Speed relative to the recording; 1 by default.
        #[serde(default = "default_speed")]
        speed: f64,
    }
    /// Small packets at equal intervals, to measure delay.
    Probe "probe" {
        /// Interval between packets; 10ms by default.
        #[serde(default = "default_probe_interval")]
        interval: Time,
        /// Network-layer bytes of a packet; 64B by default.
        #[serde(default = "default_probe_size")]
        size: Size,
    }
    /// Echo requests, which the destination sends back; completion times are round-trip times.
    Ping "ping" {
        /// Interval between requests; 100ms by default.
        #[serde(default = "default_ping_interval")]
        interval: Time,
        /// Network-layer bytes of requests and replies; 84B by default.
        #[serde(default = "default_ping_size")]
        size: Size,
    }
    /// One TCP connection.
    Tcp "tcp" over tcp {
        /// Payload bytes that the connection sends; unlimited by default.
        #[serde(default)]
        bytes: Option<Size>,
    }
    /// One connection of a real stack, driven by the simulation's clock.
    RealStack "stack" {
        /// The stack: `smoltcp` (TCP) or `quic` (quinn-proto), if this build has it.
        stack: String,
        /// Payload bytes that the connection sends; unlimited by default.
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
    /// Flows of random sizes over TCP that start at random times.
    Flows "flows" over tcp {
        /// Payload of a flow: `web-search`, `data-mining`, a size, or a table.
        sizes: Sizes,
        /// Offered payload bits per second: flows arrive as a Poisson process.
        #[serde(default)]
        rate: Option<RateText>,
        /// Offered payload as a fraction of the rate `of`, instead of `rate`.
        #[serde(default)]
        load: Option<f64>,
        /// The rate to which `load` refers.
        #[serde(default)]
        of: Option<RateText>,
        /// Flows that arrive per second, instead of `rate`.
        #[serde(default)]
        per_second: Option<f64>,
        /// Number of users with one flow at a time each, instead of `rate`.
        #[serde(default)]
        users: Option<u32>,
        /// Mean time between the flows of a user; 0s by default.
        #[serde(default)]
        think: Option<Time>,
        /// Maximum number of flows; no limit by default.
        #[serde(default)]
        flows: Option<u64>,
    }
    /// Users at the destination request responses; completion times are those of responses.
    Requests "requests" over tcp {
        /// Payload of a response: `web-search`, `data-mining`, a size, or a table.
        sizes: Sizes,
        /// Number of users; 1 by default.
        #[serde(default = "default_users")]
        users: u32,
        /// Mean time before a request; 1s by default.
        #[serde(default = "default_think")]
        think: Time,
        /// Network-layer bytes of a request; 200B by default.
        #[serde(default = "default_request")]
        request: Size,
        /// Whether a user keeps one connection; by default each response has a connection of its
        /// own.
        #[serde(default)]
        persistent: bool,
    }
    /// A user at the destination reads web pages; completion times are those of pages.
    Web "web" over tcp {
        /// Payload of a page's document; by default log-normal with mean 10.7 kB.
        #[serde(default)]
        document: Option<Sizes>,
        /// Payload of an object of a page; by default log-normal with mean 7.8 kB.
        #[serde(default)]
        object: Option<Sizes>,
        /// Number of objects of a page; by default Pareto-distributed with mean 5.6, at most 53.
        #[serde(default)]
        objects: Option<u32>,
        /// Number of simultaneous connections; 6 by default.
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
    /// All sources answer the destination at once; completion times are those of the last response.
    Incast "incast" over tcp {
        /// Payload of each source's response.
        #[serde(default)]
        size: Option<Size>,
        /// Payload of all sources together, instead of `size`.
        #[serde(default)]
        total: Option<Size>,
        /// Time from one query to the next; a query waits until the previous one is complete. 100ms
        /// by default.
        #[serde(default = "default_incast_interval")]
        interval: Time,
        /// Maximum number of queries; no limit by default.
        #[serde(default)]
        queries: Option<u64>,
        /// Network-layer bytes of a request; 200B by default.
        #[serde(default = "default_request")]
        request: Size,
        /// Whether connections are kept from query to query; true by default.
        #[serde(default = "default_true")]
        persistent: bool,
    }
    /// A program that runs on the source host, in live runs only.
    Program "program" {
        /// The shell command; it reaches hosts by their names.
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

/// Talk spurts and pauses of Brady's model. ITU-T P.59 has 1.004 s and 1.587 s.
fn default_talk() -> Time {
    Time::millis(1000)
}

fn default_silence() -> Time {
    Time::millis(1350)
}

/// The simple Internet mix (IMIX) of test equipment vendors.
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

/// The default size of `ping`: 56 bytes after IP and ICMP headers.
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
