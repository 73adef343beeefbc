//! The handle of a running live loop. It changes the loop's configuration and reads its state.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use weir_core::config::PipeConfig;
use weir_core::stats::LinkStats;
use weir_core::{Emulator, Nanos};
use weir_rules::classify::{Classifier, DynamicEntry};

use super::config::LiveError;
use super::mailbox::{Answer, Mailbox, Missing, Reply, question};
use super::report::{Arrivals, LiveReport, RuleCount, merge_rules};
use crate::port::AnyPort;

/// A handle of a running loop. It can be cloned and used from any thread.
///
/// Every call that needs an answer of the loop fails if the answer does not arrive within
/// [`ANSWER_WITHIN`], or within the limit of [`LiveHandle::within`]. A stuck loop therefore does
/// not block the callers. A change that was not answered in time comes into force when the loop
/// works again.
#[derive(Clone, Debug)]
pub struct LiveHandle {
    /// The sending ends, one for each worker.
    remotes: Arc<[Remote]>,
    /// The longest wait for an answer.
    limit: Duration,
}

/// The sending end of a worker's commands.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    commands: Arc<Mailbox<Command>>,
    wake: Arc<OwnedFd>,
    turns: Arc<Turns>,
}

/// The number of turns of a worker, on a cache line that no other worker writes.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Turns(AtomicU64);

/// Why the loop gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The loop has ended.
    #[error("the link has ended")]
    Ended,
    /// The loop did not answer in time.
    #[error("the loop that forwards packets did not answer in time")]
    Late,
}

/// A change of the engine's configuration, which every worker applies to its own engine.
pub type Change = Arc<dyn Fn(&mut Emulator, Nanos) + Send + Sync>;

impl LiveHandle {
    pub(super) fn new(remotes: Vec<Remote>) -> Self {
        Self { remotes: remotes.into(), limit: ANSWER_WITHIN }
    }

    /// A handle of the same loop that waits for each answer for at most `limit`, in steps of 0.1 s.
    #[must_use]
    pub fn within(&self, limit: Duration) -> Self {
        Self { remotes: Arc::clone(&self.remotes), limit }
    }

