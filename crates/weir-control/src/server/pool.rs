//! Pools of connections. A pool limits the connections of all clients together and of each client,
//! and reserves some for privileged clients. In a full pool, a new connection can displace a
//! connection that only waits for a request.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::guard::Activity;

/// The kind of client that a connection belongs to. A privileged client has no individual limit and
/// may use the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// Root, and the daemon's own user; on TCP, clients on the same machine.
    Privileged,
    Other,
}

/// The bounds of a pool, in connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Connections of all clients.
    pub(super) all: usize,
    /// The part of `all` that only privileged clients get.
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
    /// The connections by their numbers, in the order of their arrival.
    all: BTreeMap<u64, (K, Arc<Activity>)>,
    /// The number of connections of each client.
    by: BTreeMap<K, usize>,
    next: u64,
}

/// Why a client gets no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// The client has its maximum number of connections.
    Quota(usize),
    /// All connections are taken or reserved.
    All(usize),
}

/// A connection of a pool. Dropping this value returns the connection to the pool.
#[derive(Debug)]
pub(super) struct Place<K: Ord> {
    pool: Arc<Pool<K>>,
    number: u64,
}

impl<K: Ord + Clone> Pool<K> {
    pub(super) fn new(bounds: Bounds) -> Arc<Self> {
        let taken = Taken { all: BTreeMap::new(), by: BTreeMap::new(), next: 0 };
        Arc::new(Self { bounds, taken: Mutex::new(taken) })
    }

    pub(super) fn take(
        self: &Arc<Self>,
        client: K,
        rank: Rank,
        activity: &Arc<Activity>,
    ) -> Result<Place<K>, Full> {
        let mut taken = self.taken();
        taken.check(self.bounds, &client, rank)?;
        let number = taken.add(client, Arc::clone(activity));
        drop(taken);
        Ok(Place { pool: Arc::clone(self), number })
    }

    /// Takes a connection for a client. In a full pool, displaces the connection that has waited
    /// longest for a complete request head. A client that has reached its own maximum displaces one
    /// of its own connections.
    pub(super) fn displace(
        self: &Arc<Self>,
        client: K,
        rank: Rank,
        activity: &Arc<Activity>,
    ) -> Result<Place<K>, Full> {
        let mut taken = self.taken();
        if let Err(full) = taken.check(self.bounds, &client, rank) {
            let only = matches!(full, Full::Quota(_)).then_some(&client);
            let number = taken.longest_waiting(only).ok_or(full)?;
            if let Some(displaced) = taken.remove(number) {
                displaced.displace();
            }
        }
        let number = taken.add(client, Arc::clone(activity));
        drop(taken);
        Ok(Place { pool: Arc::clone(self), number })
    }
}

impl<K: Ord + Clone> Taken<K> {
    /// Checks that a client may have one more connection.
    fn check(&self, bounds: Bounds, client: &K, rank: Rank) -> Result<(), Full> {
        let Bounds { all, reserve, each } = bounds;
        let own = self.by.get(client).copied().unwrap_or(0);
        if rank == Rank::Other && own >= each {
            return Err(Full::Quota(each));
        }
        if self.all.len() >= if rank == Rank::Privileged { all } else { all - reserve } {
            return Err(Full::All(all));
        }
        Ok(())
    }

    /// Adds a connection, and returns its number.
    fn add(&mut self, client: K, activity: Arc<Activity>) -> u64 {
        let number = self.next;
        self.next += 1;
        *self.by.entry(client.clone()).or_default() += 1;
        self.all.insert(number, (client, activity));
        number
    }

    /// The number of the connection that has waited longest for a request head, among all
    /// connections or among those of `client`; `None` if no connection waits.
    fn longest_waiting(&self, client: Option<&K>) -> Option<u64> {
        let of_client = self.all.iter().filter(|(_, (of, _))| client.is_none_or(|only| of == only));
        let waiting = of_client
            .filter_map(|(&number, (_, activity))| activity.waiting().map(|time| (time, number)));
        waiting.max().map(|(_, number)| number)
    }
}

impl<K: Ord> Taken<K> {
    /// Removes a connection, unless it was removed before.
    fn remove(&mut self, number: u64) -> Option<Arc<Activity>> {
        let (client, activity) = self.all.remove(&number)?;
        if let Some(own) = self.by.get_mut(&client) {
            *own -= 1;
            if *own == 0 {
                self.by.remove(&client);
            }
        }
        Some(activity)
    }
}

impl<K> Pool<K> {
    fn taken(&self) -> MutexGuard<'_, Taken<K>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord> Drop for Place<K> {
    fn drop(&mut self) {
        self.pool.taken().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_takes_the_share_of_others_or_the_reserve() {
        let pool = Pool::new(Bounds { all: 10, reserve: 2, each: 3 });
        let take = |client, rank| pool.take(client, rank, &Arc::default());
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
            (taken.all.len(), taken.by.len()),
            (0, 0),
            "nothing is kept of clients that have left"
        );
    }
    #[test]
    fn a_new_connection_displaces_the_one_that_has_waited_longest() {
        let pool = Pool::new(Bounds { all: 5, reserve: 1, each: 2 });
        let activities: Vec<Arc<Activity>> = (0..4).map(|_| Arc::default()).collect();
        // Connection 1 has a request. Connection 2 has just become idle.
        activities[1].set_handling(true, false);
        let clients = [1, 1, 2, 3];
        let places = clients
            .iter()
            .zip(&activities)
            .map(|(&client, activity)| pool.displace(client, Rank::Other, activity).unwrap());
        let places: Vec<_> = places.collect();
        activities[2].set_handling(true, false);
        activities[2].set_handling(false, false);
        let numbers = || pool.taken().all.keys().copied().collect::<Vec<_>>();
        let come = |client, rank| pool.displace(client, rank, &Arc::default());

        // Client 1 has reached its maximum. It loses one of its own connections, and not the one
        // that has waited longest of all.
        activities[0].set_handling(true, false);
        activities[1].set_handling(false, false);
        let own = come(1, Rank::Other).unwrap();
        assert_eq!(numbers(), [0, 2, 3, 4]);
        // Client 4 displaces the connection that has waited longest: connection 3, since its
        // arrival.
        let other = come(4, Rank::Other).unwrap();
        assert_eq!(numbers(), [0, 2, 4, 5]);
        // A displaced connection that ends later frees no place twice.
        drop(places);
        assert_eq!(numbers(), [4, 5]);
        let root: Vec<_> = (0..3).map(|_| come(0, Rank::Privileged).unwrap()).collect();
        assert_eq!(numbers().len(), 5);
        drop((own, other, root));
        let taken = pool.taken();
        assert_eq!((taken.all.len(), taken.by.len()), (0, 0));
    }

    #[test]
    fn a_connection_with_a_request_keeps_its_place() {
        let pool = Pool::new(Bounds { all: 2, reserve: 0, each: 2 });
        let busy = || {
            let activity = Arc::<Activity>::default();
            activity.set_handling(true, false);
            pool.displace(1, Rank::Privileged, &activity).unwrap()
        };
        let held = [busy(), busy()];
        assert_eq!(pool.displace(2, Rank::Privileged, &Arc::default()).err(), Some(Full::All(2)));
        drop(held);
    }
}
