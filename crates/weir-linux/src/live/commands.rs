//! The handle of a running loop: it changes the loop and reads its state.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use rustix::event::{EventfdFlags, eventfd};
use weir_core::config::PipeConfig;
use weir_core::stats::LinkStats;
use weir_core::{Emulator, Nanos};
use weir_rules::classify::{Classifier, DynamicEntry};

use super::config::LiveError;
use super::report::{Arrivals, LiveReport, RuleCount, merge_rules};
use crate::port::AnyPort;

/// A handle of a running loop. It can be cloned and used from any thread.
#[derive(Clone, Debug)]
pub struct LiveHandle {
    /// The sending ends, one for each worker.
    remotes: Arc<[Remote]>,
}

/// The sending end of a worker's commands.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    commands: Sender<Command>,
    wake: Arc<OwnedFd>,
    turns: Arc<Turns>,
}

/// The number of turns of a worker, on a cache line that no other worker writes.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Turns(AtomicU64);

/// The loop has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the link has ended")]
pub struct Gone;

/// A change of the engine's configuration; every worker applies it to its engine.
pub type Change = Arc<dyn Fn(&mut Emulator, Nanos) + Send + Sync>;

impl LiveHandle {
    pub(super) fn new(remotes: Vec<Remote>) -> Self {
        Self { remotes: remotes.into() }
    }

    /// Creates or changes pipe `id`; packets inside stay. The change is in force when this returns,
    /// so the loop must be running.
    pub fn set_pipe(&self, id: u16, config: &PipeConfig) -> Result<(), Gone> {
        self.ask_all(|answer| Command::SetPipe(id, Box::new(config.clone()), answer)).map(|_| ())
    }

    /// Applies `change` to the engine, then puts new rules in force. On each worker both happen
    /// between two packets. Rules that stay keep their counters. Packets inside the engine continue
    /// at their rule.
    pub fn set_rules(&self, rules: &Arc<Classifier>, change: &Change) -> Result<(), Gone> {
        // The answers are the old rules. This thread drops them, because that takes time.
        self.ask_all(|answer| Command::Rules(Arc::clone(rules), Arc::clone(change), answer))
            .map(|_| ())
    }

    /// The counters of each rule, summed over all workers and ordered by rule identity; empty
    /// without rules.
    pub fn rule_counts(&self) -> Result<Vec<RuleCount>, Gone> {
        Ok(merge_rules(self.ask_all(Command::RuleCounts)?))
    }

    /// Sets the counters of the rules with these identities to 0, or of all rules if `ids` is
    /// `None`.
    pub fn zero_rules(&self, ids: Option<&[u32]>) -> Result<(), Gone> {
        self.ask_all(|answer| Command::ZeroRules(ids.map(<[_]>::to_vec), answer)).map(|_| ())
    }

    /// The current dynamic rules.
    pub fn dynamic_rules(&self) -> Result<Vec<DynamicEntry>, Gone> {
        let (answer, result) = sync_channel(1);
        self.remotes[0].send(Command::Dynamic(answer))?;
        result.recv().map_err(|_| Gone)
    }

    /// Replaces port `port` of each worker, after an interface was created again. `with` has one
    /// port for each worker. The new ports send the frames that the old ones had queued.
    pub fn replace_port(&self, port: usize, with: Vec<AnyPort>) -> Result<(), Gone> {
        let mut answers = Vec::with_capacity(self.remotes.len());
        for (remote, new) in self.remotes.iter().zip(with) {
            let (answer, result) = sync_channel(1);
            remote.send(Command::Port(port, Box::new(new), answer))?;
            answers.push(result);
        }
        answers.into_iter().try_for_each(|result| result.recv().map_err(|_| Gone))
    }

