//! `weir run --compose`: runs the job of a Compose file with each container behind a link.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use weir_attach::{AttachError, Selection, docker_answers, try_out};
use weir_control::api::SessionKind;
use weir_control::directory::Name;
use weir_linux::process::{Job, JobEvent, Signals};
use weir_live::FollowEnd;
use weir_live::compose::{ComposeError, Containers, Project, UpArguments};

use crate::args::RunArgs;
use crate::attach::{End, Scene, cannot_wait, check_wanted, drive, take_signals, tell};
use crate::output::{Failure, USAGE, WEIR_FAILED, say};
use crate::spec::{Wanted, directions};

/// `weir run --compose`.
pub(crate) fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    let RunArgs { access, compose: files, service: services, common, command: words, .. } = args;
    let specs = directions(&Wanted::access(&access))?;
    check_wanted(&access, &common)?;
    let quiet = common.quiet;
    let up = UpArguments::new(&words).map_err(refused)?;
    let name = name_of(&files);
    let project = Project::of_files(files, name.as_str()).map_err(refused)?;
    for service in &services {
        project.check_service(service).map_err(|error| refused(error).and(" (--service)"))?;
    }
    check_up(&project, &up)?;
    docker_answers().and_then(|()| try_out()).map_err(Failure::of_weir)?;

    let signals = take_signals()?;
    let guard = project.guard(!quiet).map_err(refused)?;
    if let Some(code) = create_containers(&project.creation(&up), &signals)? {
        say(
            "weir: compose could not create the containers; Weir removes what remains of the job\n",
        );
        return Ok(ExitCode::from(code));
    }
    let Containers { setup, awaited, left_out } =
        project.containers(&services, Selection::default()).map_err(refused)?;
    left_out.iter().for_each(|message| tell(message, quiet));
    if awaited.is_empty() {
        return Err(Failure::of_weir("no container of the job has a network of its own"));
    }
    let attached = setup.await_all(awaited).map_err(Failure::of_weir)?;

    let start = project.start(&up);
    let shown = std::iter::once(project.tool_name())
        .chain(start.iter().skip(project.tool_name().split(' ').count()).map(shown_word))
        .collect();
    let scene = Scene {
        kind: SessionKind::Run,
        name,
        words: shown,
        specs: &specs,
        limit: common.timeout,
        args: &common,
    };
    drive(attached, scene, Some(&signals), |session, signals, until| {
        let mut job =
            Job::start(&start, GRACE).map_err(|error| Failure::new(error.exit_code(), error))?;
        let ended = session
            .follow_job(&mut job, &guard, signals, until, |message| tell(message, quiet))
            .map_err(|error| cannot_wait(&error));
        drop(job);
        if !guard.finish() {
            say(format_args!(
                "weir: the project {} may have left containers or networks; `docker ps -a` and \
                 `docker network ls` list them\n",
                project.name()
            ));
        }
        Ok(match ended? {
            FollowEnd::Job { code, timed_out } => {
                End { code, note: timed_out.then(|| "ended by --timeout".to_owned()) }
            }
            FollowEnd::Stopped | FollowEnd::Signal(_) | FollowEnd::Time | FollowEnd::Gone => {
                End { code: WEIR_FAILED, note: Some("the links ended before the job".into()) }
            }
        })
    })
}

/// Returns the exit code of the command if it failed.
fn create_containers(command: &[OsString], signals: &Signals) -> Result<Option<u8>, Failure> {
    let mut job =
        Job::start(command, GRACE).map_err(|error| Failure::new(error.exit_code(), error))?;
    loop {
        match job.wait(signals, None, None).map_err(|error| cannot_wait(&error))? {
            JobEvent::Ended(0) => return Ok(None),
            JobEvent::Ended(code) => return Ok(Some(code)),
            // These events need a stopper or a time limit, and there is neither.
            JobEvent::Stopped | JobEvent::Time => {}
        }
    }
}

/// Refuses arguments for `compose up` that look like a program.
fn check_up(project: &Project, up: &UpArguments) -> Result<(), Failure> {
    // Compose does not list the services of an inactive profile, but accepts their names. A name
    // that is not in the list is therefore refused only if it looks like a program.
    let is_known = |word: &OsString| {
        let name = word.to_string_lossy();
        project.services().iter().any(|service| *service == *name)
    };
    let looks_like_a_program = |word: &OsString| {
        let text = word.to_string_lossy();
        text.contains(['/', ' ']) || weir_linux::process::find_tool(&text).is_some()
    };
    match up.services().first() {
        Some(word) if !is_known(word) && looks_like_a_program(word) => {
            let error = project.check_service(&word.to_string_lossy());
            let words = error.err().map(|error| error.to_string()).unwrap_or_default();
            Err(Failure::new(
                USAGE,
                format!(
                    "--compose runs the job of the file and no other command: the words after `--` \
                     are arguments for `compose up`, and {words}"
                ),
            ))
        }
        _ => Ok(()),
    }
}

/// The name of the session for these Compose files: the directory of the first file if that file
/// has a usual name, otherwise the name of the first file.
fn name_of(files: &[PathBuf]) -> Name {
    let Some(first) = files.first() else { return Name::of_program("compose".as_ref()) };
    let stem = first.file_stem().unwrap_or_default();
    if !USUAL_STEMS.iter().any(|usual| stem == *usual) {
        return Name::of_program(stem);
    }
    let directory =
        std::path::absolute(first).ok().and_then(|path| path.parent().map(PathBuf::from));
    Name::of_program(directory.unwrap_or_default().as_os_str())
}

fn shown_word(word: &OsString) -> String {
    word.to_string_lossy().into_owned()
}

fn refused(error: ComposeError) -> Failure {
    match error {
        ComposeError::File { .. }
        | ComposeError::Refused { .. }
        | ComposeError::Option { .. }
        | ComposeError::NoService { .. } => Failure::new(USAGE, error),
        ComposeError::Attach(AttachError::TooMany { .. })
        | ComposeError::Attach(_)
        | ComposeError::NoTool
        | ComposeError::System { .. } => Failure::of_weir(error),
    }
}

/// The grace period of a command of Compose after a request to end. By default, Compose gives each
/// container ten seconds to stop.
const GRACE: Duration = Duration::from_secs(30);
/// The usual names of Compose files, without their extensions.
const USUAL_STEMS: [&str; 2] = ["docker-compose", "compose"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_the_name_of_the_file_or_of_its_directory() {
        assert_eq!(name_of(&["/jobs/shop.yml".into()]).as_str(), "shop");
        assert_eq!(name_of(&["/jobs/my shop/compose.yml".into()]).as_str(), "my-shop");
        // The directory of this file is the root, which has no name.
        assert_eq!(name_of(&["/docker-compose.yaml".into()]).as_str(), "link");
    }
}
