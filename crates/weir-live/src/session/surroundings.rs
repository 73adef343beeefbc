//! The surroundings of a session: the namespaces, interfaces and ports that are set up for its
//! links.

use weir_linux::port::AnyPort;
use weir_linux::process::Stopper;
use weir_linux::topology::{
    self, BridgeSetup, End, Network, NetworkSetup, Note, PairSetup, RunSetup, Session, SetupError,
};

/// A configuration of surroundings: namespaces with interfaces, interfaces of the machine, or ports
/// that the caller has opened.
pub trait Surroundings: private::Sealed {
    /// The surroundings after setup.
    type Place: Place;

    /// Sets up the surroundings. Without root this process enters a user namespace, which is
    /// possible only while it has one thread.
    ///
    /// # Errors
    /// The machine refuses a step. The machine is unchanged after an error.
    fn set_up(self) -> Result<Self::Place, SetupError>;
}

/// Surroundings that are set up. Dropping them undoes every change to the machine.
pub trait Place: private::Sealed {
    /// The ports, one set for each worker; empty after the first call.
    #[doc(hidden)]
    fn take_ports(&mut self) -> Vec<Vec<AnyPort>>;

    /// A stopper that ends a wait for programs or signals; `None` for [`OpenPorts`].
    #[doc(hidden)]
    fn stopper(&self) -> Option<Stopper>;

    /// The ends as programs see them, in the order of the ports.
    fn ends(&self) -> &[End];

    /// Limitations of the surroundings that the user should know.
    fn notes(&self) -> &[Note];

    /// Whether the disappearance of an interface is expected and no fault.
    #[doc(hidden)]
    fn comes_and_goes(&self) -> bool {
        false
    }

    /// Ends the remaining programs and undoes every change to the machine. Returns notes about
    /// changes that could not be undone, and about packets of targets that passed unshaped.
    #[doc(hidden)]
    fn close(self) -> Vec<Note>;
}

/// Ports that the caller has opened.
#[derive(Debug, Default)]
pub struct OpenPorts {
    sets: Vec<Vec<AnyPort>>,
}

impl OpenPorts {
    /// Takes one set of ports for each worker, all on the same interfaces in the same order.
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

pub(super) mod private {
    /// Only this crate implements surroundings, because their setup and cleanup belong together.
    pub trait Sealed {}

    impl Sealed for super::RunSetup {}
    impl Sealed for super::PairSetup {}
    impl Sealed for super::BridgeSetup {}
    impl Sealed for super::NetworkSetup {}
    impl Sealed for super::OpenPorts {}
    impl Sealed for super::Session {}
    impl Sealed for super::Network {}
}
