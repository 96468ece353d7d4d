//! Tests of reports of deep research agents.

use super::*;
use crate::media::tests::calls::{
    KEY, completed, context, marks, plain_report_call, provider_at, report_call, reports_of, root_of, states,
    submission, words,
};
use tollgate_testkit::upstream::MediaFault;
use tollgate_types::usage::Unit;

#[tokio::test]
async fn reports_have_marks_after_their_cited_sentences() {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key(KEY);
    let provider = provider_at("gemini", &format!("{}/v1beta", root_of(&upstream)));
    let reports = reports_of(&*provider);
    let handle = submission(reports, &plain_report_call("deep-research-preview-04-2026"))
        .await
        .unwrap();
    let body = upstream.requests().remove(0).json().unwrap();
    assert_eq!(body["agent"], "deep-research-preview-04-2026");
    assert_eq!(body["background"], true);
    assert_eq!(body["agent_config"]["type"], "deep-research");
    let system = body["system_instruction"].as_str().unwrap();
    assert!(
        system.starts_with("Be exact.\n\nUse tables.\n\nWrite the report"),
        "{system}"
    );
    let input = body["input"].as_str().unwrap();
    assert!(
        input.contains("user: Which ferries sail?") && !input.contains("Be exact"),
        "{input}"
    );
    let report = completed(reports, &handle).await;
    assert_eq!(
        marks(&report),
        [(" [cite: 1]", "Ferries"), (" [cite: 2]", "Wind")]
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
        [3_000, 2_000, 200, 1_000, 3_000_000]
    );
}

#[tokio::test]
async fn report_jobs_end_as_the_server_reports() {
    let ends: &[(Option<MediaFault>, &[&str])] = &[
        (None, &["waiting", "running", "complete"]),
        (
            Some(MediaFault::Fails("no".to_owned())),
            &["waiting", "running", "failed: Unavailable"],
        ),
        (
            Some(MediaFault::Blocked),
            &["waiting", "running", "failed: Unavailable"],
        ),
        (Some(MediaFault::Endless), &["cancelled"]),
        (Some(MediaFault::Lost), &["lost"]),
    ];
    for (fault, words_expected) in ends {
        let upstream = FakeUpstream::start().await;
        fault
            .iter()
            .for_each(|fault| upstream.push_for_media(fault.clone()));
        let provider = provider_at("gemini", &format!("{}/v1beta", root_of(&upstream)));
        let reports = reports_of(&*provider);
        let handle = submission(reports, &plain_report_call("deep-research-preview-04-2026"))
            .await
            .unwrap();
        if fault == &Some(MediaFault::Endless) {
            reports.cancel(&context(), &handle).await.unwrap();
        }
        assert_eq!(
            words(&states(reports, &handle).await),
            *words_expected,
            "{fault:?}"
        );
    }
}

#[tokio::test]
async fn report_parameters_without_an_equivalent_are_refused() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at("gemini", &format!("{}/v1beta", root_of(&upstream)));
    let error = reports_of(&*provider).check(&report_call("m")).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("search_domain_filter"));
    let mut call = plain_report_call("m");
    assert!(reports_of(&*provider).check(&call).is_ok());
    call.max_output_tokens = Some(300);
    let error = reports_of(&*provider).check(&call).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("max_output_tokens"));
}