    /// The number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.remotes.len()
    }

    /// Creates or changes pipe `id`. Packets inside the pipe stay. The change is in force when this
    /// call returns, so the loop must be running.
    pub fn set_pipe(&self, id: u16, config: &PipeConfig) -> Result<(), NoAnswer> {
        // The workers answer with their copies of the configuration, so that this thread and not a
        // worker spends the time to free them.
        self.tell_all(|answer| Command::SetPipe(id, Box::new(config.clone()), answer)).map(|_| ())
    }

    /// Applies `change` to the engine, then puts new rules in force. On each worker, both happen
    /// between two packets. Rules that remain keep their counters. Packets inside the engine
    /// continue after the rule that sent them there.
    pub fn set_rules(&self, rules: &Arc<Classifier>, change: &Change) -> Result<(), NoAnswer> {
        // The workers answer with the old rules, so that this thread and not a worker spends the
        // time to free them.
        self.tell_all(|answer| Command::Rules(Arc::clone(rules), Arc::clone(change), answer))
            .map(|_| ())
    }

    /// The counters of each rule, summed over all workers and ordered by rule identity; empty
    /// without rules.
    pub fn rule_counts(&self) -> Result<Vec<RuleCount>, NoAnswer> {
        Ok(merge_rules(self.ask_all(Command::RuleCounts)?))
    }

    /// Sets the counters of the rules with these identities to 0, or of all rules if `ids` is
    /// `None`.
    pub fn zero_rules(&self, ids: Option<&[u32]>) -> Result<(), NoAnswer> {
        self.tell_all(|answer| Command::ZeroRules(ids.map(<[_]>::to_vec), answer)).map(|_| ())
    }

    /// The current dynamic rules.
    pub fn dynamic_rules(&self) -> Result<Vec<DynamicEntry>, NoAnswer> {
        let (answer, result) = question();
        self.remotes[0].ask(Command::Dynamic(answer))?;
        Patience::new(self.limit).wait(&result)
    }

    /// Replaces port `port` of each worker, after an interface was created again. `with` has one
    /// port for each worker. The new ports send the frames that the old ports had queued.
    pub fn replace_port(&self, port: usize, with: Vec<AnyPort>) -> Result<(), NoAnswer> {
        let mut answers = Vec::with_capacity(self.remotes.len());
        for (remote, new) in self.remotes.iter().zip(with) {
            let (answer, result) = question();
            remote.send(Command::Port(port, Box::new(new), answer))?;
            answers.push(result);
        }
        let mut patience = Patience::new(self.limit);
        answers.into_iter().try_for_each(|result| patience.wait(&result))
    }

    /// Runs `work` on the engine of each worker between two packets, and returns the results.
    /// `work` must be quick, because packets wait meanwhile.
    pub fn with_engines<T: Send + 'static>(
        &self,
        work: impl Fn(&mut Emulator, Nanos) -> T + Send + Sync + 'static,
    ) -> Result<Vec<T>, NoAnswer> {
        let work = Arc::new(work);
        self.ask_all(|answer| {
            let work = Arc::clone(&work);
            Command::Engine(Box::new(move |engine, now| {
                answer.send(work(engine, now));
            }))
        })
    }

    /// Runs `work` on the engine of the first or only worker, and returns its result. `work` must
    /// be quick, because packets wait meanwhile.
    pub fn with_engine<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Emulator, Nanos) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        self.with_engine_of(0, work)
    }

    /// Runs `work` on the engine of worker `worker`, and returns its result. `work` must be quick,
    /// because packets wait meanwhile.
    ///
    /// # Panics
    /// There are no more than `worker` workers.
    pub fn with_engine_of<T: Send + 'static>(
        &self,
        worker: usize,
        work: impl FnOnce(&mut Emulator, Nanos) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let (answer, result) = question();
        self.remotes[worker].ask(Command::Engine(Box::new(move |engine, now| {
            answer.send(work(engine, now));
        })))?;
        Patience::new(self.limit).wait(&result)
    }

    /// The results so far.
    pub fn report(&self) -> Result<LiveReport, NoAnswer> {
        Ok(LiveReport {
            pipes: self.pipe_stats()?,
            rules: self.rule_counts()?,
            ..self.brief_report()?
        })
    }

    /// The number and the statistics of each pipe and scheduler, summed over its instances and over
    /// all workers. The workers copy the statistics of a few pipes at a time, because packets wait
    /// meanwhile. The statistics of many pipes are therefore not from the same moment.
    pub fn pipe_stats(&self) -> Result<Vec<(u16, LinkStats)>, NoAnswer> {
        let ids = self.with_engines(|engine, _| engine.schedulers().collect::<BTreeSet<_>>())?;
        let ids: Vec<u16> =
            ids.into_iter().flatten().collect::<BTreeSet<_>>().into_iter().collect();
        let mut all = Vec::with_capacity(ids.len());
        for portion in ids.chunks(PORTION) {
            let wanted = portion.to_vec();
            let parts = self.with_engines(move |engine, _| {
                wanted.iter().map(|&id| engine.stats(id).cloned()).collect::<Vec<_>>()
            })?;
            for (index, &id) in portion.iter().enumerate() {
                let found = parts.iter().filter_map(|part| part[index].as_ref());
                let sum = found.fold(None, |sum: Option<LinkStats>, part| {
                    let mut sum = sum.unwrap_or_default();
                    sum.merge(part);
                    Some(sum)
                });
                all.extend(sum.map(|stats| (id, stats)));
            }
        }
        Ok(all)
    }

    /// The results so far, without the statistics of rules and pipes. This call is quick, however
    /// many rules and pipes there are.
    pub fn brief_report(&self) -> Result<LiveReport, NoAnswer> {
        let mut parts = self.ask_all(Command::Report)?;
        // With several workers, the arrivals are read again after the reports. Otherwise a report
        // could contain a departure without its arrival: a worker may count an arrival after its
        // own report, and hand the packet over to a worker that reports the departure.
        let arrivals = if parts.len() > 1 { self.ask_all(Command::Arrivals)? } else { Vec::new() };
        let others = parts.split_off(1.min(parts.len()));
        let first = parts.pop().ok_or(NoAnswer::Ended)?;
        Ok(LiveReport::merge(first, others, &arrivals))
    }

    /// The engine's counters and latencies of a pipe or scheduler; `None` when it is not
    /// configured.
    pub fn engine_stats(&self, id: u16) -> Result<Option<LinkStats>, NoAnswer> {
        let parts = self.with_engines(move |engine, _| engine.stats(id).cloned())?;
        Ok(parts.into_iter().flatten().reduce(|mut sum, part| {
            sum.merge(&part);
            sum
        }))
    }

    /// The number of turns of each worker so far. A worker that runs completes at least ten turns a
    /// second, so a number that stays the same shows that the worker hangs. This call does not wait
    /// for the workers, and also works after the end of the loop.
    #[must_use]
    pub fn turns(&self) -> Vec<u64> {
        self.remotes.iter().map(|remote| remote.turns.0.load(Ordering::Relaxed)).collect()
    }

    /// Waits until the observer has seen all events from before this call. Does not wait for the
    /// events of a worker with a full ring. The observer must not call this function, because it
    /// would wait for itself.
    pub fn settle_observer(&self) -> Result<(), NoAnswer> {
        let mut answers = Vec::with_capacity(self.remotes.len());
        for remote in &*self.remotes {
            let (answer, result) = question();
            remote.ask(Command::Mark(answer))?;
            answers.push(result);
        }
        let mut patience = Patience::new(self.limit);
        for result in answers {
            // There is no answer without an observer, or if the ring is full or the loop has ended.
            match patience.wait(&result) {
                Err(NoAnswer::Late) => return Err(NoAnswer::Late),
                Ok(()) | Err(NoAnswer::Ended) => {}
            }
        }
        Ok(())
    }

    /// Ends the loop. Packets inside are not sent and count as backlog.
    pub fn stop(&self) -> Result<(), NoAnswer> {
        let outcomes: Vec<_> =
            self.remotes.iter().map(|remote| remote.send(Command::Stop)).collect();
        outcomes.into_iter().collect()
    }

    /// Sends a question to every worker, then waits for all answers. Fails at a worker that is
    /// stuck, without asking it.
    fn ask_all<T>(&self, command: impl Fn(Answer<T>) -> Command) -> Result<Vec<T>, NoAnswer> {
        self.send_all(Remote::ask, command)
    }

    /// Sends a change to every worker, then waits for all answers. A worker that is stuck gets the
    /// change too, so that all changes come into force when it works again.
    fn tell_all<T>(&self, command: impl Fn(Answer<T>) -> Command) -> Result<Vec<T>, NoAnswer> {
        self.send_all(Remote::send, command)
    }

    fn send_all<T>(
        &self,
        send: fn(&Remote, Command) -> Result<(), NoAnswer>,
        command: impl Fn(Answer<T>) -> Command,
    ) -> Result<Vec<T>, NoAnswer> {
        let mut answers = Vec::with_capacity(self.remotes.len());
        for remote in &*self.remotes {
            let (answer, result) = question();
            send(remote, command(answer))?;
            answers.push(result);
        }
        let mut patience = Patience::new(self.limit);
        answers.into_iter().map(|result| patience.wait(&result)).collect()
    }
}

