//! Calls and checks for the tests of the media providers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt;
use secrecy::SecretString;
use tollgate_testkit::upstream::{FakeUpstream, MediaFault};
use tollgate_types::{Date, RequestId, Retry};
use tollgate_upstream::{
    CallContext, Content, GenerationOutput, GenerationState, ImageCall, ImageTask, JobCall, JobProvider,
    Permit, Provider, ProviderReport, Recency, ReportCall, ReportMessage, ReportRole, SearchFilters, Size,
    Source, Submitted, UpstreamCause, UpstreamError, UpstreamErrorKind, VideoCall, VideoTask,
};

use crate::http::{HttpClient, HttpSettings};
use crate::registry::{self, ProviderConfig};

/// Folder of ComfyUI workflows.
pub(crate) const WORKFLOWS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/comfyui/tests/workflows");
pub(crate) const KEY: &str = "sk-upstream-0123456789abcdef";

pub(crate) fn context() -> CallContext {
    CallContext {
        request: RequestId::from_u128(7),
        permit: Permit::Free("test"),
        header_timeout: Duration::from_secs(20),
        idle_timeout: Duration::from_secs(20),
        inspected: false,
    }
}

pub(crate) fn provider_at(preset: &str, base_url: &str) -> Arc<dyn Provider> {
    let config = ProviderConfig {
        preset: Some(preset.to_owned()),
        base_url: Some(base_url.to_owned()),
        api_key: Some(SecretString::from(KEY)),
        workflows: (preset == "comfyui").then(|| WORKFLOWS.into()),
        ..ProviderConfig::named("main")
    };
    registry::build(&config, &HttpClient::new(HttpSettings::default())).unwrap()
}

/// Returns the base URL of an upstream, without a path.
pub(crate) fn root_of(upstream: &FakeUpstream) -> String {
    format!("http://{}", upstream.address())
}

pub(crate) fn source(bytes: &'static [u8]) -> Source {
    Source {
        bytes: Bytes::from_static(bytes),
        mime_type: "image/png".into(),
    }
}

/// Returns a call for two images from a prompt.
pub(crate) fn image_call(model: &str) -> ImageCall {
    ImageCall {
        upstream_model: model.into(),
        task: ImageTask::Generate,
        prompt: "a tall gate".to_owned(),
        negative_prompt: Some("people".to_owned()),
        images: Vec::new(),
        mask: None,
        count: 2,
        set: false,
        size: Some(Size {
            width: 64,
            height: 32,
        }),
        aspect_ratio: None,
        resolution: None,
        quality: None,
        format: None,
        seed: Some(7),
    }
}

/// Returns a call for a video from a prompt.
pub(crate) fn video_call(model: &str) -> VideoCall {
    VideoCall {
        upstream_model: model.into(),
        task: VideoTask::FromText,
        mode: None,
        prompt: "a gate opens".to_owned(),
        negative_prompt: None,
        image: None,
        references: Vec::new(),
        video: None,
        duration: Duration::from_secs(8),
        size: Size {
            width: 128,
            height: 72,
        },
        aspect_ratio: "16:9".into(),
        resolution: "720p".into(),
        audio: true,
        seed: None,
    }
}

/// Returns a call for a report, with filters.
pub(crate) fn report_call(model: &str) -> ReportCall {
    let message = |role, text: &str| ReportMessage {
        role,
        text: text.to_owned(),
    };
    ReportCall {
        upstream_model: model.into(),
        messages: vec![
            message(ReportRole::System, "Be exact."),
            message(ReportRole::User, "Which ferries sail?"),
            message(ReportRole::Assistant, "Several."),
            message(ReportRole::User, "When does the ferry sail through the gate?"),
        ],
        instructions: Some("Use tables.".to_owned()),
        effort: "high",
        max_output_tokens: Some(900),
        max_searches: None,
        max_pages: None,
        paid_searches: 100,
        filters: SearchFilters {
            include: vec!["a.example".to_owned()],
            exclude: vec!["b.example".to_owned()],
            after: Date::new(2026, 3, 31),
            recency: Some(Recency::Month),
            language: Some("de".to_owned()),
            ..SearchFilters::default()
        },
    }
}

