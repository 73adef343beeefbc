//! Reads the counters that clients watch, once for all of them.
//!
//! Every watched object is read in full at the shortest period that a client asks for. Short
//! readings, of its counters and lengths only, are more frequent. The readings of all objects that
//! are due at one time are taken together. Of the objects that no client watches, only the first
//! [`BASE`] are read, once a second, so that graphs do not start empty.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use super::top::{Ranking, TOP_PERIOD, Tops};
use crate::api::RuleView;
use crate::dashboard::{
    Builder, ChangeView, Condition, Count, Depth, Fresh, Group, History, Kept, Object, Objects,
    Point, Source, now_ns, on_page,
};
use crate::plane::NoAnswer;
use crate::server::askers::Askers;
use crate::server::stopping::stop;

/// The watched objects of one server.
pub(super) struct Hub {
    pub(super) source: Arc<dyn Source>,
    pub(super) askers: Askers,
    watched: Mutex<BTreeMap<Object, Watched>>,
    /// The groups that clients watch.
    tops: Mutex<Tops>,
    condition: Mutex<Arc<Condition>>,
    /// The last counters of the rules, and when they were read.
    rules: Mutex<Option<(Instant, Arc<Vec<RuleView>>)>>,
    /// Wakes the collector for a new client.
    changed: Notify,
    /// The origin of all periods, so that equal periods end together.
    epoch: Instant,
    /// The time in ms since 1970 at which the page's clock is 0.
    base_ms: i64,
    next_user: AtomicU64,
}

/// An object that is read.
#[derive(Default)]
struct Watched {
    /// The period that each client wants, by the number of the client.
    users: BTreeMap<u64, Duration>,
    /// Whether the object is read even if no client watches it.
    base: bool,
    builder: Builder,
    kept: Kept,
    /// When the object was last read in full.
    taken: Option<Instant>,
    /// When the object was last read; short readings count too.
    glanced: Option<Instant>,
    /// The moment since which no client has watched the object.
    idle: Option<Instant>,
    /// Whether the source no longer has the object.
    gone: bool,
}

impl Watched {
    /// The time between two points; `None` if the object is not read.
    fn period(&self) -> Option<Duration> {
        let base = self.base.then_some(BASE_PERIOD);
        self.users.values().copied().chain(base).min()
    }

    /// The time between two short readings; `None` if no client watches the object.
    fn glance(&self) -> Option<Duration> {
        let shortest = self.users.values().min()?;
        Some((*shortest / 5).clamp(GLANCE, Duration::from_millis(50)).min(*shortest))
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("there is no {0}")]
    Unknown(String),
    #[error("{MOST_WATCHED} objects are watched already; look at fewer of them")]
    TooMany,
}

/// News of an object for one client.
pub(super) struct News {
    pub(super) points: Vec<Point>,
    /// The number of the last point.
    pub(super) newest: u64,
    /// Whether some points since the last news are no longer kept.
    pub(super) gap: bool,
    /// Whether the object no longer exists.
    pub(super) gone: bool,
}

impl Hub {
    /// Makes the hub of a source. `past` has the points from before a restart.
    pub(super) fn new(source: Arc<dyn Source>, past: BTreeMap<Object, Kept>) -> Arc<Self> {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let base_ms = wall.as_millis() as i64 - (now_ns() / 1_000_000) as i64;
        let idle = Some(Instant::now());
        let known = |kept| Watched { kept, idle, ..Watched::default() };
        let watched = past.into_iter().map(|(object, kept)| (object, known(kept))).collect();
        Arc::new(Self {
            source,
            askers: Askers::default(),
            watched: Mutex::new(watched),
            tops: Mutex::default(),
            condition: Mutex::new(Arc::new(Condition { status: "ok", ..Condition::default() })),
            rules: Mutex::default(),
            changed: Notify::new(),
            epoch: Instant::now(),
            base_ms,
            next_user: AtomicU64::new(0),
        })
    }

