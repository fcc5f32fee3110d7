//! Client connections, and what never becomes a request.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Result};

use super::gauged;
use super::series::Series;
use crate::listen::{ConnectionFault, Handshake, HandshakeFault, HeadFault, StreamFault};

/// The handles of the public listener.
pub struct ListenerMetrics {
    malformed: Vec<IntCounter>,
    unparsed: IntCounter,
    stream_errors: Vec<IntCounter>,
    connection_errors: Vec<IntCounter>,
    connections: IntGauge,
    limit: IntGauge,
    accepted: IntCounter,
    rejected: IntCounter,
    /// By version and protocol.
    handshakes: IntCounterVec,
    handshake_faults: Vec<IntCounter>,
    certificates_applied: IntCounter,
    certificates_refused: IntCounter,
    certificate_expiry: IntGaugeVec,
}

impl ListenerMetrics {
    pub(super) fn new(series: &Series<'_>) -> Result<Self> {
        let malformed = series.counters(
            "gateway_malformed_requests_total",
            "Heads that never became a request, by fault.",
            &["fault"],
        )?;
        let stream_errors = series.counters(
            "gateway_http2_stream_errors_total",
            "HTTP/2 streams that ended before they were a request, by reason.",
            &["reason"],
        )?;
        let connection_errors = series.counters(
            "gateway_http2_connection_errors_total",
            "HTTP/2 connections that were ended for the client's faults, by reason.",
            &["reason"],
        )?;
        let handshakes = series.counters(
            "gateway_tls_handshakes_total",
            "TLS handshakes of clients that succeeded.",
            &["version", "protocol"],
        )?;
        for handshake in Handshake::ALL {
            handshakes.with_label_values(&handshake.labels());
        }
        let handshake_faults = series.counters(
            "gateway_tls_handshake_failures_total",
            "Client connections that ended in their TLS handshake, by reason.",
            &["reason"],
        )?;
        let certificates = series.counters(
            "gateway_tls_reloads_total",
            "Changes of the listener's certificate files, by whether they were taken over.",
            &["result"],
        )?;
        Ok(Self {
            malformed: each(&malformed, HeadFault::ALL.map(HeadFault::label)),
            unparsed: series.counter(
                "gateway_unparsed_requests_total",
                "Heads that the gateway found sound and its HTTP library did not. Anything but 0 is a fault.",
            )?,
            stream_errors: each(&stream_errors, StreamFault::ALL.map(StreamFault::label)),
            connection_errors: each(&connection_errors, ConnectionFault::ALL.map(ConnectionFault::label)),
            connections: series.gauge("gateway_connections", "Open client connections.")?,
            limit: series.gauge("gateway_connections_limit", "The most client connections at once.")?,
            accepted: series.counter("gateway_connections_accepted_total", "Client connections accepted.")?,
            rejected: series.counter(
                "gateway_connections_rejected_total",
                "Client connections closed at once because their network has too many.",
            )?,
            handshakes,
            handshake_faults: each(&handshake_faults, HandshakeFault::ALL.map(HandshakeFault::label)),
            certificates_applied: certificates.with_label_values(&["applied"]),
            certificates_refused: certificates.with_label_values(&["refused"]),
            certificate_expiry: series.gauges(
                "gateway_tls_certificate_expiry_timestamp_seconds",
                "When the first of the listener's certificates expires, in seconds since 1970.",
                &[],
            )?,
        })
    }

    pub(super) fn set_limit(&self, connections: usize) {
        self.limit.set(gauged(connections));
    }

    /// Counts a head that never became a request.
    pub fn count_malformed(&self, fault: HeadFault) {
        count(&self.malformed, fault as usize);
    }

    /// Counts a sound head that Pingora refused.
    pub fn count_unparsed(&self) {
        self.unparsed.inc();
    }

    /// Counts an HTTP/2 stream that never became a request.
    pub fn count_stream_error(&self, fault: StreamFault) {
        count(&self.stream_errors, fault as usize);
    }

    /// Counts an HTTP/2 connection that was ended for its client's fault.
    pub fn count_connection_error(&self, fault: ConnectionFault) {
        count(&self.connection_errors, fault as usize);
    }

    /// A client has connected.
    pub fn connection_opened(&self) {
        self.accepted.inc();
        self.connections.inc();
    }

    /// A client's connection was closed at once.
    pub fn connection_rejected(&self) {
        self.rejected.inc();
    }

    /// A client's connection has ended.
    pub fn connection_closed(&self) {
        self.connections.dec();
    }

    /// Counts a client that got through its TLS handshake.
    pub fn count_handshake(&self, handshake: Handshake) {
        self.handshakes.with_label_values(&handshake.labels()).inc();
    }

    /// Counts a client that did not get through its TLS handshake.
    pub fn count_handshake_fault(&self, fault: HandshakeFault) {
        count(&self.handshake_faults, fault as usize);
    }

    /// Counts new certificate files that were taken over, or were not.
    pub fn count_certificate_load(&self, is_applied: bool) {
        if is_applied {
            self.certificates_applied.inc();
        } else {
            self.certificates_refused.inc();
        }
    }

    /// Tells when the first of the listener's certificates expires.
    pub fn set_certificate_expiry(&self, expiry: SystemTime) {
        let seconds = expiry.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let expiry: &[&str] = &[];
        self.certificate_expiry
            .with_label_values(expiry)
            .set(i64::try_from(seconds).unwrap_or(i64::MAX));
    }
}

/// One handle for each value, in the order of the values.
fn each<const N: usize>(series: &IntCounterVec, values: [&'static str; N]) -> Vec<IntCounter> {
    values.map(|value| series.with_label_values(&[value])).into()
}

fn count(counters: &[IntCounter], index: usize) {
    if let Some(counter) = counters.get(index) {
        counter.inc();
    }
}
