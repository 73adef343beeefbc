//! `weir sweep gc` and `weir sweep verify`: removes files that are not needed, and finds damaged
//! runs.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use weir_campaign::check;
use weir_campaign::key::Key;
use weir_campaign::store::Store;
use weir_report::format::count;

use super::args::{GcArgs, VerifyArgs};
use super::read::{read, refused};
use crate::output::{Failure, USAGE, print};

pub(super) fn gc(args: &GcArgs) -> Result<ExitCode, Failure> {
    let store = Store::open(&args.store).map_err(|error| Failure::new(USAGE, error))?;
    let abandoned = store.abandoned(AGE).map_err(Failure::of_weir)?;
    let (mut bytes, mut runs, mut inputs) = (0, 0_u64, 0_u64);
    for path in &abandoned {
        bytes += size(path);
        if !args.dry_run {
            store.discard(path).map_err(Failure::of_weir)?;
        }
    }
    if !args.keep.is_empty() {
        let kept = kept(args)?;
        for key in store.keys().map_err(Failure::of_weir)?.filter(|key| !kept.runs.contains(key)) {
            runs += 1;
            bytes += size(&store.path(key));
            if !args.dry_run {
                store.remove(key).map_err(Failure::of_weir)?;
            }
        }
        let unused = |key: &Key| !kept.inputs.contains(key);
        for key in store.inputs().map_err(Failure::of_weir)?.filter(unused) {
            inputs += 1;
            bytes += size(&store.input_path(key));
            if !args.dry_run {
                store.remove_input(key).map_err(Failure::of_weir)?;
            }
        }
    }
    print(&format!(
        "{}: {} unfinished, {} runs, {} inputs; {:.1} MB\n",
        if args.dry_run { "would remove" } else { "removed" },
        count(abandoned.len() as u64),
        count(runs),
        count(inputs),
        bytes as f64 / 1e6,
    ))
}

/// The runs and inputs that the campaigns of --keep need.
#[derive(Default)]
struct Kept {
    runs: BTreeSet<Key>,
    inputs: BTreeSet<Key>,
}

fn kept(args: &GcArgs) -> Result<Kept, Failure> {
    let mut kept = Kept::default();
    for path in &args.keep {
        let plan = read(path, true)?;
        for number in 0..plan.points() {
            let task = plan.point(number).map_err(refused)?.task;
            kept.runs.extend(task.seeds.iter().map(|seed| task.key(seed)));
            kept.inputs.extend(task.inputs.iter().map(|(_, key)| *key));
        }
    }
    Ok(kept)
}

pub(super) fn verify(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let store = Store::open(&args.store).map_err(|error| Failure::new(USAGE, error))?;
    let found = check::verify(&store, args.sample, args.seed).map_err(Failure::of_weir)?;
    let mut text = format!(
        "{} runs, {} carried out again: {} damaged\n",
        count(found.runs),
        count(found.again),
        count(found.damaged.len() as u64)
    );
    if found.others > 0 && found.again < args.sample {
        let others = count(found.others);
        let _ = writeln!(
            text,
            "of {others} runs only the files were checked: weir live or another version made them"
        );
    }
    for (key, damage) in &found.damaged {
        let _ = writeln!(text, "{key}: {damage}");
        if args.remove {
            store.remove(*key).map_err(Failure::of_weir)?;
        }
    }
    let printed = print(&text)?;
    Ok(if found.damaged.is_empty() { printed } else { ExitCode::from(DAMAGED) })
}

/// The size of a file or, for a directory, of all files in it, in bytes.
fn size(path: &Path) -> u64 {
    let of = |path: &Path| fs::metadata(path).map_or(0, |meta| meta.len());
    let Ok(entries) = fs::read_dir(path) else { return of(path) };
    entries.flatten().map(|entry| of(&entry.path())).sum()
}

/// Age at which the files of another host's writer count as abandoned.
const AGE: Duration = Duration::from_secs(86_400);
/// The exit code of `weir sweep verify` if runs are damaged.
const DAMAGED: u8 = 1;
