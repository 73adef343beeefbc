//! Pools of connections. A pool limits the connections of all clients together and of each client,
//! and reserves some for privileged clients.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The kind of client that a connection belongs to. A privileged client has no individual limit and
/// may use the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// Root, and the daemon's own user; on TCP, clients on the same machine.
    Privileged,
    /// Every other client.
    Other,
}

/// The bounds of a pool, in connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Connections of all clients.
    pub(super) all: usize,
    /// The part of these that only privileged clients get.
    pub(super) reserve: usize,
    /// Connections of one client that is not privileged.
    pub(super) each: usize,
}

/// A pool for clients that `K` identifies.
#[derive(Debug)]
pub(super) struct Pool<K> {
    bounds: Bounds,
    taken: Mutex<Taken<K>>,
}

#[derive(Debug)]
struct Taken<K> {
    all: usize,
    by: BTreeMap<K, usize>,
}

/// Why a client gets no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// The client has its maximum number of connections.
    Quota(usize),
    /// All connections are taken.
    All(usize),
}

/// A connection of a pool. Dropping this value returns the connection to the pool.
#[derive(Debug)]
pub(super) struct Place<K: Ord> {
    pool: Arc<Pool<K>>,
    client: K,
}

impl<K: Ord + Clone> Pool<K> {
    pub(super) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { bounds, taken: Mutex::new(Taken { all: 0, by: BTreeMap::new() }) })
    }

    /// Takes a connection for a client.
    pub(super) fn take(self: &Arc<Self>, client: K, rank: Rank) -> Result<Place<K>, Full> {
        let Bounds { all, reserve, each } = self.bounds;
        let mut taken = self.taken();
        let own = taken.by.get(&client).copied().unwrap_or(0);
        if rank == Rank::Other && own >= each {
            return Err(Full::Quota(each));
        }
        if taken.all >= if rank == Rank::Privileged { all } else { all - reserve } {
            return Err(Full::All(all));
        }
        taken.all += 1;
        taken.by.insert(client.clone(), own + 1);
        drop(taken);
        Ok(Place { pool: Arc::clone(self), client })
    }
}

impl<K> Pool<K> {
    fn taken(&self) -> MutexGuard<'_, Taken<K>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord> Drop for Place<K> {
    fn drop(&mut self) {
        let mut taken = self.pool.taken();
        taken.all -= 1;
        if let Some(own) = taken.by.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                taken.by.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_takes_the_share_of_others_or_the_reserve() {
        let pool = Pool::new(Bounds { all: 10, reserve: 2, each: 3 });
        let take = |client, rank| pool.take(client, rank);
        let first: Vec<_> = (0..3).map(|_| take(1, Rank::Other).unwrap()).collect();
        assert_eq!(take(1, Rank::Other).err(), Some(Full::Quota(3)));
        let others: Vec<_> = [2, 2, 2, 3, 3].map(|n| take(n, Rank::Other).unwrap()).into();
        assert_eq!(take(4, Rank::Other).err(), Some(Full::All(10)));
        let root: Vec<_> = (0..2).map(|_| take(0, Rank::Privileged).unwrap()).collect();
        assert_eq!(take(0, Rank::Privileged).err(), Some(Full::All(10)));
        drop(first);
        assert!(take(4, Rank::Other).is_ok());
        drop((others, root));
        let taken = pool.taken();
        assert_eq!(
            (taken.all, taken.by.len()),
            (0, 0),
            "nothing is kept of clients that have left"
        );
    }
}
