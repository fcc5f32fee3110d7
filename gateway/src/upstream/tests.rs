//! A family's endpoints as a whole.

use super::*;

/// The upstream of `[upstream.a]` with these lines.
pub(crate) fn upstream(lines: &str) -> Arc<Upstream> {
    let text = format!("contract = \"c\"\n[listen]\npublic = \"127.0.0.1:0\"\n[upstream.a]\n{lines}");
    let config: Config = toml::from_str(&text).unwrap();
    let all = Arc::new(Places::new(100));
    Upstream::succeed("a", &config.upstream["a"], &config, &all, None, &mut 0).unwrap()
}

fn many(count: u8, lines: &str) -> Arc<Upstream> {
    let urls: Vec<String> = (1..=count).map(|n| format!("\"http://10.0.0.{n}:81\"")).collect();
    upstream(&format!("urls = [{}]\n{lines}", urls.join(", ")))
}

fn chosen(upstream: &Upstream, key: Option<u64>) -> String {
    let in_use = upstream.choose(key, &Tried::default()).unwrap();
    in_use.endpoint().id().address.ip().to_string()
}

#[tokio::test]
async fn places_are_limited_and_come_back() {
    let upstream = upstream("url = \"http://127.0.0.1:1\"\nin_flight = 2\n");
    let first = upstream.admit().await.unwrap();
    let _second = upstream.admit().await.unwrap();
    assert!(upstream.admit().await.is_none());
    drop(first);
    assert!(upstream.admit().await.is_some());
    assert_eq!(upstream.in_flight(), 1);
}

#[test]
fn addresses_take_turns_and_keep_their_health() {
    let upstream = upstream("url = \"http://name.example:81\"\nready = false\n");
    assert!(upstream.choose(None, &Tried::default()).is_none());
    assert_eq!(upstream.readiness(), Err(Reason::Starting));
    upstream.unresolved(0);
    assert_eq!(upstream.readiness(), Err(Reason::Dns));
    let [one, two] = ["10.0.0.1:81", "10.0.0.2:81"].map(|address| address.parse().unwrap());
    assert!(upstream.set_addresses(0, &[two, one]));
    assert!(!upstream.set_addresses(0, &[one, two, one]));
    assert_eq!(upstream.readiness(), Ok(()));
    let mut seen: Vec<_> = (0..4).map(|_| chosen(&upstream, None)).collect();
    seen.sort();
    assert_eq!(seen, ["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2"]);
    let endpoints = upstream.endpoints();
    assert!(endpoints.names().have("name.example:81", "80"));
    assert!(endpoints.names().have("10.0.0.2:81", "80"));

    let held = endpoints.list()[1].clone();
    assert_eq!(held.id().address, two);
    let changes = upstream.changes();
    assert!(upstream.set_addresses(0, &[two]));
    assert!(changes.has_changed().unwrap());
    assert!(Arc::ptr_eq(&held, &upstream.endpoints().list()[0]));
}

#[test]
fn the_least_in_flight_takes_the_next() {
    let upstream = many(3, "balance = \"least-in-flight\"\nready = false\n");
    let held: Vec<InUse> = (0..5)
        .map(|_| upstream.choose(None, &Tried::default()).unwrap())
        .collect();
    let mut loads: Vec<_> = upstream.endpoints().list().iter().map(|e| e.in_flight()).collect();
    loads.sort_unstable();
    assert_eq!(loads, [1, 2, 2]);
    drop(held);
    assert!(upstream.endpoints().list().iter().all(|e| e.in_flight() == 0));
}

#[test]
fn a_key_stays_and_another_attempt_goes_elsewhere() {
    let upstream = many(3, "ready = false\n");
    for key in 0..100 {
        let key = Some(affinity::hash(&[key]));
        let first = chosen(&upstream, key);
        assert_eq!(first, chosen(&upstream, key));
        let mut tried = Tried::default();
        let mut seen = Vec::new();
        for _ in 0..3 {
            let in_use = upstream.choose(key, &tried).unwrap();
            tried.add(in_use.endpoint().id());
            seen.push(in_use.endpoint().id());
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 3, "each attempt on another endpoint");
        assert!(!upstream.has_other(&tried));
        assert_eq!(
            upstream
                .choose(key, &tried)
                .unwrap()
                .endpoint()
                .id()
                .address
                .ip()
                .to_string(),
            first
        );
    }
}

