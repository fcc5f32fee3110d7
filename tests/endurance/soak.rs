//! Mixed traffic and faults for as long as one likes: what the gateway holds must not grow.

use std::time::{Duration, Instant};

use crate::fault::{CENTRAL, EXTENSION, Scene, Traffic, WORKSPACE, assert_posts_ran_once};
use crate::load::Client;
use crate::observed;

#[test]
#[ignore = "20 minutes: make soak"]
fn memory_does_not_grow() {
    let _alone = crate::alone();
    let time = crate::seconds("SOAK_SECONDS", 1_200);
    let mut scene = Scene::start();
    crate::runtime().block_on(async {
        let address = scene.gateway.public();
        let pause = Duration::from_millis(20);
        let traffic = [CENTRAL, WORKSPACE, EXTENSION, "/wp-login.php", "/api/internal/x"]
            .map(|path| Traffic::start(address, path, 8, pause));
        // Connections that come and go, some of them without a word.
        let visitors = tokio::spawn(async move {
            loop {
                let socket = Client::open_websocket(address, "/api/v1/users/me").await;
                tokio::time::sleep(Duration::from_millis(100)).await;
                drop(socket);
                drop(tokio::net::TcpStream::connect(address).await);
            }
        });
        let (start, samples) = (Instant::now(), time.as_secs().div_ceil(5));
        let mut resident = Vec::new();
        for sample in 1..=samples {
            let until = start + Duration::from_secs(sample * 5);
            scene
                .break_until(until, Duration::from_millis(1_000), Duration::from_millis(1_000))
                .await;
            tokio::time::sleep_until(until.into()).await;
            resident.push(observed::resident(&scene.gateway));
        }
        visitors.abort();
        for (family, traffic) in ["central", "workspace", "extension", "unknown", "internal"].iter().zip(traffic) {
            println!("{family}: {:?}", traffic.stop().await.all());
        }
        let posts = assert_posts_ran_once(&scene);
        let quarter = resident.len() / 4;
        let mean = |samples: &[u64]| samples.iter().sum::<u64>() / samples.len().max(1) as u64;
        let second = mean(&resident[quarter..2 * quarter]);
        let last = mean(&resident[resident.len() - quarter..]);
        println!(
            "{time:?}, {posts} POSTs executed once; resident memory in KiB: first sample {}, second quarter {second}, last \
             quarter {last}, most {}; descriptors {}",
            resident.first().unwrap(),
            resident.iter().max().unwrap(),
            observed::descriptors(&scene.gateway)
        );
        assert!(!scene.gateway.all_output().contains("panicked"));
        assert!(last * 100 <= second * 105, "from {second} KiB to {last} KiB");
    });
}
