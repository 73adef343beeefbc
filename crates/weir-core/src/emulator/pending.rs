//! Changes of the configuration that are being made, and indexes of the links and flows for them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

#[derive(Debug, Default)]
pub(super) struct PendingChanges {
    /// The pipes and schedulers that were created or changed.
    pub(super) links: BTreeSet<u16>,
    /// The schedulers among `links` whose nodes in the trees of their parents are created again.
    pub(super) rebuilt: BTreeSet<u16>,
    /// The queues that were created or changed.
    pub(super) queues: BTreeSet<u16>,
    /// Whether a pipe or scheduler was deleted.
    pub(super) deleted: bool,
    /// Whether there are several changes, so that an index is worth its cost.
    pub(super) several: bool,
    by_template: Option<BTreeMap<u16, Vec<u32>>>,
    by_queue: Option<BTreeMap<u16, Vec<u32>>>,
}

impl PendingChanges {
    /// No changes yet. `several` announces more than one.
    pub(super) fn new(several: bool) -> Self {
        Self { several, ..Self::default() }
    }

    /// The numbers of the links of template `id`. The first call builds the index; `template`
    /// returns the template of each number below `bound`.
    pub(super) fn links_of(
        &mut self,
        id: u16,
        bound: u32,
        template: impl Fn(u32) -> Option<u16>,
    ) -> Vec<u32> {
        let all = self.by_template.get_or_insert_with(|| index(bound, template));
        all.get(&id).cloned().unwrap_or_default()
    }

    /// The numbers of the flows of queue `id`, likewise.
    pub(super) fn flows_of(
        &mut self,
        id: u16,
        bound: u32,
        queue: impl Fn(u32) -> Option<u16>,
    ) -> Vec<u32> {
        let all = self.by_queue.get_or_insert_with(|| index(bound, queue));
        all.get(&id).cloned().unwrap_or_default()
    }
}

/// The numbers below `bound` by the object to which each belongs, if any.
fn index(bound: u32, object: impl Fn(u32) -> Option<u16>) -> BTreeMap<u16, Vec<u32>> {
    let mut all = BTreeMap::<u16, Vec<u32>>::new();
    for number in 0..bound {
        if let Some(id) = object(number) {
            all.entry(id).or_default().push(number);
        }
    }
    all
}
