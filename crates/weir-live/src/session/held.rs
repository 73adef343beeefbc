//! Sessions that shape the interfaces of one site that the caller has found, while the interfaces
//! exist. The agent has one such session for each container.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_attach::{AttachError, Attachment, Selection, Site, interfaces};
use weir_core::Nanos;
use weir_linux::port::AnyPort;
use weir_linux::process::Stopper;
use weir_linux::topology::{End, Note, SetupError};
use weir_rules::LinkSpec;

use super::LiveSession;
use super::config::{Emulation, Lanes, Link};
use super::site;
use super::surroundings::{Place, Surroundings, private};

/// A site with redirected interfaces. Dropping this restores its direct traffic.
#[derive(Debug)]
pub struct HeldSite {
    site: Arc<Site>,
    /// The redirection of each interface, with the interface's name.
    attachments: Vec<(String, Attachment)>,
    /// For each interface, the first part of the names of its links.
    labels: Vec<String>,
    ports: Vec<AnyPort>,
    ends: Vec<End>,
    /// Whether the site's interfaces may have changed since the last check for new interfaces.
    has_news: bool,
    stopper: Stopper,
}

/// The reason why [`LiveSession::hold`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldEnd {
    /// The caller asked for the end.
    Asked,
    /// The site does not exist any more.
    Gone,
    /// The site has other interfaces than at the start, or a TAP device of a redirection is gone or
    /// down.
    Changed,
    /// The session's loop has ended.
    Failed,
}

impl HeldSite {
    /// Prepares the redirection of the packets of all interfaces of a site that are up and carry
    /// Ethernet frames. The redirection begins with [`LiveSession::shape`]; until then the packets
    /// pass unshaped.
    ///
    /// # Errors
    /// The site cannot be attached; its traffic is then as before.
    pub fn open(site: Site, name: &str) -> Result<HeldSite, AttachError> {
        let names = interfaces(&site, &[])?;
        if names.len() > MAX_INTERFACES {
            return Err(AttachError::TooMany { count: names.len(), most: MAX_INTERFACES });
        }
        let mut held = HeldSite {
            site: Arc::new(site),
            attachments: Vec::new(),
            labels: Vec::new(),
            ports: Vec::new(),
            ends: Vec::new(),
            has_news: true,
            stopper: Stopper::new()?,
        };
        let is_only = names.len() == 1;
        for interface in names {
            let selection = Selection { owner: held.site.owner(), ..Selection::default() };
            let (attachment, ports) = Attachment::open(&held.site, &interface, &selection)?;
            let label = if is_only { name.to_owned() } else { format!("{name}/{interface}") };
            held.ends.extend(site::ends(&label, &interface));
            held.ports.extend(ports);
            held.labels.push(label);
            held.attachments.push((interface, attachment));
        }
        Ok(held)
    }

    /// Links with the names `NAME.up` and `NAME.down`, or `NAME/INTERFACE.up` and so on if the site
    /// has several interfaces. The part before the dot names both directions.
    #[must_use]
    pub fn links(&self, up: &LinkSpec, down: &LinkSpec) -> Emulation {
        let mut lanes = Lanes::default();
        for label in &self.labels {
            site::add_links(&mut lanes, up, down, |direction, spec| {
                Link::new(format!("{label}.{direction}"), spec).direction_of(label)
            });
        }
        Emulation::Lanes(lanes)
    }

    fn beat(&self) {
        site::beat(self.attachments.iter().map(|(_, attachment)| attachment.heartbeat()), ALIVE);
    }

    fn release(&self) {
        self.attachments.iter().for_each(|(_, attachment)| attachment.heartbeat().stop());
    }

    /// The reason why the session must end; `None` if it can continue. New interfaces are noticed
    /// only with `closely`.
    fn look(&mut self, closely: bool) -> Option<HoldEnd> {
        if !self.site.exists() {
            return Some(HoldEnd::Gone);
        }
        for (_, attachment) in &mut self.attachments {
            self.has_news |= attachment.has_news();
        }
        let is_intact = self.attachments.iter_mut().all(|(_, attachment)| attachment.is_intact());
        let is_same = |names: Vec<String>| {
            names.iter().eq(self.attachments.iter().map(|(interface, _)| interface))
        };
        // An error is no reason to end a redirection that works.
        let has_others = closely
            && self.has_news
            && match interfaces(&self.site, &[]) {
                Ok(now) => {
                    self.has_news = false;
                    !is_same(now)
                }
                Err(_) => false,
            };
        (!is_intact || has_others).then_some(HoldEnd::Changed)
    }
}

impl LiveSession<HeldSite> {
    /// Puts the redirection in force, if the loop answers. Unless [`Self::hold`] continues it, the
    /// redirection lapses after 0.6 s, and packets then pass unshaped.
    pub fn shape(&self) {
        if self.control.counters().is_ok() {
            self.place.beat();
        }
    }

    /// Shapes the site until `over` is set, the site vanishes, its interfaces change, or the loop
    /// fails. Unparking the thread lets it notice `over` at once. When this function returns, all
    /// packets pass unshaped. If the site and the loop still exist, the packets inside have arrived
    /// unless that takes longer than two seconds.
    pub fn hold(&mut self, over: &AtomicBool) -> HoldEnd {
        let mut looked = Instant::now();
        let mut looks = 0u32;
        let mut turns = Vec::new();
        let ended = loop {
            if over.load(Ordering::Relaxed) {
                break HoldEnd::Asked;
            }
            if self.has_ended() {
                break HoldEnd::Failed;
            }
            // Without heartbeats, packets soon pass unshaped, so a loop that hangs does no lasting
            // harm. The loop's number of turns shows that it works, without waking it up.
            let now = self.control.engine().turns();
            if now != turns {
                turns = now;
                self.place.beat();
            }
            if looked.elapsed() >= LOOK_EVERY {
                looks = looks.wrapping_add(1);
                if let Some(end) = self.place.look(looks.is_multiple_of(CLOSELY_EVERY)) {
                    break end;
                }
                looked = Instant::now();
            }
            std::thread::park_timeout(BEAT_EVERY);
        };
        self.place.release();
        if matches!(ended, HoldEnd::Asked | HoldEnd::Changed) {
            self.control.drain();
        }
        ended
    }
}

impl Surroundings for HeldSite {
    type Place = HeldSite;

    fn set_up(self) -> Result<HeldSite, SetupError> {
        Ok(self)
    }
}

impl Place for HeldSite {
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
        &[]
    }

    fn close(self) -> Vec<Note> {
        self.release();
        Vec::new()
    }
}

impl private::Sealed for HeldSite {}

/// Maximum number of interfaces of a site. The bound keeps a container that may create interfaces
/// from exhausting the machine.
const MAX_INTERFACES: usize = 16;
/// The interval at which the thread checks whether the site still exists.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The thread also looks for new interfaces once in this number of checks.
const CLOSELY_EVERY: u32 = 4;
/// Time between two heartbeats of a loop that works. An idle loop wakes up every 100 ms. The time
/// is long, because an agent has such a thread for each container. The thread may run late, because
/// [`ALIVE`] is three times as long.
const BEAT_EVERY: Duration = Duration::from_millis(200);
/// How long packets are redirected after a heartbeat.
const ALIVE: Nanos = Nanos::from_millis(600);
