//! Congestion controls: how many bytes a sender may have in flight, and how fast it may send.
//!
//! A congestion control determines only the congestion window, the slow start threshold and the
//! pacing rate. The sender detects losses, marks and timeouts and calls the control:
//! [`Control::acked`] for acknowledgements that report something new, [`Control::reduce`] when
//! congestion is first seen (at most once per round trip), and [`Control::timeout`] when the
//! retransmission timer expires. One algorithm is one file and one row of [`TABLE`].
//!
//! All windows are in payload bytes, all rates in payload bits/s. Arithmetic uses integers, or
//! functions of `libm` called by name, so that the same input gives the same window on every
//! machine.
//!
//! # The window during a reduction
//! [`Control::reduce`] sets window and threshold to their values at the end of the reduction. Until
//! then, the sender spreads the reduction over a round trip as in RFC 6937 and ignores
//! [`Control::window`]. If [`Control::owns_window`] is true, [`Control::window`] applies also
//! during the reduction, and the control itself spreads the reduction. [`Sample::reducing`] is set
//! for acknowledgements during the reduction, when the window should not grow.

mod added;
mod additive;
mod alpha;
mod bbr;
mod cubic;
mod cubic_linux;
mod curve;
mod dctcp;
mod hystart;
mod ledbat;
#[cfg(test)]
mod model;
mod newreno;
mod prague;
mod row;

pub use added::{AddedControl, External, ExternalFactory};
pub use row::{Feedback, Row, Traits};

use weir_core::Nanos;
use weir_core::rng::Stream;
use weir_core::settings::Chosen;
use weir_rules::named::{self, NamedError};

/// The state of the connection when a control is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// The present time.
    pub now: Nanos,
    /// Payload of a full segment in bytes.
    pub mss: u32,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Nanos,
    /// Smallest round-trip time until now; [`Nanos::MAX`] before the first sample.
    pub min_rtt: Nanos,
    /// Payload bytes in flight after the current acknowledgement, as far as the sender knows.
    pub in_flight: u64,
    /// Payload bytes that are known to have arrived.
    pub delivered: u64,
    /// The first byte that is not acknowledged cumulatively.
    pub una: u64,
    /// The first byte that was never sent.
    pub next: u64,
}

/// The contents of one acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Payload bytes that the acknowledgement newly reports as arrived, cumulatively or
    /// selectively.
    pub acked: u64,
    /// Payload bytes that were found lost with this acknowledgement.
    pub lost: u64,
    /// Payload bytes in flight before this acknowledgement.
    pub prior_in_flight: u64,
    /// The round-trip time of the newest reported segment that was sent once; `None` if there is
    /// none.
    pub rtt: Option<Nanos>,
    /// The one-way delay of the data from the timestamps, including the receiver's delay of
    /// acknowledgements; `None` without timestamps. The two clocks have no offset here, but a
    /// control must not rely on that.
    pub one_way: Option<Nanos>,
    /// Payload bytes that are newly reported as marked, with any [`Feedback`]. With classic
    /// feedback, this is all of `acked` while the receiver asks for a reduction.
    pub ce: u64,
    /// Delivery rate sample: `delivered` when the newest reported segment was sent.
    pub prior_delivered: u64,
    /// Delivery rate sample: bytes delivered since that transmission.
    pub interval_delivered: u64,
    /// Delivery rate sample: the duration of that delivery; zero if there is no valid sample.
    pub interval: Nanos,
    /// Whether the application, and not the window, limited transmission during the sample.
    pub app_limited: bool,
    /// Whether the window was fully used when data was last sent, so that it may grow.
    pub window_limited: bool,
    /// Whether the window is being reduced, lost segments are repaired, or the left edge did not
    /// move, so that the window should not grow.
    pub reducing: bool,
}

