//! TCP of the simulator: senders, receivers, congestion control.

pub mod cc;
