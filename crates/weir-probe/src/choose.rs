//! Which method reads: the one that was asked for, or the cheapest that gives the rate and that the
//! rights allow.

use crate::error::ProbeError;
use crate::source::{Method, Opened, Plan, Source};
use crate::transmission::Beside;

/// The highest rate that a timer serves; above it, a processor is spent on the pace.
const TIMER_RATE: u64 = 10_000;

/// Opens what the plan asks for. Without a method in it, one is chosen by rate and rights, and the
/// remarks say why it is not the best.
///
/// # Errors
/// For a plan that makes no sense, a target that is not there, or a forced method that cannot be
/// had.
pub fn open(plan: &Plan) -> Result<Opened, ProbeError> {
    plan.check()?;
    let mut remarks = Vec::new();
    let source = match plan.method {
        Some(method) => open_one(plan, method)?,
        None => open_best(plan, &mut remarks)?,
    };
    let source = Box::new(Beside::open(plan, source, &mut remarks)?);
    Ok(Opened { source, remarks })
}

fn open_best(plan: &Plan, remarks: &mut Vec<String>) -> Result<Box<dyn Source>, ProbeError> {
    let wanted = match plan.rate {
        Some(rate) if rate <= TIMER_RATE => Method::Timer,
        _ => Method::Loop,
    };
    match open_one(plan, wanted) {
        Err(
            reason @ (ProbeError::Rights { .. }
            | ProbeError::Load { .. }
            | ProbeError::Unavailable(_)),
        ) => {
            remarks.push(format!("read over netlink, since {reason}"));
            open_one(plan, Method::Netlink)
        }
        other => other,
    }
}

fn open_one(plan: &Plan, method: Method) -> Result<Box<dyn Source>, ProbeError> {
    match method {
        #[cfg(feature = "bpf")]
        Method::Loop | Method::Timer => Ok(Box::new(crate::kernel::Sampling::open(plan, method)?)),
        #[cfg(feature = "bpf")]
        Method::Events => Ok(Box::new(crate::kernel::Recording::open(plan)?)),
        #[cfg(not(feature = "bpf"))]
        Method::Loop | Method::Timer | Method::Events => Err(ProbeError::Unavailable(format!(
            "this weir was built without BPF, which the method {} needs: build it with clang, libelf-dev and zlib1g-dev installed",
            method.name()
        ))),
        Method::Netlink => Ok(Box::new(crate::netlink::Asking::open(plan)?)),
        Method::Tc => Ok(Box::new(crate::tc::Starting::open(plan)?)),
        Method::Daemon => Err(ProbeError::Unavailable(
            "a daemon has no queues of the kernel: `weir watch weir` reads its own".to_owned(),
        )),
    }
}
