//! The lane and the arrival time of a received frame.

use weir_core::Nanos;

use super::config::LaneConfig;
use super::describe::ETHERNET_HEADER;
use super::forwarding::{Forwarding, Strays};
use crate::port::{Ingress, LONGEST_QUEUED};

/// The lanes of each port, and the count of frames without a lane.
#[derive(Debug)]
pub(super) struct Intake {
    /// The lane that each port feeds, when there is no forwarding.
    lane_of: Vec<Option<u16>>,
    /// Selects the lane by destination address; `None` without forwarding.
    forwarding: Option<Forwarding>,
    strays: Strays,
}

impl Intake {
    pub(super) fn new(ports: usize, lanes: &[LaneConfig], forwarding: Option<Forwarding>) -> Self {
        let mut lane_of = vec![None; ports];
        for (index, lane) in lanes.iter().enumerate() {
            lane_of[lane.from] = Some(index as u16);
        }
        Self { lane_of, forwarding, strays: Strays::default() }
    }

    /// The lane of a frame. A frame without one is counted as a stray.
    #[inline]
    pub(super) fn lane(&mut self, port: usize, frame: &Ingress) -> Option<u16> {
        let lane = match &self.forwarding {
            None => self.lane_of[port],
            Some(forwarding) => frame
                .buffer
                .bytes()
                .get(frame.start..frame.start + frame.len)
                .and_then(|bytes| forwarding.lane(port, bytes)),
        };
        if lane.is_none() {
            self.strays.frames += 1;
            self.strays.bytes += frame.len.saturating_sub(ETHERNET_HEADER) as u64;
        }
        lane
    }

    pub(super) fn strays(&self) -> Strays {
        self.strays
    }
}

/// The arrival time of a frame that is read at `now`. `arrived` is the kernel's timestamp. If it is
/// missing, in the future or older than [`LONGEST_QUEUED`], the result is `now`.
///
/// The emulated delay starts at this time, so the loop's wake-up and processing do not lengthen it.
pub(super) fn arrival_time(now: Nanos, arrived: Option<Nanos>) -> Nanos {
    arrived.filter(|&at| at <= now && now.since(at) <= LONGEST_QUEUED).unwrap_or(now)
}
