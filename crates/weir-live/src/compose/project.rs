//! A project of Compose: its files, its name, and the commands that create, start and remove it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use weir_linux::helper::{Duty, Guard};
use weir_linux::process::find_tool;

use super::arguments::UpArguments;
use super::error::ComposeError;

/// A project of Compose, which need not exist yet.
#[derive(Clone, Debug)]
pub struct Project {
    /// The words that start Compose.
    tool: Vec<OsString>,
    files: Vec<PathBuf>,
    name: String,
    services: Vec<String>,
}

impl Project {
    /// The project of these files, which the installed Compose checks. The name of the project
    /// contains the first characters of `like`, and no other project has this name.
    ///
    /// # Errors
    /// See [`ComposeError`]. After an error, nothing has been started.
    pub fn of_files(files: Vec<PathBuf>, like: &str) -> Result<Project, ComposeError> {
        for path in &files {
            let failed = |source| ComposeError::File { path: path.clone(), source };
            if fs::metadata(path).map_err(failed)?.is_dir() {
                return Err(failed(io::ErrorKind::IsADirectory.into()));
            }
            fs::File::open(path).map_err(failed)?;
        }
        let tool = tool().ok_or(ComposeError::NoTool)?;
        let mut project = Project { tool, files, name: unique(like), services: Vec::new() };
        let listed = project.command(["config", "--services"]);
        let (first, rest) = listed.split_first().ok_or(ComposeError::NoTool)?;
        let output = Command::new(first).args(rest).stdin(Stdio::null()).output();
        let what = format!("running {}", project.tool_name());
        let output = output.map_err(|source| ComposeError::System { what, source })?;
        if !output.status.success() {
            return Err(ComposeError::Refused {
                path: project.files.first().cloned().unwrap_or_default(),
                tool: project.tool_name(),
                reason: String::from_utf8_lossy(&output.stderr).into_owned(),
            });
        }
        let text = String::from_utf8_lossy(&output.stdout);
        project.services = text.lines().map(str::to_owned).collect();
        Ok(project)
    }

    /// The name of the project.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The services that the files describe.
    #[must_use]
    pub fn services(&self) -> &[String] {
        &self.services
    }

    /// Checks that there is a service with this name.
    ///
    /// # Errors
    /// [`ComposeError::NoService`].
    pub fn check_service(&self, name: &str) -> Result<(), ComposeError> {
        if self.services.iter().any(|service| service == name) {
            return Ok(());
        }
        let known = match self.services.len() {
            0 => "the file has none".to_owned(),
            _ => format!("the file has {}", self.services.join(", ")),
        };
        Err(ComposeError::NoService { name: name.to_owned(), known })
    }

    /// The command that creates the containers and networks.
    #[must_use]
    pub fn creation(&self, arguments: &UpArguments) -> Vec<OsString> {
        self.command([OsStr::new("up")].into_iter().chain(arguments.for_creation()))
    }

    /// The command that starts the containers and waits for them.
    #[must_use]
    pub fn start(&self, arguments: &UpArguments) -> Vec<OsString> {
        self.command([OsStr::new("up")].into_iter().chain(arguments.for_start()))
    }

    /// Starts the process that removes the project when this process has ended. The new process
    /// removes the containers, networks and volumes, and the images that were built without a name
    /// of their own. If `shown`, messages of the removal appear on standard error after an orderly
    /// end.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn guard(&self, shown: bool) -> Result<Guard, ComposeError> {
        let down =
            self.command(["down", "--volumes", "--remove-orphans", "--rmi", "local", "-t", GRACE]);
        let script = REMOVAL.replace("PROJECT", &self.name);
        let otherwise = ["/bin/sh", "-c", &script].map(OsString::from).to_vec();
        let duty = Duty { undo: down, otherwise, attempts: 2, within: LONGEST_REMOVAL };
        let guard = Guard::start(shown).and_then(|guard| guard.entrust(duty).map(|()| guard));
        guard.map_err(|source| ComposeError::System { what: "starting a guard".into(), source })
    }

    /// The command of Compose, as users type it.
    #[must_use]
    pub fn tool_name(&self) -> String {
        let words: Vec<_> = self.tool.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    /// A command of Compose for this project.
    fn command<W: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = W>) -> Vec<OsString> {
        let mut command = self.tool.clone();
        for file in &self.files {
            command.extend([OsStr::new("-f"), file.as_os_str()].map(OsStr::to_owned));
        }
        command.extend(["-p", &self.name].map(OsString::from));
        command.extend(words.into_iter().map(|word| word.as_ref().to_owned()));
        command
    }
}

