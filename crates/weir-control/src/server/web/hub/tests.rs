//! Tests of objects that are deleted and created again.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::dashboard::{
    Edit, EditError, Edited, Language, Member, ObjectView, PlanError, PlanView, TraceError,
    TraceQuestion, Traced,
};

/// A source with one pipe, which can be deleted.
struct OnePipe {
    exists: AtomicBool,
    at_ns: AtomicU64,
}

impl Source for OnePipe {
    fn language(&self) -> Language {
        Language::Commands
    }

    fn revision(&self) -> u64 {
        0
    }

    fn objects(&self, _: usize) -> Objects {
        let pipe = ObjectView { object: "pipe:1".to_owned(), ..ObjectView::default() };
        let objects = if self.has(&Object::Pipe(1)) { vec![pipe] } else { Vec::new() };
        Objects { objects, ..Objects::default() }
    }

    fn has(&self, _: &Object) -> bool {
        self.exists.load(Ordering::Relaxed)
    }

    fn read(&self, wanted: &[Object], _: Depth) -> Result<Vec<(Object, Count)>, NoAnswer> {
        let at_ns = self.at_ns.fetch_add(1_000_000, Ordering::Relaxed);
        let count = |object: &Object| (object.clone(), Count { at_ns, ..Count::default() });
        let wanted = wanted.iter().filter(|object| self.has(object));
        Ok(wanted.map(count).collect())
    }

    fn members(&self, _: Group) -> Result<Vec<Member>, NoAnswer> {
        Ok(Vec::new())
    }

    fn rule_views(&self) -> Result<Vec<RuleView>, NoAnswer> {
        Ok(Vec::new())
    }

    fn condition(&self) -> Condition {
        Condition::default()
    }

    fn edit(&self, _: &Edit) -> Result<Edited, EditError> {
        Ok(Edited::default())
    }

    fn undo(&self, _: u64) -> Result<Edited, EditError> {
        Ok(Edited::default())
    }

    fn changes(&self, _: u64) -> (Vec<ChangeView>, u64) {
        (Vec::new(), 0)
    }

    fn trace(&self, _: &TraceQuestion) -> Result<Traced, TraceError> {
        Ok(Traced::default())
    }

    fn check_plan(&self, _: &str) -> Result<PlanView, PlanError> {
        Ok(PlanView::default())
    }

    fn start_plan(&self, _: &str) -> Result<PlanView, PlanError> {
        Ok(PlanView::default())
    }

    fn stop_plan(&self) {}

    fn plan(&self) -> PlanView {
        PlanView::default()
    }
}

fn hub() -> (Arc<OnePipe>, Arc<Hub>) {
    let at_ns = AtomicU64::new(1_000_000_000);
    let source = Arc::new(OnePipe { exists: AtomicBool::new(true), at_ns });
    (Arc::clone(&source), Hub::new(source, BTreeMap::new()))
}

#[test]
fn a_client_keeps_its_watch_when_another_watches_the_object_that_was_created_again() {
    let (source, hub) = hub();
    let pipe = Object::Pipe(1);
    let read = || hub.gather(std::slice::from_ref(&pipe), &[], &[]).unwrap();
    let slow = hub.user();
    let sent = slow.watch(&pipe, Duration::from_secs(60)).unwrap();
    read();
    read();
    let sent = slow.news(&pipe, sent).newest;
    assert_eq!(sent, 1);

    source.exists.store(false, Ordering::Relaxed);
    read();
    assert!(slow.news(&pipe, sent).gone);
    source.exists.store(true, Ordering::Relaxed);
    let quick = hub.user();
    quick.watch(&pipe, Duration::from_secs(1)).unwrap();
    read();
    read();
    let news = slow.news(&pipe, sent);
    assert!(!news.gone && news.points.len() == 1, "{} points", news.points.len());
    drop(quick);
    assert_eq!(lock(&hub.watched)[&pipe].period(), Some(Duration::from_secs(60)));
}

#[test]
fn any_time_of_a_client_is_a_time_on_the_clock() {
    let (_, hub) = hub();
    assert_eq!((hub.clock_ns(i64::MIN), hub.clock_ns(i64::MAX)), (0, u64::MAX));
    assert_eq!(hub.clock_ns(hub.base_ms() + 5), 5_000_000);
}

#[test]
fn an_object_of_the_overview_that_is_created_again_is_read_again() {
    let (source, hub) = hub();
    let pipe = Object::Pipe(1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(hub.refresh());
    let user = hub.user();
    user.watch_all(Duration::from_secs(60));
    source.exists.store(false, Ordering::Relaxed);
    hub.gather(std::slice::from_ref(&pipe), &[], &[]).unwrap();
    assert!(lock(&hub.watched)[&pipe].gone, "its client has not heard of it yet");
    source.exists.store(true, Ordering::Relaxed);
    runtime.block_on(hub.refresh());
    assert!(!lock(&hub.watched)[&pipe].gone);
}