impl Sample {
    /// The delivery rate in bits/s; `None` if there is no valid sample.
    #[inline]
    pub fn rate(&self) -> Option<u64> {
        let bits = u128::from(self.interval_delivered) * 8 * 1_000_000_000;
        bits.checked_div(self.interval.0.into()).map(|rate| u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

/// Why a window is reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A segment was lost and is repaired without a timeout.
    Loss,
    /// The receiver reports marks. Losses that are found later during the same reduction cause no
    /// second reduction.
    Marks,
}

/// A congestion control: state and decisions for one connection.
///
/// The times of successive calls never decrease.
pub trait Control {
    /// Called for an acknowledgement that reports deliveries, losses or marks, and when a timer of
    /// the sender finds losses without an acknowledgement. A call of [`Self::reduce`] for the same
    /// losses or marks comes first.
    fn acked(&mut self, path: &Path, sample: &Sample);

    /// Called when congestion is seen for the first time in this window of data. `path.in_flight`
    /// is the number of bytes that remain in flight.
    fn reduce(&mut self, path: &Path, signal: Signal);

    /// Called when the last reduction or timeout is over: all data that was outstanding when it
    /// began is acknowledged, or [`Self::undo`] was called. After a loss that a tail loss probe has
    /// repaired, the call follows immediately after [`Self::reduce`].
    fn recovered(&mut self, _path: &Path) {}

    /// Called when the retransmission timer has expired. `first` is true for the first timeout for
    /// this data. All outstanding data counts as lost.
    fn timeout(&mut self, path: &Path, first: bool);

    /// Called when the data that the last reduction or timeout counted as lost has arrived after
    /// all.
    fn undo(&mut self, path: &Path);

    /// Called when the sender is about to send while nothing is outstanding, except before the
    /// first transmission. `idle` is the time since the last transmission. `timeout` is the
    /// retransmission timeout, or [`Nanos::MAX`] if a pause must not shrink the window.
    fn resume(&mut self, _path: &Path, _idle: Nanos, _timeout: Nanos) {}

    /// Congestion window in bytes; at least one segment.
    fn window(&self) -> u64;

    /// Slow start threshold in bytes; [`u64::MAX`] if there is none yet.
    fn threshold(&self) -> u64;

    /// The pacing rate in bits/s. If `None`, a sender that paces derives the rate from the window
    /// and the round-trip time.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// Whether [`Self::window`] also applies during a reduction for this reason; see the
    /// documentation of the module.
    fn owns_window(&self, _signal: Signal) -> bool {
        false
    }

    /// Internal state by name.
    fn metrics(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// The parameters of a new control, besides its settings.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Payload of a full segment in bytes.
    pub mss: u32,
    /// Initial window in bytes.
    pub initial_window: u64,
    /// The stream of the control's random draws.
    pub stream: Stream,
}

/// A congestion control and the values of its parameters.
pub type Choice = Chosen<Kind>;

macro_rules! types {
    ($($kind:ident: $type:ident),+) => {
        /// Any control. Those of the table need no virtual calls.
        #[derive(Debug)]
        #[expect(missing_docs, reason = "the kinds say it")]
        pub enum AnyControl {
            $($kind($type),)+
            Added(AddedControl),
        }

        impl AnyControl {
            /// Creates the chosen control.
            pub fn new(choice: &Choice, setup: &Setup) -> Self {
                match choice.kind() {
                    $(Kind::$kind => Self::$kind($type::new(choice, setup)),)+
                    Kind::Added(_) => Self::Added(AddedControl::new(choice, setup)),
                }
            }
        }

        impl Control for AnyControl {
            #[inline]
            fn acked(&mut self, path: &Path, sample: &Sample) {
                match self {
                    $(Self::$kind(c) => c.acked(path, sample),)+
                    Self::Added(c) => c.acked(path, sample),
                }
            }

            fn reduce(&mut self, path: &Path, signal: Signal) {
                match self {
                    $(Self::$kind(c) => c.reduce(path, signal),)+
                    Self::Added(c) => c.reduce(path, signal),
                }
            }

            fn recovered(&mut self, path: &Path) {
                match self {
                    $(Self::$kind(c) => c.recovered(path),)+
                    Self::Added(c) => c.recovered(path),
                }
            }

            fn timeout(&mut self, path: &Path, first: bool) {
                match self {
                    $(Self::$kind(c) => c.timeout(path, first),)+
                    Self::Added(c) => c.timeout(path, first),
                }
            }

            fn undo(&mut self, path: &Path) {
                match self {
                    $(Self::$kind(c) => c.undo(path),)+
                    Self::Added(c) => c.undo(path),
                }
            }

            fn resume(&mut self, path: &Path, idle: Nanos, timeout: Nanos) {
                match self {
                    $(Self::$kind(c) => c.resume(path, idle, timeout),)+
                    Self::Added(c) => c.resume(path, idle, timeout),
                }
            }

            #[inline]
            fn window(&self) -> u64 {
                match self {
                    $(Self::$kind(c) => c.window(),)+
                    Self::Added(c) => c.window(),
                }
            }

            #[inline]
            fn threshold(&self) -> u64 {
                match self {
                    $(Self::$kind(c) => c.threshold(),)+
                    Self::Added(c) => c.threshold(),
                }
            }

            #[inline]
            fn pacing_rate(&self) -> Option<u64> {
                match self {
                    $(Self::$kind(c) => c.pacing_rate(),)+
                    Self::Added(c) => c.pacing_rate(),
                }
            }

            fn owns_window(&self, signal: Signal) -> bool {
                match self {
                    $(Self::$kind(c) => c.owns_window(signal),)+
                    Self::Added(c) => c.owns_window(signal),
                }
            }

            fn metrics(&self) -> Vec<(&'static str, u64)> {
                match self {
                    $(Self::$kind(c) => c.metrics(),)+
                    Self::Added(c) => c.metrics(),
                }
            }
        }
    };
}

weir_core::table! {
    noun "congestion control", traits Traits, added dyn ExternalFactory, with types;
    /// Additive increase; halves the window after a loss.
    NewReno: newreno::NewReno,
    /// The window is a cubic function of the time since the last congestion.
    Cubic: cubic::Cubic,
    /// Reduces the window in proportion to the share of marks.
    Dctcp: dctcp::Dctcp,
    /// DCTCP for the Internet: paced, and independent of the round-trip time.
    Prague: prague::Prague,
    /// Derives rate and window from the measured delivery rate and the smallest round-trip time.
    Bbr: bbr::Bbr,
    /// Keeps a small queue and yields to other traffic.
    Ledbat: ledbat::Ledbat,
}

/// Parses a congestion control with its settings: `cubic`, `cubic beta 0.8`, and the other forms of
/// [`named::read`].
///
/// # Errors
/// There is no control of this name, or [`named::read`] rejects its settings.
pub fn parse(text: &str) -> Result<Choice, NamedError> {
    named::read(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_in_every_form() {
        let mut expected = Choice::new(Kind::Cubic);
        expected.set("beta", "0.8").unwrap();
        for text in ["cubic beta 0.8", "cubic beta=0.8", "cubic:beta=0.8", "CUBIC beta=80%"] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert!(
            message("bbbr").starts_with("`bbbr` is no congestion control: did you mean `bbr`?")
        );
        assert!(
            message("cubic betta 0.8").contains("did you mean `beta`?; settings: beta 0.1..0.95")
        );
        assert!(message("cubic beta 2").starts_with("`2` is out of range for `beta`"));
    }
}