/// The installed Compose: the plugin of `docker`, or the older program.
fn tool() -> Option<Vec<OsString>> {
    let plugin = ["docker", "compose"].map(OsString::from).to_vec();
    let program = vec![OsString::from("docker-compose")];
    [plugin, program].into_iter().find(|words| {
        find_tool(&words[0].to_string_lossy()).is_some()
            && Command::new(&words[0])
                .args(&words[1..])
                .arg("version")
                .stdin(Stdio::null())
                .output()
                .is_ok_and(|output| output.status.success())
    })
}

/// A name that no other project has. It contains the number of this process and digits of the time,
/// because another process may later have the same number.
fn unique(like: &str) -> String {
    let plain: String = like
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(MOST_LIKE)
        .collect();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let digits = now.map_or(0, |since| since.subsec_micros());
    format!("weir-{}-{}-{digits:x}", plain.trim_matches('-'), std::process::id())
}

/// Seconds between SIGTERM and SIGKILL for containers when the project is removed. In an orderly
/// end, `compose up` has already stopped the containers, with their own grace periods.
const GRACE: &str = "3";
/// The longest time that a command of a removal may take.
const LONGEST_REMOVAL: Duration = Duration::from_secs(120);
/// Maximum number of characters of a project's name that come from the user.
const MOST_LIKE: usize = 20;
/// Removes a project without Compose, for example after its file was deleted.
const REMOVAL: &str = "\
    f=label=com.docker.compose.project=PROJECT
    c=$(docker ps -aq --filter $f) || exit 1
    [ -z \"$c\" ] || docker rm -fv $c || exit 1
    n=$(docker network ls -q --filter $f) || exit 1
    [ -z \"$n\" ] || docker network rm $n || exit 1
    v=$(docker volume ls -q --filter $f) || exit 1
    [ -z \"$v\" ] || docker volume rm $v";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_projects_are_valid_and_differ() {
        for like in ["Shop", "my shop/v2", "", "--", "ä", &"x".repeat(100)] {
            let name = unique(like);
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(name.starts_with("weir-") && name.chars().all(plain), "{name}");
            assert!(name.len() < 60, "{name}");
        }
    }

    #[test]
    fn commands_name_the_files_and_the_project() {
        let project = Project {
            tool: vec!["docker-compose".into()],
            files: vec!["a.yml".into(), "b.yml".into()],
            name: "weir-x".to_owned(),
            services: vec!["web".to_owned()],
        };
        let words = ["--exit-code-from", "web"].map(OsString::from);
        let arguments = UpArguments::new(&words).unwrap();
        let text = |words: Vec<OsString>| words.join(OsStr::new(" ")).into_string().unwrap();
        let fixed = "docker-compose -f a.yml -f b.yml -p weir-x up";
        assert_eq!(
            text(project.start(&arguments)),
            format!("{fixed} --no-recreate --exit-code-from web")
        );
        assert_eq!(text(project.creation(&arguments)), format!("{fixed} --no-start"));
        assert!(project.check_service("web").is_ok());
        let error = project.check_service("db").unwrap_err().to_string();
        assert!(error.contains("the file has web"), "{error}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Project::of_files(vec!["/no/such/file.yml".into()], "x").unwrap_err();
        assert!(error.to_string().starts_with("--compose /no/such/file.yml: "), "{error}");
        let error = Project::of_files(vec!["/".into()], "x").unwrap_err();
        assert!(error.to_string().contains("directory"), "{error}");
    }
}
