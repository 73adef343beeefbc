//! Targets of attachments and the selections of their packets: no text makes a parser panic, and
//! each printed target parses to the same target.

use weir_attach::{Pattern, PortRange, Prefix, Target};

use super::parts;

/// The bytes are a target, a selection, and the name of a container.
pub fn run(data: &[u8]) {
    let Some(([text, selection, name], _)) = parts::split(data) else { return };
    if let Ok(target) = text.parse::<Target>() {
        let printed = target.to_string();
        assert_eq!(printed.parse::<Target>().as_ref(), Ok(&target), "{printed}");
    }
    if let Ok(pattern) = text.parse::<Pattern>() {
        let _ = pattern.fits(name);
    }
    let _ = selection.parse::<Prefix>();
    let _ = selection.parse::<PortRange>();
}
