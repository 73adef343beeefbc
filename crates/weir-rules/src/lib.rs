//! Placeholder until the first code arrives.
