//! Tests of reports of deep research models.

use tollgate_testkit::upstream::{FakeUpstream, MediaFault};
use tollgate_types::usage::Unit;

use crate::media::tests::calls::{
    KEY, check_ends, check_faults, completed, marks, plain_report_call, provider_at, report_call, reports_of,
    root_of, submission,
};

const MODEL: &str = "o4-mini-deep-research";

#[tokio::test]
async fn links_in_reports_become_marks() {
    for preset in ["openai", "openai-responses"] {
        let upstream = FakeUpstream::start().await;
        upstream.set_api_key(KEY);
        let provider = provider_at(preset, &upstream.base_url());
        let handle = submission(reports_of(&*provider), &plain_report_call(MODEL))
            .await
            .unwrap();
        let request = upstream.requests().remove(0);
        assert_eq!(request.path, "/v1/responses");
        let body = request.json().unwrap();
        assert_eq!(body["background"], true);
        assert_eq!(body["tools"][0]["type"], "web_search_preview");
        assert_eq!(body["max_tool_calls"], 100);
        assert_eq!(body["input"][0]["role"], "developer");
        assert_eq!(
            body["input"][3]["content"],
            "When does the ferry sail through the gate?"
        );
        assert!(body["instructions"].as_str().unwrap().starts_with("Use tables."));
        assert!(body.get("max_output_tokens").is_none() && body.get("reasoning").is_none());
        let report = completed(reports_of(&*provider), &handle).await;
        assert_eq!(
            marks(&report),
            [
                ("([Ferries](https://a.example/ferries))", "Ferries"),
                ("([Wind](https://b.example/wind))", "Wind"),
            ]
        );
        assert_eq!(report.queries, ["one", "two"]);
        let units = [
            Unit::Input,
            Unit::CacheRead,
            Unit::Output,
            Unit::Reasoning,
            Unit::Search,
        ];
        assert_eq!(
            units.map(|unit| report.usage.get(unit)),
            [3_000, 2_000, 200, 1_000, 2_000_000]
        );
    }
}

#[tokio::test]
async fn limits_and_sites_are_sent() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at("openai", &upstream.base_url());
    let mut call = plain_report_call(MODEL);
    call.filters.include = vec!["a.example".to_owned()];
    call.effort = "low";
    call.max_output_tokens = Some(900);
    call.max_searches = Some(2);
    call.max_pages = Some(5);
    assert!(reports_of(&*provider).check(&call).is_ok());
    submission(reports_of(&*provider), &call).await.unwrap();
    let body = upstream.requests().remove(0).json().unwrap();
    assert_eq!(body["tools"][0]["filters"]["allowed_domains"][0], "a.example");
    assert_eq!(body["tools"][0]["type"], "web_search");
    assert_eq!(
        (&body["max_tool_calls"], &body["max_output_tokens"]),
        (&7.into(), &900.into())
    );
    let error = reports_of(&*provider).check(&report_call(MODEL)).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("search_domain_filter"), "exclusions");
}

#[tokio::test]
async fn faults_of_a_submission_show_whether_a_retry_is_safe() {
    check_faults("openai", "/v1", &plain_report_call(MODEL), reports_of).await;
}

#[tokio::test]
async fn jobs_end_as_the_server_reports() {
    let ends: &[(Option<MediaFault>, &[&str])] = &[
        (None, &["waiting", "running", "complete"]),
        (
            Some(MediaFault::Fails("out of memory".to_owned())),
            &["waiting", "running", "failed: Unavailable"],
        ),
        (
            Some(MediaFault::Blocked),
            &["waiting", "running", "failed: ContentBlocked"],
        ),
        (Some(MediaFault::Endless), &["cancelled"]),
        (Some(MediaFault::Lost), &["lost"]),
    ];
    check_ends("openai", "/v1", &plain_report_call(MODEL), reports_of, ends).await;
    let upstream = FakeUpstream::start().await;
    assert!(
        provider_at("openai-compatible", &root_of(&upstream))
            .reports()
            .is_none()
    );
}
