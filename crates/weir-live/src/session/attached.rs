//! Sessions that shape programs in namespaces that Weir did not create. While such a session lasts,
//! it redirects packets of the namespaces' interfaces.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weir_attach::{
    AttachError, Attachment, Heartbeat, Selection, Site, Starting, Target, interfaces,
};
use weir_core::Nanos;
use weir_linux::helper::Guard;
use weir_linux::port::{AbsentPort, AnyPort};
use weir_linux::process::Stopper;
use weir_linux::topology::{End, Note, SetupError};
use weir_rules::LinkSpec;

use super::config::{Emulation, Lanes, Link};
use super::control::Control;
use super::site;
use super::surroundings::{Place, Surroundings, private};

/// The configuration of an attachment.
#[derive(Clone, Debug)]
pub struct AttachSetup {
    /// The targets.
    pub targets: Vec<Target>,
    /// The interfaces to shape; if empty, [`interfaces`] chooses them.
    pub interfaces: Vec<String>,
    /// The packets to shape. The target determines the owner of the sockets.
    pub selection: Selection,
}

/// An interface of a container that has not started yet.
#[derive(Clone, Debug)]
pub struct Awaited {
    /// Index of the target that finds the container once it runs.
    pub target: usize,
    /// Name of the container.
    pub container: String,
    /// Name of the interface.
    pub interface: String,
    /// Name in messages and results.
    pub label: String,
    /// Finds the container while it starts.
    pub starting: Starting,
}

/// Targets that are attached. Dropping this restores their direct traffic.
#[derive(Debug)]
pub struct Attached {
    setup: AttachSetup,
    slots: Vec<Slot>,
    ports: Vec<AnyPort>,
    ends: Vec<End>,
    notes: Vec<Note>,
    pub(super) stopper: Stopper,
    pub(super) beats: Beats,
}

/// The heartbeats of all attachments, shared with the thread that sends them.
pub(super) type Beats = Arc<Mutex<Vec<Heartbeat>>>;

/// One interface of one site of a target.
#[derive(Debug)]
struct Slot {
    target: usize,
    site: String,
    /// The control group of a systemd unit; `None` for other targets. A unit has the same group
    /// after a restart, so another group with the unit's name belongs to another systemd.
    unit: Option<PathBuf>,
    interface: String,
    /// Name in messages and results.
    label: String,
    /// The site and the attachment; `None` while nothing is attached.
    current: Option<(Arc<Site>, Attachment)>,
    /// Packets that passed unshaped during earlier attachments.
    missed: u64,
    /// The number of times that the target vanished.
    times_gone: u32,
    /// The reason why the last attempt to attach failed.
    failure: Option<String>,
    /// Finds the container while it starts, if the session began before the container.
    awaited: Option<Starting>,
    /// The number of starts in which the first packets may have passed unshaped.
    late: u32,
}

impl AttachSetup {
    /// Finds the targets and prepares the redirection of their packets, which begins with
    /// [`super::LiveSession::follow`]. Until then all packets pass unshaped.
    ///
    /// # Errors
    /// A target cannot be attached; the traffic of all targets is then as before.
    pub fn open(self) -> Result<Attached, AttachError> {
        let mut found = Vec::new();
        for (target, wanted) in self.targets.iter().enumerate() {
            for site in wanted.find()? {
                let names = interfaces(&site, &self.interfaces)?;
                found.push((target, Arc::new(site), names));
            }
        }
        let count = found.iter().map(|(_, _, names)| names.len()).sum();
        if count > MAX_INTERFACES {
            return Err(AttachError::TooMany { count, most: MAX_INTERFACES });
        }
        allow_files(count)?;
        let mut attached = Attached::new(self)?;
        for (target, site, names) in found {
            for interface in &names {
                let label = match names.len() {
                    1 => site.name().to_owned(),
                    _ => format!("{}/{interface}", site.name()),
                };
                attached.add(target, &site, interface, label)?;
            }
        }
        attached.share_beats();
        Ok(attached)
    }

