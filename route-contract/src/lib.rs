//! Who owns which path, written in one file, compiled into the gateway, and proved for all paths.
//!
//! The way of a check, each step a module:
//!
//! 1. [`document`] reads a file strictly: every fault in one run, each as a [`diagnostic`] with its place.
//! 2. [`template`] and [`pattern`] parse what a path may look like; [`contract`] puts families, profiles and
//!    their manifests together; [`import`] reads what other tools list.
//! 3. [`automaton`] lays all templates into one automaton, whose states are classes of paths.
//! 4. [`ownership`] decides who owns a class: the rule of classification, in its one place.
//! 5. [`proof`] asks every state and compares the answers with the running code: the compiled [`matcher`],
//!    the ordered [`scan`], and each profile's [`router`].
//! 6. [`rules`] turns what it found into findings; [`report`] writes them down, and [`cli`] is the command line.
//!
//! Three more stand on the same ground: [`diff`] compares two contracts by meaning, [`mutants`] weakens one on purpose
//! to see which rule notices, and [`map`] draws it.
//!
//! The way of a request is shorter: [`classify`] judges the target's bytes ([`plain`]), walks the
//! [`matcher`], and where servers could read the path differently, compares its [`readings`]. The gateway
//! and `route-contract classify` run this very code; there is no second matcher. [`explanation`] and [`listing`] say
//! what it decides, for people and programs.

pub mod automaton;
pub mod classify;
pub mod cli;
pub mod contract;
pub mod diagnostic;
pub mod diff;
pub mod document;
pub mod explanation;
pub mod import;
pub mod listing;
pub mod map;
pub mod matcher;
pub mod mutants;
pub mod ownership;
pub mod pattern;
pub mod plain;
pub mod proof;
pub mod readings;
pub mod report;
pub mod router;
pub mod rules;
pub mod scan;
mod segments;
pub mod template;
