//! When packets leave: schedules, and the one of an even stream.

use crate::clock::SECOND;

/// Packets that leave together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// When they are due, in ns after the start.
    pub at: u64,
    /// Place of the outlet that sends them.
    pub outlet: usize,
    /// Network-layer bytes of each packet.
    pub bytes: u32,
    /// How many.
    pub count: u64,
}

/// What is sent when.
pub trait Schedule {
    /// The next packets, at `elapsed` ns after the start; `None` when nothing more is sent.
    fn next(&mut self, elapsed: u64) -> Option<Burst>;
}

/// How fast to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Network-layer bits per second.
    Bits(u64),
    /// Packets per second.
    Packets(u64),
    /// As fast as the machine can.
    Flood,
}

impl Pace {
    /// When packet `n` of packets of so many bytes is due, in ns after the start. Exact for every
    /// `n`: no interval is rounded and summed.
    pub fn due_at(self, bytes: u32, n: u64) -> u64 {
        let nanos = |numerator: u128, denominator: u64| {
            u64::try_from(numerator / u128::from(denominator.max(1))).unwrap_or(u64::MAX)
        };
        let seconds = u128::from(n) * u128::from(SECOND);
        match self {
            Self::Bits(rate) => nanos(seconds * u128::from(bytes) * 8, rate),
            Self::Packets(rate) => nanos(seconds, rate),
            Self::Flood => 0,
        }
    }

    /// How many packets are due `elapsed` ns after the start.
    pub fn due_by(self, bytes: u32, elapsed: u64) -> u64 {
        let (rate, unit) = match self {
            Self::Bits(rate) => (rate, u128::from(bytes) * 8),
            Self::Packets(rate) => (rate, 1),
            Self::Flood => return u64::MAX,
        };
        (u128::from(elapsed) * u128::from(rate) / (unit * u128::from(SECOND)) + 1) as u64
    }
}

/// A stream of packets of one size at one pace, sent by outlet 0.
#[derive(Clone, Copy, Debug)]
pub struct Even {
    /// How fast.
    pub pace: Pace,
    /// Network-layer bytes of each packet.
    pub bytes: u32,
    /// Packets in one offload train, at least 1. A train leaves when its last packet is due.
    pub train: u64,
    /// How many packets are left to send.
    pub left: u64,
    /// Nothing is sent later than this, in ns after the start.
    pub span_ns: u64,
    /// The number of the next packet.
    pub next: u64,
}

impl Schedule for Even {
    fn next(&mut self, elapsed: u64) -> Option<Burst> {
        if self.left == 0 || elapsed >= self.span_ns {
            return None;
        }
        let whole = self.train.min(self.left);
        let at = self.pace.due_at(self.bytes, self.next + whole - 1);
        // A sender that is late sends everything that is due meanwhile, in whole trains.
        let due = self.pace.due_by(self.bytes, elapsed).saturating_sub(self.next);
        let due = due.clamp(whole, self.left.min(whole * MOST_TRAINS));
        let count = if due == self.left { due } else { due - due % whole };
        self.next += count;
        self.left -= count;
        Some(Burst { at, outlet: 0, bytes: self.bytes, count })
    }
}

/// Trains that leave together at most.
const MOST_TRAINS: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_due_at_exact_times() {
        let pace = Pace::Bits(10_000_000);
        assert_eq!(pace.due_at(1500, 1), 1_200_000);
        assert_eq!(pace.due_at(1500, 1_000_000), 1_200_000_000_000);
        assert_eq!(Pace::Packets(3).due_at(1500, 3), SECOND);
        assert_eq!(Pace::Flood.due_at(1500, 3), 0);
    }

    #[test]
    fn the_number_of_due_packets_agrees_with_their_times() {
        for pace in [Pace::Bits(9_999_991), Pace::Packets(7)] {
            for n in 1..200 {
                let at = pace.due_at(1337, n);
                assert!(
                    pace.due_by(1337, at + 1) == n + 1 && pace.due_by(1337, at - 1) == n,
                    "{pace:?} {n}"
                );
            }
        }
    }

    fn even(pace: Pace, train: u64, left: u64) -> Even {
        Even { pace, bytes: 1000, train, left, span_ns: SECOND, next: 0 }
    }

    #[test]
    fn trains_leave_when_their_last_packet_is_due() {
        let mut stream = even(Pace::Packets(1000), 4, 6);
        let bursts: Vec<_> = std::iter::from_fn(|| stream.next(0)).collect();
        let seen: Vec<_> = bursts.iter().map(|burst| (burst.at, burst.count)).collect();
        assert_eq!(seen, [(3_000_000, 4), (5_000_000, 2)]);
    }

    #[test]
    fn a_late_sender_catches_up_and_the_end_is_kept() {
        let mut stream = even(Pace::Packets(1000), 1, u64::MAX);
        assert_eq!(stream.next(10_500_000).map(|burst| (burst.at, burst.count)), Some((0, 11)));
        assert_eq!(
            stream.next(10_600_000).map(|burst| (burst.at, burst.count)),
            Some((11_000_000, 1))
        );
        assert_eq!(stream.next(SECOND), None);
        let mut flood = even(Pace::Flood, 2, 67);
        let counts: Vec<_> = std::iter::from_fn(|| flood.next(0)).map(|b| b.count).collect();
        assert_eq!(counts, [64, 3]);
    }
}
