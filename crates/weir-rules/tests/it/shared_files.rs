//! Values read from files: all uses of a file share its value, equal values share memory, and the
//! memory is bounded.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use weir_core::config::{Capacity, LinkConfig};
use weir_core::link::{Schedule, Step};
use weir_core::units::Nanos;
use weir_rules::command::{Command, Spanned};
use weir_rules::ruleset::{ApplyError, Ruleset};
use weir_rules::script::{self, Parsed};
use weir_rules::{Budget, Code, Files, LinkSpec, ParsedFiles, Severity, SharedFiles};

/// A table, a trace, a distribution, and profiles that each take 8 MB in memory. Counts the reads.
#[derive(Default)]
struct Counted(Cell<usize>);

impl Files for Counted {
    fn read(&self, path: &str) -> io::Result<String> {
        self.0.set(self.0.get() + 1);
        let name = path.trim_start_matches("copy-");
        match name.rsplit_once('.') {
            Some((_, "csv")) => Ok("time,rate\n0,4M\n1,5\n2,0\n".to_owned()),
            Some((_, "up")) => Ok("1\n2\n2\n".to_owned()),
            Some((_, "dist")) => Ok("-8192 0 8192\n".to_owned()),
            Some((number, "profile")) => {
                Ok(format!("name p\nsamples 1000000\nprob delay\n0 0\n1 1{number}\n"))
            }
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

fn links(parsed: &Parsed) -> Vec<&LinkConfig> {
    let commands = parsed.commands.iter().map(|spanned| &spanned.command);
    let links = commands.filter_map(|command| match command {
        Command::ConfigPipe(_, spec) => Some(&spec.pipe.link),
        _ => None,
    });
    links.collect()
}

/// A script with pipes, each with another profile.
fn profiles(numbers: std::ops::Range<u32>) -> String {
    numbers.map(|n| format!("pipe {n} config profile {n}.profile\n")).collect()
}

#[test]
fn uses_of_a_file_read_it_once_and_share_its_value() {
    let files = Counted::default();
    let mut text = String::new();
    for n in 1..=300 {
        text +=
            &format!("pipe {n} config delay 1ms jitter 1ms a.dist trace a.up profile 1.profile\n");
        text += &format!("pipe {} config schedule a.csv\n", n + 300);
        text += &format!("pipe {} config schedule a.csv loop\n", n + 600);
    }
    let parsed = script::parse(&text, "rules", &files);
    assert!(!parsed.diagnostics.has_errors(), "{}", parsed.diagnostics.render(false));
    assert_eq!(files.0.get(), 5, "the table that repeats is another value");
    let links = links(&parsed);
    assert_eq!(links.len(), 900);
    let Capacity::Trace(trace) = &links[0].capacity else { panic!("{:?}", links[0].capacity) };
    for link in links.iter().step_by(3) {
        assert!(matches!(&link.capacity, Capacity::Trace(other) if Arc::ptr_eq(other, trace)));
        let (first, jitter) = (links[0].jitter.as_ref().unwrap(), link.jitter.as_ref().unwrap());
        assert!(Arc::ptr_eq(&first.distribution, &jitter.distribution));
        assert!(Arc::ptr_eq(links[0].profile.as_ref().unwrap(), link.profile.as_ref().unwrap()));
    }
    let schedules = links.iter().filter_map(|link| link.schedule.as_ref());
    let (looped, once): (Vec<_>, Vec<_>) =
        schedules.partition(|schedule| schedule.period().is_some());
    for same in [looped, once] {
        assert_eq!(same.len(), 300);
        assert!(same.iter().all(|schedule| Arc::ptr_eq(schedule, same[0])));
    }
    let notes = parsed.diagnostics.iter().filter(|one| one.code == Code::SmallRate);
    assert!(notes.count() > 1, "each use has its notes");
}

#[test]
fn a_file_with_a_fault_is_read_once_and_reported_at_each_use() {
    struct Faulty(Cell<usize>);
    impl Files for Faulty {
        fn read(&self, _: &str) -> io::Result<String> {
            self.0.set(self.0.get() + 1);
            Ok("time,rate\n0,secret\n".to_owned())
        }
    }
    let files = Faulty(Cell::new(0));
    let text: String = (1..=9).map(|n| format!("pipe {n} config schedule a.csv\n")).collect();
    let diagnostics = script::parse(&text, "rules", &files).diagnostics;
    assert_eq!((diagnostics.count(Severity::Error), files.0.get()), (9, 1));
    assert!(!diagnostics.render(false).contains("secret"));
}

#[test]
fn many_uses_of_a_long_table_cost_no_visit_of_its_rows() {
    struct Long(String);
    impl Files for Long {
        fn read(&self, _: &str) -> io::Result<String> {
            Ok(self.0.clone())
        }
    }
    // No row changes the delay or the loss. 30,000 visits of all rows would take minutes.
    let rows: String = (0..100_000).map(|n| format!("{n},{}M\n", 1 + n % 9)).collect();
    let files = Long("time,rate\n".to_owned() + &rows);
    let text: String = (1..=30_000).map(|n| format!("pipe {n} config schedule a.csv\n")).collect();
    let parsed = script::parse(&text, "rules", &files);
    let mut ruleset = Ruleset::default();
    ruleset.apply_all(&parsed.commands).unwrap();
    ruleset.apply_all(&parsed.commands).unwrap();
    let means = ruleset.pipes.values().map(|spec| spec.pipe.link.means(None).rate_bps);
    assert_eq!(means.sum::<Option<u64>>(), Some(30_000 * 4_999_960));
}

#[test]
fn built_in_distributions_take_no_memory_for_each_link() {
    let text: String = (1..=20).map(|n| format!("pipe {n} config delay 9 jitter 1\n")).collect();
    let parsed = script::parse(&text, "rules", &weir_rules::NoFiles);
    let links = links(&parsed);
    let distribution = |link: &LinkConfig| Arc::clone(&link.jitter.as_ref().unwrap().distribution);
    assert!(links.iter().all(|link| Arc::ptr_eq(&distribution(link), &distribution(links[0]))));
}

#[test]
fn files_beyond_the_memory_are_refused_unread() {
    let read = |text: &str| {
        let (files, values) = (Counted::default(), ParsedFiles::up_to(20 << 20));
        let parsed = script::parse(text, "rules", &SharedFiles::new(&files, &values));
        (parsed.diagnostics, files.0.get())
    };
    let (diagnostics, reads) = read(&profiles(1..31));
    assert_eq!(reads, 3, "the first file beyond is read, and no other");
    let first = diagnostics.of(Severity::Error).next().unwrap();
    assert_eq!((first.code, first.line), (Code::TooMuch, 3));
    assert!(first.message.contains("20 MiB"), "{}", first.message);
    let copies = profiles(1..3) + &profiles(1..3).replace("profile ", "profile copy-");
    assert!(!read(&copies).0.has_errors(), "files of equal content count once");
}

#[test]
fn a_configuration_grows_up_to_a_limit_and_shares_equal_values() {
    // A pipe with a table of 800,000 rows. The times of the rows depend on `variant`.
    let pipe = |number: u16, variant: u64| {
        let step = |n: u64| (Nanos((n + 1) * 10_000 + variant), Step::default());
        let schedule = Schedule::new((0..800_000).map(step).collect(), None).unwrap();
        let mut spec = LinkSpec::default();
        spec.pipe.link.schedule = Some(Arc::new(schedule));
        Command::ConfigPipe(number, Box::new(spec))
    };
    let script = |commands: Vec<Command>| -> Vec<Spanned> {
        let place = |(line, command)| Spanned { command, span: 0..0, line };
        (1..).zip(commands).map(place).collect()
    };
    let mut ruleset = Ruleset::default();
    ruleset.apply_all(&script(vec![pipe(1, 1)])).unwrap();
    ruleset.apply_all(&script(vec![pipe(2, 1)])).unwrap();
    let schedule = |number| ruleset.pipes[&number].pipe.link.schedule.clone().unwrap();
    assert!(Arc::ptr_eq(&schedule(1), &schedule(2)));

    let before = ruleset.clone();
    let plain = Command::ConfigPipe(9, Box::default());
    let commands = vec![pipe(2, 2), pipe(3, 3), pipe(4, 4), plain.clone()];
    let error = ruleset.apply_all(&script(commands)).unwrap_err();
    assert!(matches!(error.error, ApplyError::TooMuchMemory { mib: 257..400 }), "{error:?}");
    assert_eq!(error.line, 3, "the last line that brings a value");
    assert_eq!(ruleset, before);
    ruleset.apply_all(&script(vec![pipe(2, 2), plain])).unwrap();
}

#[test]
fn texts_that_wait_share_one_budget() {
    let budget = Arc::new(Budget::new(20 << 20));
    let read = |numbers| {
        let (files, values) = (Counted::default(), ParsedFiles::within(&budget));
        let shared = SharedFiles::new(&files, &values);
        let parsed = script::parse(&profiles(numbers), "rules", &shared);
        (parsed.diagnostics, values.into_held())
    };
    let (first, held) = read(1..3);
    assert!(!first.has_errors());
    let (second, no_more) = read(3..5);
    let error = second.of(Severity::Error).next().expect("an error");
    assert!(error.message.contains("other requests take all of 20 MiB"), "{}", error.message);
    drop((held, no_more));
    assert!(!read(3..5).0.has_errors(), "the memory was given back");
}