    /// Waits for the containers of these interfaces: [`super::LiveSession::follow_job`] redirects
    /// their packets when they start. The targets need not exist yet.
    ///
    /// # Errors
    /// There are too many interfaces, or too few descriptors.
    pub fn await_all(self, awaited: Vec<Awaited>) -> Result<Attached, AttachError> {
        let count = awaited.len();
        if count > MAX_INTERFACES {
            return Err(AttachError::TooMany { count, most: MAX_INTERFACES });
        }
        allow_files(count)?;
        let mut attached = Attached::new(self)?;
        for slot in awaited {
            for _ in 0..2 {
                let absent = AbsentPort::new(&slot.interface).map_err(io::Error::from)?;
                attached.ports.push(AnyPort::Absent(absent));
            }
            attached.ends.extend(site::ends(&slot.label, &slot.interface));
            attached.slots.push(Slot {
                target: slot.target,
                site: slot.container,
                unit: None,
                interface: slot.interface,
                label: slot.label,
                current: None,
                missed: 0,
                times_gone: 0,
                failure: None,
                awaited: Some(slot.starting),
                late: 0,
            });
        }
        Ok(attached)
    }
}

impl Attached {
    fn new(setup: AttachSetup) -> io::Result<Attached> {
        Ok(Attached {
            slots: Vec::new(),
            ports: Vec::new(),
            ends: Vec::new(),
            notes: Vec::new(),
            stopper: Stopper::new()?,
            beats: Beats::default(),
            setup,
        })
    }

    /// Links for [`super::SessionConfig`], with an `up` and a `down` for each interface. With
    /// several interfaces, each name begins with the name of its target.
    #[must_use]
    pub fn links(&self, up: &LinkSpec, down: &LinkSpec) -> Emulation {
        let mut lanes = Lanes::default();
        for slot in &self.slots {
            site::add_links(&mut lanes, up, down, |direction, spec| match self.slots.len() {
                1 => Link::new(direction, spec),
                _ => Link::new(format!("{}.{direction}", slot.label), spec),
            });
        }
        Emulation::Lanes(lanes)
    }

    /// Descriptions of what is shaped: one text for each interface.
    pub fn descriptions(&self) -> impl Iterator<Item = String> {
        self.slots.iter().map(|slot| {
            let Slot { interface, label, .. } = slot;
            let group = slot.current.as_ref().and_then(|(site, _)| site.group());
            match group {
                None => format!("{interface} of {label}"),
                Some((path, processes)) => format!(
                    "{interface} of {label}: all programs of its control group {}, {processes} {}",
                    path.display(),
                    if processes == 1 { "process" } else { "processes" }
                ),
            }
        })
    }

    fn add(
        &mut self,
        target: usize,
        site: &Arc<Site>,
        interface: &str,
        label: String,
    ) -> Result<(), AttachError> {
        let (attachment, ports) = Attachment::open(site, interface, &self.selected(site))?;
        let unit = matches!(self.setup.targets[target], Target::Unit(_));
        self.ports.extend(ports);
        self.ends.extend(site::ends(&label, interface));
        self.slots.push(Slot {
            target,
            site: site.name().to_owned(),
            unit: unit.then(|| site.control_group().map(Path::to_owned)).flatten(),
            interface: interface.to_owned(),
            label,
            current: Some((Arc::clone(site), attachment)),
            missed: 0,
            times_gone: 0,
            failure: None,
            awaited: None,
            late: 0,
        });
        Ok(())
    }

    fn selected(&self, site: &Site) -> Selection {
        Selection { owner: site.owner(), ..self.setup.selection.clone() }
    }

    /// Detaches targets that have vanished, and attaches targets that have returned. Returns
    /// messages about both.
    pub(super) fn refresh(&mut self, control: &Control) -> Vec<String> {
        let mut messages = Vec::new();
        let mut found: BTreeMap<usize, Vec<Arc<Site>>> = BTreeMap::new();
        for index in 0..self.slots.len() {
            messages.extend(self.detach_if_gone(index, control));
            let slot = &mut self.slots[index];
            if slot.current.is_some() || !self.setup.targets[slot.target].returns() {
                continue;
            }
            let target = &self.setup.targets[slot.target];
            let sites = found.entry(slot.target).or_insert_with(|| {
                let found = target.find().unwrap_or_default();
                found.into_iter().map(Arc::new).collect()
            });
            let back = sites.iter().find(|site| {
                site.name() == slot.site
                    && slot.unit.as_deref().is_none_or(|unit| site.control_group() == Some(unit))
            });
            let Some(site) = back.cloned() else { continue };
            let Some(attached) = self.attach_again(index, &site, control) else { continue };
            let slot = &mut self.slots[index];
            slot.late += u32::from(attached.is_ok() && slot.awaited.is_some());
            messages.push(match attached {
                Ok(()) if slot.awaited.is_some() => slot.late_message(),
                Ok(()) => format!("{} is back and shaped again", slot.label),
                Err(message) => message,
            });
        }
        self.share_beats();
        messages
    }