    /// Runs `work` on the engine of each worker between two packets, and returns the results.
    /// `work` must be quick, because packets wait meanwhile.
    pub fn with_engines<T: Send + 'static>(
        &self,
        work: impl Fn(&mut Emulator, Nanos) -> T + Send + Sync + 'static,
    ) -> Result<Vec<T>, Gone> {
        let work = Arc::new(work);
        self.ask_all(|answer| {
            let work = Arc::clone(&work);
            Command::Engine(Box::new(move |engine, now| {
                // This fails if the asking thread has ended, and then the result is not needed.
                let _ = answer.send(work(engine, now));
            }))
        })
    }

    /// Runs `work` on the engine of the first or only worker, and returns its result. `work` must
    /// be quick, because packets wait meanwhile.
    pub fn with_engine<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Emulator, Nanos) -> T + Send + 'static,
    ) -> Result<T, Gone> {
        let (answer, result) = sync_channel(1);
        self.remotes[0].send(Command::Engine(Box::new(move |engine, now| {
            // As in `with_engines`, this fails if the asking thread has ended.
            let _ = answer.send(work(engine, now));
        })))?;
        result.recv().map_err(|_| Gone)
    }

    /// The results so far.
    pub fn report(&self) -> Result<LiveReport, Gone> {
        Ok(LiveReport {
            pipes: self.pipe_stats()?,
            rules: self.rule_counts()?,
            ..self.brief_report()?
        })
    }

    /// The statistics of each pipe and scheduler, over all its instances and workers, by number.
    /// The workers copy a few pipes at a time, because packets wait meanwhile. The statistics of
    /// many pipes are therefore not from the same moment.
    pub fn pipe_stats(&self) -> Result<Vec<(u16, LinkStats)>, Gone> {
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

    /// The results so far, without those of rules and pipes. This is quick, however many rules and
    /// pipes there are.
    pub fn brief_report(&self) -> Result<LiveReport, Gone> {
        let mut parts = self.ask_all(Command::Report)?;
        // With several workers the arrivals are read again. One worker may count a packet's arrival
        // after its report and then hand the packet over to another worker, which reports the
        // departure.
        let arrivals = if parts.len() > 1 { self.ask_all(Command::Arrivals)? } else { Vec::new() };
        let others = parts.split_off(1.min(parts.len()));
        let first = parts.pop().ok_or(Gone)?;
        Ok(LiveReport::merge(first, others, &arrivals))
    }

    /// The engine's counters and latencies of a pipe or scheduler; `None` when it is not
    /// configured.
    pub fn engine_stats(&self, id: u16) -> Result<Option<LinkStats>, Gone> {
        let parts = self.with_engines(move |engine, _| engine.stats(id).cloned())?;
        Ok(parts.into_iter().flatten().reduce(|mut sum, part| {
            sum.merge(&part);
            sum
        }))
    }

    /// The number of turns of each worker so far. A worker that runs completes at least ten turns a
    /// second, so a number that stays the same shows a worker that hangs. This does not wait for the
    /// workers, and works after the end of the loop, too.
    #[must_use]
    pub fn turns(&self) -> Vec<u64> {
        self.remotes.iter().map(|remote| remote.turns.0.load(Ordering::Relaxed)).collect()
    }

    /// Waits until the observer has seen all events from before this call; returns at once without
    /// an observer. The observer must not call this, since it would wait for its own return.
    pub fn settle_observer(&self) -> Result<(), Gone> {
        let mut answers = Vec::with_capacity(self.remotes.len());
        for remote in &*self.remotes {
            let (answer, result) = sync_channel(1);
            remote.send(Command::Mark(answer))?;
            answers.push(result);
        }
        for result in answers {
            // Receiving fails if there is no observer or its ring is full.
            let _ = result.recv();
        }
        Ok(())
    }

    /// Ends the loop. Packets inside are not sent and count as backlog.
    pub fn stop(&self) -> Result<(), Gone> {
        let outcomes: Vec<_> =
            self.remotes.iter().map(|remote| remote.send(Command::Stop)).collect();
        outcomes.into_iter().collect()
    }

    /// Sends a command to every worker, then waits for all answers.
    fn ask_all<T>(&self, command: impl Fn(SyncSender<T>) -> Command) -> Result<Vec<T>, Gone> {
        let mut answers = Vec::with_capacity(self.remotes.len());
        for remote in &*self.remotes {
            let (answer, result) = sync_channel(1);
            remote.send(command(answer))?;
            answers.push(result);
        }
        answers.into_iter().map(|result| result.recv().map_err(|_| Gone)).collect()
    }
}

impl Remote {
    fn send(&self, command: Command) -> Result<(), Gone> {
        self.commands.send(command).map_err(|_| Gone)?;
        self.wake();
        Ok(())
    }

    /// The descriptor that wakes the worker when another thread writes to it.
    pub(super) fn wake_descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.wake)
    }

    /// Wakes the worker.
    pub(super) fn wake(&self) {
        // This fails only if the counter is full, and then the worker is already awake.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

/// Number of pipes that a worker copies between two packets; each has up to 30 KB of statistics.
const PORTION: usize = 8;

/// A command from a handle to a worker.
pub(super) enum Command {
    SetPipe(u16, Box<PipeConfig>, SyncSender<()>),
    Rules(Arc<Classifier>, Change, SyncSender<Option<Arc<Classifier>>>),
    RuleCounts(SyncSender<Vec<RuleCount>>),
    ZeroRules(Option<Vec<u32>>, SyncSender<()>),
    Dynamic(SyncSender<Vec<DynamicEntry>>),
    Port(usize, Box<AnyPort>, SyncSender<()>),
    Engine(Work),
    Report(SyncSender<LiveReport>),
    Arrivals(SyncSender<Vec<Arrivals>>),
    Mark(SyncSender<()>),
    Stop,
}

type Work = Box<dyn FnOnce(&mut Emulator, Nanos) + Send>;

/// The receiving end of a worker's commands.
#[derive(Debug)]
pub(super) struct Inbox {
    commands: Receiver<Command>,
    wake: Arc<OwnedFd>,
    turns: Arc<Turns>,
}

impl Inbox {
    pub(super) fn new() -> Result<(Self, Remote), LiveError> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|errno| LiveError::System { what: "making an event descriptor", errno })?;
        let wake = Arc::new(wake);
        let (commands, inbox) = channel();
        let turns = Arc::<Turns>::default();
        let own = Self { commands: inbox, wake: Arc::clone(&wake), turns: Arc::clone(&turns) };
        Ok((own, Remote { commands, wake, turns }))
    }

    /// Counts a turn of the worker.
    #[inline]
    pub(super) fn count_turn(&self) {
        // Only this worker writes the number.
        self.turns.0.store(self.turns.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// The next command, or `None`.
    pub(super) fn next(&self) -> Option<Command> {
        let command = self.commands.try_recv().ok()?;
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
