//! Records of a watch contain every reading, and keep the written data on a full disk. The report
//! shows a single long reading.

#[path = "../../examples/demo_watch/data.rs"]
mod data;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use serde_json::Value;
use weir_measure::document::{Kind, Schemas};
use weir_measure::watch::{DeviceSummary, Event, EventKind, Handle, Queue, Run, Sink, Tally};
use weir_report::watch::{About, Format, RecordError, Recorder, html};

use crate::check::assert_follows;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("weir-watch-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    fn record(&self, format: Format, play: impl FnOnce(&mut dyn Sink)) -> PathBuf {
        let path = self.0.join("record").with_extension(format.extension());
        let mut recorder = Recorder::create(&path, format, "test").unwrap();
        play(&mut recorder);
        assert!(recorder.error().is_none());
        recorder.finish().unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The total number of readings, the maximum length, and the number of rows.
type Totals = (u64, u64, u64);

fn of_lines(path: &Path) -> Totals {
    let text = fs::read_to_string(path).unwrap();
    let objects = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    objects.filter(|object| object["type"] == "readings").fold(
        (0, 0, 0),
        |(samples, most, rows), object| {
            let number = |name: &str| object[name].as_u64().unwrap();
            (samples + number("samples"), most.max(number("qlen")), rows + 1)
        },
    )
}

fn of_csv(path: &Path) -> Totals {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let place = |name: &str| head.iter().position(|cell| *cell == name).unwrap();
    let (samples, qlen) = (place("samples"), place("qlen"));
    lines.fold((0, 0, 0), |(all, most, rows), cells| {
        assert_eq!(cells.len(), head.len(), "{cells:?}");
        (
            all + cells[samples].parse::<u64>().unwrap(),
            most.max(cells[qlen].parse().unwrap()),
            rows + 1,
        )
    })
}

fn of_parquet(path: &Path) -> Totals {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
    rows.fold((0, 0, 0), |(samples, most, rows), row| {
        assert!(["readings", "enqueue", "dequeue"].contains(&row.get_string(0).unwrap().as_str()));
        (
            samples + row.get_long(10).unwrap() as u64,
            most.max(row.get_long(11).unwrap() as u64),
            rows + 1,
        )
    })
}

#[test]
fn every_format_has_every_reading_and_equal_ones_are_one_row() {
    let scratch = Scratch::new("forms");
    let play = |sink: &mut dyn Sink| data::play(3, sink);
    // 4000 steps in each of 3 s, 50 readings of 6 queues in each step, and the peak.
    let expected = 3 * 4000 * 50 * 6 + 1;
    let lines = of_lines(&scratch.record(Format::JsonLines, play));
    assert_eq!((lines.0, lines.1), (expected, data::PEAK.into()));
    assert_eq!(of_csv(&scratch.record(Format::Csv, play)), lines);
    assert_eq!(of_parquet(&scratch.record(Format::Parquet, play)), lines);
    assert!(lines.2 < 3 * 4000 * 3, "{} rows", lines.2);
}

#[test]
fn events_are_recorded_one_by_one_after_the_readings_before_them() {
    let scratch = Scratch::new("events");
    let play = |sink: &mut dyn Sink| {
        let (kind, handle, parent) = ("a,\"b\"".to_owned(), Handle(0x1_0000), Handle::ROOT);
        sink.appeared(
            0,
            7,
            &Queue {
                device: "eth0".into(),
                netns: None,
                kind,
                handle,
                parent,
                band: None,
                root: true,
            },
        );
        sink.runs(&[Run { queue: 7, first: 1, last: 5, count: 5, qlen: 0, backlog: 0 }]);
        for (time, kind, qlen) in [(6, EventKind::Enqueue, 1), (8, EventKind::Dequeue, 0)] {
            let (queue, packets, bytes, backlog) = (7, 1, 60, qlen * 60);
            sink.events(&[Event {
                queue,
                time,
                kind,
                packets,
                bytes,
                qlen,
                backlog,
                drops: 3,
                cpu: 1,
                after_gap: time == 8,
            }]);
        }
        sink.vanished(9, 7);
    };
    let lines = fs::read_to_string(scratch.record(Format::JsonLines, play)).unwrap();
    let types: Vec<String> = lines
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(types, ["watch", "queue", "readings", "enqueue", "dequeue", "gone"]);
    let csv = fs::read_to_string(scratch.record(Format::Csv, play)).unwrap();
    assert_eq!(
        csv.lines().skip(1).collect::<Vec<_>>(),
        [
            "readings,1,5,7,eth0,,\"a,\"\"b\"\"\",1:,root,,5,0,0,,,,,",
            "enqueue,6,6,7,eth0,,\"a,\"\"b\"\"\",1:,root,,1,1,60,1,60,3,1,0",
            "dequeue,8,8,7,eth0,,\"a,\"\"b\"\"\",1:,root,,1,0,0,1,60,3,1,1",
        ]
    );
    assert_eq!(of_parquet(&scratch.record(Format::Parquet, play)), (7, 1, 3));
}

#[test]
fn an_existing_file_stays_until_the_new_record_is_complete() {
    let scratch = Scratch::new("existing");
    for format in Format::ALL {
        let path = scratch.0.join("record").with_extension(format.extension());
        fs::write(&path, "the record before").unwrap();
        let mut recorder = Recorder::create(&path, format, "test").unwrap();
        data::play(1, &mut recorder);
        recorder.flush();
        assert_eq!(fs::read(&path).unwrap(), b"the record before", "{format:?}");
        recorder.finish().unwrap();
        assert!(fs::metadata(&path).unwrap().len() > 100, "{format:?}");
        fs::remove_file(&path).unwrap();
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 0, "{format:?}");
    }
}

