//! The state directory when the disk fails, when a file in it is damaged, and when it is moved.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use weir_control::api::{CommandReply, CommandRequest};
use weir_control::owner::{Choice, Onto, Owner, OwnerError, ResumeError, Resumed, candidates};
use weir_control::plane::NoPlane;
use weir_control::store::{Disk, KEPT_REVISIONS, Store};

use super::{Scratch, opened};

#[test]
fn a_failure_before_the_rename_refuses_the_change_and_leaves_everything() {
    // The steps of a change that stores first a file and then the configuration.
    let cases = [
        (Step::Create, 0, Errno::MFILE),
        (Step::Write, 0, Errno::NOSPC),
        (Step::Write, 0, Errno::IO),
        (Step::SyncFile, 0, Errno::IO),
        (Step::Rename, 0, Errno::IO),
        (Step::SyncDirectory, 0, Errno::IO),
        (Step::Link, 0, Errno::NOSPC),
        (Step::Create, 1, Errno::MFILE),
        (Step::Write, 1, Errno::NOSPC),
        (Step::Write, 1, Errno::IO),
        (Step::SyncFile, 1, Errno::IO),
        (Step::Rename, 1, Errno::IO),
    ];
    for (step, passes, errno) in cases {
        let (scratch, faults) = (Scratch::new(), Faults::new());
        let owner = start(&scratch.0, &faults);
        change(&owner, &with_trace(3)).unwrap();
        let before = (listing(&scratch.0), owner.current());
        faults.fail(step, passes, errno);
        let case = format!("{step:?} {passes} {errno:?}");
        match change(&owner, &with_trace(5)) {
            Err(OwnerError::NotSaved { message, full }) => {
                assert!(message.contains("nothing was changed"), "{case}: {message}");
                assert_eq!(full, errno == Errno::NOSPC, "{case}");
            }
            other => panic!("{case}: {other:?}"),
        }
        assert!(faults.happened(), "{case}");
        assert_eq!(owner.current().revision, before.1.revision, "{case}");
        // A second name for the same configuration may be left.
        let mut left = listing(&scratch.0);
        left.retain(|(name, _)| {
            before.0.iter().any(|(b, _)| b == name) || name != "revision-1.weir"
        });
        assert_eq!(left, before.0, "{case}: the files are unchanged");
        drop(owner);
        let owner = start(&scratch.0, &Faults::new());
        assert_eq!(owner.current().ruleset.script(), before.1.ruleset.script(), "{case}");
        assert!(change(&owner, &with_trace(5)).unwrap().notices.is_empty(), "{case}");
    }
}

#[test]
fn a_failure_after_the_rename_leaves_the_change_in_force_and_says_that_durability_is_unknown() {
    let (scratch, faults) = (Scratch::new(), Faults::new());
    let owner = start(&scratch.0, &faults);
    change(&owner, &with_trace(3)).unwrap();
    let first = names_in(&scratch.0, "files");
    // The first directory that is synced is that of the files.
    faults.fail(Step::SyncDirectory, 1, Errno::IO);
    let reply = change(&owner, &with_trace(5)).unwrap();
    assert!(reply.applied && faults.happened());
    assert!(
        reply.notices.iter().any(|notice| notice.contains("did not confirm")),
        "{:?}",
        reply.notices
    );
    let current = owner.current();
    assert_eq!((current.revision, current.durable), (2, false));
    let both = names_in(&scratch.0, "files");
    assert!(
        both.len() == 2 && both.contains(&first[0]),
        "the files of both revisions are there: {both:?}"
    );
    // Without a crash, the daemon finds the new configuration; after a crash, perhaps the old one.
    drop(owner);
    let owner = start(&scratch.0, &faults);
    assert_eq!(owner.current().ruleset.script(), current.ruleset.script());
    drop(owner);
    fs::rename(scratch.0.join("revision-1.weir"), scratch.0.join("config.weir")).unwrap();
    let owner = start(&scratch.0, &faults);
    assert_eq!(owner.current().revision, 1);
    let reply = change(&owner, &with_trace(6)).unwrap();
    assert!(reply.notices.is_empty() && owner.current().durable, "{reply:?}");
}

#[test]
fn without_hard_links_the_earlier_revision_is_a_copy() {
    let (scratch, faults) = (Scratch::new(), Faults::new());
    let owner = start(&scratch.0, &faults);
    change(&owner, &with_trace(3)).unwrap();
    faults.fail(Step::Link, 0, Errno::PERM);
    change(&owner, &with_trace(5)).unwrap();
    assert!(faults.happened());
    let found = candidates(&scratch.0).unwrap();
    let revisions: Vec<_> = found.iter().map(|found| (found.revision, &found.commands)).collect();
    assert!(matches!(revisions[..], [(Some(2), Ok(_)), (Some(1), Ok(_))]), "{revisions:?}");
}