/// The time that remains for the answers to one question.
///
/// The time is counted in completed steps of waiting. If the process is stopped while it waits,
/// only one step counts, however long it is stopped.
struct Patience {
    steps: u128,
}

impl Patience {
    fn new(limit: Duration) -> Self {
        Self { steps: limit.as_millis().div_ceil(STEP.as_millis()) }
    }

    fn wait<T>(&mut self, result: &Reply<T>) -> Result<T, NoAnswer> {
        loop {
            match result.wait(STEP) {
                Ok(answer) => return Ok(answer),
                Err(Missing::Never) => return Err(NoAnswer::Ended),
                Err(Missing::NotYet) if self.steps <= 1 => return Err(NoAnswer::Late),
                Err(Missing::NotYet) => self.steps -= 1,
            }
        }
    }
}

impl Remote {
    /// Sends a question. Fails if so many commands wait that the worker must be stuck.
    fn ask(&self, command: Command) -> Result<(), NoAnswer> {
        if self.commands.waiting() >= WAITING {
            return Err(NoAnswer::Late);
        }
        self.send(command)
    }

    fn send(&self, command: Command) -> Result<(), NoAnswer> {
        self.commands.post(command).map_err(|_| NoAnswer::Ended)?;
        self.wake();
        Ok(())
    }

