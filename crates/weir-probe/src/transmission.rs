//! The transmission queues after the queueing disciplines: the limit that dynamic queue limits
//! (DQL) set for a device's transmission rings, and the bytes in the rings. Both are read from
//! sysfs, whatever method reads the disciplines.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::pread;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::UnshareFlags;
use weir_linux::sys::process::unshare;

use crate::error::ProbeError;
use crate::group::Group;
use crate::pacer::monotonic;
use crate::source::{Plan, Source};
use weir_measure::watch::{Counters, Event, Method, Pace, Queue, QueueId, Run, Sink, Transmission};

/// Time between two reads, in ns.
const INTERVAL: u64 = 20_000_000;
/// Maximum number of transmission queues that are read per device.
const MAX_QUEUES: u32 = 256;
const CLASS: &str = "/sys/class/net";

/// A source combined with the transmission queues of its devices.
pub(crate) struct WithTransmission {
    source: Box<dyn Source>,
    places: Vec<Place>,
    /// The time of the next read, in ns.
    next: u64,
}

/// The devices of one namespace, with their transmission queues.
struct Place {
    group: Group,
    /// The directory of devices in a mount of sysfs: a mount for this namespace, or the existing
    /// mount, which may show another namespace. The descriptor keeps the mount alive.
    class: OwnedFd,
    queues: Vec<TxQueue>,
}

/// One transmission queue: its number on the device, and the files with its limit and with the
/// number of bytes in the ring.
struct TxQueue {
    ifindex: u32,
    number: u32,
    limit: OwnedFd,
    inflight: OwnedFd,
}

impl WithTransmission {
    /// Finds the transmission queues of the plan's devices. If the directory of a namespace's
    /// devices cannot be opened, `remarks` says why.
    ///
    /// # Errors
    /// A target does not exist.
    pub(crate) fn open(
        plan: &Plan,
        source: Box<dyn Source>,
        remarks: &mut Vec<String>,
    ) -> Result<WithTransmission, ProbeError> {
        let mut places = Vec::new();
        for group in Group::of(&plan.targets)? {
            match directory(&group) {
                Ok(class) => {
                    let mut place = Place { group, class, queues: Vec::new() };
                    place.search();
                    places.push(place);
                }
                Err(error) => {
                    let place = group.netns().unwrap_or_else(|| "this namespace".into());
                    remarks.push(format!(
                        "the transmission queues of devices in {place} are not \
                                          seen: sysfs does not show them ({error})"
                    ));
                }
            }
        }
        Ok(WithTransmission { source, places, next: 0 })
    }

    /// Reads all limits and the bytes in all rings, and reports them to the sink.
    fn look(&mut self, time: u64, sink: &mut dyn Sink) {
        let mut seen = Vec::new();
        for place in &mut self.places {
            // The source has already told the sink which devices are new, removed or renamed. If
            // the devices cannot be listed, the old list stays in use.
            if place.group.follow(time, &mut NullSink).unwrap_or(false) {
                place.search();
            }
            let netns = place.group.netns();
            for queue in &place.queues {
                // A driver without DQL leaves the limit at 0.
                let Some(limit) = number(&queue.limit).filter(|&limit| limit > 0) else { continue };
                let (Some(inflight), Some(device)) =
                    (number(&queue.inflight), place.group.devices.get(&queue.ifindex))
                else {
                    continue;
                };
                seen.push(Transmission {
                    device: device.clone(),
                    netns: netns.clone(),
                    queue: queue.number,
                    limit,
                    inflight,
                });
            }
        }
        if !seen.is_empty() {
            sink.transmission(time, &seen);
        }
    }
}

impl Place {
    /// Opens the files of all transmission queues again.
    fn search(&mut self) {
        let mut queues = Vec::new();
        for (&ifindex, device) in &self.group.devices {
            // The existing mount of sysfs may show another namespace, with another device of the
            // same name.
            let own = self
                .open(&format!("{device}/ifindex"))
                .is_ok_and(|file| number(&file) == Some(ifindex.into()));
            if own {
                queues.extend((0..MAX_QUEUES).map_while(|number| {
                    let file = |name: &str| {
                        self.open(&format!("{device}/queues/tx-{number}/byte_queue_limits/{name}"))
                            .ok()
                    };
                    Some(TxQueue {
                        ifindex,
                        number,
                        limit: file("limit")?,
                        inflight: file("inflight")?,
                    })
                }));
            }
        }
        self.queues = queues;
    }

    fn open(&self, path: &str) -> io::Result<OwnedFd> {
        Ok(openat(&self.class, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
    }
}

impl Source for WithTransmission {
    fn method(&self) -> Method {
        self.source.method()
    }

    fn turn(&mut self, sink: &mut dyn Sink) -> Result<(), ProbeError> {
        self.source.turn(sink)?;
        let time = monotonic();
        if time >= self.next {
            self.next = time + INTERVAL;
            self.look(time, sink);
        }
        Ok(())
    }

    fn finish(&mut self, sink: &mut dyn Sink) -> Result<(), ProbeError> {
        self.source.finish(sink)
    }

    fn pace(&self) -> Pace {
        self.source.pace()
    }
}

/// Opens the directory of a namespace's devices. sysfs shows the devices of the namespace from
/// which it was mounted, so this function mounts it from the namespace; other processes do not see
/// the mount. If this fails for the caller's own namespace, the function uses the existing mount,
/// which may show another namespace.
fn directory(group: &Group) -> io::Result<OwnedFd> {
    let open = || {
        Ok(openat(CWD, CLASS, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
    };
    let mounted = group.apart(|| {
        unshare(UnshareFlags::NEWNS)?;
        mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
        mount(
            "sysfs",
            "/sys",
            "sysfs",
            MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC,
            None,
        )?;
        open()
    });
    match mounted {
        Err(_) if group.is_own() => open(),
        other => other,
    }
}

/// The number in a sysfs file; `None` if it cannot be read.
fn number(file: &OwnedFd) -> Option<u64> {
    let mut text = [0; 24];
    let length = pread(file, &mut text, 0).ok()?;
    std::str::from_utf8(&text[..length]).ok()?.trim().parse().ok()
}

struct NullSink;

impl Sink for NullSink {
    fn appeared(&mut self, _: u64, _: QueueId, _: &Queue) {}
    fn vanished(&mut self, _: u64, _: QueueId) {}
    fn runs(&mut self, _: &[Run]) {}
    fn events(&mut self, _: &[Event]) {}
    fn counters(&mut self, _: u64, _: QueueId, _: &Counters) {}
    fn remark(&mut self, _: u64, _: &str) {}
}
