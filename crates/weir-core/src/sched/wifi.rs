//! 802.11: the timings of the physical layers, one row for each, the durations of frames, and the
//! access categories of EDCA.
//!
//! All durations are in whole us, and all rates in units of 100 kbit/s.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

/// The timings of a physical layer.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The name in the command language.
    pub name: &'static str,
    /// The length of a slot.
    pub slot: u64,
    /// The gap between a frame and its answer.
    pub sifs: u64,
    /// The preamble and the PLCP header of a data frame.
    pub preamble: u64,
    /// The preamble and the PLCP header of an RTS, a CTS or an acknowledgement.
    pub control_preamble: u64,
    /// The silence after each frame that counts as part of the frame.
    pub extension: u64,
    /// Whether a frame consists of OFDM symbols of 4 us.
    pub ofdm: bool,
    /// The first window and the largest window in slots.
    pub windows: [u16; 2],
    /// Data rates, ascending.
    pub rates: &'static [u32],
    /// The rates of RTS, CTS and acknowledgements, ascending.
    pub basic: &'static [u32],
    /// The TXOP limits of voice and video. The other categories have a limit of 0, which means one
    /// frame.
    pub txop: [u16; 2],
}

/// The physical layers.
///
/// The numbers are those of IEEE Std 802.11-2012. `b` is the HR/DSSS PHY of clause 17, with the
/// long PLCP of 144 + 48 us at 1 Mbit/s. `g` is the ERP-OFDM PHY of clause 19, with the short slot
/// of a cell without 802.11b stations and the signal extension of 6 us. `a` is the OFDM PHY of
/// clause 18, with a preamble of 16 us and a SIGNAL field of 4 us. `n` is the HT PHY of clause 20
/// at 2.4 GHz in 20 MHz: the mixed format with one stream (8 + 8 + 4 + 8 + 4 + 4 us), the MCS 0 to
/// 7 with the long guard interval, control frames in the format of `g`. The TXOP limits, AIFSN and
/// windows of categories are those of table 8-105.
pub const TIMINGS: [Timing; 4] = [
    Timing {
        name: "b",
        slot: 20,
        sifs: 10,
        preamble: 192,
        control_preamble: 192,
        extension: 0,
        ofdm: false,
        windows: [31, 1023],
        rates: &[10, 20, 55, 110],
        basic: &[10, 20],
        txop: [3264, 6016],
    },
    Timing {
        name: "g",
        slot: 9,
        sifs: 10,
        preamble: 20,
        control_preamble: 20,
        extension: 6,
        ofdm: true,
        windows: [15, 1023],
        rates: OFDM_RATES,
        basic: &[60, 120, 240],
        txop: [1504, 3008],
    },
    Timing {
        name: "a",
        slot: 9,
        sifs: 16,
        preamble: 20,
        control_preamble: 20,
        extension: 0,
        ofdm: true,
        windows: [15, 1023],
        rates: OFDM_RATES,
        basic: &[60, 120, 240],
        txop: [1504, 3008],
    },
    Timing {
        name: "n",
        slot: 9,
        sifs: 10,
        preamble: 36,
        control_preamble: 20,
        extension: 6,
        ofdm: true,
        windows: [15, 1023],
        rates: &[65, 130, 195, 260, 390, 520, 585, 650],
        basic: &[60, 120, 240],
        txop: [1504, 3008],
    },
];

const OFDM_RATES: &[u32] = &[60, 90, 120, 180, 240, 360, 480, 540];

/// The short preamble and PLCP header of 802.11b: 72 + 24 us.
pub const SHORT_PREAMBLE: u64 = 96;

/// An access category of EDCA. If two categories of a station begin in the same slot, the category
/// that comes first in this enum sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    /// Voice, AC_VO.
    Voice,
    /// Video, AC_VI.
    Video,
    /// Best effort, AC_BE; without EDCA, the category of all packets.
    BestEffort,
    /// Background, AC_BK.
    Background,
}

