//! TCP of the simulator: senders, receivers, congestion control.
