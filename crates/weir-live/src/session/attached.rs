//! Sessions that shape what is already running: interfaces of existing namespaces, whose packets
//! are redirected while the session lasts.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weir_attach::{AttachError, Attachment, Heartbeat, Selection, Site, Target, interfaces};
use weir_core::Nanos;
use weir_linux::clock;
use weir_linux::live::{Gso, LaneConfig};
use weir_linux::port::{AbsentPort, AnyPort};
use weir_linux::process::{Signals, Stopper};
use weir_linux::topology::{self, End, Happened, Note, SetupError};
use weir_rules::LinkSpec;

use super::LiveSession;
use super::config::{Emulation, Lanes, Link, NamedLink};
use super::control::Control;
use super::surroundings::{Place, Surroundings, private};

/// The configuration of an attachment.
#[derive(Clone, Debug)]
pub struct AttachSetup {
    /// The targets.
    pub targets: Vec<Target>,
    /// The interfaces to shape; empty for those that [`interfaces`] chooses.
    pub interfaces: Vec<String>,
    /// The packets to shape. The owner of sockets follows from the target.
    pub selection: Selection,
}

/// Targets that are attached. Dropping this restores their direct traffic.
#[derive(Debug)]
pub struct Attached {
    setup: AttachSetup,
    slots: Vec<Slot>,
    ports: Vec<AnyPort>,
    ends: Vec<End>,
    notes: Vec<Note>,
    stopper: Stopper,
    beats: Beats,
}

/// The heartbeats of all attachments, shared with the thread that sends them.
type Beats = Arc<Mutex<Vec<Heartbeat>>>;

/// One interface of one site of a target.
#[derive(Debug)]
struct Slot {
    /// Index of the target.
    target: usize,
    /// Name of the site.
    site: String,
    interface: String,
    /// Name in messages and results.
    label: String,
    current: Option<(Arc<Site>, Attachment)>,
    /// Packets that passed unshaped, of earlier attachments.
    missed: u64,
    /// The number of times that the target went away.
    departures: u32,
    /// The reason why the last attempt failed.
    failure: Option<String>,
}

/// What ended [`LiveSession::follow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowEnd {
    /// This process received this signal.
    Signal(i32),
    /// The session was stopped, or its loop failed.
    Stopped,
    /// The time has passed.
    Time,
    /// No target exists any more, and none of them can return.
    Gone,
}

impl AttachSetup {
    /// Finds the targets and redirects their packets. All packets pass unshaped until
    /// [`LiveSession::follow`].
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
        if count > MOST_INTERFACES {
            return Err(AttachError::TooMany { count, most: MOST_INTERFACES });
        }
        allow_files(count)?;
        let mut attached = Attached {
            slots: Vec::new(),
            ports: Vec::new(),
            ends: Vec::new(),
            notes: Vec::new(),
            stopper: Stopper::new()?,
            beats: Beats::default(),
            setup: self,
        };
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
}

impl Attached {
    /// Links for [`super::SessionConfig`], with an `up` and a `down` for each interface. With
    /// several interfaces, the names begin with that of the target.
    #[must_use]
    pub fn links(&self, up: &LinkSpec, down: &LinkSpec) -> Emulation {
        let mut lanes = Lanes::default();
        for (index, slot) in self.slots.iter().enumerate() {
            let of = |name: &str| match self.slots.len() {
                1 => name.to_owned(),
                _ => format!("{}.{name}", slot.label),
            };
            let (target, network) = (2 * index, 2 * index + 1);
            for (name, spec, from, to) in
                [("up", up, target, network), ("down", down, network, target)]
            {
                let id = lanes.links.len() as u16 + 1;
                lanes.lanes.push(LaneConfig {
                    name: of(name),
                    from,
                    to,
                    pipe: id,
                    passes: Vec::new(),
                    gso: match spec.gso {
                        weir_rules::Gso::Split => Gso::Split,
                        weir_rules::Gso::Whole => Gso::Whole,
                    },
                });
                let link = Link::new(of(name), spec.clone());
                lanes.links.push(NamedLink { link, id, scheduler: None, ends: Default::default() });
            }
        }
        Emulation::Lanes(lanes)
    }