impl Category {
    /// All categories, in their order.
    pub const ALL: [Self; 4] = [Self::Voice, Self::Video, Self::BestEffort, Self::Background];

    /// The category of a user priority of 802.1D, by table 9-1 of 802.11-2012. A priority above 7
    /// counts as 7.
    pub const fn of_priority(priority: u32) -> Self {
        match priority {
            0 | 3 => Self::BestEffort,
            1 | 2 => Self::Background,
            4 | 5 => Self::Video,
            _ => Self::Voice,
        }
    }

    /// The category of a packet with this DSCP, by section 4 of RFC 8325 and, for the code point 1,
    /// by RFC 8622.
    pub const fn of_dscp(dscp: u8) -> Self {
        Self::of_priority(match dscp {
            // Network control: CS6 and CS7.
            48 | 56 => 7,
            // Telephony: EF and VOICE-ADMIT.
            44 | 46 => 6,
            // Signalling: CS5.
            40 => 5,
            // AF4x, CS4, AF3x and CS3.
            34 | 36 | 38 | 32 | 26 | 28 | 30 | 24 => 4,
            // Low-latency data: AF2x.
            18 | 20 | 22 => 3,
            // Low-priority data: CS1 and LE.
            8 | 1 => 1,
            _ => 0,
        })
    }

    /// The AIFSN: the number of slots after SIFS in which the category does not begin to send.
    pub const fn aifsn(self) -> u16 {
        match self {
            Self::Voice | Self::Video => 2,
            Self::BestEffort => 3,
            Self::Background => 7,
        }
    }

    /// The first and the largest window of the category, from the windows of the physical layer.
    pub const fn windows(self, [first, last]: [u16; 2]) -> [u16; 2] {
        match self {
            Self::Voice => [first.div_ceil(4) - 1, first.div_ceil(2) - 1],
            Self::Video => [first.div_ceil(2) - 1, first],
            Self::BestEffort | Self::Background => [first, last],
        }
    }
}

/// The durations of frames on one medium.
#[derive(Clone, Copy, Debug)]
pub struct Air {
    timing: &'static Timing,
    /// The preambles, with PLCP headers, of data frames and of control frames.
    preambles: [u64; 2],
    /// The rate of stations without a rate of their own.
    rate: u32,
    /// The bytes of a data frame besides the packet.
    overhead: u64,
    /// The longest frame in bytes that is sent without RTS.
    rts: u64,
}

impl Air {
    /// The medium of a physical layer. `rate` is the rate of stations without a rate of their own;
    /// `None` means the highest rate. If `short`, 802.11b has the short preamble. If `qos`, frames
    /// have the two bytes of QoS control. Frames above `rts` bytes are announced by an RTS.
    pub fn new(
        timing: &'static Timing,
        rate: Option<u32>,
        short: bool,
        qos: bool,
        rts: u64,
    ) -> Self {
        let preambles = if short && !timing.ofdm {
            [SHORT_PREAMBLE; 2]
        } else {
            [timing.preamble, timing.control_preamble]
        };
        let overhead = OVERHEAD + if qos { QOS_CONTROL } else { 0 };
        let mut air = Self { timing, preambles, rate: timing.best(), overhead, rts };
        air.rate = rate.map_or(timing.best(), |rate| timing.nearest(rate));
        air
    }

    /// The data rate of a station, from the rate of its flow in bit/s; 0 means the rate of the
    /// medium.
    pub fn rate_of(&self, bps: u64) -> u32 {
        match bps {
            0 => self.rate,
            _ => self.timing.nearest(u32::try_from(bps / UNIT_BPS).unwrap_or(u32::MAX)),
        }
    }

    /// The length of a slot.
    pub const fn slot(&self) -> u64 {
        self.timing.slot
    }

    /// SIFS.
    pub const fn sifs(&self) -> u64 {
        self.timing.sifs
    }

