//! The discipline of a device, with the rate and the limits that the discipline reports.

use crate::error::ProbeError;
use crate::group::Group;
use crate::target::Target;
use weir_measure::packets::Discipline;

/// The name and the discipline of the only device that matches the target.
///
/// # Errors
/// No device or more than one matches the target, or the kernel does not answer.
pub fn discipline(target: &Target) -> Result<(String, Discipline), ProbeError> {
    let groups = Group::of(std::slice::from_ref(target))?;
    let devices: Vec<(u32, String)> = groups
        .iter()
        .flat_map(|group| group.devices.iter().map(|(index, name)| (*index, name.clone())))
        .collect();
    let (Some(group), [(index, name)]) = (groups.first(), &devices[..]) else {
        return Err(ProbeError::Plan(format!(
            "a recording is of one device, and '{}' matches {} devices: name one device",
            target.device,
            devices.len()
        )));
    };
    let found = group
        .within(|| crate::netlink::discipline_of(*index))
        .map_err(ProbeError::system(format!("read the discipline of {name}")))?;
    Ok((name.clone(), found))
}
