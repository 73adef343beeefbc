//! The server's side of watches of the kernel's queues. Each device that clients look at has one
//! watch, which ends when no client asks for its readings any more.

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_control::dashboard::{KernelPoint, KernelView, StudyError};
use weir_linux::process::Spawned;

use super::kernel::{Begun, Interval};
use super::messages::{self, END, Missing, PART, PROGRESS, REFUSAL, RESULTS};

/// The watches of the page's server, by device.
#[derive(Clone, Debug, Default)]
pub(super) struct Watches(Arc<Mutex<BTreeMap<String, Watched>>>);

/// A device that is watched.
#[derive(Debug)]
struct Watched {
    /// How the reader reads the queues; empty until the reader's first message.
    begun: Begun,
    /// The last intervals, oldest first.
    points: VecDeque<KernelPoint>,
    /// The number of the newest point.
    count: u64,
    /// When a client last asked.
    asked: Instant,
    /// Why the reader has ended.
    ended: Option<String>,
}

impl Watches {
    /// The readings of a device after the point with number `after`. If the device has no watch
    /// yet, one begins, and `spawn` starts its process. `remark` is added to the remarks of a
    /// reader that has fallen back to netlink.
    pub(super) fn view(
        &self,
        device: &str,
        after: u64,
        remark: Option<&'static str>,
        spawn: impl FnOnce() -> Result<Spawned, StudyError>,
    ) -> Result<KernelView, StudyError> {
        check(device)?;
        let mut all = self.lock();
        // A watch that has ended begins anew after a while, since the device may be back.
        all.retain(|_, one| one.ended.is_none() || one.asked.elapsed() < AGAIN);
        if let Some(one) = all.get_mut(device) {
            if one.ended.is_none() {
                one.asked = Instant::now();
            }
            return Ok(view(one, after));
        }
        if all.values().filter(|one| one.ended.is_none()).count() >= MOST {
            return Err(StudyError::Busy(format!(
                "{MOST} devices are watched already; close a tab that shows another one"
            )));
        }
        let spawned = spawn()?;
        let one = Watched {
            begun: Begun::default(),
            points: VecDeque::new(),
            count: 0,
            asked: Instant::now(),
            ended: None,
        };
        let first = view(&one, after);
        let (watches, name) = (self.clone(), device.to_owned());
        let follow = move || {
            let why = watches.follow(&name, remark, &spawned.stream);
            let mut all = watches.lock();
            match why {
                Some(why) => {
                    if let Some(one) = all.get_mut(&name) {
                        one.ended = Some(why);
                    }
                }
                None => {
                    all.remove(&name);
                }
            }
        };
        // The map is locked until the entry is inserted, so the thread finds the entry.
        std::thread::Builder::new()
            .name("weir-kernel".to_owned())
            .spawn(follow)
            .map_err(|error| StudyError::Failed(format!("no thread can be started: {error}")))?;
        all.insert(device.to_owned(), one);
        Ok(first)
    }