    /// Whether a packet of `len` bytes is announced by an RTS.
    pub const fn announces(&self, len: u32) -> bool {
        len as u64 + self.overhead > self.rts
    }

    /// The duration of the RTS, its gap, the CTS and the gap before the data, for a station at
    /// `rate`.
    pub fn announcement(&self, rate: u32) -> u64 {
        self.control(RTS, rate) + self.sifs() + self.control(CTS, rate) + self.sifs()
    }

    /// The duration of a data frame, its gap and the acknowledgement.
    pub fn exchange(&self, len: u32, rate: u32) -> u64 {
        let data = self.preambles[0] + self.time(u64::from(len) + self.overhead, rate);
        data + self.timing.extension + self.sifs() + self.control(ACK, rate)
    }

    /// The time for which a packet occupies the medium if it is sent alone.
    pub fn success(&self, len: u32, rate: u32) -> u64 {
        let announcement = if self.announces(len) { self.announcement(rate) } else { 0 };
        announcement + self.exchange(len, rate)
    }

    /// The time for which a packet occupies the medium if it collides, including the time in which
    /// the stations wait for the missing answer.
    pub fn collision(&self, len: u32, rate: u32) -> u64 {
        if self.announces(len) {
            self.announcement(rate) - self.sifs()
        } else {
            self.exchange(len, rate)
        }
    }

    /// The duration of an RTS, a CTS or an acknowledgement that belongs to data of rate `rate`. The
    /// frame is sent at the highest basic rate that is not above `rate`.
    fn control(&self, bytes: u64, rate: u32) -> u64 {
        let basic = self.timing.basic;
        let rate = basic.iter().copied().filter(|&basic| basic <= rate).max().unwrap_or(basic[0]);
        self.preambles[1] + self.time(bytes, rate) + self.timing.extension
    }

    /// The time of a frame's bytes without its preamble.
    fn time(&self, bytes: u64, rate: u32) -> u64 {
        if self.timing.ofdm {
            let bits_of_symbol = u64::from(rate) * SYMBOL / 10;
            SYMBOL * (bytes * 8 + SERVICE_AND_TAIL).div_ceil(bits_of_symbol)
        } else {
            (bytes * 80).div_ceil(u64::from(rate))
        }
    }
}

impl Timing {
    /// The highest data rate.
    pub fn best(&self) -> u32 {
        self.rates[self.rates.len() - 1]
    }

    /// The highest data rate that is not above `rate`, or the lowest one.
    fn nearest(&self, rate: u32) -> u32 {
        self.rates.iter().copied().filter(|&known| known <= rate).max().unwrap_or(self.rates[0])
    }

    /// Whether `bps` bit/s is one of the data rates.
    pub fn has(&self, bps: u64) -> bool {
        self.rates.iter().any(|&rate| u64::from(rate) * UNIT_BPS == bps)
    }

    /// The data rates in Mbit/s, for messages: `1, 2, 5.5, 11`.
    pub fn rates_in_words(&self) -> String {
        let words: Vec<String> = self.rates.iter().map(|&rate| mbps(rate)).collect();
        words.join(", ")
    }
}

/// A rate in Mbit/s as text.
pub(super) fn mbps(rate: u32) -> String {
    let mut text = String::new();
    let _ = match rate % 10 {
        0 => write!(text, "{}", rate / 10),
        tenths => write!(text, "{}.{tenths}", rate / 10),
    };
    text
}

/// The unit of rates in bit/s.
pub const UNIT_BPS: u64 = 100_000;
/// The bytes of a frame besides the packet: MAC header 24, LLC and SNAP 8, frame check sequence 4.
const OVERHEAD: u64 = 36;
/// The bytes of QoS control.
const QOS_CONTROL: u64 = 2;
/// The bytes of an RTS.
const RTS: u64 = 20;
/// The bytes of a CTS.
const CTS: u64 = 14;
/// The bytes of an acknowledgement.
const ACK: u64 = 14;
/// The length of an OFDM symbol in us.
const SYMBOL: u64 = 4;
/// The bits of an OFDM frame before and after its bytes.
const SERVICE_AND_TAIL: u64 = 16 + 6;

