//! The surroundings of a session: what is set up around its links, and what is left of that to use.

use weir_linux::port::AnyPort;
use weir_linux::process::Stopper;
use weir_linux::topology::{
    self, BridgeSetup, End, Network, NetworkSetup, Note, PairSetup, RunSetup, Session, SetupError,
};

/// A description of surroundings: namespaces with interfaces, interfaces of the machine, or ports
/// that the caller has opened.
pub trait Surroundings: private::Sealed {
    /// The surroundings once they are set up.
    type Place: Place;

    /// Sets them up. Without root this process enters a user namespace, which it can only do while
    /// it has one thread.
    ///
    /// # Errors
    /// The machine refuses something; it is then as before.
    fn set_up(self) -> Result<Self::Place, SetupError>;
}

/// Surroundings that are set up. Dropping them undoes every change to the machine.
pub trait Place: private::Sealed {
    /// The ports, one set for each worker; empty the second time.
    #[doc(hidden)]
    fn take_ports(&mut self) -> Vec<Vec<AnyPort>>;

    /// Ends a wait for programs, where there can be programs.
    #[doc(hidden)]
    fn stopper(&self) -> Option<Stopper>;

    /// The ends as programs see them, in the order of the ports.
    fn ends(&self) -> &[End];

    /// What the user should know about the surroundings.
    fn notes(&self) -> &[Note];

    /// Ends the programs that still run and undoes every change to the machine; returns what could
    /// not be undone.
    #[doc(hidden)]
    fn close(self) -> Vec<Note>;
}

/// Ports that the caller has opened.
#[derive(Debug, Default)]
pub struct OpenPorts {
    sets: Vec<Vec<AnyPort>>,
}

impl OpenPorts {
    /// One set of ports for each worker, all on the same interfaces in the same order.
    #[must_use]
    pub fn new(sets: Vec<Vec<AnyPort>>) -> Self {
        Self { sets }
    }
}

impl Surroundings for RunSetup {
    type Place = Session;

    fn set_up(self) -> Result<Session, SetupError> {
        topology::run(&self)
    }
}

impl Surroundings for PairSetup {
    type Place = Session;

    fn set_up(self) -> Result<Session, SetupError> {
        topology::pair(&self)
    }
}

impl Surroundings for BridgeSetup {
    type Place = Session;

    fn set_up(self) -> Result<Session, SetupError> {
        topology::bridge(&self)
    }
}

impl Surroundings for NetworkSetup {
    type Place = Network;

    fn set_up(self) -> Result<Network, SetupError> {
        topology::network(&self)
    }
}

impl Surroundings for OpenPorts {
    type Place = OpenPorts;

    fn set_up(self) -> Result<OpenPorts, SetupError> {
        Ok(self)
    }
}

impl Place for Session {
    fn take_ports(&mut self) -> Vec<Vec<AnyPort>> {
        self.take_ports().map(Vec::from).into_iter().collect()
    }

    fn stopper(&self) -> Option<Stopper> {
        Some(self.stopper())
    }

    fn ends(&self) -> &[End] {
        self.ends()
    }

    fn notes(&self) -> &[Note] {
        self.notes()
    }

    fn close(self) -> Vec<Note> {
        self.close().notes
    }
}

impl Place for Network {
    fn take_ports(&mut self) -> Vec<Vec<AnyPort>> {
        self.take_ports().into_iter().collect()
    }

    fn stopper(&self) -> Option<Stopper> {
        Some(self.stopper())
    }

    fn ends(&self) -> &[End] {
        self.ends()
    }

    fn notes(&self) -> &[Note] {
        self.notes()
    }

    fn close(self) -> Vec<Note> {
        self.close();
        Vec::new()
    }
}

impl Place for OpenPorts {
    fn take_ports(&mut self) -> Vec<Vec<AnyPort>> {
        std::mem::take(&mut self.sets)
    }

    fn stopper(&self) -> Option<Stopper> {
        None
    }

    fn ends(&self) -> &[End] {
        &[]
    }

    fn notes(&self) -> &[Note] {
        &[]
    }

    fn close(self) -> Vec<Note> {
        Vec::new()
    }
}

mod private {
    /// Only this crate knows surroundings: their set-up and clean-up belong together.
    pub trait Sealed {}

    impl Sealed for super::RunSetup {}
    impl Sealed for super::PairSetup {}
    impl Sealed for super::BridgeSetup {}
    impl Sealed for super::NetworkSetup {}
    impl Sealed for super::OpenPorts {}
    impl Sealed for super::Session {}
    impl Sealed for super::Network {}
}
