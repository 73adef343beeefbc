//! Chooses the method if the plan names none: `timer` or `loop` by the rate, or `netlink` where the
//! kernel does not allow these two.

use crate::error::ProbeError;
use crate::source::{Opened, Plan, Source};
use crate::transmission::WithTransmission;
use weir_measure::watch::Method;

/// The highest rate, in readings per second, for which the timer is chosen. Higher rates need the
/// loop, which occupies a processor.
const TIMER_RATE: u64 = 10_000;

/// Opens the source of a plan. If the plan names no method, the rate and the privileges decide, and
/// the remarks say why a better method is not available.
///
/// # Errors
/// The plan is invalid, a target does not exist, or a requested method is not available.
pub fn open(plan: &Plan) -> Result<Opened, ProbeError> {
    plan.check()?;
    let mut remarks = Vec::new();
    let source = match plan.method {
        Some(method) => open_one(plan, method)?,
        None => open_best(plan, &mut remarks)?,
    };
    let source = Box::new(WithTransmission::open(plan, source, &mut remarks)?);
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
            "this weir was built without BPF, which the method {} needs: build it with clang, \
             libelf-dev and zlib1g-dev installed",
            method.name()
        ))),
        Method::Netlink => Ok(Box::new(crate::netlink::NetlinkSource::open(plan)?)),
        Method::Tc => Ok(Box::new(crate::tc::TcSource::open(plan)?)),
        Method::Daemon => Err(ProbeError::Unavailable(
            "a daemon has no queues of the kernel: `weir watch weir` reads its own".to_owned(),
        )),
    }
}
