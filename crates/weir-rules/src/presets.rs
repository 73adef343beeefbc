//! Presets: specifications of both directions of well-known kinds of links.
//!
//! The values are typical ones. If a value comes from a public document, the preset names the
//! document. All other values are marked as our choice.

use crate::suggest::closest;

/// A link of a well-known kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The name.
    pub name: &'static str,
    /// Other names of the preset.
    pub aliases: &'static [&'static str],
    /// A description in one line.
    pub summary: &'static str,
    /// The source of the values.
    pub source: &'static str,
    /// The specification of the direction from the user.
    pub up: &'static str,
    /// The specification of the direction to the user.
    pub down: &'static str,
}

/// A name that no preset has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no preset `{name}`{}",
    .meant.map(|m| format!("; did you mean `{m}`?")).unwrap_or_default()
)]
pub struct UnknownPreset {
    /// The name.
    pub name: String,
    /// The closest existing name, if one is close.
    pub meant: Option<&'static str>,
}

/// The preset with this name or alias.
///
/// # Errors
/// No preset has this name.
pub fn preset(name: &str) -> Result<&'static Preset, UnknownPreset> {
    let found = PRESETS.iter().find(|p| p.name == name || p.aliases.contains(&name));
    found.ok_or_else(|| UnknownPreset { name: name.to_owned(), meant: closest(name, names()) })
}

/// All names and aliases.
pub fn names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().flat_map(|p| std::iter::once(p.name).chain(p.aliases.iter().copied()))
}

/// The preset from which other presets take the fields that they omit.
const EMPTY: Preset = Preset { name: "", aliases: &[], summary: "", source: "", up: "", down: "" };

