//! The arguments of `compose up`. Weir runs two commands in place of `compose up`: one creates the
//! containers, the other starts them.

use std::ffi::{OsStr, OsString};

use super::error::ComposeError;

/// The user's arguments for `compose up`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpArguments {
    /// The options that concern the creation of containers; both commands get them.
    create: Vec<OsString>,
    all: Vec<OsString>,
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
        let mut arguments = UpArguments { all: words.to_vec(), ..UpArguments::default() };
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let Some(text) = word.to_str().filter(|text| text.starts_with('-')) else {
                arguments.services.push(word.clone());
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
            if CREATE.contains(&name) || CREATE_WITH_VALUE.contains(&name) {
                arguments.create.push(word.clone());
                arguments.create.extend(value.cloned());
            }
        }
        Ok(arguments)
    }

    /// The arguments for the command that creates the containers.
    pub(super) fn for_creation(&self) -> impl Iterator<Item = &OsStr> {
        let first = std::iter::once(OsStr::new("--no-start"));
        first.chain(self.create.iter().chain(&self.services).map(OsString::as_os_str))
    }

    /// The arguments for the command that starts the containers.
    pub(super) fn for_start(&self) -> impl Iterator<Item = &OsStr> {
        self.all.iter().map(OsString::as_os_str)
    }

    /// The names of services.
    pub fn services(&self) -> &[OsString] {
        &self.services
    }
}

/// Options that concern the creation of containers.
const CREATE: [&str; 8] = [
    "--build",
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
        assert_eq!(start, words.join(" "));
        let (create, _) = divided(&["--scale=web=3", "--timeout=5", "db", "--no-color"]).unwrap();
        assert_eq!(create, "--no-start --scale=web=3 db");
        assert_eq!(divided(&[]).unwrap(), ("--no-start".to_owned(), String::new()));
    }

    #[test]
    fn an_option_without_its_value_is_left_to_compose() {
        assert_eq!(divided(&["--scale"]).unwrap().0, "--no-start --scale");
        assert_eq!(divided(&["--exit-code-from"]).unwrap().1, "--exit-code-from");
    }

    #[test]
    fn options_that_do_not_suit_a_job_are_refused() {
        for word in REFUSED {
            let error = divided(&["--build", word]).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