#[test]
fn a_damaged_configuration_is_replaced_by_the_last_good_one_and_the_start_says_so() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 5] = [
        ("cut to nothing", |path| fs::write(path, "").unwrap()),
        ("a changed digit", |path| {
            let text = fs::read_to_string(path).unwrap();
            fs::write(path, text.replace("bw 3Mbit/s", "bw 9Mbit/s")).unwrap();
        }),
        ("cut in half", |path| {
            let text = fs::read(path).unwrap();
            fs::write(path, &text[..text.len() / 2]).unwrap();
        }),
        ("not text", |path| fs::write(path, [0xff, 0xfe, 0]).unwrap()),
        ("missing", |path| fs::remove_file(path).unwrap()),
    ];
    for (name, damage) in damages {
        let scratch = Scratch::new();
        let owner = start(&scratch.0, &Faults::new());
        for mbit in 1..=3 {
            change(&owner, &plain(&format!("pipe 1 config bw {mbit}Mbit/s"))).unwrap();
        }
        drop(owner);
        damage(&scratch.0.join("config.weir"));
        let resumed = Resumed::new(opened(&scratch.0)).unwrap();
        let notice = resumed.notice().unwrap_or_default();
        assert!(notice.contains("damaged") && notice.contains("revision 2"), "{name}: {notice}");
        assert!(resumed.current().ruleset.script().contains("bw 2Mbit/s"), "{name}");
        let revision = resumed.current().revision;
        assert!(revision > 3, "{name}: no number is used twice");
        drop(resumed);
        assert_eq!(scratch.0.join("damaged.weir").exists(), name != "missing", "{name}");
        let again = Resumed::new(opened(&scratch.0)).unwrap();
        assert_eq!((again.notice(), again.current().revision), (None, revision), "{name}");
    }
}

#[test]
fn a_damaged_file_of_a_configuration_is_noticed_and_an_earlier_revision_serves() {
    let scratch = Scratch::new();
    let owner = start(&scratch.0, &Faults::new());
    change(&owner, &plain("pipe 1 config bw 1Mbit/s")).unwrap();
    change(&owner, &with_trace(3)).unwrap();
    drop(owner);
    let file = scratch.0.join("files").join(&names_in(&scratch.0, "files")[0]);
    fs::write(&file, "time,rate\n0,4M\n1,1M\n").unwrap();
    let resumed = Resumed::new(opened(&scratch.0)).unwrap();
    let notice = resumed.notice().unwrap_or_default();
    assert!(
        notice.contains("does not match the hash") && notice.contains("revision 1"),
        "{notice}"
    );
    assert!(resumed.current().ruleset.script().contains("bw 1Mbit/s"));
    assert!(file.exists(), "it is kept for the repair");
}

