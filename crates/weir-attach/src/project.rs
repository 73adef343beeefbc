//! The containers of a Compose project, found by the labels that Compose gives them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::engine::{Api, Engine};
use crate::error::AttachError;
use crate::starting::Starting;

/// A container of a project, running or not.
#[derive(Clone, Debug)]
pub struct Member {
    /// The service that the container belongs to.
    pub service: String,
    /// The container's number within the service, from 1 on.
    pub number: u32,
    /// The name of the container.
    pub container: String,
    /// The container's networks, or the reason why it has no networks of its own.
    pub networks: Networks,
    /// Finds the container while it starts.
    pub starting: Starting,
}

/// The networks of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Networks {
    /// The container is in this many networks, with an interface for each.
    Own(usize),
    /// The container has no network of its own, for this reason.
    Without(&'static str),
}

/// The containers of a Compose project in Docker, ordered by service and number.
///
/// # Errors
/// The text is no name of a project, or the engine does not answer, or has more than a thousand
/// such containers.
pub fn members(project: &str) -> Result<Vec<Member>, AttachError> {
    let api = Api::of(Engine::Docker)?;
    // The name becomes part of the JSON in the URL, so it must not have special characters.
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !project.chars().all(plain) {
        return Err(AttachError::Engine(format!("'{project}' is no name of a project")));
    }
    let filter = format!("%7B%22label%22%3A%5B%22{PROJECT}%3D{project}%22%5D%7D");
    let listed: Vec<Listed> = api.get(&format!("/containers/json?all=1&filters={filter}"))?;
    if listed.len() > MOST_MEMBERS {
        return Err(AttachError::Engine(format!(
            "the project has more than {MOST_MEMBERS} containers"
        )));
    }
    let mut members = Vec::new();
    for item in listed.iter().filter(|item| item.id.bytes().all(|b| b.is_ascii_hexdigit())) {
        let inspected: Inspected = api.get(&format!("/containers/{}/json", item.id))?;
        members.extend(inspected.member(&item.id));
    }
    members.sort_by(|a, b| (&a.service, a.number).cmp(&(&b.service, b.number)));
    Ok(members)
}

/// Whether Docker answers.
///
/// # Errors
/// The reason why Docker does not answer.
pub fn docker_answers() -> Result<(), AttachError> {
    Api::of(Engine::Docker)?.get::<IgnoredAny>("/info").map(|_| ())
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    id: String,
}

/// The parts of a container's description that this module reads.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    name: String,
    config: Config,
    host_config: HostConfig,
    network_settings: NetworkSettings,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Config {
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HostConfig {
    network_mode: String,
    #[serde(default)]
    cgroup_parent: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NetworkSettings {
    #[serde(default)]
    networks: BTreeMap<String, IgnoredAny>,
}

impl Inspected {
    /// This container as a member of the project; `None` if a user started it with `compose run`.
    fn member(self, id: &str) -> Option<Member> {
        let labels = &self.config.labels;
        if labels.get(ONE_OFF).is_some_and(|text| text == "True") {
            return None;
        }
        let networks = match &*self.host_config.network_mode {
            "host" => Networks::Without("it uses the machine's network"),
            "none" => Networks::Without("it has no network"),
            mode if mode.starts_with("container:") => {
                Networks::Without("it uses the network of another container")
            }
            _ => Networks::Own(self.network_settings.networks.len().max(1)),
        };
        Some(Member {
            service: labels.get(SERVICE)?.clone(),
            number: labels.get(NUMBER).and_then(|text| text.parse().ok()).unwrap_or(1),
            container: self.name.trim_start_matches('/').to_owned(),
            networks,
            starting: Starting::new(id, &self.host_config.cgroup_parent),
        })
    }
}

/// The names of the labels that Compose gives to containers.
const PROJECT: &str = "com.docker.compose.project";
const SERVICE: &str = "com.docker.compose.service";
const NUMBER: &str = "com.docker.compose.container-number";
const ONE_OFF: &str = "com.docker.compose.oneoff";
/// Maximum number of containers of a project. It bounds the number of links: Weir emulates two for
/// each interface of a container.
const MOST_MEMBERS: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn member(mode: &str, networks: &str, more: &str) -> Option<Member> {
        let text = format!(
            r#"{{"Name":"/shop_web_2","Config":{{"Labels":{{{more}}}}},
                "HostConfig":{{"NetworkMode":"{mode}","CgroupParent":""}},
                "NetworkSettings":{{"Networks":{networks}}}}}"#
        );
        serde_json::from_str::<Inspected>(&text).expect("it is JSON").member("0123abcd")
    }

    #[test]
    fn a_member_has_the_service_and_the_networks_of_its_container() {
        let labels = format!(r#""{SERVICE}":"web","{NUMBER}":"2","{ONE_OFF}":"False","other":"x""#);
        let web = member("shop_default", r#"{"a":{},"b":{"IPAddress":""}}"#, &labels).unwrap();
        assert_eq!((&*web.service, web.number, &*web.container), ("web", 2, "shop_web_2"));
        assert_eq!(web.networks, Networks::Own(2));
        for (mode, words) in [("host", "machine's"), ("none", "no network"), ("container:1", "of")]
        {
            let Networks::Without(reason) = member(mode, "{}", &labels).unwrap().networks else {
                panic!("{mode} has a network");
            };
            assert!(reason.contains(words), "{reason}");
        }
    }

    #[test]
    fn containers_of_compose_run_and_other_containers_are_not_members() {
        let labels = format!(r#""{SERVICE}":"web","{ONE_OFF}":"True""#);
        assert!(member("bridge", "{}", &labels).is_none());
        assert!(member("bridge", "{}", r#""a":"b""#).is_none());
    }

    #[test]
    fn a_project_name_cannot_change_the_request() {
        for name in ["a b", "a\"]}", "a%22", "../x", "a&b", "a\r\nHost: x"] {
            let error = members(name).unwrap_err().to_string();
            assert!(error.contains("no name of a project"), "{error}");
        }
    }
}
