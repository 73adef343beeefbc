//! Tests of the history: restarts, damage, full disks, and bounds.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::*;
use crate::dashboard::{Quantiles, RECENT_NS, thinned};
use crate::testing::Scratch;

thread_local! {
    static SAID: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn say(text: &str) {
    SAID.with_borrow_mut(|said| said.push(text.to_owned()));
}

/// The messages since the last call.
fn said() -> Vec<String> {
    SAID.take()
}

fn open(scratch: &Scratch) -> History {
    History::new(&scratch.path().join("web-history"), say)
}

const SECOND: u64 = 1_000_000_000;

/// A second in which an object carried packets, `ago` seconds before now.
fn point(ago: u64, packets: u64) -> Point {
    let wait = Quantiles { p50: 1_000_000, p99: 9_000_000, max: 9_100_000, count: packets };
    Point {
        at_ns: clock::now_ns() - ago * SECOND,
        span_ns: SECOND,
        packets_in: packets,
        bytes_in: packets * 1000,
        packets_out: packets,
        bytes_out: packets * 1000,
        wait: Some(wait),
        total: Some(wait),
        rate_bps: Some(8_000_000),
        ..Point::default()
    }
}

/// Objects that have carried a packet in each of the last `seconds` seconds.
fn running(objects: u16, seconds: u64) -> BTreeMap<Object, Kept> {
    ran(objects, seconds, 0)
}

/// Objects that carried a packet in each of `seconds` seconds, the last one `end` seconds ago.
fn ran(objects: u16, seconds: u64, end: u64) -> BTreeMap<Object, Kept> {
    let kept = || {
        let mut kept = Kept::default();
        (end..end + seconds).rev().for_each(|ago| kept.push(point(ago, 1)));
        kept
    };
    (1..=objects).map(|number| (Object::Pipe(number), kept())).collect()
}

fn save(history: &mut History, objects: &BTreeMap<Object, Kept>, unfinished: bool) {
    let fresh = |(one, kept): (&Object, &Kept)| (one.clone(), history.fresh(one, kept, unfinished));
    let fresh = objects.iter().map(fresh).collect();
    history.add(&fresh);
}

fn packets(kept: &Kept) -> u64 {
    kept.since(0).iter().map(|point| point.packets_in).sum()
}

fn size(scratch: &Scratch) -> u64 {
    let files = fs::read_dir(scratch.path().join("web-history")).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn values_before_a_restart_are_there_after_it() {
    let scratch = Scratch::new();
    let before = running(3, 1000);
    save(&mut open(&scratch), &before, true);
    let mut history = open(&scratch);
    let after = history.restore(|_| true);
    assert_eq!(after.len(), 3);
    assert_eq!(packets(&after[&Object::Pipe(1)]), 1000, "every second is there");
    let newest = *after[&Object::Pipe(2)].since(0).last().unwrap();
    assert_eq!((newest.rate_bps, newest.wait.unwrap().max), (Some(8_000_000), 9_100_000));
    let old = before[&Object::Pipe(2)].last().unwrap().at_ns;
    assert!(newest.at_ns.abs_diff(old) < 1000, "on the same clock");
    assert_eq!(said(), Vec::<String>::new());
    // Points that are on disk are not written again.
    let length = size(&scratch);
    save(&mut history, &after, true);
    assert_eq!(size(&scratch), length);
    let mode = fs::metadata(scratch.path().join("web-history/10s")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o77, 0);
}

#[test]
fn a_process_that_is_killed_loses_only_what_is_not_merged_yet() {
    let scratch = Scratch::new();
    save(&mut open(&scratch), &running(1, 1009), false);
    let after = open(&scratch).restore(|_| true);
    assert_eq!(packets(&after[&Object::Pipe(1)]), 1000);
}

#[test]
fn objects_that_exist_no_more_are_dropped() {
    let scratch = Scratch::new();
    let mut objects = running(4, 600);
    let mut history = open(&scratch);
    save(&mut history, &objects, true);
    objects.remove(&Object::Pipe(2));
    save(&mut history, &objects, true);
    // Pipe 2 was deleted before the process ended, pipe 3 before the next one started.
    let after = open(&scratch).restore(|object| *object != Object::Pipe(3));
    assert_eq!(after.keys().collect::<Vec<_>>(), [&Object::Pipe(1), &Object::Pipe(4)]);
    // Objects beyond the limit are left out, and names are kept whole.
    let name = Object::Lane("<img> eth1 → eth2".into());
    let many: BTreeMap<Object, Kept> = running(200, 30)
        .into_iter()
        .chain([(name.clone(), running(1, 30).into_values().next().unwrap())])
        .collect();
    save(&mut open(&scratch), &many, true);
    let after = open(&scratch).restore(|_| true);
    assert_eq!(after.len(), MOST_OBJECTS);
    assert!(after.contains_key(&name));
}

#[test]
fn a_history_has_a_bounded_size_on_disk() {
    let scratch = Scratch::new();
    let mut history = open(&scratch);
    // Three days of 40 busy objects, an hour at a time.
    let mut greatest = 0;
    for hour in (0..72).rev() {
        // The ages are halved, because the page's clock may reach back only two days.
        let at = |ago: u64, span: u64| {
            let at_ns = clock::now_ns() - ago * SECOND / 2;
            Point { at_ns, span_ns: span * SECOND, ..point(0, 1 << 40) }
        };
        let fresh: Fresh = [
            (0..360).rev().map(|one| at(hour * 3600 + one * 10, 10)).collect(),
            (0..60).rev().map(|one| at(hour * 3600 + one * 60, 60)).collect(),
        ];
        history.add(&(1..=40).map(|number| (Object::Pipe(number), fresh.clone())).collect());
        greatest = greatest.max(size(&scratch));
    }
    assert!(greatest <= MOST_BYTES && greatest > MOST_BYTES / 2, "{greatest}");
    let after = open(&scratch).restore(|_| true);
    assert_eq!(after.len(), 40);
    for kept in after.values() {
        assert!(kept.since(0).len() <= SPANS.iter().map(|(_, most)| most).sum());
    }
    assert_eq!(said(), Vec::<String>::new());
}

#[test]
fn damage_is_reported_and_sound_points_are_shown() {
    let scratch = Scratch::new();
    let mut history = open(&scratch);
    for end in [1000, 500, 0] {
        save(&mut history, &ran(1, 500, end), true);
    }
    let path = scratch.path().join("web-history/10s");
    let whole = fs::read(&path).unwrap();
    let restored = || {
        let after = open(&scratch).restore(|_| true);
        (after.get(&Object::Pipe(1)).map_or(0, packets), said())
    };
    let all = restored();
    assert_eq!(all, (1500, Vec::new()));
    for at in (0..whole.len()).step_by(13) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&path, &damaged).unwrap();
        // The points of a minute are still there.
        assert!(restored().0 > 0, "{at}");
        fs::write(&path, &whole[..at]).unwrap();
        assert!(restored().1.is_empty(), "a cut end is no damage");
    }
    for content in [&b"\0\0\0\0"[..], b"weir history, format 9, points of ten seconds\n", b"[]"] {
        fs::write(&path, content).unwrap();
        let (_, said) = restored();
        assert!(said.len() == 1 && said[0].contains("no history of this version"), "{said:?}");
    }
    // A file of a terabyte is not read, and the next start has a sound file.
    File::create(&path).unwrap().set_len(1 << 40).unwrap();
    let (_, said_now) = restored();
    assert!(said_now[0].contains("longer than"), "{said_now:?}");
    let mut history = open(&scratch);
    history.restore(|_| true);
    save(&mut history, &running(1, 400), true);
    said();
    assert!(restored().1.is_empty());
    assert!(size(&scratch) < 1 << 20);
    // A history whose path is not a directory causes no failure.
    fs::remove_dir_all(scratch.path().join("web-history")).unwrap();
    fs::write(scratch.path().join("web-history"), "").unwrap();
    let mut history = open(&scratch);
    assert!(history.restore(|_| true).is_empty());
    save(&mut history, &running(1, 20), true);
    assert!(said().iter().any(|text| text.contains("cannot be kept")));
}

