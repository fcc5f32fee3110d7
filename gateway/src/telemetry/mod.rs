//! Step 8, record: what the gateway tells its operators. Labels and codes come from closed sets; nothing that a client
//! can choose becomes a label, and no credential, query value or upstream address is ever written.

pub mod access;
pub mod json_line;
pub mod log;
pub mod metrics;
pub mod reloads;
