//! An edge gateway that serves a proved route contract.

pub mod admin;
pub mod certificate;
pub mod cli;
pub mod config;
pub mod demo;
pub mod listen;
pub mod proxy;
pub mod readiness;
pub mod reload;
pub mod server;
pub mod telemetry;
pub mod upstream;