    /// Detaches containers that have vanished, and attaches containers that are starting. The first
    /// process of a starting container is stopped meanwhile, because attaching takes longer than
    /// the container engine needs to begin the program. This function takes much less time than
    /// [`Self::refresh`].
    pub(super) fn catch(&mut self, control: &Control, guard: &Guard) -> Vec<String> {
        let mut messages = Vec::new();
        for index in 0..self.slots.len() {
            let Some(starting) = self.slots[index].awaited.clone() else { continue };
            let slot = &self.slots[index];
            if slot.current.as_ref().is_some_and(|(site, _)| !site.exists()) {
                messages.extend(self.detach_if_gone(index, control));
            }
            let slot = &self.slots[index];
            // After a failure, `refresh` tries again.
            if slot.current.is_some() || slot.failure.is_some() {
                continue;
            }
            // If a container cannot be opened now, `refresh` finds it later and reports the reason.
            let Ok(Some(started)) = starting.find(&slot.site, &slot.interface) else { continue };
            // A program that already runs is not stopped.
            let held = (!started.begun.has_begun()).then(|| guard.hold(started.begun.pid()));
            let site = Arc::new(started.site);
            let attached = self.attach_again(index, &site, control);
            self.share_beats();
            self.beat(control);
            let has_begun = started.begun.has_begun();
            drop(held);
            let Some(attached) = attached else { continue };
            let slot = &mut self.slots[index];
            messages.push(match attached {
                Ok(()) if has_begun => {
                    slot.late += 1;
                    slot.late_message()
                }
                Ok(()) => format!("{} is shaped from its first packet", slot.label),
                Err(message) => message,
            });
        }
        messages
    }

    /// Detaches a target that has vanished. Returns a message about it.
    fn detach_if_gone(&mut self, index: usize, control: &Control) -> Option<String> {
        let slot = &mut self.slots[index];
        if !slot.detach_if_gone() {
            return None;
        }
        slot.failure = None;
        for port in [2 * index, 2 * index + 1] {
            if let Ok(absent) = AbsentPort::new(&slot.interface) {
                // If the session has ended, it needs no port.
                let _ = control.replace_port(port, vec![AnyPort::Absent(absent)]);
            }
        }
        // The end of a job's container is expected.
        slot.awaited.is_none().then(|| format!("{} is gone", slot.label))
    }

    /// Keeps the redirections in force if the loop answers.
    fn beat(&self, control: &Control) {
        if control.counters().is_ok() {
            site::beat(&*self.beats.lock().unwrap_or_else(PoisonError::into_inner), ALIVE);
        }
    }

    /// Attaches to an interface that has returned or appeared. Returns `None` if the interface does
    /// not exist yet, or if the same failure was already reported.
    fn attach_again(
        &mut self,
        index: usize,
        site: &Arc<Site>,
        control: &Control,
    ) -> Option<Result<(), String>> {
        let selection = self.selected(site);
        let slot = &mut self.slots[index];
        match Attachment::open(site, &slot.interface, &selection) {
            Ok((attachment, ports)) => {
                for (port, with) in (2 * index..).zip(ports) {
                    // If the session has ended, it needs no port.
                    let _ = control.replace_port(port, vec![with]);
                }
                slot.current = Some((Arc::clone(site), attachment));
                slot.failure = None;
                Some(Ok(()))
            }
            // An interface appears some time after its namespace.
            Err(AttachError::NoInterface { .. }) => None,
            Err(error) => {
                let text = error.to_string();
                let is_new = slot.failure.as_ref() != Some(&text);
                slot.failure = Some(text.clone());
                is_new.then(|| Err(format!("{} is there but not shaped: {text}", slot.label)))
            }
        }
    }