#[test]
fn readiness_waits_for_the_first_round_and_counts_endpoints() {
    let upstream = many(3, "ready_min = 2\n");
    let endpoints = upstream.endpoints();
    let [one, two, three] = [0, 1, 2].map(|index| endpoints.list()[index].clone());
    upstream.probed(&one, Ok(()));
    upstream.probed(&two, Ok(()));
    assert_eq!(
        upstream.readiness(),
        Err(Reason::Starting),
        "the first round is not complete"
    );
    assert!(upstream.serves());
    upstream.probed(&three, Err(Reason::Tls));
    assert_eq!(upstream.readiness(), Ok(()));
    for _ in 0..3 {
        upstream.probed(&two, Err(Reason::Status));
    }
    assert_eq!(upstream.readiness(), Err(Reason::Status));
    assert!(upstream.serves(), "one endpoint takes requests");
    assert_eq!(chosen(&upstream, None), "10.0.0.1");
    for _ in 0..3 {
        upstream.probed(&one, Err(Reason::Timeout));
    }
    assert!(!upstream.serves());
    assert!(upstream.choose(None, &Tried::default()).is_none());
}

#[test]
fn clients_eject_no_more_than_the_share_and_never_the_only_endpoint() {
    let only = many(1, "");
    let endpoint = only.endpoints().list()[0].clone();
    only.probed(&endpoint, Ok(()));
    for _ in 0..50 {
        only.connect_failed(&endpoint, Reason::Refused);
        only.answered(&endpoint, 503);
    }
    assert_eq!(only.readiness(), Ok(()));

    let upstream = many(4, "");
    let endpoints = upstream.endpoints();
    for endpoint in endpoints.list() {
        upstream.probed(endpoint, Ok(()));
    }
    let failing = |endpoint: &Endpoint| {
        for _ in 0..5 {
            upstream.answered(endpoint, 502);
        }
    };
    // What a client can provoke, and a row that is broken, count for nothing.
    for _ in 0..5 {
        upstream.answered(&endpoints.list()[0], 501);
        upstream.answered(&endpoints.list()[1], 500);
        upstream.answered(&endpoints.list()[1], 200);
    }
    assert!(endpoints.list().iter().all(|endpoint| endpoint.down(1).is_none()));
    endpoints.list().iter().for_each(|endpoint| failing(endpoint));
    let out: Vec<_> = endpoints.list().iter().map(|endpoint| endpoint.down(1)).collect();
    assert_eq!(out, [Some(Reason::Status), Some(Reason::Status), None, None]);
    assert_eq!(upstream.readiness(), Ok(()));
    for _ in 0..20 {
        assert!(["10.0.0.3", "10.0.0.4"].contains(&chosen(&upstream, None).as_str()));
    }
}

#[test]
fn an_endpoint_comes_back_slowly() {
    let upstream = many(2, "");
    let endpoint = upstream.endpoints().list()[0].clone();
    assert_eq!(endpoint.part(0, 10_000), u8::MAX, "nothing was out");
    endpoint.probed(Ok(()), 100);
    assert_eq!(endpoint.part(100, 10_000), u8::MAX, "the start is no return");
    for _ in 0..3 {
        endpoint.probed(Err(Reason::Refused), 200);
    }
    endpoint.probed(Ok(()), 1_000);
    endpoint.probed(Ok(()), 1_000);
    assert_eq!(endpoint.down(1_000), None);
    assert_eq!(endpoint.part(1_000, 10_000), 25);
    assert_eq!(endpoint.part(6_000, 10_000), 127);
    assert_eq!(endpoint.part(11_000, 10_000), u8::MAX);
    // Alone it takes all the same.
    let other = upstream.endpoints().list()[1].clone();
    assert_eq!(other.down(0), Some(Reason::Starting));
    assert_eq!(chosen(&upstream, None), "10.0.0.1");
}

#[test]
fn an_unprobed_endpoint_is_tried_again_by_one_request() {
    let upstream = many(1, "ready = false\n");
    let endpoint = upstream.endpoints().list()[0].clone();
    for _ in 0..3 {
        upstream.connect_failed(&endpoint, Reason::Refused);
    }
    assert_eq!(upstream.readiness(), Err(Reason::Refused));
    assert!(!upstream.serves());
    upstream.connected(&endpoint);
    assert!(upstream.serves());
}

/// The upstreams of this configuration behind these: for the families `a` and `b`, in the order of the contract.
fn upstreams(families: &[&str], tables: &str, before: Option<&Upstreams>) -> Upstreams {
    let claims = families
        .iter()
        .map(|name| format!("[[family]]\nname = \"{name}\"\nclaims = [\"/{name}/**\"]\n"));
    let text = format!("version = 1\n{}", claims.collect::<String>());
    let read = |_: &std::path::Path| Ok(route_contract::diagnostic::Source::new("c", text.clone()));
    let contract = Contract::load_with(std::path::Path::new("c"), &read).unwrap();
    let text = format!("contract = \"c\"\n[listen]\npublic = \"127.0.0.1:0\"\n{tables}");
    let config: Config = toml::from_str(&text).unwrap();
    match before {
        None => Upstreams::new(&contract, &config).unwrap(),
        Some(before) => before.succeed(&contract, &config).unwrap(),
    }
}

