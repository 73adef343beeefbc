//! The arguments of `compose up`. Weir runs two commands in place of `compose up`: one creates the
//! containers, the other starts them.

use std::ffi::{OsStr, OsString};

use super::error::ComposeError;

/// The user's arguments for `compose up`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpArguments {
    /// The options that concern the creation of containers.
    create: Vec<OsString>,
    /// All arguments, except options with which the second command would replace the containers.
    start: Vec<OsString>,
    /// The names of services.
    services: Vec<OsString>,
}

impl UpArguments {
    /// Finds the options for creation and the services among the arguments.
    ///
    /// # Errors
    /// With one of the options, `compose up` does not wait for the containers, does not start them,
    /// or replaces them while it runs.
    pub fn new(words: &[OsString]) -> Result<UpArguments, ComposeError> {
        let mut arguments = UpArguments::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let Some(text) = word.to_str().filter(|text| text.starts_with('-')) else {
                arguments.services.push(word.clone());
                arguments.start.push(word.clone());
                continue;
            };
            let (name, has_value) = match text.split_once('=') {
                Some((name, _)) => (name, true),
                None => (text, false),
            };
            if REFUSED.contains(&name) {
                return Err(ComposeError::Option { option: name.to_owned() });
            }
            let value =
                if has_value || !(CREATE_WITH_VALUE.contains(&name) || VALUE.contains(&name)) {
                    None
                } else {
                    rest.next()
                };
            let words = || std::iter::once(word).chain(value).cloned();
            if CREATE.contains(&name) || CREATE_WITH_VALUE.contains(&name) {
                arguments.create.extend(words());
            }
            if !ONLY_CREATE.contains(&name) {
                arguments.start.extend(words());
            }
        }
        Ok(arguments)
    }

    /// The arguments for the command that creates the containers.
    pub(super) fn for_creation(&self) -> impl Iterator<Item = &OsStr> {
        let first = std::iter::once(OsStr::new("--no-start"));
        first.chain(self.create.iter().chain(&self.services).map(OsString::as_os_str))
    }

    /// The arguments for the command that starts the containers. It must not replace them, since
    /// their links are prepared.
    pub(super) fn for_start(&self) -> impl Iterator<Item = &OsStr> {
        let first = std::iter::once(OsStr::new(KEEP));
        first.chain(self.start.iter().map(OsString::as_os_str))
    }

    /// The names of services.
    pub fn services(&self) -> &[OsString] {
        &self.services
    }
}

/// Options that concern the creation of containers.
const CREATE: [&str; 12] = [
    "--build",
    "--force-recreate",
    "--always-recreate-deps",
    "-V",
    "--renew-anon-volumes",
    "--no-build",
    "--quiet-pull",
    "--quiet-build",
    "--no-deps",
    "--remove-orphans",
    "-y",
    "--yes",
];
/// Options that concern the creation of containers, with a value in the next word.
const CREATE_WITH_VALUE: [&str; 2] = ["--scale", "--pull"];
/// The option with which `compose up` replaces no container.
const KEEP: &str = "--no-recreate";
/// Options of which the command that starts the containers gets none: most contradict [`KEEP`].
const ONLY_CREATE: [&str; 7] = [
    KEEP,
    "--build",
    "--pull",
    "--force-recreate",
    "--always-recreate-deps",
    "-V",
    "--renew-anon-volumes",
];
/// Other options with a value in the next word.
const VALUE: [&str; 6] =
    ["-t", "--timeout", "--exit-code-from", "--attach", "--no-attach", "--wait-timeout"];
/// Options with which `compose up` does not wait for the containers, does not start them, or
/// replaces them while it runs.
const REFUSED: [&str; 7] = ["-d", "--detach", "--no-start", "--wait", "-w", "--watch", "--dry-run"];

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(words: &[&str]) -> Result<(String, String), ComposeError> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let text = |words: Vec<&OsStr>| words.join(OsStr::new(" ")).into_string().unwrap();
        let arguments = UpArguments::new(&words)?;
        Ok((text(arguments.for_creation().collect()), text(arguments.for_start().collect())))
    }

    #[test]
    fn the_creation_gets_its_own_options_and_the_services() {
        let words = ["--scale", "web=3", "--build", "--exit-code-from", "client", "-t", "2", "web"];
        let (create, start) = divided(&words).unwrap();
        assert_eq!(create, "--no-start --scale web=3 --build web");
        assert_eq!(start, "--no-recreate --scale web=3 --exit-code-from client -t 2 web");
        let (create, _) = divided(&["--scale=web=3", "--timeout=5", "db", "--no-color"]).unwrap();
        assert_eq!(create, "--no-start --scale=web=3 db");
        assert_eq!(divided(&[]).unwrap(), ("--no-start".to_owned(), KEEP.to_owned()));
    }

    #[test]
    fn the_start_does_not_replace_the_containers() {
        let words = ["--force-recreate", "--pull", "always", "--always-recreate-deps", "--no-deps"];
        let (create, start) = divided(&words).unwrap();
        assert_eq!(create, format!("--no-start {}", words.join(" ")));
        assert_eq!(start, "--no-recreate --no-deps");
        assert_eq!(divided(&["--pull=always", KEEP, "web"]).unwrap().1, "--no-recreate web");
    }

    #[test]
    fn an_option_without_its_value_is_left_to_compose() {
        assert_eq!(divided(&["--scale"]).unwrap().0, "--no-start --scale");
        assert_eq!(divided(&["--exit-code-from"]).unwrap().1, "--no-recreate --exit-code-from");
    }

    #[test]
    fn options_that_do_not_suit_a_job_are_refused() {
        for word in REFUSED {
            let error = divided(&["--build", word]).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