#[test]
fn a_configuration_of_a_newer_version_is_refused_and_not_replaced() {
    let scratch = Scratch::new();
    let owner = start(&scratch.0, &Faults::new());
    change(&owner, &plain("pipe 1 config bw 1Mbit/s")).unwrap();
    change(&owner, &plain("pipe 1 config bw 2Mbit/s")).unwrap();
    drop(owner);
    let path = scratch.0.join("config.weir");
    let text = fs::read_to_string(&path).unwrap().replacen("format 2,", "format 3,", 1);
    fs::write(&path, &text).unwrap();
    let error = Resumed::new(opened(&scratch.0)).unwrap_err().to_string();
    assert!(error.contains("format 3") && error.contains("newer version"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn any_kept_revision_or_none_can_be_chosen() {
    let scratch = Scratch::new();
    let owner = start(&scratch.0, &Faults::new());
    let last = KEPT_REVISIONS as u64 + 4;
    for mbit in 1..=last {
        change(&owner, &plain(&format!("pipe 1 config bw {mbit}Mbit/s"))).unwrap();
    }
    drop(owner);
    let found = candidates(&scratch.0).unwrap();
    let revisions: Vec<_> = found.iter().filter_map(|found| found.revision).collect();
    let oldest = last - KEPT_REVISIONS as u64;
    assert_eq!(revisions, (oldest..=last).rev().collect::<Vec<_>>());
    let choose = |choice| Resumed::recover(opened(&scratch.0), choice);
    assert!(matches!(choose(Choice::Revision(oldest - 1)), Err(ResumeError::NotUsable { .. })));
    let resumed = choose(Choice::Revision(oldest)).unwrap();
    assert!(resumed.current().ruleset.script().contains(&format!("bw {oldest}Mbit/s")));
    assert!(resumed.notice().unwrap_or_default().contains("in force again"));
    drop(resumed);
    let resumed = choose(Choice::Empty).unwrap();
    assert!(resumed.current().ruleset.pipes.is_empty() && resumed.was_saved());
    drop(resumed);
    // The choice is the newest revision: a plain start finds it.
    let resumed = Resumed::new(opened(&scratch.0)).unwrap();
    assert!(resumed.current().ruleset.pipes.is_empty() && resumed.notice().is_none());
}

#[test]
fn a_state_directory_can_be_moved() {
    let scratch = Scratch::new();
    let (old, new) = (scratch.0.join("old"), scratch.0.join("new"));
    let owner = start(&old, &Faults::new());
    change(&owner, &with_trace(3)).unwrap();
    let script = owner.current().ruleset.script();
    drop(owner);
    drop(opened(&old));
    for (name, content) in listing(&old) {
        assert!(!content.contains(scratch.0.to_str().unwrap()), "{name}: {content}");
    }
    fs::rename(&old, &new).unwrap();
    let owner = start(&new, &Faults::new());
    assert_eq!(owner.current().ruleset.script(), script);
    change(&owner, &plain("pipe 2 config bw 1Mbit/s")).unwrap();
}

#[test]
fn a_moved_directory_of_an_earlier_version_is_read_and_made_relative() {
    let scratch = Scratch::new();
    let owner = start(&scratch.0, &Faults::new());
    change(&owner, &with_trace(3)).unwrap();
    let script = owner.current().ruleset.script();
    drop(owner);
    drop(opened(&scratch.0));
    let absolute = script.replace("files/", "/var/lib/elsewhere/files/");
    let head = "# Saved by weir serve; change it with weir's commands. Revision 1\n";
    fs::write(scratch.0.join("config.weir"), format!("{head}{absolute}")).unwrap();
    let owner = start(&scratch.0, &Faults::new());
    assert_eq!(owner.current().ruleset.script(), script);
    change(&owner, &plain("pipe 2 config bw 1Mbit/s")).unwrap();
    let saved = fs::read_to_string(scratch.0.join("config.weir")).unwrap();
    assert!(!saved.contains("elsewhere"), "{saved}");
}

fn start(directory: &Path, faults: &Arc<Faults>) -> Owner {
    fs::create_dir_all(directory).unwrap();
    // The thread of an owner that was dropped may still hold the lock.
    drop(opened(directory));
    let store = Store::open_on(directory, Arc::clone(faults) as Arc<dyn Disk>).unwrap();
    Resumed::new(store).unwrap().start(Arc::new(NoPlane)).unwrap()
}

fn change(owner: &Owner, request: &CommandRequest) -> Result<CommandReply, OwnerError> {
    let reply = owner.submit(owner.prepare(request), Onto::Current)?.wait()?;
    assert!(reply.applied, "{reply:?}");
    Ok(reply)
}

fn plain(script: &str) -> CommandRequest {
    CommandRequest { script: script.to_owned(), ..CommandRequest::default() }
}

fn with_trace(mbit: u32) -> CommandRequest {
    CommandRequest {
        script: "pipe 1 config trace up.csv".to_owned(),
        files: [("up.csv".to_owned(), format!("time,rate\n0,{mbit}M\n1,1M\n"))].into(),
        ..CommandRequest::default()
    }
}

/// Names and contents of the files in a directory and below it.
fn listing(directory: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for below in ["", "files"] {
        for name in names_in(directory, below) {
            let path = directory.join(below).join(&name);
            if path.is_file() {
                found.push((name, fs::read_to_string(path).unwrap()));
            }
        }
    }
    found
}

fn names_in(directory: &Path, below: &str) -> Vec<String> {
    let entries = fs::read_dir(directory.join(below)).unwrap().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Create,
    Write,
    SyncFile,
    SyncDirectory,
    Rename,
    Link,
}

/// A disk on which one step fails once.
#[derive(Debug, Default)]
struct Faults {
    /// The step, how often it succeeds before it fails, and the error.
    next: Mutex<Option<(Step, u32, Errno)>>,
    /// How often a step has failed.
    happened: AtomicU32,
}

impl Faults {
    fn new() -> Arc<Self> {
        Arc::default()
    }

    fn fail(&self, step: Step, passes: u32, errno: Errno) {
        *self.next.lock().unwrap() = Some((step, passes, errno));
    }

    fn happened(&self) -> bool {
        self.happened.load(Ordering::SeqCst) > 0
    }

    /// Fails if this step is the one that must fail now.
    fn at(&self, step: Step) -> io::Result<()> {
        let mut next = self.next.lock().unwrap();
        match &mut *next {
            Some((which, 0, errno)) if *which == step => {
                let error = (*errno).into();
                *next = None;
                self.happened.fetch_add(1, Ordering::SeqCst);
                Err(error)
            }
            Some((which, passes, _)) if *which == step => {
                *passes -= 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Disk for Faults {
    fn create(&self, path: &Path) -> io::Result<File> {
        self.at(Step::Create)?;
        File::create(path)
    }

    fn write(&self, file: &mut File, content: &[u8]) -> io::Result<()> {
        if let Err(error) = self.at(Step::Write) {
            // A full disk stores the first part.
            file.write_all(&content[..content.len() / 2])?;
            return Err(error);
        }
        file.write_all(content)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        let step = if file.metadata()?.is_dir() { Step::SyncDirectory } else { Step::SyncFile };
        self.at(step)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.at(Step::Rename)?;
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.at(Step::Link)?;
        fs::hard_link(from, to)
    }
}
