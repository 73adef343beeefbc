//! Loads the BPF programs into the kernel and reads their results through shared memory.

mod chain;
mod events;
mod layout;
mod records;
mod sampling;

pub(crate) use events::Recording;
pub(crate) use sampling::Sampling;

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::Once;
use std::sync::atomic::Ordering::Relaxed;

use libbpf_rs::{ErrorKind, Link, MapCore as _, Object, ObjectBuilder, PrintLevel, ProgramInput};
use weir_linux::sys::shared::SharedWords;

use crate::error::ProbeError;

/// The programs and maps of a loaded object file. Dropping them removes them from the kernel.
pub(crate) struct Programs {
    object: Object,
}

impl Programs {
    /// Loads an embedded object file.
    ///
    /// # Errors
    /// [`ProbeError::Rights`] without the necessary capabilities, [`ProbeError::Load`] if the
    /// kernel rejects the programs or does not describe its types, [`ProbeError::Unavailable`] if
    /// the machine has too many processors.
    pub(crate) fn load(bytes: &[u8]) -> Result<Programs, ProbeError> {
        Programs::load_sized(bytes, &[])
    }

    /// Loads an embedded object file. `sizes` replaces the numbers of entries of the maps that it
    /// names.
    ///
    /// # Errors
    /// The same as for [`Programs::load`].
    pub(crate) fn load_sized(bytes: &[u8], sizes: &[(&str, u32)]) -> Result<Programs, ProbeError> {
        static QUIET: Once = Once::new();
        // libbpf prints its messages, which would disturb the terminal view. The returned errors
        // say enough.
        QUIET.call_once(|| {
            let _ = libbpf_rs::set_print(Some((PrintLevel::Debug, |_, _| {})));
        });
        if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
            return Err(ProbeError::Load {
                reason: "the kernel does not describe its types (no /sys/kernel/btf/vmlinux)"
                    .into(),
            });
        }
        check_processors(processors())?;
        let mut open =
            ObjectBuilder::default().open_memory(bytes).map_err(|error| refused(&error))?;
        for mut map in open.maps_mut() {
            if let Some((_, entries)) = sizes.iter().find(|(name, _)| map.name() == *name) {
                map.set_max_entries(*entries).map_err(|error| refused(&error))?;
            }
        }
        Ok(Programs { object: open.load().map_err(|error| refused(&error))? })
    }

    /// Locates each processor's counters. Call it once after loading.
    ///
    /// # Errors
    /// The program does not find the counters in the kernel's memory.
    pub(crate) fn prepare(&mut self) -> Result<(), ProbeError> {
        let shared = self.map("processors", layout::PROCESSORS * 8, 1)?;
        shared[0].store(layout::word(processors(), 0), Relaxed);
        match self.run("prepare")? {
            0 => Ok(()),
            code => Err(ProbeError::Load {
                reason: format!("the counters of the processors cannot be located ({code})"),
            }),
        }
    }

    /// Maps the first `words` words of the BPF map `name` into memory. `value_size` is the size in
    /// bytes that its values must have.
    ///
    /// # Errors
    /// There is no such map, or its values have another size.
    pub(crate) fn map(
        &self,
        name: &str,
        value_size: usize,
        words: usize,
    ) -> Result<SharedWords, ProbeError> {
        let map = self.object.maps().find(|map| map.name() == name);
        let map = map.ok_or_else(|| ProbeError::Load {
            reason: format!("the object file has no map {name}"),
        })?;
        if map.value_size() as usize != value_size {
            let reason =
                format!("values of map {name} have {} bytes, not {value_size}", map.value_size());
            return Err(ProbeError::Load { reason });
        }
        SharedWords::map(map.as_fd(), words)
            .map_err(std::io::Error::from)
            .map_err(ProbeError::system(format!("map {name}")))
    }

    /// Runs a program once on the calling thread and returns its result.
    ///
    /// # Errors
    /// The kernel refuses to run it.
    pub(crate) fn run(&mut self, name: &str) -> Result<u32, ProbeError> {
        let program = self.object.progs_mut().find(|program| program.name() == name);
        let program = program.ok_or_else(|| ProbeError::Load {
            reason: format!("the object file has no program {name}"),
        })?;
        Ok(program.test_run(ProgramInput::default()).map_err(|error| refused(&error))?.return_value)
    }

    /// Attaches the programs to the tracepoints that their sections name. Dropping the links
    /// detaches the programs.
    ///
    /// # Errors
    /// The kernel refuses, or has no such tracepoint.
    pub(crate) fn attach(&mut self, names: &[&str]) -> Result<Vec<Link>, ProbeError> {
        let programs = self
            .object
            .progs_mut()
            .filter(|program| names.iter().any(|name| program.name() == *name));
        programs.map(|program| program.attach().map_err(|error| refused(&error))).collect()
    }

    /// Number of calls that the kernel skipped because the same program was already running on the
    /// same processor.
    pub(crate) fn skipped_calls(&self) -> u64 {
        let missed = self.object.progs().filter_map(|program| {
            let info = std::fs::read_to_string(format!(
                "/proc/self/fdinfo/{}",
                program.as_fd().as_raw_fd()
            ))
            .ok()?;
            info.lines()
                .find_map(|line| line.strip_prefix("recursion_misses:"))?
                .trim()
                .parse::<u64>()
                .ok()
        });
        missed.sum()
    }
}

/// Refuses a machine with more processors than the programs read. Queue lengths would lack the
/// counters of the other processors.
fn check_processors(possible: u32) -> Result<(), ProbeError> {
    let max = layout::MAX_CPUS;
    if possible as usize <= max {
        return Ok(());
    }
    Err(ProbeError::Unavailable(format!(
        "this machine can have {possible} processors, and the queue-reading program reads the \
         counters of {max}; use `--method netlink`, or boot with nr_cpus={max} or less"
    )))
}

/// The number of possible processors. Processors that are offline have counters too.
pub(crate) fn processors() -> u32 {
    let possible = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = possible.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<u32>().ok());
    let online = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    last.map_or(online, |last| last + 1)
}

fn refused(error: &libbpf_rs::Error) -> ProbeError {
    if error.kind() == ErrorKind::PermissionDenied {
        let hint = "it takes CAP_BPF, CAP_PERFMON and, for other namespaces, CAP_SYS_ADMIN: try \
                    with sudo, or `--method netlink`";
        return ProbeError::Rights { reason: error.to_string(), hint };
    }
    ProbeError::Load { reason: format!("{error:#}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_with_more_processors_than_the_programs_read_is_refused() {
        assert!(check_processors(1).is_ok());
        assert!(check_processors(512).is_ok());
        let error = check_processors(513).unwrap_err().to_string();
        assert!(error.contains("513") && error.contains("512") && error.contains("netlink"));
    }
}
