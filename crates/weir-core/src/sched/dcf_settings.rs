//! The settings of the 802.11 medium: what a user writes, and the timings, rates and contention
//! parameters that it selects.

use super::prio::PRIORITY;
use super::wifi::{Air, Category, TIMINGS, Timing, UNIT_BPS, mbps};
use crate::settings::{Count, Domain, Four, Fraction, Parameter, Part, Setting, UNIT};
use crate::{choice, settings};

settings! {
    /// Settings of the 802.11 medium.
    pub struct Settings {
        /// Timings: the index of the standard in [`TIMINGS`].
        standard: u32 = Setting::choice(&STANDARDS, 0, "timings: 802.11b, g, a or n"),
        /// Data rate: the index in [`RATES`].
        phy: u32 = Setting::choice(&RATES, 0, "data rate in Mbit/s of stations without `rate`"),
        /// Preamble of a frame.
        preamble: Preamble = Preamble::setting(
            Preamble::Long, "preamble and PLCP header of 802.11b: 192 or 96 us"),
        /// The number of retransmissions of a packet before it is dropped.
        retries: u32 =
            Count::new(0, 255, "", 7, "retransmissions of a packet before it is dropped"),
        /// The longest frame without RTS; 0 for no RTS.
        rts: u32 = Count::new(0, 65_535, "bytes", 0,
            "longest frame that is sent without an RTS; 0 for no RTS at all"),
        /// The probability that a data frame is lost.
        errors: Fraction = Part::new(0, UNIT, 0, "probability that a data frame is lost"),
        /// The access categories.
        edca: Edca = Edca::setting(Edca::Off,
            "access categories: none, by the queue's `pri`, or by the packet's DSCP"),
        /// AIFSN of the categories; `None` for the standard's value, as in the next three settings.
        aifsn: [Option<u16>; 4] = Four::new(1, 15, "slots",
            "slots between SIFS and the backoff, by category"),
        /// First windows.
        cwmin: [Option<u16>; 4] = Four::new(1, 32_767, "slots", "first contention window"),
        /// Largest windows.
        cwmax: [Option<u16>; 4] = Four::new(1, 32_767, "slots", "largest contention window"),
        /// TXOP limits.
        txop: [Option<u16>; 4] = Four::new(0, 65_534, "us",
            "time for which a category may send after one contention; 0 for one packet"),
        /// Seed of the draws.
        seed: u32 = Count::new(0, u32::MAX, "", 1,
            "all random draws of stations follow from it and from the run's seed"),
    }
}

choice! {
    /// A preamble of 802.11b, with the PLCP header.
    pub enum Preamble {
        /// 192 us.
        Long = "long",
        /// 96 us.
        Short = "short",
    }
}

choice! {
    /// The source of a packet's access category.
    pub enum Edca {
        /// Nothing: there are no categories.
        Off = "off",
        /// The priority of the flow.
        Queue = "queue",
        /// The packet's DSCP.
        Dscp = "dscp",
    }
}

/// Settings that are each allowed but contradict one another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// The standard does not have the data rate.
    #[error(
        "802.11{} has no data rate of {rate} Mbit/s; it has {}",
        .standard.name, .standard.rates_in_words()
    )]
    Rate {
        /// The standard.
        standard: &'static Timing,
        /// The rate in Mbit/s.
        rate: alloc::string::String,
    },
    /// The standard has a single preamble.
    #[error("only 802.11b has a short preamble; 802.11{} has none", .0.name)]
    Preamble(&'static Timing),
    /// The user priority is above 7.
    #[error("{0} is no user priority of 802.11; there are 0 to 7")]
    Priority(u32),
}

impl PartialEq for Timing {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Timing {}

impl Settings {
    /// The timings.
    pub fn timing(&self) -> &'static Timing {
        &TIMINGS[self.standard as usize]
    }

    /// The durations of frames.
    pub fn air(&self) -> Air {
        let qos = self.edca != Edca::Off;
        let rts = if self.rts == 0 { u64::MAX } else { self.rts.into() };
        Air::new(self.timing(), self.rate(), self.preamble == Preamble::Short, qos, rts)
    }

    /// The data rate, in units of 100 kbit/s, of stations without a rate of their own; `None` for
    /// the highest rate.
    fn rate(&self) -> Option<u32> {
        (self.phy as usize).checked_sub(1).map(|word| RATE_VALUES[word])
    }

