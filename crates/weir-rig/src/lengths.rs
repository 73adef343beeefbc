//! Lengths of a flow's packets: one length, a range, or one of two well-known mixtures.

use std::fmt;

use weir_core::rng::Stream;
use weir_core::sched::MAX_PACKET;

/// The lengths of a flow's packets, in bytes from the network-layer header on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// All packets have this length.
    Fixed(u32),
    /// Lengths from the first to the second, all equally likely.
    Uniform(u32, u32),
    /// Half of the packets have 64 bytes, half 1500: acknowledgements and data.
    Bimodal,
    /// Of twelve packets, seven have 40 bytes, four 576 and one 1500: a mixture once measured on
    /// the Internet.
    Imix,
}

impl Lengths {
    /// Parses the notation of a flow set: `lSIZE`, `lLEAST-MOST`, `bimodal` or `imix`. `None` when
    /// the text is none of these, when a length is not between 1 and [`MAX_PACKET`], or when LEAST
    /// exceeds MOST.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "bimodal" => return Some(Self::Bimodal),
            "imix" => return Some(Self::Imix),
            _ => {}
        }
        let length =
            |text: &str| text.parse().ok().filter(|length| (1..=MAX_PACKET).contains(length));
        let text = text.strip_prefix('l')?;
        match text.split_once('-') {
            None => length(text).map(Self::Fixed),
            Some((least, most)) => match (length(least)?, length(most)?) {
                (least, most) if least < most => Some(Self::Uniform(least, most)),
                (least, most) if least == most => Some(Self::Fixed(least)),
                _ => None,
            },
        }
    }

    /// The longest packet in bytes.
    pub fn longest(&self) -> u32 {
        match *self {
            Self::Fixed(length) | Self::Uniform(_, length) => length,
            Self::Bimodal | Self::Imix => 1500,
        }
    }

    /// The shortest packet in bytes.
    pub fn shortest(&self) -> u32 {
        match *self {
            Self::Fixed(length) | Self::Uniform(length, _) => length,
            Self::Bimodal => 64,
            Self::Imix => 40,
        }
    }

    /// Draws the length of the next packet.
    pub fn draw(&self, random: &mut Stream) -> u32 {
        match *self {
            Self::Fixed(length) => length,
            Self::Uniform(least, most) => least + random.below(most - least + 1),
            Self::Bimodal => [64, 1500][random.below(2) as usize],
            Self::Imix => match random.below(12) {
                0..7 => 40,
                7..11 => 576,
                _ => 1500,
            },
        }
    }
}

/// The notation in a flow set.
impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Fixed(length) => write!(f, "l{length}"),
            Self::Uniform(least, most) => write!(f, "l{least}-{most}"),
            Self::Bimodal => f.write_str("bimodal"),
            Self::Imix => f.write_str("imix"),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_core::rng::Purpose;

    use super::*;

    #[test]
    fn draws_stay_within_their_range_and_reach_its_ends() {
        for text in ["l700", "l64-70", "bimodal", "imix"] {
            let lengths = Lengths::parse(text).unwrap();
            let mut random = Stream::new(1, 0, Purpose::Generator);
            let drawn: Vec<u32> = (0..1000).map(|_| lengths.draw(&mut random)).collect();
            assert_eq!(drawn.iter().min(), Some(&lengths.shortest()), "{text}");
            assert_eq!(drawn.iter().max(), Some(&lengths.longest()), "{text}");
            assert_eq!(lengths.to_string(), text);
        }
    }

    #[test]
    fn lengths_that_no_packet_has_are_refused() {
        for text in
            ["", "l", "l0", "l65537", "l9-5", "l-5", "l5-", "1500", "imix2", "l1.5", "l99999999999"]
        {
            assert_eq!(Lengths::parse(text), None, "{text}");
        }
        assert_eq!(Lengths::parse("l60-60"), Some(Lengths::Fixed(60)));
    }
}
