//! Programs inside the kernel: loaded here, read through memory that both sides share.

mod layout;
mod sampling;

pub(crate) use sampling::Sampling;

use std::sync::Once;

use libbpf_rs::{ErrorKind, MapCore as _, Object, ObjectBuilder, PrintLevel, ProgramInput};
use weir_linux::sys::shared::SharedWords;

use crate::error::ProbeError;

/// A loaded object file: it and its maps are gone from the kernel with the value.
pub(crate) struct Programs {
    object: Object,
}

impl Programs {
    /// Loads an object file that was built in.
    ///
    /// # Errors
    /// [`ProbeError::Rights`] without the right to, [`ProbeError::Load`] when the kernel does not take it.
    pub(crate) fn load(bytes: &[u8]) -> Result<Programs, ProbeError> {
        static QUIET: Once = Once::new();
        // What libbpf says would land between the lines of the terminal view; the error that it returns says enough.
        QUIET.call_once(|| {
            let _ = libbpf_rs::set_print(Some((PrintLevel::Debug, |_, _| {})));
        });
        if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
            return Err(ProbeError::Load { reason: "the kernel does not describe its types (no /sys/kernel/btf/vmlinux)".into() });
        }
        let object = ObjectBuilder::default().open_memory(bytes).and_then(|open| open.load()).map_err(refused)?;
        Ok(Programs { object })
    }

    /// Maps the first `words` words of a map into memory. Its values must have as many bytes as the reader thinks.
    ///
    /// # Errors
    /// When there is no such map, or it is laid out otherwise.
    pub(crate) fn map(&self, name: &str, value_size: usize, words: usize) -> Result<SharedWords, ProbeError> {
        let map = self.object.maps().find(|map| map.name() == name);
        let map = map.ok_or_else(|| ProbeError::Load { reason: format!("the object file has no map {name}") })?;
        if map.value_size() as usize != value_size {
            let reason = format!("values of map {name} have {} bytes, not {value_size}", map.value_size());
            return Err(ProbeError::Load { reason });
        }
        SharedWords::map(map.as_fd(), words).map_err(std::io::Error::from).map_err(ProbeError::system(format!("map {name}")))
    }

    /// Runs a program once, on the calling thread, and gives what it returns.
    ///
    /// # Errors
    /// When the kernel refuses to.
    pub(crate) fn run(&mut self, name: &str) -> Result<u32, ProbeError> {
        let program = self.object.progs_mut().find(|program| program.name() == name);
        let program = program.ok_or_else(|| ProbeError::Load { reason: format!("the object file has no program {name}") })?;
        Ok(program.test_run(ProgramInput::default()).map_err(refused)?.return_value)
    }
}

use std::os::fd::AsFd as _;

#[expect(clippy::needless_pass_by_value, reason = "the shape of map_err")]
fn refused(error: libbpf_rs::Error) -> ProbeError {
    if error.kind() == ErrorKind::PermissionDenied {
        let hint = "it takes CAP_BPF, CAP_PERFMON and, for other namespaces, CAP_SYS_ADMIN: try with sudo, or `--method netlink`";
        return ProbeError::Rights { reason: error.to_string(), hint };
    }
    ProbeError::Load { reason: format!("{error:#}") }
}