/// All presets.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "dsl",
        aliases: &["adsl"],
        summary: "ADSL line, 8 Mbit/s down, 1 Mbit/s up, in ATM cells",
        source: "Rates after ITU-T G.992.1 (1999), framing after RFC 2684 and RFC 2516; delay and \
                 queue are typical values of our choice",
        up: "bw 1Mbit/s overhead atm delay 12ms queue 64KB",
        down: "bw 8Mbit/s overhead atm delay 12ms queue 256KB",
    },
    Preset {
        name: "vdsl",
        summary: "VDSL2 line, 50 Mbit/s down, 10 Mbit/s up",
        source: "Packet transfer mode after ITU-T G.993.2 (2006); rates, delay and queue are \
                 typical values of our choice",
        up: "bw 10Mbit/s overhead 26 delay 8ms queue 128KB",
        down: "bw 50Mbit/s overhead 26 delay 8ms queue 512KB",
        ..EMPTY
    },
    Preset {
        name: "cable",
        summary: "Cable modem, 100 Mbit/s down, 10 Mbit/s up",
        source: "Accounting after CableLabs DOCSIS 3.1 MULPI; rates, delay, jitter and queue are \
                 typical values of our choice",
        up: "bw 10Mbit/s overhead docsis delay 7ms jitter 2ms queue 256KB",
        down: "bw 100Mbit/s overhead docsis delay 5ms queue 1MB",
        ..EMPTY
    },
    Preset {
        name: "fiber",
        aliases: &["ftth", "fibre"],
        summary: "Fibre to the home, 300 Mbit/s in both directions",
        source: "Typical values of our choice",
        up: "bw 300Mbit/s overhead ethernet delay 2ms queue 2MB",
        down: "bw 300Mbit/s overhead ethernet delay 2ms queue 2MB",
    },
    Preset {
        name: "gigabit",
        aliases: &["lan"],
        summary: "Gigabit Ethernet in one building",
        source: "Rate and framing after IEEE 802.3 (1000BASE-T); delay and queue are typical \
                 values of our choice",
        up: "bw 1Gbit/s overhead ethernet delay 100us queue 512KB",
        down: "bw 1Gbit/s overhead ethernet delay 100us queue 512KB",
    },
    Preset {
        name: "lte",
        aliases: &["4g"],
        summary: "LTE, 12 Mbit/s in both directions, 70 ms round trip",
        source: "Rates and round trip as in WebPageTest's connectivity profile \"LTE\"; jitter \
                 and queue are typical values of our choice",
        up: "bw 12Mbit/s delay 35ms jitter 5ms normal correlation 50% queue 1MB",
        down: "bw 12Mbit/s delay 35ms jitter 5ms normal correlation 50% queue 2MB",
    },
    Preset {
        name: "3g",
        aliases: &["umts"],
        summary: "3G, 1.6 Mbit/s down, 768 kbit/s up, 300 ms round trip",
        source: "Rates and round trip as in WebPageTest's connectivity profile \"3G\"; jitter and \
                 queue are typical values of our choice",
        up: "bw 768Kbit/s delay 150ms jitter 15ms normal correlation 50% queue 256KB",
        down: "bw 1.6Mbit/s delay 150ms jitter 15ms normal correlation 50% queue 512KB",
    },
    Preset {
        name: "edge",
        aliases: &["2g"],
        summary: "EDGE, 240 kbit/s down, 200 kbit/s up, 840 ms round trip",
        source: "Rates and round trip as in WebPageTest's connectivity profile \"Edge\"; jitter \
                 and queue are typical values of our choice",
        up: "bw 200Kbit/s delay 420ms jitter 40ms normal correlation 50% queue 64KB",
        down: "bw 240Kbit/s delay 420ms jitter 40ms normal correlation 50% queue 128KB",
    },
    Preset {
        name: "5g",
        summary: "5G below 6 GHz, 200 Mbit/s down, 40 Mbit/s up",
        source: "Typical values of our choice",
        up: "bw 40Mbit/s delay 10ms jitter 3ms normal correlation 50% queue 2MB",
        down: "bw 200Mbit/s delay 10ms jitter 3ms normal correlation 50% queue 8MB",
        ..EMPTY
    },
    Preset {
        name: "satellite",
        aliases: &["geo"],
        summary: "Geostationary satellite, 25 Mbit/s down, 3 Mbit/s up, 600 ms round trip",
        source: "Delay follows from the orbit's 35786 km, twice in each direction, plus access \
                 time; rates, loss and queue are typical values of our choice",
        up: "bw 3Mbit/s delay 300ms jitter 10ms queue 512KB loss 0.001",
        down: "bw 25Mbit/s delay 300ms jitter 5ms queue 4MB loss 0.001",
    },
    Preset {
        name: "leo",
        summary: "Low-orbit satellite, 100 Mbit/s down, 15 Mbit/s up, 45 ms round trip",
        source: "Typical values of our choice",
        up: "bw 15Mbit/s delay 22ms jitter 6ms normal correlation 70% queue 1MB loss \
             0,0.0005,0.3,0.1",
        down: "bw 100Mbit/s delay 22ms jitter 6ms normal correlation 70% queue 4MB loss \
               0,0.0005,0.3,0.1",
        ..EMPTY
    },
    Preset {
        name: "wifi",
        summary: "Wi-Fi near the access point, 60 Mbit/s in both directions",
        source: "Typical values of our choice",
        up: "bw 60Mbit/s delay 1ms jitter 1ms pareto queue 512KB loss 0.0005",
        down: "bw 60Mbit/s delay 1ms jitter 1ms pareto queue 512KB loss 0.0005",
        ..EMPTY
    },
    Preset {
        name: "wifi-lossy",
        summary: "Wi-Fi at the edge of its range: 5 Mbit/s, late packets, bursts of loss",
        source: "Typical values of our choice",
        up: "bw 5Mbit/s delay 5ms jitter 8ms pareto queue 256KB loss 0.005,0.01,0.4,0.2",
        down: "bw 5Mbit/s delay 5ms jitter 8ms pareto queue 256KB loss 0.005,0.01,0.4,0.2",
        ..EMPTY
    },
    Preset {
        name: "dialup",
        aliases: &["modem"],
        summary: "Telephone modem, 49 kbit/s down, 30 kbit/s up, 120 ms round trip",
        source: "Rates and round trip as in WebPageTest's connectivity profile \"56K Dial-Up\"; \
                 framing after RFC 1662; queue chosen by us",
        up: "bw 30Kbit/s overhead ppp delay 60ms queue 16KB",
        down: "bw 49Kbit/s overhead ppp delay 60ms queue 32KB",
    },
    Preset {
        name: "transatlantic",
        summary: "A gigabit path between Europe and North America, 80 ms round trip",
        source: "Delay follows from about 8000 km of fibre at 5 us a kilometre; the rest are \
                 typical values of our choice",
        up: "bw 1Gbit/s delay 40ms queue 10MB loss 0.00001",
        down: "bw 1Gbit/s delay 40ms queue 10MB loss 0.00001",
        ..EMPTY
    },
    Preset {
        name: "datacenter",
        summary: "Two machines in a data centre, 25 Gbit/s",
        source: "Rate and framing after IEEE 802.3by (2016); delay and queue are typical values \
                 of our choice",
        up: "bw 25Gbit/s overhead ethernet delay 20us queue 1MB",
        down: "bw 25Gbit/s overhead ethernet delay 20us queue 1MB",
        ..EMPTY
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::NoFiles;
    use crate::spec::check_spec;

    #[test]
    fn every_preset_is_a_link_without_diagnostics() {
        for p in PRESETS {
            for text in [p.up, p.down] {
                let checked = check_spec(text, &NoFiles);
                assert!(
                    checked.spec.is_some() && checked.diagnostics.is_empty(),
                    "{}: {}",
                    p.name,
                    checked.diagnostics
                );
            }
            assert!(!p.summary.is_empty() && !p.source.is_empty(), "{}", p.name);
        }
    }

    #[test]
    fn names_are_unique_and_typing_errors_are_recognised() {
        let all: Vec<_> = names().collect();
        assert_eq!(all.len(), all.iter().collect::<std::collections::BTreeSet<_>>().len());
        assert_eq!(preset("4g").map(|p| p.name), Ok("lte"));
        let error = preset("satelite").unwrap_err();
        assert_eq!(error.to_string(), "no preset `satelite`; did you mean `satellite`?");
        assert_eq!(preset("xyzzyx").unwrap_err().meant, None);
    }
}
