//! End to end: the real `gateway` binary, real sockets, and upstreams that keep every byte they receive.
//!
//! One binary for all subjects keeps linking short. A status code alone proves nothing about forwarding, so
//! every test about it also counts what the upstreams received.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

mod harness;

mod acceptance;
mod access_log;
mod admin;
mod agreement;
mod configuration;
mod deadlines;
mod demo;
mod deployments;
mod documentation;
mod endpoints;
mod errors;
mod framing;
mod grpc;
mod headers;
mod hostile_configuration;
mod http2;
mod http2_refused;
mod limits;
mod log_output;
mod metrics;
mod metrics_page;
mod monitoring;
mod oracle;
mod overload;
mod readiness;
mod readings;
mod reload;
mod routing;
mod secrets;
mod service_manager;
mod shutdown;
mod target;
mod tls;
mod traces;
mod upgrade;
mod upstream_tls;
mod watch;
mod websocket;
