//! The codes of faults that only contracts and manifests have.

/// Two things where one is meant.
pub const DUPLICATE: &str = "RC0106";
/// A path that the template grammar cannot say.
pub const TEMPLATE: &str = "RC0107";
/// A name that nothing bears.
pub const UNKNOWN_NAME: &str = "RC0108";
/// Too much of something.
pub const LIMIT: &str = "RC0109";