    /// The descriptor that wakes the worker when another thread writes to it.
    pub(super) fn wake_descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.wake)
    }

    pub(super) fn wake(&self) {
        // This fails only if the counter is full, and then the worker is already awake.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

/// The longest wait for an answer of the loop. The loop answers after one turn, which takes less
/// than a millisecond, or about 100 ms for a change of a large configuration.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The step in which the wait for an answer is counted.
const STEP: Duration = Duration::from_millis(100);
/// Maximum number of commands that wait at a worker. With more, the worker counts as stuck and gets
/// no further questions. Each thread waits for the answer to its question, so only a few commands
/// wait at a worker that is not stuck.
const WAITING: usize = 1024;
/// A worker copies the statistics of at most this many pipes between two packets. A pipe has up to
/// 30 KB of statistics.
const PORTION: usize = 8;

/// A command from a handle to a worker. The methods of [`LiveHandle`] describe the commands.
pub(super) enum Command {
    SetPipe(u16, Box<PipeConfig>, Answer<Box<PipeConfig>>),
    Rules(Arc<Classifier>, Change, Answer<Option<Arc<Classifier>>>),
    RuleCounts(Answer<Vec<RuleCount>>),
    ZeroRules(Option<Vec<u32>>, Answer<()>),
    Dynamic(Answer<Vec<DynamicEntry>>),
    Port(usize, Box<AnyPort>, Answer<()>),
    Engine(Work),
    Report(Answer<LiveReport>),
    Arrivals(Answer<Vec<Arrivals>>),
    /// Answers when the observer has seen all earlier events.
    Mark(Answer<()>),
    Stop,
}

/// A function that a worker runs on its engine.
type Work = Box<dyn FnOnce(&mut Emulator, Nanos) + Send>;

/// The receiving end of a worker's commands. After it is dropped, further commands are refused, and
/// commands that were not executed get no answer.
#[derive(Debug)]
pub(super) struct Inbox {
    commands: Arc<Mailbox<Command>>,
    wake: Arc<OwnedFd>,
    turns: Arc<Turns>,
}

impl Inbox {
    pub(super) fn new() -> Result<(Self, Remote), LiveError> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|errno| LiveError::System { what: "making an event descriptor", errno })?;
        let wake = Arc::new(wake);
        let (commands, turns) = (Arc::<Mailbox<Command>>::default(), Arc::<Turns>::default());
        let inbox = Self {
            commands: Arc::clone(&commands),
            wake: Arc::clone(&wake),
            turns: Arc::clone(&turns),
        };
        Ok((inbox, Remote { commands, wake, turns }))
    }

    /// Counts a turn of the worker.
    #[inline]
    pub(super) fn count_turn(&self) {
        // Only this worker writes the number.
        self.turns.0.store(self.turns.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// The next command, or `None`. Never waits for a thread that is sending a command.
    pub(super) fn next(&self) -> Option<Command> {
        let command = self.commands.try_take()?;
        self.acknowledge();
        Some(command)
    }

    /// The descriptor that becomes readable when commands arrive.
    pub(super) fn wake(&self) -> &OwnedFd {
        &self.wake
    }

    /// Resets the descriptor, after the worker has woken.
    pub(super) fn acknowledge(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.wake, &mut count);
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.commands.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_loop_that_does_not_answer_blocks_no_question() {
        let (inbox, remote) = Inbox::new().unwrap();
        let (done, answers) = channel();
        std::thread::spawn(move || {
            let handle = LiveHandle::new(vec![remote]).within(Duration::from_millis(200));
            let pipe = PipeConfig::default();
            done.send([
                handle.set_pipe(1, &pipe).err(),
                handle.rule_counts().err(),
                handle.zero_rules(None).err(),
                handle.dynamic_rules().err(),
                handle.with_engine(|_, _| ()).err(),
                handle.with_engines(|_, _| ()).err(),
                handle.brief_report().err(),
                handle.pipe_stats().err(),
                handle.settle_observer().err(),
                handle.stop().err(),
            ])
        });
        let all = answers.recv_timeout(Duration::from_secs(30)).expect("every question returns");
        assert_eq!(all[..9], [Some(NoAnswer::Late); 9]);
        assert_eq!(all[9], None, "asking to stop does not wait");
        drop(inbox);
    }

    #[test]
    fn a_stuck_loop_gets_a_bounded_number_of_questions() {
        let (inbox, remote) = Inbox::new().unwrap();
        let handle = LiveHandle::new(vec![remote.clone()]).within(Duration::from_millis(1));
        let ask = || remote.ask(Command::RuleCounts(question().0));
        assert_eq!((0..2 * WAITING).filter(|_| ask().is_ok()).count(), WAITING);
        let began = Instant::now();
        assert_eq!(handle.rule_counts().err(), Some(NoAnswer::Late));
        assert!(began.elapsed() < STEP, "it does not even wait");
        while inbox.next().is_some() {}
        assert_eq!(ask(), Ok(()));
    }

    #[test]
    fn a_loop_that_has_ended_is_reported() {
        let (inbox, remote) = Inbox::new().unwrap();
        drop(inbox);
        assert_eq!(LiveHandle::new(vec![remote]).rule_counts(), Err(NoAnswer::Ended));
    }
}
