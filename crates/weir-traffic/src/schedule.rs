//! Schedules: when bursts of packets are sent. [`Even`] is the schedule of a flow at a constant
//! rate.

use crate::clock::SECOND;

/// Packets that are sent together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// When the packets are due, ns after the start.
    pub at: u64,
    /// Index of the outlet that sends them.
    pub outlet: usize,
    /// Network-layer bytes of each packet.
    pub bytes: u32,
    /// Number of packets.
    pub count: u64,
}

/// A sequence of bursts in order of time.
pub trait Schedule {
    /// The next burst, or `None` if nothing more is to be sent. `elapsed` is the current time in ns
    /// after the start.
    fn next(&mut self, elapsed: u64) -> Option<Burst>;
}

/// The rate at which packets are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Network-layer bits per second.
    Bits(u64),
    /// Packets per second.
    Packets(u64),
    /// As fast as the machine permits.
    Flood,
}

impl Pace {
    /// When packet `n` (from 0) of a flow with `bytes` bytes per packet is due, ns after the start.
    /// It is not a sum of rounded intervals, so rounding errors do not add up.
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

    /// The number of packets that are due at most `elapsed` ns after the start. Their due times are
    /// not rounded here.
    pub fn due_by(self, bytes: u32, elapsed: u64) -> u64 {
        let (rate, unit) = match self {
            Self::Bits(rate) => (rate, u128::from(bytes) * 8),
            Self::Packets(rate) => (rate, 1),
            Self::Flood => return u64::MAX,
        };
        (u128::from(elapsed) * u128::from(rate) / (unit * u128::from(SECOND)) + 1) as u64
    }
}

/// A flow of packets of one size at a constant rate, sent by outlet 0.
#[derive(Clone, Copy, Debug)]
pub struct Even {
    /// The rate at which packets are sent.
    pub pace: Pace,
    /// Network-layer bytes of each packet.
    pub bytes: u32,
    /// Packets in one offload train, at least 1. A train is sent when its last packet is due.
    pub train: u64,
    /// Number of packets that are still to be sent.
    pub remaining: u64,
    /// Sending ends this many ns after the start.
    pub span_ns: u64,
    /// Index of the next packet.
    pub next: u64,
}

impl Schedule for Even {
    fn next(&mut self, elapsed: u64) -> Option<Burst> {
        if self.remaining == 0 || elapsed >= self.span_ns {
            return None;
        }
        let train = self.train.min(self.remaining);
        let at = self.pace.due_at(self.bytes, self.next + train - 1);
        if at >= self.span_ns {
            return None;
        }
        // A late sender catches up: a burst contains up to `MOST_TRAINS` trains that are due.
        let due = self.pace.due_by(self.bytes, elapsed).saturating_sub(self.next);
        let due = due.clamp(train, self.remaining.min(train * MOST_TRAINS));
        let count = if due == self.remaining { due } else { due - due % train };
        self.next += count;
        self.remaining -= count;
        Some(Burst { at, outlet: 0, bytes: self.bytes, count })
    }
}

/// Maximum number of trains in one burst.
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

    fn even(pace: Pace, train: u64, remaining: u64) -> Even {
        Even { pace, bytes: 1000, train, remaining, span_ns: SECOND, next: 0 }
    }

    #[test]
    fn a_train_is_sent_when_its_last_packet_is_due() {
        let mut stream = even(Pace::Packets(1000), 4, 6);
        let bursts: Vec<_> = std::iter::from_fn(|| stream.next(0)).collect();
        let seen: Vec<_> = bursts.iter().map(|burst| (burst.at, burst.count)).collect();
        assert_eq!(seen, [(3_000_000, 4), (5_000_000, 2)]);
    }

    #[test]
    fn a_late_sender_catches_up_but_sends_nothing_after_the_end() {
        let mut stream = even(Pace::Packets(1000), 1, u64::MAX);
        assert_eq!(stream.next(10_500_000).map(|burst| (burst.at, burst.count)), Some((0, 11)));
        assert_eq!(
            stream.next(10_600_000).map(|burst| (burst.at, burst.count)),
            Some((11_000_000, 1))
        );
        assert_eq!(stream.next(SECOND), None);
        let mut punctual = even(Pace::Packets(1000), 1, u64::MAX);
        let mut at = 0;
        let times = std::iter::from_fn(|| {
            at = punctual.next(at)?.at;
            Some(at)
        });
        assert_eq!(times.last(), Some(999_000_000), "the next packet would be due at the end");
        let mut flood = even(Pace::Flood, 2, 67);
        let counts: Vec<_> = std::iter::from_fn(|| flood.next(0)).map(|b| b.count).collect();
        assert_eq!(counts, [64, 3]);
    }
}
