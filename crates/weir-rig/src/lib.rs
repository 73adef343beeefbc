//! Weir's scheduler rig: the schedulers alone, on packets that are made for them.
//!
//! A [`flows::FlowSet`] says which flows there are, in the notation of the field (`500:w1,250:w2,250:w4`). What a scheduler
//! costs and what service it gives are measured on the same code that shapes live traffic, without a link, a clock or a timer
//! in the loop. A [`trace::Trace`] holds arrivals that one tool finds and another replays.

pub mod algorithm;
mod controller;
pub mod cost;