/// A disk that is full while the value is true.
#[derive(Debug, Default)]
struct Full(AtomicBool);

impl Disk for Full {
    fn write(&self, file: &mut File, content: &[u8]) -> io::Result<()> {
        if self.0.load(Ordering::Relaxed) {
            file.write_all(&content[..content.len() / 2])?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.write_all(content)
    }
}

#[test]
fn a_full_disk_is_reported_once_and_missed_points_are_written_later() {
    let scratch = Scratch::new();
    let disk = Arc::new(Full::default());
    let directory = scratch.path().join("web-history");
    let mut history = History::with_disk(&directory, say, Arc::clone(&disk) as Arc<dyn Disk>);
    save(&mut history, &running(2, 600), false);
    let length = size(&scratch);
    disk.0.store(true, Ordering::Relaxed);
    let objects = running(2, 630);
    (0..3).for_each(|_| save(&mut history, &objects, false));
    let text = said();
    assert!(text.len() == 1 && text[0].contains("cannot be kept"), "{text:?}");
    assert_eq!(size(&scratch), length, "the written half of the record is removed");
    disk.0.store(false, Ordering::Relaxed);
    save(&mut history, &objects, true);
    assert!(said()[0].contains("again"));
    let after = open(&scratch).restore(|_| true);
    let newest = |kept: &Kept| kept.since(0).last().unwrap().at_ns;
    let (is, was) = (newest(&after[&Object::Pipe(1)]), newest(&objects[&Object::Pipe(1)]));
    assert_eq!(is, was);
    assert_eq!(said(), Vec::<String>::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_hostile_history_costs_no_more_than_a_sound_one(
        records in proptest::collection::vec(
            (any::<bool>(), proptest::collection::vec(any::<u8>(), 0..300), any::<bool>()), 0..8),
    ) {
        let scratch = Scratch::new();
        let history = open(&scratch);
        history.create().unwrap();
        let mut segments = history.levels;
        for (level, junk, own) in records {
            let mut record = Record::new(Moment::now());
            if own {
                record.add(&Object::Pipe(1), &[point(3, 1 << 50)]);
            }
            record.bytes.extend(junk);
            segments[usize::from(level)].add(&RealDisk, &record.bytes).unwrap();
        }
        let after = open(&scratch).restore(|_| true);
        said();
        prop_assert!(after.len() <= MOST_OBJECTS);
        for kept in after.values() {
            let all = kept.since(0);
            prop_assert!(all.len() <= SPANS.iter().map(|(_, most)| most).sum::<usize>());
            for most in [1, 7] {
                let mut text = String::new();
                thinned(all.iter().copied(), most).iter().for_each(|one| one.write(0, &mut text));
                prop_assert!(!text.contains("NaN") && !text.contains("inf"));
            }
        }
        // New points follow the restored ones.
        let mut kept = Kept::default();
        after.into_values().flat_map(|one| one.since(0).into_iter().cloned().collect::<Vec<_>>())
            .for_each(|point| kept.restore(0, point));
        (0..RECENT_NS / SECOND).rev().for_each(|ago| kept.push(point(ago, 1)));
        prop_assert!(packets(&kept) >= RECENT_NS / SECOND);
    }
}
