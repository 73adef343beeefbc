//! The kinds of traffic that can run live, with the source of their packets, and the reasons why
//! other kinds can only be simulated.

use serde_json::Value;
use weir_rules::quantity;
use weir_sim::traffic::Common;
use weir_sim::traffic::Spec;
use weir_sim::traffic::settings::Ecn;
use weir_traffic::host::kinds::{DATAGRAMS, PING, is_datagrams};
use weir_traffic::host::order::Transfer;

/// The source of a flow's packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Carrier {
    /// Weir's generators, which send UDP packets.
    Datagrams {
        /// The second byte of the IP header.
        tos: u8,
        /// Whether the destination sends each packet back.
        echo: bool,
    },
    /// The kernel's TCP.
    Tcp(Transfer),
    /// A program of the user.
    Program {
        /// The program's command, for a shell.
        command: String,
        /// When the program starts, in ns after the start of the run.
        start_ns: u64,
    },
}

/// Why traffic cannot run live: the reason, the setting that causes it, and a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Impossible {
    pub(super) what: String,
    pub(super) setting: &'static str,
    pub(super) help: String,
}

pub(super) fn carrier_of(spec: &Spec) -> Result<Carrier, Impossible> {
    let common = spec.common();
    let settings = serde_json::to_value(spec).unwrap_or(Value::Null);
    if common.label.is_some() || common.deadline.is_some() {
        let setting = if common.label.is_some() { "label" } else { "deadline" };
        let help = "leave the setting out, or use `weir sim`".to_owned();
        return Err(Impossible { what: "real packets carry no label".to_owned(), setting, help });
    }
    if is_datagrams(spec) {
        let ecn = match common.ecn {
            Some(Ecn::Ect0) => 2,
            Some(Ecn::Ect1) => 1,
            Some(Ecn::None) | None => 0,
        };
        return Ok(Carrier::Datagrams { tos: common.dscp << 2 | ecn, echo: spec.kind() == PING });
    }
    match spec.kind() {
        "tcp" => Ok(Carrier::Tcp(transfer(&settings, &common)?)),
        "program" => {
            let command = settings["command"].as_str().unwrap_or_default().to_owned();
            Ok(Carrier::Program { command, start_ns: common.start.0.0 })
        }
        kind => Err(Impossible {
            what: format!("traffic of the kind `{kind}` exists in the simulator only"),
            setting: "kind",
            help: format!(
                "use `weir sim`; live there are {}, tcp and program",
                DATAGRAMS.join(", ")
            ),
        }),
    }
}

fn transfer(settings: &Value, common: &Common) -> Result<Transfer, Impossible> {
    if common.ecn == Some(Ecn::Ect1) {
        let what = "the kernel's TCP sends ECT(0) where it uses ECN".to_owned();
        let help = "write `ecn = \"ect0\"`, or use `weir sim`".to_owned();
        return Err(Impossible { what, setting: "ecn", help });
    }
    let words = settings["cc"].as_str().unwrap_or("cubic").to_ascii_lowercase();
    let (wanted, arguments) =
        words.trim().split_once(char::is_whitespace).unwrap_or((words.trim(), ""));
    let arguments = arguments.trim();
    // The simulator's `variant linux` is the kernel's own algorithm.
    if !(arguments.is_empty() || wanted == "cubic" && KERNEL.contains(&arguments)) {
        let what = format!("the kernel's `{wanted}` takes no settings");
        let help = format!("write `cc = \"{wanted}\"`, or use `weir sim`");
        return Err(Impossible { what, setting: "cc", help });
    }
    let congestion = if wanted == "newreno" { "reno" } else { wanted }.to_owned();
    let available = weir_linux::tcp::congestion_controls();
    if !available.contains(&congestion) {
        let what =
            format!("this machine's kernel has no congestion control `{congestion}` to choose");
        let help = format!(
            "there are {}; 'modprobe tcp_{congestion}' may add it, and `weir sim` has its own",
            available.join(", ")
        );
        return Err(Impossible { what, setting: "cc", help });
    }
    let segment =
        size(&settings["mss"]).and_then(|size| u32::try_from(size).ok()).unwrap_or(DEFAULT_SEGMENT);
    Ok(Transfer {
        congestion,
        segment,
        ecn: common.ecn == Some(Ecn::Ect0),
        tos: common.dscp << 2,
        start_ns: common.start.0.0,
        stop_ns: common.stop.map_or(u64::MAX, |stop| stop.0.0),
        bytes: size(&settings["bytes"]),
    })
}