#[test]
fn a_path_that_cannot_be_written_is_named() {
    for format in Format::ALL {
        let path = std::env::temp_dir().join("weir-no-such-directory/record");
        let error = Recorder::create(&path, format, "test").unwrap_err();
        assert!(
            matches!(error, RecordError::Create { .. })
                && error.to_string().contains("weir-no-such-directory"),
            "{error}"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_that_takes_nothing_is_an_error_and_the_watch_continues() {
    for format in [Format::JsonLines, Format::Csv] {
        let mut recorder = Recorder::create(Path::new("/dev/full"), format, "test").unwrap();
        data::play(1, &mut recorder);
        assert!(matches!(recorder.error(), Some(RecordError::Write { .. })));
        let error = recorder.finish().unwrap_err();
        assert!(error.to_string().contains("/dev/full"), "{error}");
    }
    let error = Recorder::create(Path::new("/dev/full"), Format::Parquet, "test").unwrap_err();
    assert!(error.to_string().contains("/dev/full"), "{error}");
}

/// A small file system in memory, unmounted at the end.
#[cfg(target_os = "linux")]
struct SmallDisk(Scratch);

#[cfg(target_os = "linux")]
impl SmallDisk {
    fn mount(name: &str) -> Option<SmallDisk> {
        let scratch = Scratch::new(name);
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "weir-test"])
            .arg(&scratch.0)
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(SmallDisk(scratch)),
            _ => {
                println!("SKIPPED: a small disk cannot be mounted, which needs root");
                None
            }
        }
    }
}

#[cfg(target_os = "linux")]
impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0.0).status();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_complete_files_of_the_written_entries() {
    let Some(disk) = SmallDisk::mount("full") else { return };
    for (format, totals) in [
        (Format::JsonLines, of_lines as fn(&Path) -> Totals),
        (Format::Csv, of_csv),
        (Format::Parquet, of_parquet),
    ] {
        let path = disk.0.0.join("record").with_extension(format.extension());
        let mut recorder = Recorder::create(&path, format, "test").unwrap();
        let mut seconds = 0;
        while recorder.error().is_none() {
            data::play(20, &mut recorder);
            seconds += 20;
            assert!(seconds < 1000, "the disk is not full yet");
        }
        let error = recorder.finish().unwrap_err();
        let RecordError::Early { entries, .. } = &error else { panic!("{format:?}: {error}") };
        let (samples, most, rows) = totals(&path);
        assert!(
            samples > 0 && most > 0 && rows > 1000 && rows <= *entries,
            "{format:?}: {samples} {most} {rows} of {entries}"
        );
        assert_eq!(fs::read_dir(&disk.0.0).unwrap().count(), 1, "the directory has no other file");
        fs::remove_file(&path).unwrap();
    }
}

