//! Congestion controls: how much a sender may have in the network, and how fast it may send.
//!
//! A control determines the congestion window and the slow start threshold, nothing else. The
//! sender detects losses, marks and timeouts and calls the control: [`Control::acked`] for every
//! acknowledgement, [`Control::reduce`] when congestion is first seen (at most once per round
//! trip), [`Control::timeout`] when the retransmission timer expires. One algorithm is one file and
//! one row of [`TABLE`].
//!
//! All windows are in payload bytes, all rates in payload bits/s. Arithmetic is in integers, or
//! with functions of `libm` called by name: the same input gives the same window on every machine.
//!
//! # The window during a reduction
//! [`Control::reduce`] sets window and threshold to their values at the end of the reduction. Until
//! then the sender spreads the reduction over a round trip by RFC 6937 and ignores
//! [`Control::window`], unless [`Control::owns_window`] says that the control spreads it.
//! [`Sample::reducing`] is set for acknowledgements in that time: the window should not grow then.

mod additive;
mod alpha;
mod bbr;
mod cubic;
mod dctcp;
mod hystart;
mod ledbat;
#[cfg(test)]
mod model;
mod newreno;
mod prague;
mod row;

pub use row::{Feedback, Row, Traits};

use weir_core::Nanos;
use weir_core::rng::Stream;
use weir_core::settings::Chosen;
use weir_rules::named::{self, NamedError};

/// The state of the connection at a call of a control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// The time.
    pub now: Nanos,
    /// Payload of a full segment in bytes.
    pub mss: u32,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Nanos,
    /// Least round-trip time so far; [`Nanos::MAX`] before the first sample.
    pub min_rtt: Nanos,
    /// Payload bytes in the network, as far as the sender knows, after the current acknowledgement.
    pub in_flight: u64,
    /// Payload bytes that are known to have arrived since the beginning.
    pub delivered: u64,
    /// The first byte that is not acknowledged cumulatively.
    pub una: u64,
    /// The first byte that was never sent.
    pub next: u64,
}

/// The content of an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Payload bytes that it newly reports as arrived, cumulatively or selectively.
    pub acked: u64,
    /// Payload bytes that were found lost with it.
    pub lost: u64,
    /// Payload bytes in the network before it.
    pub prior_in_flight: u64,
    /// The round-trip time of the newest segment that it reports and that was sent once; `None`
    /// when there is none.
    pub rtt: Option<Nanos>,
    /// The one-way time of the data, with the receiver's delay of acknowledgements, from the
    /// stamps; `None` without stamps. The offset of the two clocks is zero here; a control must not
    /// rely on that.
    pub one_way: Option<Nanos>,
    /// Payload bytes that it newly reports as marked, with any [`Feedback`]. With the classic one,
    /// all of `acked` while the receiver asks for a reduction.
    pub ce: u64,
    /// The delivery rate's sample: `delivered` when the newest segment that it reports was sent.
    pub prior_delivered: u64,
    /// The delivery rate's sample: bytes delivered since then.
    pub interval_delivered: u64,
    /// The delivery rate's sample: the time of that delivery; zero when there is no valid sample.
    pub interval: Nanos,
    /// During the sample the application, and not the window, limited transmission.
    pub app_limited: bool,
    /// The window was in full use when data was last sent, so that it may grow.
    pub window_limited: bool,
    /// The window is being reduced, or lost segments are repaired: it should not grow.
    pub reducing: bool,
}

