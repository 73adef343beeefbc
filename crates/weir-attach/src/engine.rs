//! Container engines: Docker, and Podman, which has the same API.

mod api;
mod container;
#[cfg(test)]
mod fake;
mod kind;
mod running;
mod watch;

pub(crate) use api::Api;
pub use container::{Container, LONGEST_LABEL, Labels, MOST_LABELS};
pub(crate) use container::{MOST_CONTAINERS, shorten};
pub use kind::Engine;
pub(crate) use running::running;
pub use watch::{Seen, Watch};