    /// The contention parameters of a category. Without EDCA, all categories are alike.
    pub fn access(&self, category: Category) -> Access {
        let edca = self.edca != Edca::Off;
        let index = if edca { category as usize } else { Category::BestEffort as usize };
        let defaults = self.timing().windows;
        let defaults = if edca { category.windows(defaults) } else { defaults };
        let txop = *self.timing().txop.get(index).unwrap_or(&0);
        let setting_or = |given: [Option<u16>; 4], standard: u16| given[index].unwrap_or(standard);
        let first = setting_or(self.cwmin, defaults[0]);
        Access {
            aifsn: if edca { setting_or(self.aifsn, category.aifsn()).into() } else { DIFS_SLOTS },
            first_window: first.into(),
            last_window: setting_or(self.cwmax, defaults[1]).max(first).into(),
            txop: if edca { setting_or(self.txop, txop).into() } else { 0 },
        }
    }

    /// Checks that the settings fit together.
    ///
    /// # Errors
    /// The standard has no such data rate or preamble.
    pub fn check(&self) -> Result<(), Misfit> {
        let standard = self.timing();
        match self.rate() {
            Some(rate) if !standard.rates.contains(&rate) => {
                Err(Misfit::Rate { standard, rate: mbps(rate) })
            }
            _ if standard.ofdm && self.preamble == Preamble::Short => {
                Err(Misfit::Preamble(standard))
            }
            _ => Ok(()),
        }
    }

    /// Checks a station's data rate in bit/s, 0 for none, and its priority.
    ///
    /// # Errors
    /// The standard has no such data rate, or there is no such user priority.
    pub fn check_station(&self, bps: u64, priority: u32) -> Result<(), Misfit> {
        let standard = self.timing();
        if bps > 0 && !standard.has(bps) {
            let rate = crate::quantity::decimal::write(bps, 10 * UNIT_BPS);
            return Err(Misfit::Rate { standard, rate });
        }
        let knows = self.edca != Edca::Queue || priority <= MAX_USER_PRIORITY;
        if knows { Ok(()) } else { Err(Misfit::Priority(priority)) }
    }
}

/// The contention parameters of a category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Slots after SIFS.
    pub aifsn: u64,
    /// First window, in slots.
    pub first_window: u32,
    /// Largest window, in slots.
    pub last_window: u32,
    /// TXOP limit in us; 0 for one packet.
    pub txop: u64,
}

/// The slots of a DIFS after its SIFS.
const DIFS_SLOTS: u64 = 2;
const MAX_USER_PRIORITY: u32 = 7;

/// The values of `standard`, in the order of [`TIMINGS`].
const STANDARDS: [&str; 4] = ["b", "g", "a", "n"];
/// The values of `phy`: the highest rate, or a rate in Mbit/s.
const RATES: [&str; 21] = [
    "best", "11", "5.5", "2", "1", "6", "9", "12", "18", "24", "36", "48", "54", "6.5", "13",
    "19.5", "26", "39", "52", "58.5", "65",
];
/// The values of [`RATES`] without the first, in units of 100 kbit/s.
const RATE_VALUES: [u32; 20] =
    [110, 55, 20, 10, 60, 90, 120, 180, 240, 360, 480, 540, 65, 130, 195, 260, 390, 520, 585, 650];

pub(super) const STATION_RATE: Parameter = Parameter {
    name: "rate",
    domain: Domain::Number { least: 0, most: 65_000_000, unit: "bit/s" },
    default: 0,
    summary: "data rate of the station, one of the standard's; 0 for the medium's `phy`",
};

pub(super) const USER_PRIORITY: Parameter = Parameter {
    domain: Domain::Number { least: 0, most: MAX_USER_PRIORITY as u64, unit: "" },
    summary: "user priority, with `edca queue`: 1, 2 background; 0, 3 best effort; 4, 5 video; 6, \
              7 voice",
    ..PRIORITY
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_words_match_the_table() {
        assert_eq!(STANDARDS, TIMINGS.map(|timing| timing.name));
        for (word, value) in RATES[1..].iter().zip(RATE_VALUES) {
            assert_eq!(*word, mbps(value));
            assert!(TIMINGS.iter().any(|timing| timing.rates.contains(&value)), "{word}");
        }
        assert!(
            TIMINGS.iter().all(|timing| timing.rates.iter().all(|rate| RATE_VALUES.contains(rate)))
        );
    }
}
