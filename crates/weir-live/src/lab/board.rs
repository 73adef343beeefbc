//! The state of a lab's hosts, for `weir ps` and `weir exec`.

use std::sync::{Arc, Mutex, PoisonError};

use weir_control::api::SessionNode;

/// The hosts with their states. Clones share the same hosts.
#[derive(Clone, Debug, Default)]
pub struct Board {
    nodes: Arc<Mutex<Vec<SessionNode>>>,
}

impl Board {
    /// The hosts as they are now.
    #[must_use]
    pub fn nodes(&self) -> Vec<SessionNode> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, nodes: Vec<SessionNode>) {
        *self.nodes.lock().unwrap_or_else(PoisonError::into_inner) = nodes;
    }

    pub(super) fn change(&self, number: usize, change: impl FnOnce(&mut SessionNode)) {
        if let Some(node) =
            self.nodes.lock().unwrap_or_else(PoisonError::into_inner).get_mut(number)
        {
            change(node);
        }
    }
}
