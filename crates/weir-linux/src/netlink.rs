//! Arrives with its first code.