    /// Takes the messages of a reader. Returns the reason once the reader has ended, or `None` once
    /// no client asks for its readings any more.
    fn follow(
        &self,
        device: &str,
        remark: Option<&'static str>,
        stream: &UnixStream,
    ) -> Option<String> {
        // A failed send is ignored, because the process's own message gives a better reason.
        let _ = messages::send(stream, PART, device.as_bytes())
            .and_then(|()| messages::send(stream, END, b""));
        loop {
            let until = Instant::now() + SILENT;
            match messages::receive(stream, MOST_MESSAGE, Some(until)) {
                Ok((kind, bytes)) => {
                    if kind == REFUSAL {
                        return Some(String::from_utf8_lossy(&bytes).into_owned());
                    }
                    let mut all = self.lock();
                    let one = all.get_mut(device)?;
                    if one.asked.elapsed() > KEEP {
                        return None;
                    }
                    match kind {
                        RESULTS => {
                            one.begun = serde_json::from_slice(&bytes).unwrap_or_default();
                            if one.begun.method == "netlink" {
                                one.begun.remarks.extend(remark.map(str::to_owned));
                            }
                        }
                        PROGRESS => one.take(serde_json::from_slice(&bytes).unwrap_or_default()),
                        _ => {}
                    }
                }
                Err(Missing::Ended) => return Some("the process that reads has ended".to_owned()),
                Err(Missing::TooLong) => return Some("the device has too many queues".to_owned()),
                Err(Missing::Late) => {
                    if self.lock().get(device)?.asked.elapsed() > KEEP {
                        return None;
                    }
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    fn take(&mut self, interval: Interval) {
        let Interval { at_ns, span_ms, queues, remarks } = interval;
        for remark in remarks {
            let known = &mut self.begun.remarks;
            if known.len() < MOST_REMARKS && !known.contains(&remark) {
                known.push(remark);
            }
        }
        self.count += 1;
        let number = self.count;
        // The page's server sets `t_ms`.
        self.points.push_back(KernelPoint { number, at_ns, t_ms: 0.0, span_ms, queues });
        if self.points.len() > MOST_POINTS {
            self.points.pop_front();
        }
    }
}

fn view(one: &Watched, after: u64) -> KernelView {
    // A number above that of the newest point comes from an earlier watch of the device.
    let after = if after > one.count { 0 } else { after };
    KernelView {
        method: one.begun.method.clone(),
        rate: one.begun.rate,
        remarks: one.begun.remarks.clone(),
        ended: one.ended.clone(),
        points: one.points.iter().filter(|point| point.number > after).cloned().collect(),
    }
}

/// Refuses a text that cannot be the name of one device, because the reader also accepts patterns.
fn check(device: &str) -> Result<(), StudyError> {
    let is_wrong = |c: char| c == '/' || c == '@' || c == '*' || c == '?' || c.is_whitespace();
    if device.is_empty() || device.len() > 15 || device.contains(is_wrong) {
        let why = "a device has a name of 1 to 15 letters, digits and signs";
        return Err(StudyError::Wrong(why.to_owned()));
    }
    Ok(())
}

/// Maximum number of devices that are watched at one time.
const MOST: usize = 4;
/// A watch ends when no client has asked for its readings for this time.
const KEEP: Duration = Duration::from_secs(5);
/// How long an ended watch answers with its error before it begins anew.
const AGAIN: Duration = Duration::from_secs(2);
/// The longest wait for a message of a reader. The watch then checks whether clients still ask.
const SILENT: Duration = Duration::from_secs(1);
/// Number of points that are kept: a quarter of a minute. A page keeps the points that it has
/// received.
const MOST_POINTS: usize = 150;
/// Maximum number of bytes of a message, and of remarks of a watch.
const MOST_MESSAGE: usize = 256 << 10;
const MOST_REMARKS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(points: u64) -> Watched {
        let mut one = Watched {
            begun: Begun::default(),
            points: VecDeque::new(),
            count: 0,
            asked: Instant::now(),
            ended: None,
        };
        (0..points).for_each(|_| one.take(Interval::default()));
        one
    }

    #[test]
    fn points_are_bounded_and_come_once() {
        let one = watched(700);
        assert_eq!(one.points.len(), MOST_POINTS);
        let numbers = |after| -> Vec<u64> {
            view(&one, after).points.iter().map(|point| point.number).collect()
        };
        assert_eq!(numbers(698), [699, 700]);
        assert!(numbers(700).is_empty());
        assert_eq!(numbers(5000).len(), MOST_POINTS, "5000 is a number of an earlier watch");
    }

    #[test]
    fn a_device_is_given_by_its_name_and_not_by_a_pattern() {
        for wrong in ["", "a b", "*", "eth0@1", "../x", "sixteen-letters-"] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
        assert!(check("eth0.7").is_ok());
    }

    #[test]
    fn a_failed_start_is_an_error_and_at_most_four_devices_are_watched() {
        let watches = Watches::default();
        let fail = || Err(StudyError::Failed("no process".to_owned()));
        assert!(watches.view("eth0", 0, None, fail).is_err());
        let mut all = watches.lock();
        for n in 0..MOST {
            all.insert(format!("eth{n}"), watched(0));
        }
        drop(all);
        let fifth = watches.view("eth9", 0, None, fail);
        assert!(matches!(fifth, Err(StudyError::Busy(_))), "{fifth:?}");
    }
}
