//! The Fast Queue Sampler's experiment: how often a router's queue can be read, and how many of its
//! changes the readings show.
//!
//! All methods read the same device while the same clients send. They take turns in several rounds.
//! Confidence intervals are over these rounds.

mod finding;
mod histogram;
mod published;
mod reading;
mod testbed;

use std::io;
use std::time::Duration;

use weir_probe::{Method, ProbeError};

use weir_report::finding::Finding;

use reading::{Case, METHODS, Watched, watch};
use testbed::Testbed;

/// The experiment's name.
pub const NAME: &str = "queue-sampler";
/// One line that says what the experiment shows.
pub const SUMMARY: &str = "how often a router's pfifo_fast is read by tc, over netlink and inside \
                           the kernel, and how many of its changes the readings show; needs root";
/// The publication.
pub const SOURCE: &str = "M. Sanalla, Z. Jahshan, R. Mitrany, Sampling Linux packet transmission \
                          queues with Fast Queue Sampler";

/// The options of the experiment.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Whether to take less time: fewer numbers of clients, and a shorter time for each method.
    pub quick: bool,
    /// Whether each method reads for as long as in the publication: 180 s.
    pub full: bool,
    /// Seconds for which each method reads, in all rounds together; the default depends on `quick`
    /// and `full`.
    pub seconds: Option<f64>,
    /// Numbers of clients, each at most 250; by default those of the publication.
    pub clients: Option<Vec<u16>>,
}

/// Why the experiment cannot run.
#[derive(Debug, thiserror::Error)]
pub enum SamplerError {
    /// The process does not have root privileges.
    #[error("queue-sampler makes networks in namespaces, which needs root: run it with sudo")]
    NotRoot,
    /// The network cannot be set up or entered.
    #[error("queue-sampler: cannot {what}: {source}")]
    Network {
        /// The operation that failed.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// A method failed while reading.
    #[error("queue-sampler, {method}: {source}")]
    Read {
        /// The method's name.
        method: &'static str,
        /// The cause.
        source: ProbeError,
    },
}

/// The published numbers of clients.
const CLIENTS: [u16; 5] = [2, 5, 20, 50, 100];
/// How many of these numbers a quick run uses.
const FEW: usize = 3;
/// Seconds for which each method reads. The publication used 180, as `full` does.
const SECONDS: f64 = 5.0;
const QUICK_SECONDS: f64 = 1.0;
/// Number of rounds in which the methods take turns.
const ROUNDS: u32 = 10;
/// Time for the queue to fill and for the first packets to arrive.
const WARM_UP: Duration = Duration::from_millis(1500);
/// Runs the experiment. Before the measurement with a number of clients, calls `begins` with this
/// number, the seconds for each method, and the methods.
///
/// # Errors
/// The process is not root, the network cannot be made, or a method fails while reading. A method
/// that this machine does not permit is left out, and the finding says so.
pub fn run(
    settings: &Settings,
    begins: &dyn Fn(u16, f64, &[Method]),
) -> Result<Finding, SamplerError> {
    if !rustix::process::geteuid().is_root() {
        return Err(SamplerError::NotRoot);
    }
    let default = match (settings.full, settings.quick) {
        (true, _) => published::PUBLISHED_SECONDS,
        (_, true) => QUICK_SECONDS,
        _ => SECONDS,
    };
    let seconds = settings.seconds.unwrap_or(default);
    let clients = settings
        .clients
        .clone()
        .unwrap_or_else(|| CLIENTS[..if settings.quick { FEW } else { CLIENTS.len() }].to_vec());
    let (mut cases, mut remarks) = (Vec::new(), Vec::new());
    for clients in clients {
        begins(clients, seconds, &METHODS);
        cases.push(case(clients, seconds, &mut remarks)?);
    }
    Ok(finding::finding(&cases, seconds, &remarks))
}

/// Measures one number of clients by all methods in turn.
fn case(clients: u16, seconds: f64, remarks: &mut Vec<String>) -> Result<Case, SamplerError> {
    let refused =
        |what: &'static str| move |source: io::Error| SamplerError::Network { what, source };
    let testbed = Testbed::start(clients).map_err(refused("make the network"))?;
    std::thread::sleep(WARM_UP);
    let mut watched: Vec<Watched> = Vec::new();
    let mut refused_methods = Vec::new();
    for _ in 0..ROUNDS {
        for method in METHODS {
            if refused_methods.contains(&method) {
                continue;
            }
            let read = testbed
                .at_router(|| Ok(watch(method, seconds / f64::from(ROUNDS))))
                .map_err(refused("enter the router"))?;
            match read {
                Ok(round) => match watched.iter_mut().find(|before| before.method == method) {
                    Some(before) => before.append(round),
                    None => watched.push(round),
                },
                Err(
                    error @ (ProbeError::Rights { .. }
                    | ProbeError::Load { .. }
                    | ProbeError::Unavailable(_)),
                ) => {
                    refused_methods.push(method);
                    let remark = format!("{} was not tried: {error}", method.name());
                    if !remarks.contains(&remark) {
                        remarks.push(remark);
                    }
                }
                Err(error) => {
                    return Err(SamplerError::Read { method: method.name(), source: error });
                }
            }
        }
    }
    let (sent, received, fastest) = testbed.passed();
    Ok(Case { clients, watched, sent, received, fastest })
}
