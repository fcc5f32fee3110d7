use super::*;
use crate::listen::HeadFault;
use crate::proxy::Refusal;

fn render(metrics: &Metrics) -> String {
    let upstream = UpstreamGauges {
        in_flight: 3,
        in_flight_limit: 10,
        ejections: 2,
        ..UpstreamGauges::default()
    };
    let text = metrics.render(&GatewayGauges::default(), [("workspace", upstream)].into_iter());
    String::from_utf8(text.unwrap()).unwrap()
}

#[test]
fn series_exist_before_the_first_request() {
    let metrics = Metrics::new().unwrap();
    let family = metrics.family("workspace");
    let upstream = metrics.upstream("workspace");
    let before = render(&metrics).lines().count();
    family.count(Some(200), None);
    family.count(None, None);
    family.count(Some(404), Some(Refusal::NotFound));
    family.measure(&Ended::default());
    upstream.count_connection(true);
    upstream.count_retry(RetryCause::Resend);
    metrics.listener.count_malformed(HeadFault::Host);
    metrics.reloads.count(crate::reload::Outcome::Refused);
    let text = render(&metrics);
    assert_eq!(text.lines().count(), before);
    for line in [
        "gateway_requests_total{family=\"workspace\",status_class=\"2xx\"} 1",
        "gateway_requests_total{family=\"workspace\",status_class=\"none\"} 1",
        "gateway_refusals_total{family=\"workspace\",reason=\"not_found\"} 1",
        "gateway_request_duration_seconds_count{family=\"workspace\"} 1",
        "gateway_upstream_connections_total{family=\"workspace\",kind=\"reused\"} 1",
        "gateway_upstream_retries_total{cause=\"resend\",family=\"workspace\"} 1",
        "gateway_upstream_ejections_total{family=\"workspace\"} 2",
        "gateway_requests_in_flight{family=\"workspace\"} 3",
        "gateway_malformed_requests_total{fault=\"host\"} 1",
        "gateway_reloads_total{result=\"refused\"} 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn every_value_of_a_label_has_a_series_of_its_own() {
    for (index, fault) in HeadFault::ALL.into_iter().enumerate() {
        assert_eq!(fault as usize, index);
    }
    for (index, fault) in crate::listen::HandshakeFault::ALL.into_iter().enumerate() {
        assert_eq!(fault as usize, index);
    }
    for (index, fault) in crate::listen::StreamFault::ALL.into_iter().enumerate() {
        assert_eq!(fault as usize, index);
    }
    for (index, fault) in crate::listen::ConnectionFault::ALL.into_iter().enumerate() {
        assert_eq!(fault as usize, index);
    }
    for (index, reason) in crate::readiness::Reason::ALL.into_iter().enumerate() {
        assert_eq!(reason.index(), index);
    }
}

#[test]
fn a_family_that_is_gone_has_no_gauges() {
    let metrics = Metrics::new().unwrap();
    assert!(render(&metrics).contains("gateway_upstream_ready"));
    let text = metrics.render(&GatewayGauges::default(), std::iter::empty()).unwrap();
    assert!(!String::from_utf8(text).unwrap().contains("gateway_upstream_ready"));
}

#[test]
fn nothing_is_counted_where_metrics_are_off() {
    let metrics = Metrics::new().unwrap().counting(false);
    let family = metrics.family("workspace");
    family.count(Some(200), None);
    family.measure(&Ended::default());
    let text = render(&metrics);
    assert!(text.contains("gateway_requests_total{family=\"workspace\",status_class=\"2xx\"} 0"));
    assert!(text.contains("gateway_request_duration_seconds_count{family=\"workspace\"} 0"));
}
