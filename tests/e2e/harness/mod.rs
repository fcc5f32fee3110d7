//! What every test stands on: the real binary, real sockets, and upstreams that keep what they received.

pub mod client;
pub mod deployment;
pub mod http2;
pub mod process;
pub mod received;
pub mod recorder;
pub mod tls;
pub mod tunnel;

use std::time::Duration;

/// The most that a test waits for an event before it fails with a text that says which one.
///
/// Long, because it is spent only when something is broken, and a busy machine must not break a test.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A path of the central family.
pub const CENTRAL: &str = "/api/v1/users/me";

/// A path of the workspace family.
pub const WORKSPACE: &str = "/api/v1/workspaces/w1/files/x";

/// A path of the extension family, and the root of its claim.
pub const EXTENSION: &str = "/api/v1/workspaces/w1/agents/a1/runtime/ext";

/// A path that must never be reached from outside.
pub const INTERNAL: &str = "/api/internal/jobs";

/// A path that nobody owns.
pub const UNKNOWN: &str = "/wp-login.php";