/// Returns a call for a report without filters and limits.
pub(crate) fn plain_report_call(model: &str) -> ReportCall {
    ReportCall {
        max_output_tokens: None,
        filters: SearchFilters {
            language: Some("de".to_owned()),
            ..SearchFilters::default()
        },
        ..report_call(model)
    }
}

/// Returns the text of each mark and the title of the first document that it cites.
pub(crate) fn marks(report: &ProviderReport) -> Vec<(&str, &str)> {
    let marks = report.marks.iter();
    marks
        .map(|mark| {
            let source = &report.sources[mark.sources[0]];
            (&report.text[mark.start..mark.end], &*source.title)
        })
        .collect()
}

/// Polls until the report is complete.
pub(crate) async fn completed(reports: &dyn JobProvider<ReportCall>, handle: &[u8]) -> ProviderReport {
    match states(reports, handle).await.pop() {
        Some(GenerationState::Completed(report)) => report,
        state => panic!("the report is not complete: {state:?}"),
    }
}

/// Submits a call and returns the handle of the job. Panics if the handle contains the API key or
/// the host.
pub(crate) async fn submission<C: JobCall<Output: std::fmt::Debug>>(
    media_provider: &dyn JobProvider<C>,
    call: &C,
) -> Result<Vec<u8>, UpstreamError> {
    match media_provider.submit(&context(), call, "key-1").await? {
        Submitted::Accepted { handle, .. } => {
            let handle_text = String::from_utf8(handle.clone()).unwrap();
            assert!(
                !handle_text.contains("0123456789") && !handle_text.contains("127.0.0.1"),
                "{handle_text}"
            );
            Ok(handle)
        }
        Submitted::Completed(made) => panic!("it takes its time: {made:?}"),
    }
}

/// Polls until the job ends and returns the state from each poll.
pub(crate) async fn states<C: JobCall<Output: std::fmt::Debug>>(
    media_provider: &dyn JobProvider<C>,
    handle: &[u8],
) -> Vec<GenerationState<C::Output>> {
    let mut states = Vec::new();
    loop {
        let state = media_provider.poll(&context(), handle).await.unwrap();
        let is_over = !matches!(
            state,
            GenerationState::Waiting { .. } | GenerationState::Running { .. }
        );
        states.push(state);
        if is_over {
            return states;
        }
        assert!(states.len() < 20, "it never ends: {states:?}");
    }
}

/// Downloads an output from the upstream.
pub(crate) async fn fetched<C: JobCall>(media_provider: &dyn JobProvider<C>, content: &Content) -> Vec<u8> {
    let Content::Upstream(own) = content else {
        panic!("at the upstream: {content:?}");
    };
    let stream = media_provider.fetch(&context(), own).await.unwrap();
    let items: Vec<Bytes> = stream.try_collect().await.unwrap();
    items.concat()
}

/// Checks the faults of a submission at one provider: the call is sent once, and the error shows
/// whether a retry is safe.
pub(crate) async fn check_faults<C: JobCall<Output: std::fmt::Debug>>(
    preset: &str,
    path: &str,
    call: &C,
    media_provider_of: MediaProviderOf<C>,
) {
    use UpstreamCause::{Protocol, Status, Timeout};
    use UpstreamErrorKind::{ContentBlocked, RateLimited, Unavailable};
    let after = Retry::After(Duration::from_secs(7));
    let cases = [
        (MediaFault::Hang, Unavailable, Timeout, Retry::Unknown, 1),
        (MediaFault::ServerError, Unavailable, Status, Retry::Unknown, 1),
        (MediaFault::Busy, RateLimited, Status, after, 0),
        (MediaFault::Refused, ContentBlocked, Status, Retry::Never, 0),
        (MediaFault::BrokenJson, Unavailable, Protocol, Retry::Unknown, 1),
        (MediaFault::Cut, Unavailable, Protocol, Retry::Unknown, 1),
    ];
    for (fault, kind, cause, retry, taken) in cases {
        let upstream = FakeUpstream::start().await;
        upstream.push_for_media(fault.clone());
        let provider = provider_at(preset, &format!("{}{path}", root_of(&upstream)));
        let ctx = match fault {
            MediaFault::Hang => CallContext {
                header_timeout: Duration::from_millis(300),
                ..context()
            },
            _ => context(),
        };
        let submission = media_provider_of(&*provider).submit(&ctx, call, "key-1").await;
        let error = submission.expect_err("a fault");
        assert_eq!(
            (error.kind, error.cause, error.retry),
            (kind, cause, retry),
            "{fault:?} {error}"
        );
        assert!(!format!("{error:?}").contains("gate"), "{error:?}");
        assert_eq!(upstream.media_submissions(), 1, "{fault:?}");
        assert_eq!(upstream.made().len(), taken, "{fault:?}");
    }
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key("another");
    let provider = provider_at(preset, &format!("{}{path}", root_of(&upstream)));
    let error = media_provider_of(&*provider)
        .submit(&context(), call, "key-1")
        .await
        .expect_err("a wrong key");
    assert_eq!(error.kind, UpstreamErrorKind::Credentials);
    assert!(!format!("{error} {error:?}").contains("0123456789"), "{error:?}");
    for handle in ["", "{}", "[7]"] {
        let request = media_provider_of(&*provider)
            .poll(&context(), handle.as_bytes())
            .await;
        assert_eq!(
            request.expect_err("no handle").cause,
            UpstreamCause::Connect,
            "{handle}"
        );
    }
    assert_eq!((upstream.media_submissions(), upstream.request_count()), (0, 1));
}