/// The bytes of a size setting, which is a number or a text with a unit.
fn size(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| quantity::size(value.as_str()?).ok())
}

/// The packet sizes that the settings determine, in network-layer bytes.
pub(super) fn packet_sizes(spec: &Spec) -> Vec<u64> {
    match spec {
        Spec::Imix(imix) => imix.mix.iter().map(|(size, _)| size.0).collect(),
        Spec::Voip(voip) => vec![u64::from(voip.codec.frame().1) + SPEECH_HEADERS],
        spec => serde_json::to_value(spec)
            .ok()
            .and_then(|settings| size(&settings["size"]))
            .into_iter()
            .collect(),
    }
}

/// The IP protocol number in the flow keys of this traffic.
pub(super) fn protocol(spec: &Spec) -> u8 {
    if is_datagrams(spec) { UDP } else { TCP }
}

/// The settings with which the simulator's `cubic` is the same as the kernel's.
const KERNEL: [&str; 2] = ["variant linux", "variant=linux"];
/// Payload bytes of a segment on Ethernet with TCP timestamps, which Linux uses by default.
const DEFAULT_SEGMENT: u32 = 1448;
/// Bytes of the IP, UDP and RTP headers.
const SPEECH_HEADERS: u64 = 40;
/// The protocol number of TCP in the IP header.
const TCP: u8 = 6;
/// The protocol number of UDP in the IP header.
const UDP: u8 = 17;

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> Spec {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn datagrams_carry_their_ecn_field_and_dscp() {
        let carried =
            carrier_of(&spec(r#"{"kind":"poisson","rate":"1Mbit/s","ecn":"ect0","dscp":46}"#));
        assert_eq!(carried, Ok(Carrier::Datagrams { tos: 46 << 2 | 2, echo: false }));
        assert_eq!(
            carrier_of(&spec(r#"{"kind":"ping"}"#)),
            Ok(Carrier::Datagrams { tos: 0, echo: true })
        );
    }

    #[test]
    fn deadlines_are_refused() {
        let refused =
            carrier_of(&spec(r#"{"kind":"cbr","rate":"1Mbit/s","deadline":"20ms"}"#)).unwrap_err();
        assert_eq!(refused.setting, "deadline");
    }

    #[test]
    fn transfers_take_a_congestion_control_of_the_kernel() {
        let own = weir_linux::tcp::congestion_controls().remove(0);
        let tcp = |cc: &str, more: &str| {
            carrier_of(&spec(&format!(r#"{{"kind":"tcp","cc":"{cc}","bytes":"1MB"{more}}}"#)))
        };
        let made = Transfer {
            congestion: own.clone(),
            segment: 1448,
            ecn: false,
            tos: 0,
            start_ns: 5,
            stop_ns: 9,
            bytes: Some(1_000_000),
        };
        assert_eq!(tcp(&own, r#","start":"5ns","stop":"9ns""#), Ok(Carrier::Tcp(made.clone())));
        assert_eq!(
            tcp(&own, r#","start":"5ns","stop":"9ns","ecn":"ect0","dscp":46"#),
            Ok(Carrier::Tcp(Transfer { ecn: true, tos: 46 << 2, ..made }))
        );
        for cc in ["no-such-control".to_owned(), format!("{own} beta 0.5")] {
            let refused = tcp(&cc, "").unwrap_err();
            assert!(refused.setting == "cc" && refused.help.contains("weir sim"), "{refused:?}");
        }
        if weir_linux::tcp::congestion_controls().iter().any(|name| name == "cubic") {
            assert_eq!(tcp("cubic variant linux", ""), tcp("cubic", ""));
        }
        assert_eq!(tcp(&own, r#","ecn":"ect1""#).unwrap_err().setting, "ecn");
    }

    #[test]
    fn packet_sizes_follow_from_the_settings() {
        assert_eq!(packet_sizes(&spec(r#"{"kind":"cbr","rate":"1Mbit/s","size":"39B"}"#)), [39]);
        assert_eq!(packet_sizes(&spec(r#"{"kind":"imix","rate":"1Mbit/s"}"#)), [40, 576, 1500]);
        assert_eq!(packet_sizes(&spec(r#"{"kind":"voip"}"#)), [200]);
        assert!(packet_sizes(&spec(r#"{"kind":"trace","file":"a.csv"}"#)).is_empty());
    }
}