impl Sample {
    /// The delivery rate in bits/s; `None` when there is no valid sample.
    #[inline]
    pub fn rate(&self) -> Option<u64> {
        let bits = u128::from(self.interval_delivered) * 8 * 1_000_000_000;
        bits.checked_div(self.interval.0.into()).map(|rate| u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

/// Why a window is reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A segment was lost, and is being repaired without a timeout.
    Loss,
    /// The receiver reports marks. Losses that are found later in the same reduction are no second
    /// one.
    Marks,
}

/// A congestion control: state and decisions for one connection.
///
/// Calls have times that never decrease.
pub trait Control {
    /// An acknowledgement reports deliveries, losses or marks. The call follows the
    /// [`Self::reduce`] that the acknowledgement caused.
    fn acked(&mut self, path: &Path, sample: &Sample);

    /// Congestion is seen for the first time in this window of data. `path.in_flight` is what
    /// remains in the network.
    fn reduce(&mut self, path: &Path, signal: Signal);

    /// The last reduction has ended: all data that was outstanding then is acknowledged.
    fn recovered(&mut self, _path: &Path) {}

    /// The retransmission timer has expired; `first` for the first time on this data. All
    /// outstanding data counts as lost.
    fn timeout(&mut self, path: &Path, first: bool);

    /// The data that the last reduction or timeout counted as lost has arrived.
    fn undo(&mut self, path: &Path);

    /// The sender is about to send while nothing is outstanding; the last transmission was `idle`
    /// ago, and `timeout` is the retransmission timeout. Not called before the first transmission.
    fn resume(&mut self, _path: &Path, _idle: Nanos, _timeout: Nanos) {}

    /// Congestion window in bytes; at least one segment.
    fn window(&self) -> u64;

    /// Slow start threshold in bytes; [`u64::MAX`] when there is none yet.
    fn threshold(&self) -> u64;

    /// The pacing rate in bits/s; `None`: a sender that paces derives it from the window and the
    /// round-trip time.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// Whether [`Self::window`] also holds during a reduction for this reason; see the module's
    /// documentation.
    fn owns_window(&self, _signal: Signal) -> bool {
        false
    }

    /// Internal state by name.
    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// What a control is created with, besides its settings.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Payload of a full segment in bytes.
    pub mss: u32,
    /// Initial window in bytes.
    pub initial_window: u64,
    /// The source of its draws.
    pub stream: Stream,
}

/// A congestion control and the values of its parameters.
pub type Choice = Chosen<Kind>;

/// The types of the table: any of them without a virtual call.
macro_rules! types {
    ($($kind:ident: $type:ident),+) => {
        /// Any control of the table, without a virtual call.
        #[derive(Debug)]
        #[expect(missing_docs, reason = "the kinds say it")]
        pub enum AnyControl {
            $($kind($type),)+
        }

        impl AnyControl {
            /// Creates the chosen control.
            pub fn new(choice: &Choice, setup: &Setup) -> Self {
                match choice.kind() {
                    $(Kind::$kind => Self::$kind($type::new(choice, setup)),)+
                }
            }
        }

        impl Control for AnyControl {
            #[inline]
            fn acked(&mut self, path: &Path, sample: &Sample) {
                match self { $(Self::$kind(c) => c.acked(path, sample),)+ }
            }

            fn reduce(&mut self, path: &Path, signal: Signal) {
                match self { $(Self::$kind(c) => c.reduce(path, signal),)+ }
            }

            fn recovered(&mut self, path: &Path) {
                match self { $(Self::$kind(c) => c.recovered(path),)+ }
            }

            fn timeout(&mut self, path: &Path, first: bool) {
                match self { $(Self::$kind(c) => c.timeout(path, first),)+ }
            }

            fn undo(&mut self, path: &Path) {
                match self { $(Self::$kind(c) => c.undo(path),)+ }
            }

            fn resume(&mut self, path: &Path, idle: Nanos, timeout: Nanos) {
                match self { $(Self::$kind(c) => c.resume(path, idle, timeout),)+ }
            }

            #[inline]
            fn window(&self) -> u64 {
                match self { $(Self::$kind(c) => c.window(),)+ }
            }

            #[inline]
            fn threshold(&self) -> u64 {
                match self { $(Self::$kind(c) => c.threshold(),)+ }
            }

            #[inline]
            fn pacing_rate(&self) -> Option<u64> {
                match self { $(Self::$kind(c) => c.pacing_rate(),)+ }
            }

            fn owns_window(&self, signal: Signal) -> bool {
                match self { $(Self::$kind(c) => c.owns_window(signal),)+ }
            }

            fn figures(&self) -> Vec<(&'static str, u64)> {
                match self { $(Self::$kind(c) => c.figures(),)+ }
            }
        }
    };
}

weir_core::table! {
    noun "congestion control", traits Traits, with types;
    /// Additive increase, and half of the window after a loss.
    NewReno: newreno::NewReno,
    /// A cubic function of the time since the last congestion.
    Cubic: cubic::Cubic,
    /// A reduction in proportion to the share of marks.
    Dctcp: dctcp::Dctcp,
    /// DCTCP for the Internet: paced, and independent of the round-trip time.
    Prague: prague::Prague,
    /// A rate and a window from the measured delivery rate and the least round-trip time.
    Bbr: bbr::Bbr,
    /// A small queue of its own; yields to other traffic.
    Ledbat: ledbat::Ledbat,
}

/// A congestion control with its settings: `cubic`, `cubic beta 0.8`, and the other forms of
/// [`named::read`].
///
/// # Errors
/// There is no control of this name, or [`named::read`] refuses its settings.
pub fn parse(text: &str) -> Result<Choice, NamedError> {
    named::read(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_every_form_of_a_setting() {
        let mut expected = Choice::new(Kind::Cubic);
        expected.set("beta", "0.8").unwrap();
        for text in ["cubic beta 0.8", "cubic beta=0.8", "cubic:beta=0.8", "CUBIC beta=80%"] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        let said = |text: &str| parse(text).unwrap_err().to_string();
        assert!(said("bbbr").starts_with("`bbbr` is no congestion control: did you mean `bbr`?"));
        assert!(said("cubic betta 0.8").contains("did you mean `beta`?; settings: beta 0.1..0.95"));
        assert!(said("cubic beta 2").starts_with("`2` is out of range for `beta`"));
    }
}
