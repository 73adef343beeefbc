//! Runs the scheduler of a discipline on a workload.

use weir_core::sched::{Scheduler, Visitor};

use super::link;
use super::workload::Source;
use crate::flows::FlowSet;

/// Drives the visited scheduler. The result is that of [`link::drive`].
pub(super) struct Drive<'a, 'b, W> {
    pub(super) flows: &'a FlowSet,
    pub(super) source: &'a mut Source<'b>,
    pub(super) watch: &'a mut W,
}

impl<W: link::Watch> Visitor for Drive<'_, '_, W> {
    type Output = (u64, u64);

    fn visit<S: Scheduler + std::fmt::Debug>(self, scheduler: S) -> Self::Output {
        link::drive(scheduler, self.flows, self.source, self.watch)
    }
}
