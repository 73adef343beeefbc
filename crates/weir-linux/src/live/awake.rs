//! Keeps processors awake while little traffic passes.
//!
//! An idle processor sleeps, and waking it takes about 2 us on a desktop and 50 us on a virtual
//! machine. A packet on an emulated link waits for two wake-ups: that of the loop, and that of the
//! receiver. While only a few packets pass, the loop therefore asks the kernel to keep idle
//! processors spinning, through the power management's quality of service
//! (`/dev/cpu_dma_latency`), as real-time test programs do. Under load no processor sleeps, and a
//! spinning processor takes time from its hyperthread sibling. The loop therefore withdraws the
//! request under load, and also after a while without packets. The request ends with the process
//! in any case.

use std::fs::File;
use std::io::Write as _;

use weir_core::Nanos;

/// The request, and the measurements that decide about it.
#[derive(Debug)]
pub(super) struct Awake {
    /// The open device; `None` when this process may not make requests.
    request: Option<File>,
    /// Whether the request is in force.
    asked: bool,
    period_began: Nanos,
    /// Time in ns that the loop has slept in this period.
    slept: u64,
    last_packet: Option<Nanos>,
}

/// The workers' requests to keep processors awake. By default each worker opens the device when it
/// starts.
#[derive(Debug, Default)]
pub struct LatencyRequests {
    opened: Option<Vec<File>>,
}

impl LatencyRequests {
    /// Opens the device once for each worker. A process calls this before it gives up the right to
    /// open the device. A worker makes no requests if the device cannot be opened.
    #[must_use]
    pub fn open(workers: usize) -> Self {
        Self { opened: Some((0..workers).filter_map(|_| open()).collect()) }
    }

    /// Removes and returns the next worker's share of the opened devices.
    pub(super) fn share(&mut self) -> Self {
        let opened = self.opened.as_mut().map(|opened| opened.pop().into_iter().collect());
        Self { opened }
    }

    /// The next open device; `None` when this process may not make requests.
    fn next(&mut self) -> Option<File> {
        match &mut self.opened {
            Some(opened) => opened.pop(),
            None => open(),
        }
    }
}

/// Opens the device. Opening it requests the lowest latency, so this function withdraws that
/// request at once.
fn open() -> Option<File> {
    let mut device = File::options().write(true).open(DEVICE).ok()?;
    device.write_all(&ANY_LATENCY.to_ne_bytes()).ok()?;
    Some(device)
}

impl Awake {
    /// An instance that never makes a request.
    pub(super) fn off() -> Self {
        Self { request: None, asked: false, period_began: Nanos::ZERO, slept: 0, last_packet: None }
    }

    /// An instance that makes requests if the process may make them.
    pub(super) fn when_allowed(requests: &mut LatencyRequests) -> Self {
        Self { request: requests.next(), ..Self::off() }
    }

    /// Records that packets passed at `now`.
    #[inline]
    pub(super) fn packets(&mut self, now: Nanos) {
        if self.request.is_some() {
            self.last_packet = Some(now);
            if now.since(self.period_began) >= PERIOD {
                self.decide(now);
            }
        }
    }

    /// Records that the loop slept for `span` until `now`.
    #[inline]
    pub(super) fn slept(&mut self, now: Nanos, span: Nanos) {
        if self.request.is_some() {
            self.slept += span.0;
            if now.since(self.period_began) >= PERIOD {
                self.decide(now);
            }
        }
    }

    /// Decides at the end of a period. Processors stay awake if packets passed recently and the
    /// loop slept for at least half of the period.
    #[cold]
    fn decide(&mut self, now: Nanos) {
        let period = now.since(self.period_began);
        let passing = self.last_packet.is_some_and(|at| now.since(at) <= QUIET);
        let light = self.slept >= period.0 / 2;
        (self.period_began, self.slept) = (now, 0);
        let wanted = passing && light;
        if wanted != self.asked {
            self.asked = wanted;
            self.ask(if wanted { NO_LATENCY } else { ANY_LATENCY });
        }
    }

    fn ask(&mut self, latency_us: i32) {
        // After the kernel has refused a request, the loop makes no more requests.
        if self
            .request
            .as_mut()
            .is_some_and(|device| device.write_all(&latency_us.to_ne_bytes()).is_err())
        {
            self.request = None;
        }
    }
}

const DEVICE: &str = "/dev/cpu_dma_latency";
/// The requested value, in us, that allows no wake-up latency.
const NO_LATENCY: i32 = 0;
/// The kernel's default, in us, which allows any latency.
const ANY_LATENCY: i32 = 2_000_000_000;
/// Time between two decisions.
const PERIOD: Nanos = Nanos::from_millis(20);
/// The time without a packet after which the request is withdrawn, because a slow wake-up then
/// harms nothing.
const QUIET: Nanos = Nanos::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    /// An instance that writes to a file in place of the device, so that a test can read the
    /// requests.
    fn fixture(name: &str) -> (Awake, std::path::PathBuf) {
        let path = std::env::temp_dir().join(format!("weir-awake-{}-{name}", std::process::id()));
        let awake = Awake {
            request: Some(File::create(&path).expect("a file in the temporary directory")),
            ..Awake::off()
        };
        (awake, path)
    }

    fn asked(path: &std::path::Path) -> Vec<i32> {
        let bytes = std::fs::read(path).expect("the file is there");
        bytes
            .chunks_exact(4)
            .map(|word| i32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
            .collect()
    }

    #[test]
    fn light_traffic_keeps_processors_awake_until_it_ends() {
        let (mut awake, path) = fixture("light");
        for ms in (10..=100).step_by(10) {
            awake.packets(Nanos::from_millis(ms));
            awake.slept(Nanos::from_millis(ms + 9), Nanos::from_millis(9));
        }
        assert_eq!(asked(&path), [NO_LATENCY]);
        for ms in (200..=1000).step_by(100) {
            awake.slept(Nanos::from_millis(ms), Nanos::from_millis(100));
        }
        assert_eq!(asked(&path), [NO_LATENCY, ANY_LATENCY]);
        std::fs::remove_file(path).expect("the file is there");
    }

    #[test]
    fn a_loop_that_hardly_sleeps_makes_no_request() {
        let (mut awake, path) = fixture("load");
        for ms in 1..=200 {
            awake.packets(Nanos::from_millis(ms));
            awake.slept(Nanos::from_millis(ms), Nanos::from_micros(100));
        }
        assert!(asked(&path).is_empty());
        std::fs::remove_file(path).expect("the file is there");
    }
}