#[cfg(test)]
mod tests {
    use super::*;

    fn air(name: &str, rate: u32) -> Air {
        let timing = TIMINGS.iter().find(|timing| timing.name == name).unwrap();
        Air::new(timing, Some(rate), false, false, u64::MAX)
    }

    /// The durations are computed by hand from the formulas of the standard.
    #[test]
    fn frames_take_the_times_of_their_standard() {
        // 1500 bytes with the overhead. OFDM: 12,022 bits in symbols of 216, 24, 260 and 26 bits.
        for (name, rate, us) in [
            ("b", 110, 192 + 1091 + 10 + 192 + 56),
            ("b", 10, 192 + 12_000 + 10 + 192 + 112),
            ("g", 540, 20 + 56 * 4 + 6 + 10 + 20 + 2 * 4 + 6),
            ("a", 540, 20 + 56 * 4 + 16 + 20 + 2 * 4),
            ("a", 60, 20 + 501 * 4 + 16 + 20 + 6 * 4),
            ("n", 650, 36 + 47 * 4 + 6 + 10 + 20 + 2 * 4 + 6),
            ("n", 65, 36 + 463 * 4 + 6 + 10 + 20 + 6 * 4 + 6),
        ] {
            assert_eq!(air(name, rate).exchange(1464, rate), us, "{name} {rate}");
        }
    }

    #[test]
    fn an_rts_precedes_frames_above_the_threshold() {
        let air = Air::new(&TIMINGS[0], None, false, true, 1500);
        assert!(!air.announces(1462) && air.announces(1463));
        // 20 and 14 bytes at 2 Mbit/s.
        assert_eq!(air.announcement(110), 192 + 80 + 10 + 192 + 56 + 10);
        assert_eq!(air.collision(1463, 110), 192 + 80 + 10 + 192 + 56);
        assert_eq!(air.success(1463, 110), air.announcement(110) + air.exchange(1463, 110));
        assert_eq!(air.success(1462, 110), air.collision(1462, 110));
    }

    #[test]
    fn code_points_have_the_categories_of_rfc_8325() {
        let in_category =
            |category| (0..64).filter(|&d| Category::of_dscp(d) == category).collect();
        let voice: Vec<u8> = in_category(Category::Voice);
        let video: Vec<u8> = in_category(Category::Video);
        let background: Vec<u8> = in_category(Category::Background);
        assert_eq!(voice, [44, 46, 48, 56]);
        assert_eq!(video, [24, 26, 28, 30, 32, 34, 36, 38, 40]);
        assert_eq!(background, [1, 8]);
        assert_eq!(Category::of_dscp(255), Category::BestEffort);
    }

    /// Table 8-105 of 802.11-2012 with the windows of 802.11b and of OFDM.
    #[test]
    fn categories_have_the_default_windows() {
        let windows = |phy| Category::ALL.map(|category| category.windows(phy));
        assert_eq!(windows([31, 1023]), [[7, 15], [15, 31], [31, 1023], [31, 1023]]);
        assert_eq!(windows([15, 1023]), [[3, 7], [7, 15], [15, 1023], [15, 1023]]);
        assert_eq!(Category::ALL.map(Category::aifsn), [2, 2, 3, 7]);
    }

    #[test]
    fn a_rate_between_two_counts_as_the_lower_one() {
        let b = air("b", 110);
        assert_eq!(
            [0, 1, 999_999, 2_000_000, 7_000_000].map(|bps| b.rate_of(bps)),
            [110, 10, 10, 20, 55]
        );
        assert_eq!(b.rate_of(u64::MAX), 110);
        assert!(TIMINGS[0].has(5_500_000) && !TIMINGS[0].has(5_500_001));
        assert_eq!(TIMINGS[0].rates_in_words(), "1, 2, 5.5, 11");
    }
}
