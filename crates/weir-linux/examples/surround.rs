//! Runs programs behind a plain 1 ms link: the smallest user of `topology`, for its tests and for trying a machine out.
//!
//! `surround run [tap|packet] [closed] -- COMMAND…`, `surround pair [tap|packet] -- LEFT… -- RIGHT…`, `surround doctor`.

use std::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_core::Nanos;
use weir_core::config::{LinkConfig, PipeConfig};
use weir_linux::live::{Gso, LaneConfig, Live, LiveConfig};
use weir_linux::process::Signals;
use weir_linux::topology::{Backend, EndedBy, PairSetup, RunSetup, Session, Side, SpawnError, pair, run};
use weir_linux::{helper, probe};

fn main() -> ExitCode {
    if let Some(code) = helper::main_if_helper() {
        return code;
    }
    match surround() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("surround: {error}");
            ExitCode::from(error.downcast_ref::<SpawnError>().map_or(125, SpawnError::exit_code))
        }
    }
}

fn surround() -> Result<u8, Box<dyn Error>> {
    let signals = Signals::take()?;
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut parts = words.split(|word| word == "--");
    let options: Vec<&str> = parts.next().unwrap_or_default().iter().filter_map(|word| word.to_str()).collect();
    let commands: Vec<&[OsString]> = parts.collect();
    let backend = match &options[..] {
        [_, "tap", ..] => Backend::Tap,
        [_, "packet", ..] => Backend::Packet,
        _ => Backend::Auto,
    };
    let outside = !options.contains(&"closed");
    let mut session = match options.first() {
        Some(&"run") => run(&RunSetup { backend, outside, ..RunSetup::default() })?,
        Some(&"pair") => pair(&PairSetup { backend, ..PairSetup::default() })?,
        Some(&"doctor") => {
            for check in probe::probe() {
                println!("{:<22} {:?}: {}", check.name, check.status, check.detail);
                if let Some(remedy) = check.remedy {
                    println!("{:<22} -> {remedy}", "");
                }
            }
            return Ok(0);
        }
        _ => return Err("usage: surround run|pair [tap|packet] [closed] -- COMMAND… [-- COMMAND…]".into()),
    };
    for note in session.notes() {
        eprintln!("note: {}{}", note.what, note.remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default());
    }
    let outcome = drive(&mut session, &signals, &commands)?;
    for end in outcome.programs.iter().filter(|end| end.background > 0) {
        eprintln!("{} background processes were ended with the namespace", end.background);
    }
    for note in session.close().notes {
        eprintln!("note: {}", note.what);
    }
    Ok(outcome.exit_code())
}

/// Joins the ports and runs the programs until they are over.
fn drive(session: &mut Session, signals: &Signals, commands: &[&[OsString]]) -> Result<weir_linux::topology::Outcome, Box<dyn Error>> {
    let ports = session.take_ports().ok_or("the ports are taken once")?;
    let lane = |name: &str, from, to, pipe| LaneConfig { name: name.into(), from, to, pipe, gso: Gso::Split };
    let mut config = LiveConfig::new(ports.into(), vec![lane("up", 0, 1, 1), lane("down", 1, 0, 2)]);
    let link = LinkConfig { delay: Nanos::from_millis(1), ..LinkConfig::default() };
    config.pipes = [1, 2].map(|id| (id, PipeConfig { link: link.clone(), queue: Default::default() })).into();
    let mut live = Live::new(config)?;
    let stop = Arc::new(AtomicBool::new(false));
    let (stop_live, stopper) = (Arc::clone(&stop), session.stopper());
    let driver = std::thread::spawn(move || {
        let result = live.run(&stop_live).map(|_| ()).map_err(|error| error.to_string());
        stopper.stop();
        result
    });
    for (command, side) in commands.iter().zip([Side::Left, Side::Right]) {
        session.spawn(side, command)?;
    }
    let outcome = session.wait(signals, None)?;
    stop.store(true, Ordering::Relaxed);
    if outcome.ended_by == EndedBy::Stopped {
        driver.join().map_err(|_| "the live loop panicked")??;
    }
    Ok(outcome)
}
