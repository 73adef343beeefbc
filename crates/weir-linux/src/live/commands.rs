//! The loop's remote control: change it and look at it while it runs.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use rustix::event::{EventfdFlags, eventfd};
use weir_core::config::PipeConfig;
use weir_core::stats::LinkStats;
use weir_core::{Emulator, Nanos};

use super::config::LiveError;
use super::report::LiveReport;

/// A handle on a running loop; clones and threads are free to use it.
#[derive(Clone, Debug)]
pub struct LiveHandle {
    commands: Sender<Command>,
    wake: Arc<OwnedFd>,
}

/// The loop has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the link has ended")]
pub struct Gone;

impl LiveHandle {
    /// Makes pipe `id`, or changes it; packets inside stay. It is in force when this returns, so the loop must be running.
    pub fn set_pipe(&self, id: u16, config: PipeConfig) -> Result<(), Gone> {
        let (answer, done) = sync_channel(1);
        self.send(Command::SetPipe(id, Box::new(config), answer))?;
        done.recv().map_err(|_| Gone)
    }

    /// Does `work` with the engine between two packets, and gives its result. The closure must be quick: packets wait.
    pub fn with_engine<T: Send + 'static>(&self, work: impl FnOnce(&mut Emulator, Nanos) -> T + Send + 'static) -> Result<T, Gone> {
        let (answer, result) = sync_channel(1);
        self.send(Command::Engine(Box::new(move |engine, now| {
            // Who asked may have gone; then nobody wants the result.
            let _ = answer.send(work(engine, now));
        })))?;
        result.recv().map_err(|_| Gone)
    }

    /// The results up to now.
    pub fn report(&self) -> Result<LiveReport, Gone> {
        let (answer, result) = sync_channel(1);
        self.send(Command::Report(answer))?;
        result.recv().map_err(|_| Gone)
    }

    /// Counters and latencies of a pipe or scheduler as the engine counts them; `None` when it is not configured.
    pub fn engine_stats(&self, id: u16) -> Result<Option<LinkStats>, Gone> {
        self.with_engine(move |engine, _| engine.stats(id).cloned())
    }

    /// Ends the loop. Packets inside stay inside and count as backlog.
    pub fn stop(&self) -> Result<(), Gone> {
        self.send(Command::Stop)
    }

    fn send(&self, command: Command) -> Result<(), Gone> {
        self.commands.send(command).map_err(|_| Gone)?;
        // A full counter means that the loop is already woken.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        Ok(())
    }
}

/// What a handle asks of the loop.
pub(super) enum Command {
    SetPipe(u16, Box<PipeConfig>, SyncSender<()>),
    Engine(Work),
    Report(SyncSender<LiveReport>),
    Stop,
}

type Work = Box<dyn FnOnce(&mut Emulator, Nanos) + Send>;

/// The loop's end of the control.
#[derive(Debug)]
pub(super) struct Inbox {
    pub(super) commands: Receiver<Command>,
    pub(super) wake: Arc<OwnedFd>,
}

impl Inbox {
    pub(super) fn new() -> Result<(Self, LiveHandle), LiveError> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|errno| LiveError::System { what: "making an event descriptor", errno })?;
        let wake = Arc::new(wake);
        let (sender, commands) = channel();
        Ok((Self { commands, wake: Arc::clone(&wake) }, LiveHandle { commands: sender, wake }))
    }

    /// Takes note of having been woken.
    pub(super) fn acknowledge(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.wake, &mut count);
    }
}
