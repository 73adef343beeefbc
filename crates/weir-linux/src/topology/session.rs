//! A session: a link that is set up, with its ports, its two ends and the programs behind them. It
//! waits until the programs have ended and then removes the link.

use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

use super::outside::Outside;
use super::place::Place;
use super::{End, Note, Side};
use crate::netns::NetNs;
use crate::port::AnyPort;
use crate::process::{
    Program, ProgramSpec, Report, Signals, SpawnError, Stopper, Terminal, Wake, wait_any,
};

/// An emulated link that is set up, with the programs behind it. Dropping this ends the programs
/// and undoes every change to the machine, as [`Session::close`] does.
#[derive(Debug)]
pub struct Session {
    pub(super) programs: Vec<(Side, Program)>,
    pub(super) ports: Option<[AnyPort; 2]>,
    pub(super) places: [Option<Place>; 2],
    pub(super) ends: [End; 2],
    pub(super) notes: Vec<Note>,
    pub(super) stopper: Stopper,
    pub(super) terminal: Option<Terminal>,
    pub(super) outside: Option<Outside>,
    /// Namespaces that contain interfaces but no program. They are held here, because a port does
    /// not keep its interface's namespace alive.
    #[expect(dead_code, reason = "held, not used: dropping one deletes its interfaces")]
    pub(super) held: Vec<NetNs>,
}

/// The event that ended a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// The program on this side ended, and no signal had asked the session to end.
    Program(Side),
    /// This process received this signal, which ends the session.
    Signal(i32),
    /// [`Stopper::stop`] was called, usually by the thread that drives the ports.
    Stopped,
    /// The timeout of [`Session::wait`] has passed.
    Timeout,
}

/// How one program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramEnd {
    /// The side on which the program ran.
    pub side: Side,
    /// The program's exit code; 128 + n when signal n ended it.
    pub code: u8,
    /// The number of background processes that were ended with the namespace.
    pub background: u32,
    /// Whether the session ended the program; otherwise, the program ended on its own.
    pub ended_by_us: bool,
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The event that ended the session.
    pub ended_by: EndedBy,
    /// The end of every program, in order of time.
    pub programs: Vec<ProgramEnd>,
    /// The exit code of the left-hand program if it failed while the right-hand program still ran
    /// and no signal had asked either of them to end.
    pub left_failed: Option<u8>,
}

impl Outcome {
    /// The exit code of the session, which is that of one of the programs. A left-hand program that
    /// failed first takes precedence, whatever the right-hand program did afterwards. Otherwise, a
    /// program that ended on its own takes precedence over one that the session ended. If both
    /// programs ended in the same manner, the right-hand program takes precedence. Without
    /// programs, the exit code is 128 + n after signal n, otherwise 0.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if let Some(code) = self.left_failed {
            return code;
        }
        let ended_on_its_own =
            |side| self.programs.iter().find(|end| end.side == side && !end.ended_by_us);
        let any = |side| self.programs.iter().find(|end| end.side == side);
        if let Some(end) = ended_on_its_own(Side::Right)
            .or_else(|| ended_on_its_own(Side::Left))
            .or_else(|| any(Side::Right))
            .or_else(|| any(Side::Left))
        {
            return end.code;
        }
        match self.ended_by {
            EndedBy::Signal(number) => u8::try_from(128 + number).unwrap_or(255),
            EndedBy::Program(_) | EndedBy::Stopped | EndedBy::Timeout => 0,
        }
    }
}

/// The result of removing a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloseReport {
    /// Changes that could not be undone, and unexpected findings.
    pub notes: Vec<Note>,
}

impl Session {
    /// The two ports, left (0) and right (1), for the live loop; `None` from the second call on.
    pub fn take_ports(&mut self) -> Option<[AnyPort; 2]> {
        self.ports.take()
    }

    /// The two ends as programs see them, left and right.
    #[must_use]
    pub fn ends(&self) -> &[End; 2] {
        &self.ends
    }

    /// Limitations of this session that the user should know.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// A stopper that ends [`Session::wait`] from any thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Starts a program on one side, in its own namespaces. It is a child in this process's group,
    /// so that the terminal's signals reach it. If both sides have a program, only the right-hand
    /// program reads standard input.
    ///
    /// # Errors
    /// The command cannot be executed or its namespaces cannot be created. Nothing remains of the
    /// program after an error.
    pub fn spawn(&mut self, side: Side, command: &[OsString]) -> Result<(), SpawnError> {
        let both = self.places.iter().all(Option::is_some);
        let Some(place) = &mut self.places[side.index()] else {
            return Err(SpawnError::NoPlace { name: self.ends[side.index()].name.clone() });
        };
        if command.is_empty() {
            return Err(SpawnError::Empty);
        }
        // The foreground group is read before the program can change it.
        self.terminal = self.terminal.take().or_else(Terminal::in_foreground);
        let mut spec = ProgramSpec::new(command);
        spec.hosts = Some(place.hosts.clone());
        spec.resolv = place.resolv.clone();
        spec.own_proc = true;
        spec.without_stdin = both && side == Side::Left;
        spec.environment.push(("WEIR_SIDE".into(), self.ends[side.index()].name.clone()));
        let (program, warnings) = match place.waiting.take() {
            Some(waiting) => waiting.launch(&spec)?,
            None => Program::start(&spec, Some(&place.netns))?,
        };
        self.notes.extend(warnings.into_iter().map(Note::new));
        self.programs.push((side, program));
        Ok(())
    }

