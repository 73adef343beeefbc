//! What was read from files: schedules, traces, profiles and distributions of jitter.
//!
//! A table may have a million rows, and a configuration may use it in thousands of pipes. All uses
//! of a file in one text share the value that was read from it. All equal values of a configuration
//! share their memory ([`Distinct`]). The memory of the distinct values is bounded: for one text
//! and for one configuration by [`MOST_MEMORY`], and for all texts that a process reads at the same
//! time by a [`Budget`].

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use weir_core::config::{Capacity, Jitter, LinkConfig};
use weir_core::dist::Distribution;
use weir_core::link::{Profile, Schedule, Trace};
use weir_core::units::Rate;

use crate::diagnostic::Diagnostic;

/// The values from the files of one text, by the names of the files. `A` is what a file contains
/// beside its value.
pub(crate) type ByName<T, A> = RefCell<BTreeMap<Name, Result<(Arc<T>, A), Diagnostic>>>;

/// The name of a file, and whether the value is a schedule that repeats.
pub(crate) type Name = (String, bool);

/// The values from the files of one text.
#[derive(Debug)]
pub struct ParsedFiles {
    /// Each schedule with the notes about its table. Every use of the file reports the notes.
    pub(crate) schedules: ByName<Schedule, Vec<Diagnostic>>,
    pub(crate) traces: ByName<Trace, ()>,
    pub(crate) profiles: ByName<Profile, Option<Rate>>,
    pub(crate) distributions: ByName<Distribution, ()>,
    distinct: RefCell<Distinct>,
    held: RefCell<Held>,
    most_memory: usize,
    /// Why no further file is read.
    refused: Cell<Option<MemoryError>>,
}

impl Default for ParsedFiles {
    fn default() -> Self {
        Self::up_to(MOST_MEMORY)
    }
}

/// Why a value from a file is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// The values of one text take too much memory.
    #[error("all files that are named here may take {mib} MiB in memory, and this would be more")]
    Own {
        /// The limit in MiB.
        mib: usize,
    },
    /// The values of other texts take the memory.
    #[error("the files of other requests take all of {mib} MiB at the moment")]
    Others {
        /// The limit in MiB.
        mib: usize,
    },
}

impl ParsedFiles {
    /// Starts without values. The values may take this much memory, in bytes.
    #[must_use]
    pub fn up_to(most_memory: usize) -> Self {
        Self {
            schedules: RefCell::default(),
            traces: RefCell::default(),
            profiles: RefCell::default(),
            distributions: RefCell::default(),
            distinct: RefCell::default(),
            held: RefCell::default(),
            most_memory,
            refused: Cell::default(),
        }
    }

    /// Starts without values. The memory of the values counts towards `budget` until the result of
    /// [`Self::into_held`] is dropped.
    #[must_use]
    pub fn within(budget: &Arc<Budget>) -> Self {
        let held = Held { budget: Some(Arc::clone(budget)), bytes: 0 };
        Self { held: RefCell::new(held), ..Self::default() }
    }

    /// The part of the budget that the values take.
    #[must_use]
    pub fn into_held(self) -> Held {
        self.held.into_inner()
    }

    /// Returns why no further file may be read, if so.
    pub(crate) fn refused(&self) -> Option<MemoryError> {
        self.refused.get()
    }

    /// Keeps the value of a file. If it equals an earlier value, returns the earlier one.
    pub(crate) fn keep<T: Value>(&self, value: T) -> Result<Arc<T>, MemoryError> {
        let mut value = Arc::new(value);
        let mut distinct = self.distinct.borrow_mut();
        let before = distinct.bytes;
        distinct.share(&mut value);
        let more = distinct.bytes - before;
        let kept = if distinct.bytes > self.most_memory {
            Err(MemoryError::Own { mib: self.most_memory >> 20 })
        } else {
            self.held.borrow_mut().take(more)
        };
        self.refused.set(kept.err());
        kept.map(|()| value)
    }
}

/// Values without duplicates.
#[derive(Clone, Debug, Default)]
pub struct Distinct {
    schedules: HashSet<Arc<Schedule>>,
    traces: HashSet<Arc<Trace>>,
    profiles: HashSet<Arc<Profile>>,
    distributions: HashSet<Arc<Distribution>>,
    bytes: usize,
}

impl Distinct {
    /// The memory that the values take, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds the values of a link. A value that equals an earlier one is replaced by it. Returns
    /// whether a value was replaced.
    pub fn share_link(&mut self, link: &mut LinkConfig) -> bool {
        let mut replaced = link.schedule.as_mut().is_some_and(|one| self.share(one));
        if let Capacity::Trace(trace) = &mut link.capacity {
            replaced |= self.share(trace);
        }
        replaced |= link.profile.as_mut().is_some_and(|one| self.share(one));
        if let Some(Jitter { distribution, .. }) = &mut link.jitter {
            replaced |= self.share(distribution);
        }
        replaced
    }

    /// Adds a value, or lets `value` point to an equal one that is present. Returns whether the
    /// pointer changed.
    fn share<T: Value>(&mut self, value: &mut Arc<T>) -> bool {
        let set = T::set(self);
        if let Some(known) = set.get(&*value) {
            let is_other = !Arc::ptr_eq(known, value);
            *value = Arc::clone(known);
            return is_other;
        }
        set.insert(Arc::clone(value));
        self.bytes = self.bytes.saturating_add(value.memory()).saturating_add(OVERHEAD);
        false
    }
}

/// Whether a link has values that may be from files.
pub(crate) fn has_values(link: &LinkConfig) -> bool {
    link.schedule.is_some()
        || matches!(link.capacity, Capacity::Trace(_))
        || link.profile.is_some()
        || link.jitter.is_some()
}

/// A value that is read from a file.
pub(crate) trait Value: Eq + Hash {
    /// The bytes that the value takes in memory.
    fn memory(&self) -> usize;

    /// The values of this type.
    fn set(distinct: &mut Distinct) -> &mut HashSet<Arc<Self>>
    where
        Self: Sized;
}

macro_rules! values {
    ($($type:ty: $set:ident),*) => {$(
        impl Value for $type {
            fn memory(&self) -> usize {
                self.memory()
            }

            fn set(distinct: &mut Distinct) -> &mut HashSet<Arc<Self>> {
                &mut distinct.$set
            }
        }
    )*};
}

values!(Schedule: schedules, Trace: traces, Profile: profiles, Distribution: distributions);

/// The memory for the values of all texts that a process reads, or has read and not yet applied.
#[derive(Debug)]
pub struct Budget {
    most: usize,
    left: AtomicUsize,
}

impl Budget {
    /// A budget of this much memory, in bytes.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, left: AtomicUsize::new(most) }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(MOST_MEMORY)
    }
}

/// A part of a budget. It is given back when this value is dropped.
#[derive(Debug, Default)]
pub struct Held {
    budget: Option<Arc<Budget>>,
    bytes: usize,
}

impl Held {
    fn take(&mut self, more: usize) -> Result<(), MemoryError> {
        let Some(budget) = &self.budget else { return Ok(()) };
        let taken = budget.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(more));
        taken.map_err(|_| MemoryError::Others { mib: budget.most >> 20 })?;
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.left.fetch_add(self.bytes, Relaxed);
        }
    }
}

/// The most memory that the distinct values of a text or a configuration may take: 256 MiB.
pub const MOST_MEMORY: usize = 256 << 20;
/// The bytes that each value takes beside its rows, at most.
const OVERHEAD: usize = 512;
