//! Looks for damaged runs: compares files with their hashes, and carries out runs again to compare
//! their bytes.

use std::fs;

use weir_sim::run::Progress;

use crate::engine;
use crate::key::{Key, Made, Runner};
use crate::store::{FORMAT, META, Meta, Store, StoreError, to_text};
use crate::work::{Task, TaskSeeds, WorkError};

/// The damage of a run.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// `meta.json` cannot be read.
    #[error("{META}: {0}")]
    Meta(StoreError),
    /// A file is missing or cannot be read.
    #[error("{0} is missing")]
    Missing(String),
    /// The length or hash of a file differs from `meta.json`, or the scenario is not UTF-8.
    #[error("{0} has other bytes than {META} says")]
    Bytes(String),
    /// The run has a file that `meta.json` does not name.
    #[error("{0} does not belong to the run")]
    Stray(String),
    /// The key that follows from the scenario, the inputs and the version is not the key under
    /// which the store has the run, or `meta.json` has another key or format.
    #[error("its scenario, inputs and version have another key")]
    Key,
    /// An input is missing or damaged.
    #[error("input {0}: {1}")]
    Input(String, std::io::Error),
    /// The run gives other bytes when it is carried out again.
    #[error("{0} has other bytes when the run is carried out again")]
    Differs(String),
    /// The run cannot be carried out again.
    #[error("it cannot be carried out again: {0}")]
    Again(WorkError),
}

/// The result of [`verify`].
#[derive(Debug, Default)]
pub struct Verified {
    /// Number of runs in the store.
    pub runs: u64,
    /// Number of runs that were carried out again, including failed attempts.
    pub again: u64,
    /// Number of selected runs that were not carried out again, because `weir live` or another
    /// version of Weir made them.
    pub others: u64,
    /// The damaged runs, by key.
    pub damaged: Vec<(Key, Damage)>,
}

/// Compares all files of a store with their hashes. Then carries out up to `sample` runs again. A
/// hash of each run's key and of `seed` decides which.
///
/// # Errors
/// The store cannot be read.
pub fn verify(store: &Store, sample: u64, seed: u64) -> Result<Verified, StoreError> {
    let mut found = Verified::default();
    let mut sound = Vec::new();
    for key in store.keys()? {
        found.runs += 1;
        match files(store, key) {
            Ok(_) => sound.push(key),
            Err(damage) => found.damaged.push((key, damage)),
        }
    }
    // In the order of a hash, each run has the same chance to be selected.
    sound.sort_by_cached_key(|key| Key::of(format!("{key} {seed}").as_bytes()));
    for key in sound {
        if found.again == sample {
            break;
        }
        match again(store, key) {
            Ok(true) => found.again += 1,
            Ok(false) => found.others += 1,
            Err(damage) => {
                found.again += 1;
                found.damaged.push((key, damage));
            }
        }
    }
    found.damaged.sort_by_key(|(key, _)| *key);
    Ok(found)
}

/// Compares the files of a run with the hashes in `meta.json`, and the key of the run with its
/// scenario, inputs and version.
///
/// # Errors
/// The first damage.
pub fn files(store: &Store, key: Key) -> Result<Meta, Damage> {
    let meta = store.meta(key).map_err(Damage::Meta)?;
    let path = store.path(key);
    let mut text = String::new();
    for (name, expected) in &meta.files {
        let content = fs::read(path.join(name)).map_err(|_| Damage::Missing(name.clone()))?;
        let is_same = content.len() as u64 == expected.bytes
            && Key::of(&content).to_string() == expected.sha256;
        if !is_same {
            return Err(Damage::Bytes(name.clone()));
        }
        if name == SCENARIO {
            text = String::from_utf8(content).map_err(|_| Damage::Bytes(name.clone()))?;
        }
    }
    for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != META && !meta.files.contains_key(&name) {
            return Err(Damage::Stray(name));
        }
    }
    let inputs = inputs(store, &meta)?;
    let made = Made { engine: &meta.engine, source: &meta.source, text: &text, inputs: &inputs };
    if Key::of_run(&made) == key && meta.key == key.to_string() && meta.format == FORMAT {
        return Ok(meta);
    }
    Err(Damage::Key)
}

/// Carries out a run again and compares its bytes. Returns false without carrying it out if
/// `weir live` or another version of Weir made the run.
///
/// # Errors
/// The first damage.
pub fn again(store: &Store, key: Key) -> Result<bool, Damage> {
    let meta = files(store, key)?;
    if meta.engine != engine() || meta.source != Runner::Sim.name() {
        return Ok(false);
    }
    let path = store.path(key).join(SCENARIO);
    let text = fs::read_to_string(path).map_err(|_| Damage::Missing(SCENARIO.to_owned()))?;
    // The first line is the seed, which `simulate` puts in front of the body again.
    let body = text.split_once('\n').map_or("", |(_, body)| body).to_owned();
    let (inputs, seeds) = (inputs(store, &meta)?, TaskSeeds::List(vec![meta.seed]));
    let task = Task { point: 0, body, inputs, seeds, by: Runner::Sim };
    let (made, events) =
        task.simulate(store, meta.seed, &Progress::default()).map_err(Damage::Again)?;
    for (name, content) in &made {
        let stored = fs::read(store.path(key).join(name));
        if !stored.is_ok_and(|stored| stored == *content) {
            return Err(Damage::Differs(name.clone()));
        }
    }
    let expected = to_text(&Meta { events, ..meta });
    let stored = fs::read(store.path(key).join(META));
    if stored.is_ok_and(|stored| stored == expected.as_bytes()) {
        return Ok(true);
    }
    Err(Damage::Differs(META.to_owned()))
}

fn inputs(store: &Store, meta: &Meta) -> Result<Vec<(String, Key)>, Damage> {
    let read = |(name, hash): (&String, &String)| {
        let key: Key = hash.parse().map_err(|_| Damage::Key)?;
        store.input(key).map_err(|error| Damage::Input(name.clone(), error))?;
        Ok((name.clone(), key))
    };
    meta.inputs.iter().map(read).collect()
}

const SCENARIO: &str = "scenario.toml";
