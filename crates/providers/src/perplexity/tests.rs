//! Tests against a server of the format.

use tollgate_testkit::upstream::{FakeUpstream, MediaFault};
use tollgate_types::usage::Unit;

use super::*;
use crate::media::tests::calls::{
    KEY, check_ends, check_faults, completed, marks, provider_at, report_call, reports_of, root_of,
    submission,
};

#[tokio::test]
async fn reports_are_read_with_their_marks_and_usage() {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key(KEY);
    let provider = provider_at(PRESET, &root_of(&upstream));
    let call = report_call("sonar-deep-research");
    let handle = submission(reports_of(&*provider), &call).await.unwrap();
    let body = upstream.requests().remove(0).json().unwrap();
    let request = &body["request"];
    assert_eq!(body["idempotency_key"], "key-1");
    assert_eq!(request["reasoning_effort"], "high");
    assert_eq!(
        request["search_domain_filter"],
        serde_json::json!(["a.example", "-b.example"])
    );
    assert_eq!(request["search_recency_filter"], "month");
    assert_eq!(request["search_after_date_filter"], "3/31/2026");
    assert_eq!(request["max_tokens"], 900);
    let roles: Vec<_> = request["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["role"].clone())
        .collect();
    assert_eq!(roles, ["system", "system", "user", "assistant", "user"]);
    let report = completed(reports_of(&*provider), &handle).await;
    assert!(report.text.starts_with("## Findings"), "{}", report.text);
    assert_eq!(marks(&report), [("[1]", "Ferries"), ("[2]", "Wind")]);
    assert_eq!(report.sources[0].title, "Ferries");
    assert_eq!(report.sources[0].excerpt.as_deref(), Some("Ferries sail daily."));
    assert_eq!(
        report.sources[0].date.map(|date| date.to_string()).as_deref(),
        Some("2026-03-31")
    );
    let units = [Unit::Input, Unit::Output, Unit::Reasoning, Unit::Search];
    assert_eq!(
        units.map(|unit| report.usage.get(unit)),
        [5_000, 200, 1_000, 3_000_000]
    );
    assert_eq!(report.raw["citations"][0], "https://a.example/ferries");
}

#[tokio::test]
async fn faults_of_a_submission_show_whether_a_retry_is_safe() {
    check_faults(PRESET, "", &report_call("sonar-deep-research"), reports_of).await;
}

#[tokio::test]
async fn jobs_end_as_the_server_reports() {
    let ends: &[(Option<MediaFault>, &[&str])] = &[
        (None, &["waiting", "running", "complete"]),
        (
            Some(MediaFault::Fails("out of memory".to_owned())),
            &["waiting", "running", "failed: Unavailable"],
        ),
        (Some(MediaFault::Lost), &["lost"]),
    ];
    check_ends(PRESET, "", &report_call("sonar-deep-research"), reports_of, ends).await;
}

#[tokio::test]
async fn parameters_without_an_equivalent_are_refused() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at(PRESET, &root_of(&upstream));
    let mut call = report_call("sonar-deep-research");
    assert!(reports_of(&*provider).check(&call).is_ok());
    assert!(reports_of(&*provider).is_idempotent());
    call.max_pages = Some(3);
    let error = reports_of(&*provider).check(&call).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("max_pages"));
}
