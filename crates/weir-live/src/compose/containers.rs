//! The containers of a project that Weir puts behind links, with the names of the links.

use weir_attach::{Engine, Member, Networks, Pattern, Selection, Target, members};

use super::error::ComposeError;
use super::project::Project;
use crate::session::attached::{AttachSetup, Awaited};

/// The containers of a project that has been created.
#[derive(Debug)]
pub struct Containers {
    /// Puts the containers behind links when they start.
    pub setup: AttachSetup,
    /// The interfaces of the containers.
    pub awaited: Vec<Awaited>,
    /// The containers that cannot be shaped, each with the reason.
    pub left_out: Vec<String>,
}

impl Project {
    /// The containers of these services, or of all services if none are given. Compose has already
    /// created the containers.
    ///
    /// # Errors
    /// The engine does not answer.
    pub fn containers(
        &self,
        services: &[String],
        selection: Selection,
    ) -> Result<Containers, ComposeError> {
        let mut members = members(self.name())?;
        members.retain(|member| services.is_empty() || services.contains(&member.service));
        Ok(containers(members, selection))
    }
}

fn containers(members: Vec<Member>, selection: Selection) -> Containers {
    let mut targets = Vec::new();
    let mut awaited = Vec::new();
    let mut left_out = Vec::new();
    let names: Vec<String> = members.iter().map(|member| label(member, &members)).collect();
    for (member, label) in members.into_iter().zip(names) {
        let count = match member.networks {
            Networks::Own(count) => count,
            Networks::Without(reason) => {
                left_out.push(format!("{label} is not shaped: {reason}"));
                continue;
            }
        };
        for number in 0..count {
            let interface = format!("eth{number}");
            awaited.push(Awaited {
                target: targets.len(),
                container: member.container.clone(),
                label: if count == 1 { label.clone() } else { format!("{label}/{interface}") },
                interface,
                starting: member.starting.clone(),
            });
        }
        targets.push(Target::Container(Engine::Docker, Pattern::Name(member.container)));
    }
    let setup = AttachSetup { targets, interfaces: Vec::new(), selection };
    Containers { setup, awaited, left_out }
}

/// The name of a service, with the number of the container if the service has several containers.
fn label(member: &Member, members: &[Member]) -> String {
    let alike = members.iter().filter(|other| other.service == member.service).count();
    match alike {
        1 => member.service.clone(),
        _ => format!("{}-{}", member.service, member.number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(service: &str, number: u32, networks: Networks) -> Member {
        Member {
            service: service.to_owned(),
            number,
            container: format!("p_{service}_{number}"),
            networks,
            starting: weir_attach::Starting::default(),
        }
    }

    #[test]
    fn links_have_the_names_of_services_with_numbers_where_they_are_needed() {
        let members = vec![
            member("db", 1, Networks::Own(2)),
            member("web", 1, Networks::Own(1)),
            member("web", 2, Networks::Own(1)),
            member("probe", 1, Networks::Without("it has no network")),
        ];
        let found = containers(members, Selection::default());
        let labels: Vec<&str> = found.awaited.iter().map(|awaited| &*awaited.label).collect();
        assert_eq!(labels, ["db/eth0", "db/eth1", "web-1", "web-2"]);
        let targets: Vec<usize> = found.awaited.iter().map(|awaited| awaited.target).collect();
        assert_eq!(targets, [0, 0, 1, 2]);
        assert_eq!(found.setup.targets[2].to_string(), "docker:p_web_2");
        assert_eq!(found.left_out, ["probe is not shaped: it has no network"]);
    }
}
