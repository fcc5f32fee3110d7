//! The effective configuration: every value, defaults filled in, and where it came from.