const A: &str = "[upstream.a]\nurl = \"http://10.0.0.1:81\"\n";
const B: &str = "[upstream.b]\nurl = \"http://name.example:81\"\n";

fn group(upstream: &Upstream) -> u64 {
    upstream.endpoints().list()[0].peer().group_key
}

#[test]
fn what_is_the_same_is_taken_over_wherever_it_stands_in_the_contract() {
    let first = upstreams(&["a", "b"], &format!("{A}{B}"), None);
    let second = upstreams(&["b", "a"], &format!("{A}{B}"), Some(&first));
    for name in ["a", "b"] {
        assert!(
            Arc::ptr_eq(first.named(name).unwrap(), second.named(name).unwrap()),
            "{name}"
        );
    }
    assert!(Arc::ptr_eq(second.of(FamilyId(1)).unwrap(), first.named("a").unwrap()));
    assert!(!second.are(&first), "they stand elsewhere");
    assert!(upstreams(&["a", "b"], &format!("{A}{B}"), Some(&first)).are(&first));
    // A limit that all share changes all of them.
    let limits = "[limits]\nin_flight = 7\n";
    let third = upstreams(&["b", "a"], &format!("{limits}{A}{B}"), Some(&second));
    assert!(!Arc::ptr_eq(second.named("a").unwrap(), third.named("a").unwrap()));
}

#[test]
fn a_changed_table_keeps_addresses_health_places_and_budget() {
    let first = upstreams(&["a", "b"], &format!("{A}{B}"), None);
    let one = first.named("b").unwrap();
    let [kept, other] = ["10.0.0.7:81", "10.0.0.8:81"].map(|address| address.parse().unwrap());
    one.set_addresses(0, &[kept, other]);
    one.probed(&one.endpoints().list()[0], Ok(()));
    one.probed(&one.endpoints().list()[1], Err(Reason::Status));
    let place = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(one.admit());
    let in_use = one.choose(None, &Tried::default()).unwrap();
    while one.may_retry() {}

    let second = upstreams(&["b", "a"], &format!("{A}{B}idle_timeout = \"9s\"\n"), Some(&first));
    let next = second.named("b").unwrap();
    assert!(!Arc::ptr_eq(one, next));
    assert_eq!(next.endpoints().list().len(), 2, "known without a new look-up");
    assert_eq!(next.readiness(), Ok(()));
    let endpoints = next.gauges().endpoints;
    assert_eq!((endpoints.ready, endpoints.not_ready), (1, 1));
    assert_eq!((next.in_flight(), next.endpoints().list()[0].in_flight()), (1, 1));
    assert_eq!(second.in_flight(), 1);
    assert!(!next.may_retry(), "the budget is spent");
    assert_eq!(group(next), group(one), "the connections are those of before");
    drop((place, in_use));
    assert_eq!(
        (
            next.in_flight(),
            next.endpoints().list()[0].in_flight(),
            second.in_flight()
        ),
        (0, 0, 0)
    );

    // Another probe: what the old one has found out says nothing.
    let third = upstreams(&["b", "a"], &format!("{A}{B}ready = \"/other\"\n"), Some(&second));
    let next = third.named("b").unwrap();
    assert_eq!(next.readiness(), Err(Reason::Starting));
    assert_eq!(group(next), group(one));
    // Another protocol: other connections, too.
    let fourth = upstreams(&["b", "a"], &format!("{A}{B}protocol = \"h2\"\n"), Some(&third));
    assert_ne!(group(fourth.named("b").unwrap()), group(one));
    // Another URL: other endpoints.
    let fifth = upstreams(&["b"], "[upstream.b]\nurl = \"http://10.0.0.7:82\"\n", Some(&fourth));
    assert_eq!(fifth.named("b").unwrap().readiness(), Err(Reason::Starting));
    assert!(fifth.named("a").is_none());
}

#[test]
fn no_two_families_ever_share_a_pool() {
    let mut groups = Vec::new();
    let mut before = None;
    for round in 0..4 {
        // A family that comes back is a new one.
        let families = if round % 2 == 0 { &["a", "b"][..] } else { &["b"] };
        let tables = if round % 2 == 0 {
            format!("{A}[upstream.b]\nurl = \"http://10.0.0.1:81\"\n")
        } else {
            "[upstream.b]\nurl = \"http://10.0.0.1:81\"\n".to_owned()
        };
        let next = upstreams(families, &tables, before.as_ref());
        groups.extend(next.all().map(|upstream| (upstream.name().to_owned(), group(upstream))));
        before = Some(next);
    }
    groups.sort();
    groups.dedup();
    let names: Vec<&str> = groups.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a", "a", "b"]);
    let mut numbers: Vec<u64> = groups.iter().map(|(_, number)| *number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 3);
}
