//! The measurement of one case, and the loads.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::io::Errno;
use weir_core::Nanos;
use weir_core::config::{LinkConfig, PipeConfig};
use weir_linux::live::{Realtime, Spin};
use weir_live::{Emulation, Link, LiveSession, Observation, OpenPorts, SessionConfig, Tuning};
use weir_rules::LinkSpec;
use weir_traffic::clock::SECOND;
use weir_traffic::recv::{Listen, collect};
use weir_traffic::schedule::Pace;
use weir_traffic::send::{Plan, send};
use weir_traffic::stats::Known;

use super::case::{AccuracyError, Errors, Load, Wait};
use crate::live_bed::{Bed, PROBE_PORT, RECEIVER, TRAFFIC_PORT};

fn failed<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    what: &'static str,
) -> impl Fn(E) -> AccuracyError {
    move |error| AccuracyError::Setup { what, source: io::Error::other(error) }
}

pub(super) struct Network(Bed);

impl Network {
    pub(super) fn make() -> Result<Self, AccuracyError> {
        Bed::make().map(Self).map_err(failed("make the network"))
    }

    /// Runs the link once and measures by how much the delays of probes exceed [`DELAY`].
    pub(super) fn measure(
        &self,
        wait: Wait,
        load: Load,
        quick: bool,
    ) -> Result<Errors, AccuracyError> {
        let session = self.session(wait)?;
        let probes = if quick { QUICK_PROBES } else { PROBES };
        let probe = self.0.inlet(PROBE_PORT).map_err(failed("open the receiver"))?;
        // The other packets need a receiver, or the kernel answers each with an ICMP packet.
        let _other = self.0.inlet(TRAFFIC_PORT).map_err(failed("open the receiver"))?;
        let span = probes * SECOND / PROBE_RATE;
        let plan = |port, size, rate, count| Plan {
            to: (RECEIVER, port).into(),
            size,
            pace: Pace::Packets(rate),
            count,
            span_ns: span,
            train: 1,
            after_ns: SECOND / 20,
            tos: 0,
        };
        let listen = Listen {
            bind: (RECEIVER, PROBE_PORT).into(),
            count: probes,
            span_ns: u64::MAX,
            idle_ns: SECOND / 2,
            wait_ns: 3 * SECOND,
            known: Known::default(),
        };
        let received = std::thread::scope(|scope| {
            let from = |plan: Plan| {
                self.0.sender.enter(move || send(&plan).map(drop).map_err(io::Error::other))
            };
            let traffic = (load == Load::Traffic).then(|| {
                let packets = TRAFFIC_RATE * span / SECOND;
                let plan = plan(TRAFFIC_PORT, TRAFFIC_SIZE, TRAFFIC_RATE, packets);
                scope.spawn(move || from(plan))
            });
            let probes = plan(PROBE_PORT, PROBE_SIZE, PROBE_RATE, probes);
            let sent = scope.spawn(move || from(probes));
            let received = collect(&probe, &listen);
            for thread in traffic.into_iter().chain([sent]) {
                thread.join().unwrap_or_else(|_| Err(io::Error::other("a sender panicked")))?;
            }
            received.map_err(io::Error::other)
        });
        let (arrivals, _) = received.map_err(failed("send and receive"))?;
        let finished = session.stop().map_err(failed("end the link"))?;
        let lane = finished.report().lanes.first();
        let mut errors: Vec<f64> = arrivals
            .iter()
            .map(|arrival| {
                let delay = arrival.at_ns as f64 - arrival.stamp.sent_ns as f64;
                (delay - DELAY.0 as f64) / 1e3
            })
            .collect();
        errors.sort_by(f64::total_cmp);
        let of = |q: f64| errors[((errors.len() as f64 * q) as usize).min(errors.len() - 1)];
        if errors.is_empty() {
            return Err(AccuracyError::Silent(format!("{wait:?}, {load:?}")));
        }
        Ok(Errors {
            median: of(0.5),
            p99: of(0.99),
            most: of(1.0),
            lateness_p99: lane.map_or(f64::NAN, |lane| lane.lateness.quantile(0.99) as f64 / 1e3),
        })
    }