    /// Waits until the program ends, a signal ends the session, [`Stopper::stop`] is called, or
    /// `timeout` has passed. Of two programs, the end of the right-hand program counts; if the
    /// left-hand program fails first, the right-hand program has a few seconds to end. After the
    /// wait, the method ends the remaining programs: SIGTERM, a grace period of [`GRACE`], SIGKILL.
    ///
    /// Signals that are sent to this process alone are forwarded to the programs. The terminal's
    /// signals (^C) are not forwarded, because the terminal sends them to the whole process group;
    /// each program decides how it reacts to ^C. Of the forwarded signals, SIGTERM, SIGHUP and
    /// SIGQUIT end the session after the grace period, and SIGINT ends it after half a minute. Any
    /// further signal then ends it at once.
    ///
    /// # Errors
    /// Waiting itself fails.
    pub fn wait(&mut self, signals: &Signals, timeout: Option<Duration>) -> io::Result<Outcome> {
        self.wait_and_settle(signals, timeout, || ())
    }

    /// Does the same as [`Session::wait`], but calls `settle` after a program has ended and before
    /// the other program is ended. Packets that are still in the link can then arrive, so that a
    /// server learns that its client has ended. The other program then has [`FAREWELL`] to end on
    /// its own.
    ///
    /// # Errors
    /// Waiting itself fails.
    pub fn wait_and_settle(
        &mut self,
        signals: &Signals,
        timeout: Option<Duration>,
        settle: impl FnOnce(),
    ) -> io::Result<Outcome> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut ends = Vec::new();
        // The forwarded signal that ends the session, and the time at which the session ends.
        let mut signalled = None;
        // The time until which the right-hand program may continue after the left-hand program
        // failed.
        let mut abandoned: Option<Instant> = None;
        let mut left_failed = None;
        // Whether the terminal or another process has asked the programs to end. After that, no
        // exit code counts as a failure.
        let mut interrupted = false;
        let ended_by = loop {
            let until =
                [deadline, signalled.map(|(_, at)| at), abandoned].into_iter().flatten().min();
            let programs: Vec<&Program> =
                self.programs.iter().map(|(_, program)| program).collect();
            match wait_any(&programs, Some(signals), Some(&self.stopper), until)? {
                Wake::Program(index) => {
                    if let Some(end) = self.reap(index, false) {
                        let (side, failed) = (end.side, end.code != 0);
                        ends.push(end);
                        if side == Side::Left && signalled.is_none() && !self.programs.is_empty() {
                            abandoned = failed.then(|| Instant::now() + ABANDONED);
                            // If the right-hand program has ended in the meantime too, its own
                            // code counts.
                            if failed && !interrupted && !self.has_ended()? {
                                left_failed = ends.last().map(|end| end.code);
                            }
                            continue;
                        }
                        break signalled
                            .map_or(EndedBy::Program(side), |(number, _)| EndedBy::Signal(number));
                    }
                }
                Wake::Signal(signal) => {
                    if self.programs.is_empty() {
                        break EndedBy::Signal(signal.number);
                    }
                    let asks_to_end = !matches!(signal.number, libc::SIGUSR1 | libc::SIGUSR2);
                    interrupted |= asks_to_end;
                    // The terminal sent the signal to the program as well. The program decides
                    // whether ^C ends it; an editor, for example, continues to run.
                    if signal.from_terminal {
                        continue;
                    }
                    for (_, program) in &self.programs {
                        program.signal(signal.number);
                    }
                    // A second signal ends the session at once.
                    if signalled.is_some() {
                        signalled = Some((signal.number, Instant::now()));
                    } else if asks_to_end {
                        let grace =
                            if signal.number == libc::SIGINT { INTERRUPT_GRACE } else { GRACE };
                        signalled = Some((signal.number, Instant::now() + grace));
                    }
                }
                Wake::Stopped => break EndedBy::Stopped,
                Wake::Timeout => match signalled {
                    Some((number, at)) if at <= Instant::now() => break EndedBy::Signal(number),
                    _ if abandoned.is_some_and(|at| at <= Instant::now()) => {
                        break EndedBy::Program(Side::Left);
                    }
                    _ => break EndedBy::Timeout,
                },
            }
        };
        if matches!(ended_by, EndedBy::Program(_)) {
            settle();
            self.wait_for_remaining(&mut ends)?;
        }
        self.end_programs(&mut ends)?;
        if let Some(terminal) = self.terminal.take() {
            terminal.take_back();
        }
        Ok(Outcome { ended_by, programs: ends, left_failed })
    }

    /// Ends the remaining programs and undoes every change to the machine.
    #[must_use]
    pub fn close(mut self) -> CloseReport {
        let mut ends = Vec::new();
        let mut notes = Vec::new();
        if let Err(error) = self.end_programs(&mut ends) {
            notes.push(Note::new(format!("cannot wait for the programs to end: {error}")));
        }
        drop(self.ports.take());
        if let Some(outside) = self.outside.take() {
            notes.extend(outside.close());
        }
        CloseReport { notes }
    }

    /// Whether one of the remaining programs has ended. The call does not wait.
    fn has_ended(&self) -> io::Result<bool> {
        let programs: Vec<&Program> = self.programs.iter().map(|(_, program)| program).collect();
        Ok(matches!(wait_any(&programs, None, None, Some(Instant::now()))?, Wake::Program(_)))
    }

    /// Removes program `index` from the list if it has reported its end.
    fn reap(&mut self, index: usize, ended_by_us: bool) -> Option<ProgramEnd> {
        let (side, program) = &mut self.programs[index];
        let Report { code, background } = program.report()?;
        let end = ProgramEnd { side: *side, code, background, ended_by_us };
        self.programs.remove(index);
        Some(end)
    }

    /// Gives the remaining programs [`FAREWELL`] to end on their own.
    fn wait_for_remaining(&mut self, ends: &mut Vec<ProgramEnd>) -> io::Result<()> {
        let deadline = Instant::now() + FAREWELL;
        while !self.programs.is_empty() {
            let programs: Vec<&Program> =
                self.programs.iter().map(|(_, program)| program).collect();
            match wait_any(&programs, None, None, Some(deadline))? {
                Wake::Program(index) => ends.extend(self.reap(index, false)),
                Wake::Timeout => break,
                Wake::Signal(_) | Wake::Stopped => {}
            }
        }
        Ok(())
    }

    fn end_programs(&mut self, ends: &mut Vec<ProgramEnd>) -> io::Result<()> {
        for (_, program) in &self.programs {
            program.signal(libc::SIGTERM);
        }
        let deadline = Instant::now() + GRACE;
        while !self.programs.is_empty() {
            let programs: Vec<&Program> =
                self.programs.iter().map(|(_, program)| program).collect();
            match wait_any(&programs, None, None, Some(deadline))? {
                Wake::Program(index) => ends.extend(self.reap(index, true)),
                Wake::Timeout => {
                    for (side, program) in self.programs.drain(..) {
                        program.kill();
                        ends.push(ProgramEnd {
                            side,
                            code: KILLED,
                            background: 0,
                            ended_by_us: true,
                        });
                    }
                }
                Wake::Signal(_) | Wake::Stopped => {}
            }
        }
        Ok(())
    }
}