fn page(seconds: u64) -> String {
    let mut tally = Tally::new();
    data::play(seconds, &mut tally);
    tally.finish();
    html(
        &tally,
        &data::summary(&tally, seconds),
        &About { version: "test".into(), ..About::default() },
    )
}

#[test]
fn the_report_is_complete_and_bounded_in_size() {
    let page = page(20);
    assert!(page.len() < 4_000_000, "{} bytes", page.len());
    let (_, result) = page.split_once("id=\"weir-result\">").unwrap();
    let result = serde_json::from_str(result.split_once("</script>").unwrap().0).unwrap();
    assert_follows(&Schemas::new().with::<DeviceSummary>(Kind::Watch).finish(), &result);
    for words in [
        "eth0@router tbf 8001:",
        "Queue length",
        "Lengths",
        "Time above a threshold",
        "Difference of consecutive readings",
        "Drops",
    ] {
        assert!(page.contains(words), "{words}");
    }
    for words in [
        "eth2 is gone",
        "<b>1.230 s</b>",
        "200,000/s, 17 moments missed",
        "4,000,001 (200 k/s)",
        "median 5 µs",
        "bfifo <small>below 8001:1</small>",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert_eq!(
        page.matches(" src=").count()
            + page.matches("<link").count()
            + page.matches("url(http").count(),
        0,
        "nothing is fetched"
    );
    assert!(page.matches("<desc").count() >= 10, "pictures are described");
}

#[test]
fn the_single_long_reading_is_in_plot_table_and_text() {
    let page = page(20);
    let peak = data::PEAK.to_string();
    assert!(
        page.contains(&format!("at most {peak}.")) && page.contains(&format!("<td>{peak}</td>"))
    );
    let (_, plots) = page.split_once("id=\"weir-plots\">").unwrap();
    let plots: Value = serde_json::from_str(plots.split_once("</script>").unwrap().0).unwrap();
    let band = plots[0]["curves"][0]["points"].as_array().unwrap();
    assert_eq!(
        band.iter().filter(|row| row[2] == data::PEAK).count(),
        1,
        "one period of the picture shows the peak"
    );
    assert!(
        plots[0]["detail"]["items"].as_str().unwrap().len() > 1000,
        "and there is more to zoom into"
    );
}

#[test]
fn hostile_names_stay_text() {
    let nasty = "</script><script>alert(1)</script><!--\"'&\u{0}";
    let mut tally = Tally::new();
    let queue = Queue {
        device: nasty.into(),
        netns: Some(nasty.into()),
        kind: nasty.into(),
        handle: Handle(0),
        parent: Handle(0),
        band: None,
        root: false,
    };
    tally.appeared(0, 0, &queue);
    tally.runs(&[Run { queue: 0, first: 0, last: 9, count: 10, qlen: 4, backlog: 400 }]);
    tally.remark(5, nasty);
    let about = About { version: nasty.into(), started: nasty.into(), command: vec![nasty.into()] };
    let page = html(&tally, &data::summary(&tally, 1), &about);
    assert_eq!(
        (page.matches("<script").count(), page.matches("</script>").count()),
        (3, 3),
        "two of data and one of code"
    );
    assert!(!page.contains("<!--"));
}

#[test]
fn a_watch_that_saw_nothing_has_a_page() {
    let mut tally = Tally::new();
    tally.note("nothing <was> there");
    let page = html(&tally, &data::summary(&tally, 1), &About::default());
    assert!(page.contains("nothing &lt;was&gt; there") && page.ends_with("</html>\n"));
}