    /// Starts the link, with the timer slack of `wait`.
    fn session(&self, wait: Wait) -> Result<LiveSession<OpenPorts>, AccuracyError> {
        let ports = self.0.ports().map_err(failed("open the ports"))?;
        let pipe = PipeConfig {
            link: LinkConfig { delay: DELAY, ..LinkConfig::default() },
            ..PipeConfig::default()
        };
        let delayed = LinkSpec { pipe, ..LinkSpec::default() };
        let links = [Link::new("there", delayed.clone()), Link::new("back", delayed)];
        let tuning = Tuning {
            spin: if wait.spins { Spin::Adaptive } else { Spin::Off },
            realtime: if wait.is_realtime { Realtime::WhenAllowed } else { Realtime::Off },
            ..Tuning::default()
        };
        let config =
            SessionConfig::new(OpenPorts::new(vec![ports]), Emulation::Links(Box::new(links)))
                .observation(Observation::Nothing)
                .tuning(tuning);
        let before = threads();
        let prepared = LiveSession::build(config).map_err(failed("set up the link"))?;
        let session = prepared.start().map_err(failed("start the link"))?;
        // The loop's thread sets its own timer slack when it starts. It must do so before the code
        // below sets another slack.
        std::thread::sleep(Duration::from_millis(50));
        for thread in threads().difference(&before) {
            // A real-time thread ignores the slack.
            let file = format!("/proc/{thread}/timerslack_ns");
            let written = fs::write(file, wait.slack_ns.to_string());
            // A thread that has ended meanwhile needs no setting.
            if let Err(error) = written
                && error.kind() != io::ErrorKind::NotFound
                && error.raw_os_error() != Some(Errno::SRCH.raw_os_error())
            {
                return Err(failed("set the timer slack")(error));
            }
        }
        Ok(session)
    }
}

fn threads() -> HashSet<String> {
    let entries = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Threads that compute until the value is dropped.
pub(super) struct Hogs {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
}

impl Hogs {
    /// Starts two threads for each processor.
    pub(super) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let count = 2 * std::thread::available_parallelism().map_or(1, usize::from);
        let hog = |stop: Arc<AtomicBool>| {
            move || {
                let mut value = 1u64;
                while !stop.load(Ordering::Relaxed) {
                    value = std::hint::black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
                }
                value
            }
        };
        let threads = (0..count)
            .filter_map(|_| {
                let work = hog(Arc::clone(&stop));
                std::thread::Builder::new().name("weir-hog".into()).spawn(work).ok()
            })
            .collect();
        Self { stop, threads }
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

const DELAY: Nanos = Nanos::from_millis(10);
/// Probes per second. Their interval is not a multiple of a timer's period.
const PROBE_RATE: u64 = 487;
/// Bytes of a probe.
const PROBE_SIZE: usize = 100;
const PROBES: u64 = 300;
const QUICK_PROBES: u64 = 150;
/// Other packets per second, and bytes of each: 60 Mbit/s.
const TRAFFIC_RATE: u64 = 5_000;
const TRAFFIC_SIZE: usize = 1_500;

#[cfg(test)]
mod tests {
    use super::super::case::{COARSE, SPINS};
    use super::*;
    use crate::namespaces::may_make;

    #[test]
    fn probes_arrive_after_the_configured_delay_and_threads_end() {
        if !may_make("the accuracy of live delays") {
            return;
        }
        let bed = Network::make().expect("the network");
        let hogs = Hogs::start();
        assert!(!hogs.threads.is_empty());
        drop(hogs);
        for (wait, load) in [(SPINS, Load::Traffic), (COARSE, Load::Idle)] {
            let errors = bed.measure(wait, load, true).expect("a run");
            // Even on a busy machine, no packet is early.
            assert!(errors.median >= 0.0 && errors.p99 >= errors.median, "{errors:?}");
            assert!(errors.most >= errors.p99 && errors.lateness_p99 >= 0.0, "{errors:?}");
        }
    }
}