    /// The time in ms since 1970. It never goes back.
    pub(super) fn now_ms(&self) -> i64 {
        self.base_ms + (now_ns() / 1_000_000) as i64
    }

    pub(super) fn base_ms(&self) -> i64 {
        self.base_ms
    }

    /// Converts a time in ms since 1970 to the page's clock, in ns; 0 for times before that clock
    /// begins.
    pub(super) fn clock_ns(&self, ms: i64) -> u64 {
        u64::try_from(ms.saturating_sub(self.base_ms)).unwrap_or(0).saturating_mul(1_000_000)
    }

    /// The next end of a period.
    pub(super) fn next(&self, period: Duration) -> Instant {
        let period_ns = period.as_nanos().max(1);
        let periods = self.epoch.elapsed().as_nanos() / period_ns + 1;
        self.epoch + Duration::from_nanos(u64::try_from(periods * period_ns).unwrap_or(u64::MAX))
    }

    /// Registers a user of objects or groups.
    pub(super) fn user(self: &Arc<Self>) -> User {
        User { hub: Arc::clone(self), id: self.next_user.fetch_add(1, Ordering::Relaxed) }
    }

    pub(super) fn condition(&self) -> Arc<Condition> {
        Arc::clone(&lock(&self.condition))
    }

    /// Calls `row` for each object of the overview, with its points.
    pub(super) fn overview(&self, mut row: impl FnMut(&Object, &Kept)) {
        for (object, watched) in lock(&self.watched).iter().filter(|(_, watched)| watched.base) {
            row(object, &watched.kept);
        }
    }

    /// Calls `read` with the points of an object since `from_ns` on the page's clock.
    pub(super) fn past<T>(
        &self,
        object: &Object,
        from_ns: u64,
        read: impl FnOnce(Vec<&Point>) -> T,
    ) -> T {
        let watched = lock(&self.watched);
        read(watched.get(object).map(|watched| watched.kept.since(from_ns)).unwrap_or_default())
    }

    /// For each object, the points that `history` does not have yet.
    pub(super) fn fresh(&self, history: &History, unfinished: bool) -> BTreeMap<Object, Fresh> {
        let watched = lock(&self.watched);
        let fresh = |(object, watched): (&Object, &Watched)| {
            (object.clone(), history.fresh(object, &watched.kept, unfinished))
        };
        watched.iter().filter(|(_, watched)| !watched.gone).map(fresh).collect()
    }

    /// The rules with their counters, at most [`RULES_AGE`] old; `None` if the loop does not
    /// answer.
    pub(super) async fn rule_views(&self) -> Option<Arc<Vec<RuleView>>> {
        if let Some((at, views)) = &*lock(&self.rules)
            && at.elapsed() < RULES_AGE
        {
            return Some(Arc::clone(views));
        }
        let source = Arc::clone(&self.source);
        let views = self.askers.run(move || source.rule_views()).await.ok()?.ok()?;
        let views = Arc::new(views);
        *lock(&self.rules) = Some((Instant::now(), Arc::clone(&views)));
        Some(views)
    }

    /// The changes with numbers above `after`, with their times on the page's clock, and the number
    /// of older changes that are no longer kept.
    pub(super) fn changes(&self, after: u64) -> (Vec<ChangeView>, u64) {
        let (mut changes, more) = self.source.changes(after);
        for change in &mut changes {
            change.at_ns = on_page(change.at_ns);
            change.t_ms = self.base_ms + (change.at_ns / 1_000_000) as i64;
        }
        (changes, more)
    }

    /// Reads counters until the server stops.
    pub(super) async fn collect(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        let mut base_at = Instant::now();
        loop {
            if base_at <= Instant::now() {
                base_at = Instant::now() + BASE_AGAIN;
                self.refresh().await;
            }
            let next = self.due().min(base_at);
            tokio::select! {
                () = sleep_until(next) => {}
                () = self.changed.notified() => continue,
                () = stop(&mut stopped) => return,
            }
            self.read().await;
        }
    }