/// Time between SIGTERM and SIGKILL: long enough for a program to write its results, short enough
/// for a user to wait.
pub const GRACE: Duration = Duration::from_secs(3);
/// How long a program may take to end on its own after the other program has ended.
pub const FAREWELL: Duration = Duration::from_millis(100);
/// How long the right-hand program may continue after the left-hand program has failed: enough to
/// notice and report the failure.
const ABANDONED: Duration = Duration::from_secs(5);
/// Time between SIGINT and the end of the session: long, because a program may treat SIGINT as a
/// request, such as to print statistics or to ask the user.
const INTERRUPT_GRACE: Duration = Duration::from_secs(30);
/// The exit code that a shell gives for a process ended by SIGKILL.
const KILLED: u8 = 128 + 9;

#[cfg(test)]
mod tests {
    use super::*;

    fn end(side: Side, code: u8, ended_by_us: bool) -> ProgramEnd {
        ProgramEnd { side, code, background: 0, ended_by_us }
    }

    #[test]
    fn right_program_decides_the_exit_code_unless_the_session_ended_it() {
        let by = EndedBy::Program(Side::Right);
        let outcome = |programs| Outcome { ended_by: by, programs, left_failed: None };
        assert_eq!(
            outcome(vec![end(Side::Right, 3, false), end(Side::Left, 143, true)]).exit_code(),
            3
        );
        assert_eq!(
            outcome(vec![end(Side::Left, 4, false), end(Side::Right, 143, true)]).exit_code(),
            4
        );
        assert_eq!(outcome(vec![end(Side::Left, 7, false)]).exit_code(), 7);
    }

    #[test]
    fn a_left_program_that_failed_first_decides_the_exit_code() {
        let programs = vec![end(Side::Left, 127, false), end(Side::Right, 0, false)];
        let ended_by = EndedBy::Program(Side::Right);
        let outcome = Outcome { ended_by, programs, left_failed: Some(127) };
        assert_eq!(outcome.exit_code(), 127);
        // A server that fails because its client is gone has not failed first.
        let programs = vec![end(Side::Right, 0, false), end(Side::Left, 1, false)];
        assert_eq!(Outcome { ended_by, programs, left_failed: None }.exit_code(), 0);
    }

    #[test]
    fn session_without_programs_returns_the_signal() {
        let outcome = |ended_by| Outcome { ended_by, programs: vec![], left_failed: None };
        assert_eq!(outcome(EndedBy::Signal(15)).exit_code(), 143);
        assert_eq!(outcome(EndedBy::Timeout).exit_code(), 0);
    }
}
