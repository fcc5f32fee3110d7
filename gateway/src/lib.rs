//! An edge gateway that serves a proved route contract.

pub mod config;
pub mod demo;
pub mod listen;
pub mod readiness;