    /// What is shaped, in words: an interface of a target each.
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
        self.ports.extend(ports);
        for name in [&*label, "network"] {
            self.ends.push(End {
                name: name.to_owned(),
                interface: interface.to_owned(),
                ipv4: None,
                ipv6: None,
            });
        }
        self.slots.push(Slot {
            target,
            site: site.name().to_owned(),
            interface: interface.to_owned(),
            label,
            current: Some((Arc::clone(site), attachment)),
            missed: 0,
            departures: 0,
            failure: None,
        });
        Ok(())
    }

    fn selected(&self, site: &Site) -> Selection {
        Selection { owner: site.owner(), ..self.setup.selection.clone() }
    }

    /// Detaches what has vanished, and attaches again what has returned. Returns messages about
    /// both.
    fn refresh(&mut self, control: &Control) -> Vec<String> {
        let mut messages = Vec::new();
        let mut found: BTreeMap<usize, Vec<Arc<Site>>> = BTreeMap::new();
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            if slot.detach_if_gone() {
                messages.push(format!("{} is gone", slot.label));
                for port in [2 * index, 2 * index + 1] {
                    if let Ok(absent) = AbsentPort::new(&slot.interface) {
                        // The session may have ended, and then needs no port.
                        let _ = control.replace_port(port, vec![AnyPort::Absent(absent)]);
                    }
                }
            }
            if slot.current.is_some() || !self.setup.targets[slot.target].returns() {
                continue;
            }
            let target = &self.setup.targets[slot.target];
            let sites = found.entry(slot.target).or_insert_with(|| {
                let found = target.find().unwrap_or_default();
                found.into_iter().map(Arc::new).collect()
            });
            let back = sites.iter().find(|site| site.name() == slot.site);
            let Some(site) = back.cloned() else { continue };
            messages.extend(self.attach_again(index, &site, control));
        }
        self.share_beats();
        messages
    }

    fn attach_again(
        &mut self,
        index: usize,
        site: &Arc<Site>,
        control: &Control,
    ) -> Option<String> {
        let selection = self.selected(site);
        let slot = &mut self.slots[index];
        match Attachment::open(site, &slot.interface, &selection) {
            Ok((attachment, ports)) => {
                for (port, with) in (2 * index..).zip(ports) {
                    // The session may have ended, and then needs no port.
                    let _ = control.replace_port(port, vec![with]);
                }
                slot.current = Some((Arc::clone(site), attachment));
                slot.failure = None;
                Some(format!("{} is back and shaped again", slot.label))
            }
            // An interface appears some time after its namespace.
            Err(AttachError::NoInterface { .. }) => None,
            Err(error) => {
                let text = error.to_string();
                let is_new = slot.failure.as_ref() != Some(&text);
                slot.failure = Some(text.clone());
                is_new.then(|| format!("{} is back but not shaped: {text}", slot.label))
            }
        }
    }

    /// Whether nothing is attached, and no target can return.
    fn is_over(&self) -> bool {
        self.slots
            .iter()
            .all(|slot| slot.current.is_none() && !self.setup.targets[slot.target].returns())
    }

    fn share_beats(&self) {
        let attachments = self.slots.iter().filter_map(|slot| slot.current.as_ref());
        let beats = attachments.map(|(_, attachment)| attachment.heartbeat()).collect();
        *self.beats.lock().unwrap_or_else(PoisonError::into_inner) = beats;
    }

    /// Lets all packets pass unshaped from now on.
    fn release(&self) {
        self.beats
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .drain(..)
            .for_each(|beat| beat.stop());
    }
}

impl Slot {
    /// Ends the redirection if the site or one of the interfaces is gone. Returns whether it
    /// has just ended.
    fn detach_if_gone(&mut self) -> bool {
        let Some((site, attachment)) = &mut self.current else { return false };
        if site.exists() && attachment.is_intact() {
            return false;
        }
        self.missed += attachment.heartbeat().missed();
        self.departures += 1;
        self.current = None;
        true
    }
}

impl LiveSession<Attached> {
    /// Shapes the targets until a signal arrives, the session is stopped, or the time `until`.
    /// Targets that vanish are attached again when they return; `report` receives a message about
    /// each such event. Afterwards all packets pass unshaped, and those inside have arrived, if
    /// that took less than two seconds.
    ///
    /// # Errors
    /// Waiting itself fails.
    pub fn follow(
        &mut self,
        signals: &Signals,
        until: Option<Instant>,
        mut report: impl FnMut(&str),
    ) -> io::Result<FollowEnd> {
        let over = AtomicBool::new(false);
        let (control, beats) = (&self.control, Arc::clone(&self.place.beats));
        let place = &mut self.place;
        let ended = std::thread::scope(|scope| {
            scope.spawn(|| send_beats(control, &beats, &over));
            let ended = wait(place, control, signals, until, &mut report);
            over.store(true, Ordering::Relaxed);
            ended
        });
        self.place.release();
        self.control.drain();
        ended
    }
}

fn wait(
    place: &mut Attached,
    control: &Control,
    signals: &Signals,
    until: Option<Instant>,
    report: &mut impl FnMut(&str),
) -> io::Result<FollowEnd> {
    let mut pause = LOOK_EVERY;
    loop {
        let next = Instant::now() + pause;
        let deadline = until.map_or(next, |until| until.min(next));
        match topology::wait(signals, &place.stopper, Some(deadline))? {
            Happened::Signal(number) => return Ok(FollowEnd::Signal(number)),
            Happened::Stopped => return Ok(FollowEnd::Stopped),
            Happened::Time | Happened::Ended(..) => {}
        }
        let began = Instant::now();
        place.refresh(control).iter().for_each(|message| report(message));
        // Looking at very many targets takes at most a tenth of the time.
        pause = LOOK_EVERY.max(10 * began.elapsed());
        if until.is_some_and(|until| until <= Instant::now()) {
            return Ok(FollowEnd::Time);
        }
        if place.is_over() {
            return Ok(FollowEnd::Gone);
        }
    }
}

/// Keeps the redirections in force for as long as the loop turns.
fn send_beats(control: &Control, beats: &Beats, over: &AtomicBool) {
    let mut last = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let turns = control.engine().turns();
        if turns != last {
            last = turns;
            let until = Nanos(clock::now().0 + ALIVE.0);
            let beats = beats.lock().unwrap_or_else(PoisonError::into_inner);
            beats.iter().for_each(|beat| beat.beat(until));
        }
        std::thread::sleep(BEAT_EVERY);
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
            match (slot.departures, current) {
                (0, _) => {}
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

/// The most interfaces of one session. Each needs two links of the engine, and some descriptors.
const MOST_INTERFACES: usize = 1000;
/// The open files of an attached interface (six programs, two TAP devices with three each, the
/// namespace, its owner and a netlink socket), and of the rest of the process.
const FILES_EACH: u64 = 16;
const FILES: u64 = 128;
/// How often the session looks whether its targets still exist. A restarted target is shaped again
/// about this long after its start.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Time between two heartbeats of a loop that works. An idle loop turns every 100 ms.
const BEAT_EVERY: Duration = Duration::from_millis(50);
/// How long packets are redirected after a heartbeat. A stopped process cuts its targets off for at
/// most this long, and one whose loop hangs for the time of a heartbeat longer.
const ALIVE: Nanos = Nanos::from_millis(550);