    /// Reads the list of objects and the condition of the links.
    async fn refresh(&self) {
        let source = Arc::clone(&self.source);
        let asked = self.askers.run(move || (source.objects(BASE), source.condition())).await;
        let Ok((Objects { objects, .. }, condition)) = asked else { return };
        *lock(&self.condition) = Arc::new(condition);
        let base: Vec<Object> =
            objects.iter().filter_map(|view| view.object.parse().ok()).collect();
        let mut watched = lock(&self.watched);
        for (object, entry) in watched.iter_mut() {
            entry.base = base.contains(object);
        }
        for object in base {
            let entry = watched.entry(object).or_default();
            entry.base = true;
            if entry.gone {
                entry.begin();
            }
        }
        watched.retain(|_, entry| {
            let used = entry.base || !entry.users.is_empty();
            used || entry.idle.is_some_and(|since| since.elapsed() < KEEP_IDLE)
        });
    }

    /// The time of the next reading.
    fn due(&self) -> Instant {
        let far = Instant::now() + BASE_AGAIN;
        let of_object = |entry: &Watched| entry.glance().or(entry.period()).map(|p| self.next(p));
        let objects = lock(&self.watched).values().filter_map(of_object).min();
        let tops = lock(&self.tops).is_used().then(|| self.next(TOP_PERIOD));
        objects.into_iter().chain(tops).min().unwrap_or(far).min(far)
    }

    /// Reads the objects and groups that are due.
    async fn read(self: &Arc<Self>) {
        let now = Instant::now();
        let is_due = |last: Option<Instant>, period: Option<Duration>| {
            // A reading that comes a little early belongs to the period that is about to end.
            period.is_some_and(|period| {
                last.is_none_or(|last| now.duration_since(last) + period / 4 >= period)
            })
        };
        let (mut full, mut short) = (Vec::new(), Vec::new());
        for (object, entry) in lock(&self.watched).iter_mut().filter(|(_, entry)| !entry.gone) {
            if is_due(entry.taken, entry.period()) {
                (entry.taken, entry.glanced) = (Some(now), Some(now));
                full.push(object.clone());
            } else if is_due(entry.glanced, entry.glance()) {
                entry.glanced = Some(now);
                short.push(object.clone());
            }
        }
        let groups = lock(&self.tops).due(now);
        if full.is_empty() && short.is_empty() && groups.is_empty() {
            return;
        }
        let hub = Arc::clone(self);
        let asked = self.askers.run(move || hub.gather(&full, &short, &groups)).await;
        if !matches!(asked, Ok(Ok(()))) {
            let stalled = Condition {
                status: "stalled",
                problems: vec!["the loop that forwards packets does not answer".to_owned()],
                ..(*self.condition()).clone()
            };
            *lock(&self.condition) = Arc::new(stalled);
        }
    }

    /// Reads objects and groups. The call may block.
    fn gather(&self, full: &[Object], short: &[Object], groups: &[Group]) -> Result<(), NoAnswer> {
        if !short.is_empty() {
            let counts = self.source.read(short, Depth::Short)?;
            let mut watched = lock(&self.watched);
            for (object, count) in counts {
                if let Some(entry) = watched.get_mut(&object) {
                    entry.builder.glance(&count);
                }
            }
        }
        if !full.is_empty() {
            self.keep(full, self.source.read(full, Depth::Full)?);
        }
        for &group in groups {
            let members = self.source.members(group)?;
            let ranking = lock(&self.tops).last(group);
            // The lists of thousands of members are compared without the lock.
            if let Some(ranking) = ranking {
                lock(&self.tops).put(group, ranking.update(members, now_ns()));
            }
        }
        Ok(())
    }

    /// Keeps the points of a full reading. Wanted objects without a count are marked as gone.
    fn keep(&self, wanted: &[Object], counts: Vec<(Object, Count)>) {
        let mut watched = lock(&self.watched);
        let mut missing: Vec<&Object> = wanted.iter().collect();
        for (object, count) in counts {
            missing.retain(|other| **other != object);
            let Some(entry) = watched.get_mut(&object) else { continue };
            if let Some(point) = entry.builder.take(count) {
                entry.kept.push(Point { at_ns: on_page(point.at_ns), ..point });
            }
        }
        for object in missing {
            if let Some(entry) = watched.get_mut(object) {
                entry.gone = true;
            }
        }
        // Forgets objects that are gone and have no clients. Such an object may be created again.
        watched.retain(|_, entry| !(entry.gone && entry.users.is_empty()));
    }
}