/// Function that returns a provider's media provider for one type of call.
pub(crate) type MediaProviderOf<C> = fn(&dyn Provider) -> &dyn JobProvider<C>;

pub(crate) fn images_of(provider: &dyn Provider) -> &dyn JobProvider<ImageCall> {
    provider.images().unwrap()
}

pub(crate) fn reports_of(provider: &dyn Provider) -> &dyn JobProvider<ReportCall> {
    provider.reports().unwrap()
}

pub(crate) fn videos_of(provider: &dyn Provider) -> &dyn JobProvider<VideoCall> {
    provider.videos().unwrap()
}

/// Output with a short description.
pub(crate) trait Described {
    fn described(&self) -> String;
}

impl Described for GenerationOutput {
    fn described(&self) -> String {
        format!("{} made", self.items.len())
    }
}

impl Described for ProviderReport {
    fn described(&self) -> String {
        "complete".to_owned()
    }
}

/// Returns each state as a short text, without its content or error message.
pub(crate) fn words<O: Described>(states: &[GenerationState<O>]) -> Vec<String> {
    let word = |state: &GenerationState<O>| match state {
        GenerationState::Waiting { ahead: Some(ahead) } => format!("waiting after {ahead}"),
        GenerationState::Waiting { ahead: None } => "waiting".to_owned(),
        GenerationState::Running {
            percent: Some(percent),
        } => format!("running at {percent}"),
        GenerationState::Running { percent: None } => "running".to_owned(),
        GenerationState::Completed(output) => output.described(),
        GenerationState::Blocked => "blocked".to_owned(),
        GenerationState::Failed(error) => format!("failed: {:?}", error.kind),
        GenerationState::Cancelled => "cancelled".to_owned(),
        GenerationState::Lost => "lost".to_owned(),
    };
    states.iter().map(word).collect()
}

/// Checks the states of a job with each of these faults. Cancels a job that would not end.
pub(crate) async fn check_ends<C: JobCall<Output: Described + std::fmt::Debug>>(
    preset: &str,
    path: &str,
    call: &C,
    media_provider_of: MediaProviderOf<C>,
    expected: &[(Option<MediaFault>, &[&str])],
) {
    for (fault, words_expected) in expected {
        let upstream = FakeUpstream::start().await;
        upstream.set_api_key(KEY);
        fault
            .iter()
            .for_each(|fault| upstream.push_for_media(fault.clone()));
        let provider = provider_at(preset, &format!("{}{path}", root_of(&upstream)));
        let media_provider = media_provider_of(&*provider);
        let handle = submission(media_provider, call).await.unwrap();
        if fault == &Some(MediaFault::Endless) {
            for _ in 0..2 {
                media_provider.cancel(&context(), &handle).await.unwrap();
            }
            assert!(upstream.made()[0].is_cancelled);
        }
        let states = states(media_provider, &handle).await;
        assert_eq!(words(&states), *words_expected, "{preset} {fault:?}");
        assert!(!format!("{states:?}").contains("a gate"), "{states:?}");
        assert_eq!(upstream.made()[0].key.as_deref(), Some("key-1"));
        assert_eq!(upstream.media_submissions(), 1);
    }
}
