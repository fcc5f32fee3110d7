//! gRPC through the gateway, with a real client and a real server.

use std::net::SocketAddr;

use tokio::runtime::Runtime;
use tokio::time::timeout;
use tonic::Code;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::server::{HealthReporter, health_reporter};

use crate::harness::PATIENCE;
use crate::harness::deployment::Deployment;
use crate::harness::process::Gateway;

/// A server of gRPC's health protocol.
struct HealthService {
    runtime: Runtime,
    address: SocketAddr,
    reporter: HealthReporter,
}

impl HealthService {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let _entered = runtime.enter();
        let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = incoming.local_addr().unwrap();
        let (reporter, service) = health_reporter();
        runtime.spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
        drop(_entered);
        Self {
            runtime,
            address,
            reporter,
        }
    }
}

/// The central family owns what `claim` covers and is at `url`.
fn with_family(claim: &str, url: &str) -> Deployment {
    let contract = format!(
        "version = 1\n[[family]]\nname = \"central\"\nclaims = [\"{claim}\"]\n[[family]]\nname = \"workspace\"\nclaims = \
         [\"/w/**\"]\n[[family]]\nname = \"extension\"\nclaims = [\"/e/**\"]\n"
    );
    Deployment::new()
        .with_tables("[listen]\npublic = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nh2c = true\n")
        .with_contract(&contract)
        .with_url("central", url)
}

async fn client(gateway: &Gateway) -> HealthClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", gateway.public())).unwrap();
    HealthClient::new(timeout(PATIENCE, endpoint.connect()).await.unwrap().unwrap())
}

fn asking(service: &str) -> HealthCheckRequest {
    HealthCheckRequest {
        service: service.to_owned(),
    }
}

#[test]
fn calls_pass_with_their_status() {
    let service = HealthService::start();
    let deployment = with_family("/grpc.health.v1.Health/**", &format!("h2c://{}", service.address));
    let gateway = deployment.start();
    service.runtime.block_on(async {
        let mut client = client(&gateway).await;
        for _ in 0..3 {
            let answer = client.check(asking("")).await.unwrap();
            assert_eq!(answer.into_inner().status(), ServingStatus::Serving);
        }
        // An error without a message is a head alone: trailers-only.
        let status = client.check(asking("nobody")).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound);
        assert!(status.message().contains("service not registered"), "{status:?}");
    });
}

#[test]
fn a_stream_passes_message_by_message() {
    let service = HealthService::start();
    let deployment = with_family("/grpc.health.v1.Health/**", &format!("h2c://{}", service.address));
    let gateway = deployment.start();
    service.runtime.block_on(async {
        service
            .reporter
            .set_service_status("s", tonic_health::ServingStatus::Serving)
            .await;
        let mut client = client(&gateway).await;
        let mut stream = client.watch(asking("s")).await.unwrap().into_inner();
        let mut next = async || {
            timeout(PATIENCE, stream.message())
                .await
                .unwrap()
                .unwrap()
                .unwrap()
                .status()
        };
        assert_eq!(next().await, ServingStatus::Serving);
        for status in [ServingStatus::NotServing, ServingStatus::Serving] {
            let set = match status {
                ServingStatus::Serving => tonic_health::ServingStatus::Serving,
                _ => tonic_health::ServingStatus::NotServing,
            };
            service.reporter.set_service_status("s", set).await;
            assert_eq!(next().await, status);
        }
    });
}

#[test]
fn what_nobody_serves_is_unimplemented_and_what_fails_is_unavailable() {
    let service = HealthService::start();
    let unknown = with_family("/other.Service/**", &format!("h2c://{}", service.address));
    // Nobody listens there: the port was free a moment ago, and is not given out again so soon.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let failing = with_family("/grpc.health.v1.Health/**", &format!("h2c://{free}"));
    for (deployment, code, message) in [
        (unknown, Code::Unimplemented, "not_found"),
        (failing, Code::Unavailable, "upstream_failure"),
    ] {
        let gateway = deployment.start();
        let status = service.runtime.block_on(async {
            let mut client = client(&gateway).await;
            client.check(asking("")).await.unwrap_err()
        });
        assert_eq!((status.code(), status.message()), (code, message));
        assert!(status.metadata().get("x-request-id").is_some(), "{status:?}");
    }
}
