//! Finds the containers of an engine that run now.

use super::api::Api;
use super::container::{Container, Inspected, LIST, Listed, MOST_CONTAINERS, inspect};
use super::kind::Engine;
use crate::error::AttachError;
use crate::pattern::Pattern;

/// The running containers with matching names, sorted by name. A container also matches by the
/// beginning of its identifier.
///
/// # Errors
/// The engine does not answer, no running container matches, or more than [`MOST_CONTAINERS`] do.
pub(crate) fn running(engine: Engine, pattern: &Pattern) -> Result<Vec<Container>, AttachError> {
    let api = Api::of(engine)?;
    let listed: Vec<Listed> = api.get(LIST)?;
    let mut containers = Vec::new();
    // The engine answers no request about a container that is starting. The list does not show such
    // a container as running, so it is left out.
    let runs = |item: &&Listed| item.fits(pattern) && !NOT_RUNNING.contains(&&*item.state);
    for item in listed.iter().filter(runs) {
        if containers.len() >= MOST_CONTAINERS {
            return Err(AttachError::Engine(format!(
                "more than {MOST_CONTAINERS} containers match {engine}:{pattern}"
            )));
        }
        // A container may vanish between the two requests.
        let Ok(inspected) = api.get::<Inspected>(&inspect(&item.id)) else { continue };
        let Some(container) = inspected.running() else { continue };
        containers.push(Container { name: item.name().to_owned(), ..container });
    }
    if containers.is_empty() {
        let stopped = listed.iter().any(|item| item.fits(pattern));
        let mut names: Vec<&str> =
            listed.iter().filter(|item| item.state == "running").map(Listed::name).collect();
        names.sort_unstable();
        names.truncate(MOST_NAMES);
        let known = match names.len() {
            0 => format!("; {engine} runs none"),
            _ => format!("; {engine} runs {}", names.join(", ")),
        };
        let what = match pattern {
            Pattern::Name(name) if stopped => format!("running container {name} (it has stopped)"),
            Pattern::Name(name) => format!("running container {name}"),
            Pattern::Expression(regex) => format!("running container whose name matches {regex}"),
        };
        return Err(AttachError::Missing { what, known });
    }
    containers.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(containers)
}

/// The listed states of containers without a process.
const NOT_RUNNING: [&str; 3] = ["created", "exited", "dead"];
/// Maximum number of names in an error.
const MOST_NAMES: usize = 20;
