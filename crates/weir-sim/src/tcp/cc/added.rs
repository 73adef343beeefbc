//! Congestion controls that the program adds to the table while it runs.

use std::fmt::Debug;

use weir_core::Nanos;
use weir_core::settings::Factory;

use super::{Choice, Control, Kind, Path, Sample, Setup, Signal, Traits};

/// The factory of a congestion control that is added to [`super::ADDED`].
pub trait ExternalFactory: Factory<Traits = Traits> {
    /// Creates a congestion control for one connection.
    fn make(&self, choice: &Choice, setup: &Setup) -> Box<dyn External>;
}

/// A congestion control that [`ExternalFactory::make`] creates.
pub trait External: Control + Debug + Send {}

impl<C: Control + Debug + Send> External for C {}

/// A congestion control that the program has added.
#[derive(Debug)]
pub struct AddedControl(Box<dyn External>);

impl AddedControl {
    /// Creates the congestion control of a choice with the kind [`Kind::Added`].
    ///
    /// # Panics
    /// The choice has a kind of the table.
    pub fn new(choice: &Choice, setup: &Setup) -> Self {
        match choice.kind() {
            Kind::Added(added) => Self(added.0.make(choice, setup)),
            kind => unreachable!("{kind:?} is in the table"),
        }
    }
}

impl Control for AddedControl {
    fn acked(&mut self, path: &Path, sample: &Sample) {
        self.0.acked(path, sample);
    }

    fn reduce(&mut self, path: &Path, signal: Signal) {
        self.0.reduce(path, signal);
    }

    fn recovered(&mut self, path: &Path) {
        self.0.recovered(path);
    }

    fn timeout(&mut self, path: &Path, first: bool) {
        self.0.timeout(path, first);
    }

    fn undo(&mut self, path: &Path) {
        self.0.undo(path);
    }

    fn resume(&mut self, path: &Path, idle: Nanos, timeout: Nanos) {
        self.0.resume(path, idle, timeout);
    }

    fn window(&self) -> u64 {
        self.0.window()
    }

    fn threshold(&self) -> u64 {
        self.0.threshold()
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.0.pacing_rate()
    }

    fn owns_window(&self, signal: Signal) -> bool {
        self.0.owns_window(signal)
    }

    fn metrics(&self) -> Vec<(&'static str, u64)> {
        self.0.metrics()
    }
}