    /// Whether nothing is attached, and no target can return.
    pub(super) fn is_over(&self) -> bool {
        self.slots
            .iter()
            .all(|slot| slot.current.is_none() && !self.setup.targets[slot.target].returns())
    }

    /// Shares the heartbeats of all attachments with the thread that sends them.
    fn share_beats(&self) {
        let attachments = self.slots.iter().filter_map(|slot| slot.current.as_ref());
        let beats = attachments.map(|(_, attachment)| attachment.heartbeat()).collect();
        *self.beats.lock().unwrap_or_else(PoisonError::into_inner) = beats;
    }

    /// Lets all packets pass unshaped from now on.
    pub(super) fn release(&self) {
        self.beats
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .drain(..)
            .for_each(|beat| beat.stop());
    }
}

impl Slot {
    fn late_message(&self) -> String {
        format!("{} is shaped, but its program had already begun", self.label)
    }

    /// Ends the redirection if the site, the interface or a TAP device is gone. Returns whether
    /// this call has ended it.
    fn detach_if_gone(&mut self) -> bool {
        let Some((site, attachment)) = &mut self.current else { return false };
        if site.exists() && attachment.is_intact() {
            return false;
        }
        self.missed += attachment.heartbeat().missed();
        self.times_gone += 1;
        self.current = None;
        true
    }
}

/// Raises this process's limit of open files for this number of interfaces.
fn allow_files(count: usize) -> Result<(), AttachError> {
    let needed = FILES + FILES_EACH * count as u64;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(needed), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).map_err(|_| AttachError::Files {
        count,
        needed,
        most: limit.maximum.or(limit.current).unwrap_or(0),
    })
}

impl Surroundings for Attached {
    type Place = Attached;

    fn set_up(self) -> Result<Attached, SetupError> {
        Ok(self)
    }
}

impl Place for Attached {
    fn take_ports(&mut self) -> Vec<Vec<AnyPort>> {
        vec![std::mem::take(&mut self.ports)]
    }

    fn stopper(&self) -> Option<Stopper> {
        Some(self.stopper.clone())
    }

    fn ends(&self) -> &[End] {
        &self.ends
    }

    fn notes(&self) -> &[Note] {
        &self.notes
    }

    fn comes_and_goes(&self) -> bool {
        self.slots.iter().any(|slot| slot.awaited.is_some())
    }

    fn close(self) -> Vec<Note> {
        self.release();
        let mut notes = Vec::new();
        for slot in &self.slots {
            let current = slot.current.as_ref();
            let missed =
                slot.missed + current.map_or(0, |(_, attachment)| attachment.heartbeat().missed());
            let mut note = |what: String| notes.push(Note { what, remedy: None, serious: false });
            if missed > 0 {
                note(format!(
                    "{missed} packets of {} passed unshaped, because Weir was stopped or too slow",
                    slot.label
                ));
            }
            if slot.late > 0 {
                note(format!(
                    "the first packets of {} may have passed unshaped, because Weir found the \
                     container late",
                    slot.label
                ));
            }
            match (slot.times_gone, current) {
                (0, _) => {}
                // The end of a job's container is expected.
                _ if slot.awaited.is_some() => {}
                (times, Some(_)) => note(format!(
                    "{} went away and came back {times} times; its packets were not shaped in \
                     between",
                    slot.label
                )),
                (_, None) => note(format!("{} went away and did not come back", slot.label)),
            }
            if let Some(failure) = &slot.failure {
                note(format!("{} came back, but was not shaped: {failure}", slot.label));
            }
        }
        notes
    }
}

impl private::Sealed for Attached {}

/// Maximum number of interfaces of one session. Each interface needs two links of the engine, and
/// some descriptors.
const MAX_INTERFACES: usize = 1000;
/// The open files to permit for each attached interface: six BPF programs, two TAP devices with
/// three files each, the namespace with a directory, two netlink sockets, and one spare file.
const FILES_EACH: u64 = 17;
/// The open files for the rest of the process.
const FILES: u64 = 128;
/// How long packets are redirected after a heartbeat. If this process is stopped, its targets are
/// cut off for at most this long. If only the loop hangs, they are cut off for up to one heartbeat
/// interval longer.
pub(super) const ALIVE: Nanos = Nanos::from_millis(550);
