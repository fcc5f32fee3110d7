pub mod automaton;
pub mod contract;
pub mod diagnostic;
pub mod document;
pub mod ownership;
pub mod pattern;
pub mod scan;
mod segments;
pub mod template;
