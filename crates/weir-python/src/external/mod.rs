//! Algorithms in Python: schedulers, AQMs and congestion controls that decide by the methods of a
//! Python object.
//!
//! A [`Slot`] is an entry that Python adds to a table of the engine. It is a name and a weak
//! reference to a class, or to another object that can be called without arguments. Each link,
//! queue or connection calls this class or object to make an instance. Instances live in one run of
//! a simulation. The interpreter is held only while a method runs.
//!
//! An exception, or a result that the contract does not allow, ends all runs that were started
//! together. The first error is kept in the [`Run`] that they share, and raised where the
//! simulation was started. Until the runs have ended, instances behave like a FIFO, an AQM without
//! drops, or a constant window.

mod aqm;
pub(crate) mod check;
mod control;
mod convert;
mod instance;
mod packet;
mod run;
mod scheduler;
mod slot;

pub(crate) use control::Ack;
pub(crate) use packet::{Flow, Packet, Queue};
pub(crate) use run::{Run, fail};
pub(crate) use slot::Slot;
