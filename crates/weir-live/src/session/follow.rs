//! Keeps targets behind their links while a session lasts, and follows targets that vanish and
//! return.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use weir_linux::helper::Guard;
use weir_linux::process::{Job, JobEvent, Signals};
use weir_linux::topology::{self, Happened};

use super::LiveSession;
use super::attached::{ALIVE, Attached, Beats};
use super::control::Control;
use super::site;

/// The reason why [`LiveSession::follow`] or [`LiveSession::follow_job`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowEnd {
    /// This process received this signal.
    Signal(i32),
    /// The session was stopped, or its loop failed.
    Stopped,
    /// The time limit is reached.
    Time,
    /// No target exists any more, and none of them can return.
    Gone,
    /// The job has ended.
    Job {
        /// The job's exit code.
        code: u8,
        /// Whether it was asked to end because the time limit was reached.
        timed_out: bool,
    },
}

impl LiveSession<Attached> {
    /// Shapes the targets until a signal arrives, the session is stopped, or the time `until` is
    /// reached. A target that vanishes is attached again when it returns; `report` receives a
    /// message about each such event. When this function returns, all packets pass unshaped, and
    /// the packets inside have arrived unless that takes longer than two seconds.
    ///
    /// # Errors
    /// Waiting itself fails.
    pub fn follow(
        &mut self,
        signals: &Signals,
        until: Option<Instant>,
        mut report: impl FnMut(&str),
    ) -> io::Result<FollowEnd> {
        self.shape_while(|place, control| wait(place, control, signals, until, &mut report))
    }

    /// Shapes the containers of a job until the job ends. Signals that are sent to this process
    /// alone are forwarded to the job; at the time `until` the job is asked to end. If this process
    /// is killed while it attaches a container, `guard` lets that container continue.
    ///
    /// # Errors
    /// Waiting itself fails.
    pub fn follow_job(
        &mut self,
        job: &mut Job,
        guard: &Guard,
        signals: &Signals,
        until: Option<Instant>,
        mut report: impl FnMut(&str),
    ) -> io::Result<FollowEnd> {
        self.shape_while(|place, control| {
            let catch = |place: &mut Attached| place.catch(control, guard);
            wait_for_job(place, control, job, catch, signals, until, &mut report)
        })
    }

    /// Shapes the targets while `wait` runs.
    fn shape_while(
        &mut self,
        wait: impl FnOnce(&mut Attached, &Control) -> io::Result<FollowEnd>,
    ) -> io::Result<FollowEnd> {
        let over = AtomicBool::new(false);
        let (control, beats) = (&self.control, Arc::clone(&self.place.beats));
        let place = &mut self.place;
        let ended = std::thread::scope(|scope| {
            scope.spawn(|| send_beats(control, &beats, &over));
            let ended = wait(place, control);
            over.store(true, Ordering::Relaxed);
            ended
        });
        self.place.release();
        self.control.drain();
        ended
    }
}

/// Waits for an event that ends [`LiveSession::follow`], and checks the targets meanwhile.
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
        // Even with very many targets, the checks take at most a tenth of the time.
        pause = LOOK_EVERY.max(10 * began.elapsed());
        if until.is_some_and(|until| until <= Instant::now()) {
            return Ok(FollowEnd::Time);
        }
        if place.is_over() {
            return Ok(FollowEnd::Gone);
        }
    }
}

/// Waits for an event that ends [`LiveSession::follow_job`], and checks the targets meanwhile.
fn wait_for_job(
    place: &mut Attached,
    control: &Control,
    job: &mut Job,
    catch: impl Fn(&mut Attached) -> Vec<String>,
    signals: &Signals,
    until: Option<Instant>,
    report: &mut impl FnMut(&str),
) -> io::Result<FollowEnd> {
    let mut timed_out = false;
    let mut looked = Instant::now();
    loop {
        let next = Instant::now() + CATCH_EVERY;
        match job.wait(signals, Some(&place.stopper), Some(next))? {
            JobEvent::Ended(code) => return Ok(FollowEnd::Job { code, timed_out }),
            JobEvent::Stopped => return Ok(FollowEnd::Stopped),
            JobEvent::Time => {}
        }
        catch(place).iter().for_each(|message| report(message));
        if looked.elapsed() >= LOOK_EVERY {
            place.refresh(control).iter().for_each(|message| report(message));
            looked = Instant::now();
        }
        if !timed_out && until.is_some_and(|until| until <= Instant::now()) {
            job.terminate();
            timed_out = true;
        }
    }
}

/// Keeps the redirections in force while the loop answers.
fn send_beats(control: &Control, beats: &Beats, over: &AtomicBool) {
    let mut last = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let turns = control.engine().turns();
        if turns != last {
            last = turns;
            site::beat(&*beats.lock().unwrap_or_else(PoisonError::into_inner), ALIVE);
        }
        std::thread::sleep(BEAT_EVERY);
    }
}

/// The interval at which the session checks whether its targets still exist. A restarted target is
/// shaped again at most about this long after its start.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The interval at which the session checks whether an awaited container has its network. The
/// container's program begins some tens of milliseconds after the network is there.
const CATCH_EVERY: Duration = Duration::from_millis(4);
/// The interval at which a heartbeat is sent if the loop has completed a turn in the meantime. An
/// idle loop wakes up every 100 ms.
const BEAT_EVERY: Duration = Duration::from_millis(50);
