//! A job that a Compose file describes, put behind links.
//!
//! Compose creates the containers under a project name that no other project has. From then on,
//! their names, networks and control groups are known. Weir therefore prepares the links before a
//! container starts, and attaches the container between the setup of its network and its first
//! packet. A guard removes the project at the end, even if this process is killed.

mod arguments;
mod containers;
mod error;
mod project;

pub use arguments::UpArguments;
pub use containers::Containers;
pub use error::ComposeError;
pub use project::Project;