/// A client of the hub. Dropping it ends its watches.
pub(super) struct User {
    hub: Arc<Hub>,
    id: u64,
}

impl User {
    /// Watches an object, and returns the number of its newest point.
    pub(super) fn watch(&self, object: &Object, period: Duration) -> Result<u64, Refused> {
        let mut watched = lock(&self.hub.watched);
        let many = watched.len() >= MOST_WATCHED;
        if !watched.contains_key(object) || watched[object].gone {
            if !self.hub.source.has(object) {
                return Err(Refused::Unknown(object.name()));
            }
            // An object that is gone keeps its place among those that are watched.
            if many && !watched.contains_key(object) {
                return Err(Refused::TooMany);
            }
            watched.entry(object.clone()).or_default().begin();
        }
        let Some(entry) = watched.get_mut(object) else { return Err(Refused::TooMany) };
        entry.users.insert(self.id, period);
        entry.idle = None;
        let newest = entry.kept.newest();
        drop(watched);
        self.hub.changed.notify_one();
        Ok(newest)
    }

    /// Watches the objects of the overview.
    pub(super) fn watch_all(&self, period: Duration) {
        for entry in lock(&self.hub.watched).values_mut().filter(|entry| entry.base) {
            entry.users.insert(self.id, period);
        }
        self.hub.changed.notify_one();
    }

    /// Watches the members of a group.
    pub(super) fn rank(&self, group: Group) {
        lock(&self.hub.tops).join(group, self.id);
        self.hub.changed.notify_one();
    }

    /// The members of a group with their rates.
    pub(super) fn ranking(&self, group: Group) -> Option<Arc<Ranking>> {
        lock(&self.hub.tops).ranking(group)
    }

    /// The points of an object after the one with number `after`.
    pub(super) fn news(&self, object: &Object, after: u64) -> News {
        let watched = lock(&self.hub.watched);
        let Some(entry) = watched.get(object) else {
            return News { points: Vec::new(), newest: after, gap: false, gone: true };
        };
        let (points, gap) = entry.kept.after(after);
        let points = points.cloned().collect();
        News { points, newest: entry.kept.newest(), gap, gone: entry.gone }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        lock(&self.hub.watched).values_mut().for_each(|entry| entry.leave(self.id));
        lock(&self.hub.tops).leave(self.id);
    }
}

impl Watched {
    /// Reads the object from now on. An object that was created again is a new one, but its clients
    /// stay, and the numbers of its points go on.
    fn begin(&mut self) {
        (self.gone, self.builder) = (false, Builder::default());
        (self.taken, self.glanced) = (None, None);
    }

    /// Ends the watch of a client.
    fn leave(&mut self, user: u64) {
        if self.users.remove(&user).is_some() && self.users.is_empty() {
            self.idle = Some(Instant::now());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maximum number of objects that are read without clients. The overview shows these objects.
pub(super) const BASE: usize = 64;
/// From this number of objects in memory on, clients cannot watch another one.
const MOST_WATCHED: usize = 256;
/// The time between two points of an object that no client watches.
const BASE_PERIOD: Duration = Duration::from_secs(1);
/// The time between two updates of the list of objects.
const BASE_AGAIN: Duration = Duration::from_secs(1);
/// The shortest time between two short readings.
const GLANCE: Duration = Duration::from_millis(20);
/// The time for which clients share the counters of rules.
const RULES_AGE: Duration = Duration::from_millis(900);
/// The time for which the past of an object is kept after its last client has left.
const KEEP_IDLE: Duration = Duration::from_secs(180);

#[cfg(test)]
mod tests;
