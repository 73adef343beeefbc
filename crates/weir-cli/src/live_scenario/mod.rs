//! `weir live`: runs a scenario on real frames. [`weir_live::scenario`] does the work.

mod args;
mod load;
mod results;

use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use weir_control::api::SessionKind;
use weir_control::directory::Name;
use weir_linux::live::Realtime;
use weir_linux::process::Signals;
use weir_live::changes::Changes;
use weir_live::remote::{About, Reserved, Served};
use weir_live::scenario::{Follower, LiveScenario, Ran, ScenarioError, ScenarioSetup, links};
use weir_live::{Control, Tuning};

pub(crate) use args::LiveArgs;

use crate::live::{neighbours, wall_time};
use crate::output::{Failure, say};
use crate::plan::{Plan, Running};
use crate::remote;
use crate::web::Page;

/// `weir live`.
pub(crate) fn live(args: &LiveArgs) -> Result<ExitCode, Failure> {
    let source = load::load(args)?;
    results::check(args)?;
    if args.seed.is_some() && !args.quiet {
        say(format_args!("weir: seed {}\n", source.scenario.seed));
    }
    let plan = Plan::of_links(&args.plan, &links(&source.scenario))?;
    let tuning = Tuning {
        spin: args.spin,
        realtime: if args.no_realtime { Realtime::Off } else { Realtime::WhenAllowed },
        cpu: args.cpu,
        ..Tuning::default()
    };
    let page = Page::bind(&args.web)?;
    let mut collected = results::Collected::default();
    let mut code = ExitCode::SUCCESS;
    for run in 0..u64::from(args.runs) {
        let mut scenario = source.scenario.clone();
        scenario.seed = scenario.seed.saturating_add(run);
        let seed = scenario.seed;
        let setup = ScenarioSetup {
            scenario,
            text: source.text.clone(),
            file: source.file.clone(),
            mtu: args.mtu,
            neighbours: neighbours(args.arp),
            tuning,
            generator: vec!["/proc/self/exe".into(), "traffic".into()],
            name: String::new(),
            keep: args.keep,
        };
        let results = match once(setup, args, plan.clone(), page.as_ref(), run == 0)? {
            Ran::Complete(results) => results,
            Ran::Signal(number) => {
                return Ok(ExitCode::from(u8::try_from(128 + number).unwrap_or(u8::MAX)));
            }
        };
        let several = args.runs > 1;
        for note in results.notes.iter().filter(|_| !args.quiet) {
            let place = if several { format!("seed {seed}: ") } else { String::new() };
            say(format_args!("weir: note: {place}{note}\n"));
        }
        collected.outcomes.push(results.outcome);
        collected.nodes.push(results.nodes);
        let named = |name: String| if several { format!("{name}.{seed}") } else { name };
        let named = |(name, text): (String, Vec<u8>)| (named(name), text);
        collected.printed.extend(results.printed.into_iter().map(named));
        collected.logs.extend(results.logs.into_iter().map(named));
        if let Some(failed) = results.failed {
            code = ExitCode::from(failed);
        }
        if let Some(number) = results.signal.filter(|_| !args.keep) {
            code = ExitCode::from(u8::try_from(128 + number).unwrap_or(u8::MAX));
            break;
        }
    }
    results::write(args, &source, collected)?;
    Ok(code)
}

/// Makes one run. A signal during the set-up of the first run kills the process. After that set-up,
/// the process blocks the signals and reads them from a descriptor. It does so before the run
/// starts a thread, because a thread that already exists would not block them.
fn once(
    mut setup: ScenarioSetup,
    args: &LiveArgs,
    plan: Plan,
    page: Option<&Page>,
    is_first: bool,
) -> Result<Ran, Failure> {
    let (quiet, seed, scenario) = (args.quiet, setup.scenario.seed, setup.scenario.name.clone());
    let stem = args.scenario.file_stem().unwrap_or_default();
    let reserved = remote::reserve(args.name.as_ref(), &Name::of_program(stem), quiet)?;
    setup.name = match &reserved {
        Some(reserved) => reserved.name().to_string(),
        None => format!("weir-{}", std::process::id()),
    };
    let run = LiveScenario::build(setup).map_err(failure)?;
    let reserved = reserved.map(|reserved| reserved.with_hosts(run.board()));
    for note in run.notes().iter().filter(|_| is_first) {
        say(format_args!("weir: note: {}\n", note.what));
    }
    let signals = Signals::take()
        .map_err(|error| Failure::of_weir(format!("cannot take signals: {error}")))?;
    if args.keep && !quiet {
        say(format_args!("weir: the hosts stay up until ^C or `weir stop`\n"));
    }
    let mut remote = Remote {
        scenario,
        seed,
        quiet,
        reserved,
        page,
        plan: Some(plan),
        running: None,
        failed: None,
    };
    let mut ran = run.run(&signals, &mut remote).map_err(failure)?;
    if let Some(failed) = remote.failed {
        return Err(failed);
    }
    let Some((changes, served, plan)) = remote.running else { return Ok(ran) };
    let unfinished = plan.and_then(Running::finish);
    if let Ran::Complete(results) = &mut ran {
        results.notes.extend(changes.notes().into_iter().chain(unfinished));
    }
    drop(served);
    Ok(ran)
}

/// Serves the control socket and the page of a run, and carries out its plan.
struct Remote<'a> {
    scenario: String,
    seed: u64,
    quiet: bool,
    /// The socket, until it is served.
    reserved: Option<Reserved>,
    page: Option<&'a Page>,
    /// The plan, until it starts.
    plan: Option<Plan>,
    /// Why the page is not served.
    failed: Option<Failure>,
    /// The changes, the socket and the plan, once the links run.
    running: Option<(Changes, Option<Served>, Option<Running>)>,
}

impl Follower for Remote<'_> {
    fn started(&mut self, control: &Control) {
        let about = About {
            kind: SessionKind::Live,
            command: vec![self.scenario.clone()],
            since: wall_time(SystemTime::now()),
            seed: self.seed,
        };
        let changes = Changes::new(control);
        let reserved = self.reserved.take();
        let served = remote::serve(reserved, about, &changes, self.page, self.quiet);
        let served = served.unwrap_or_else(|failure| {
            control.stop();
            self.failed = Some(failure);
            None
        });
        self.running = Some((changes, served, None));
    }

    fn begins(&mut self, at: Instant) {
        if let (Some((changes, _, running)), Some(plan)) = (&mut self.running, self.plan.take()) {
            changes.begin(at);
            *running = plan.start(changes);
        }
    }
}

fn failure(error: ScenarioError) -> Failure {
    match error {
        ScenarioError::Program(error) => Failure::new(error.exit_code(), error),
        ScenarioError::Lab(error) => Failure::new(error.exit_code(), error),
        ScenarioError::Build(error) => crate::live::not_built(&error),
        error => Failure::of_weir(error),
    }
}
