//! Runs programs behind a simple link: the smallest program that uses `topology`. It serves the
//! tests of `topology`, and shows whether a machine has what `topology` needs.
//!
//! `surround run [tap|packet] [closed] [slow] [count] -- COMMAND…`,
//! `surround pair [tap|packet] [slow] [count] -- LEFT… -- RIGHT…`,
//! `surround bridge [slow] [count] IF1 IF2`, `surround doctor`. The link has a delay of 1 ms;
//! `slow` makes it 4 Mbit/s and 20 ms. With `closed`, the program reaches only the machine. `count`
//! writes the counters of each direction to standard error, once after the packets of the setup
//! have passed and once at the end.

use std::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_core::config::{Capacity, LinkConfig, PipeConfig};
use weir_core::{Nanos, Rate};
use weir_linux::live::{Gso, LaneConfig, Live, LiveConfig, LiveHandle};
use weir_linux::process::Signals;
use weir_linux::topology::{
    Backend, BridgeSetup, EndedBy, Outcome, PairSetup, RunSetup, Session, Side, SpawnError, bridge,
    pair, run,
};
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
    let options: Vec<&str> =
        parts.next().unwrap_or_default().iter().filter_map(|word| word.to_str()).collect();
    let commands: Vec<&[OsString]> = parts.collect();
    let backend = match &options[..] {
        [_, "tap", ..] => Backend::Tap,
        [_, "packet", ..] => Backend::Packet,
        _ => Backend::Auto,
    };
    let outside = !options.contains(&"closed");
    let link = LinkOptions { slow: options.contains(&"slow"), count: options.contains(&"count") };
    let mut session = match options.first() {
        Some(&"run") => run(&RunSetup { backend, outside, ..RunSetup::default() })?,
        Some(&"pair") => pair(&PairSetup { backend, ..PairSetup::default() })?,
        Some(&"bridge") => {
            let [.., left, right] = &options[..] else {
                return Err("a bridge joins two interfaces".into());
            };
            bridge(&BridgeSetup { left: (*left).into(), right: (*right).into() })?
        }
        Some(&"doctor") => {
            for check in probe::probe() {
                println!("{:<22} {:?}: {}", check.name, check.status, check.detail);
                if let Some(remedy) = check.remedy {
                    println!("{:<22} -> {remedy}", "");
                }
            }
            return Ok(0);
        }
        _ => {
            return Err(
                "usage: surround run|pair|bridge|doctor …; see the head of its source".into()
            );
        }
    };
    for note in session.notes() {
        eprintln!(
            "note: {}{}",
            note.what,
            note.remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default()
        );
    }
    let outcome = drive(&mut session, &signals, &commands, &link)?;
    for end in outcome.programs.iter().filter(|end| end.background > 0) {
        eprintln!("{} background processes were ended with the namespace", end.background);
    }
    for note in session.close().notes {
        eprintln!("note: {}", note.what);
    }
    Ok(outcome.exit_code())
}

struct LinkOptions {
    slow: bool,
    count: bool,
}

/// Joins the ports by a link and runs the programs until they have ended.
fn drive(
    session: &mut Session,
    signals: &Signals,
    commands: &[&[OsString]],
    options: &LinkOptions,
) -> Result<Outcome, Box<dyn Error>> {
    let ports = session.take_ports().ok_or("the ports are taken once")?;
    let lane = |name: &str, from, to, pipe| LaneConfig {
        name: name.into(),
        from,
        to,
        pipe,
        passes: Vec::new(),
        gso: Gso::Split,
    };
    let mut config =
        LiveConfig::new(ports.into(), vec![lane("up", 0, 1, 1), lane("down", 1, 0, 2)]);
    let mut link = LinkConfig { delay: Nanos::from_millis(1), ..LinkConfig::default() };
    if options.slow {
        link.delay = Nanos::from_millis(20);
        link.capacity = Rate::new(4_000_000).map_or(Capacity::Unlimited, Capacity::Constant);
    }
    config.pipes = [1, 2]
        .map(|id| {
            (id, PipeConfig { link: link.clone(), queue: Default::default(), scheduler: None })
        })
        .into();
    let mut live = Live::new(config)?;
    let handle = live.handle();
    let stop = Arc::new(AtomicBool::new(false));
    let (stop_live, stopper) = (Arc::clone(&stop), session.stopper());
    let driver = std::thread::spawn(move || {
        let result = live.run(&stop_live).map(|_| ()).map_err(|error| error.to_string());
        stopper.stop();
        result
    });
    if options.count {
        let handle = handle.clone();
        // This thread ends after it has written the counters once, or with the process.
        std::thread::spawn(move || {
            std::thread::sleep(SETTLED);
            count("settled", &handle);
        });
    }
    for (command, side) in commands.iter().zip([Side::Left, Side::Right]) {
        session.spawn(side, command)?;
    }
    let outcome = session.wait(signals, None)?;
    if options.count {
        count("end", &handle);
    }
    stop.store(true, Ordering::Relaxed);
    if outcome.ended_by == EndedBy::Stopped {
        driver.join().map_err(|_| "the live loop panicked")??;
    }
    Ok(outcome)
}

/// Writes one line for each direction: packets in, out and dropped.
fn count(when: &str, handle: &LiveHandle) {
    let Ok(report) = handle.report() else { return };
    for lane in report.lanes {
        let counters = &lane.counters;
        eprintln!(
            "{when} {} {} {} {}",
            lane.name,
            counters.packets_in,
            counters.packets_out,
            counters.total_drops()
        );
    }
}

/// The time after which the kernels at both ends have sent their setup packets. Later packets come
/// from programs.
const SETTLED: Duration = Duration::from_millis(200);
