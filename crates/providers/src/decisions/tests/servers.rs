//! Providers against a scripted upstream on loopback, and the calls of the tests.

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use tollgate_testkit::upstream::FakeUpstream;
use tollgate_types::RequestId;
use tollgate_types::decide::{DecisionSource, State, StateMedia, StateMediaKind};
use tollgate_upstream::{
    CallContext, DecideProvider, DecisionWay, LabelCall, LabelReading, Permit, Provider, UpstreamError,
};

use crate::http::{HttpClient, HttpSettings};
use crate::registry::{self, ProviderConfig};

/// Name of a model that all of these providers accept.
pub(super) const MODEL: &str = "house.model-1";

/// Builds the preset's provider for this upstream.
pub(super) fn provider(preset: &str, upstream: &FakeUpstream) -> Arc<dyn Provider> {
    let base_url = match preset {
        "openrouter" => format!("http://{}/api/v1", upstream.address()),
        "bedrock" => format!("http://{}", upstream.address()),
        _ => upstream.base_url(),
    };
    let config = ProviderConfig {
        preset: Some(preset.to_owned()),
        base_url: Some(base_url),
        api_key: Some(SecretString::from("sk-upstream-0123456789abcdef")),
        region: (preset == "bedrock").then(|| "eu-central-1".to_owned()),
        ..ProviderConfig::named("main")
    };
    let settings = HttpSettings {
        body_limit: 4 << 20,
        error_body_timeout: Duration::from_millis(300),
        ..HttpSettings::default()
    };
    registry::build(&config, &HttpClient::new(settings)).unwrap()
}

pub(super) fn context(timeout: Duration) -> CallContext {
    CallContext {
        request: RequestId::from_u128(7),
        permit: Permit::Free("test"),
        header_timeout: timeout,
        idle_timeout: timeout,
        inspected: false,
    }
}

pub(super) fn context_with_long_timeout() -> CallContext {
    context(Duration::from_secs(20))
}

pub(super) fn state(text: &str, media: &[StateMediaKind]) -> Arc<State> {
    let medium = |kind: &StateMediaKind| StateMedia {
        kind: *kind,
        url: match kind {
            StateMediaKind::Image => "data:image/png;base64,iVBORw0KGgo=".to_owned(),
            StateMediaKind::Audio => "data:audio/mpeg;base64,SUQz".to_owned(),
            StateMediaKind::Video => "data:video/mp4;base64,AAAA".to_owned(),
        },
        param: "state".to_owned(),
    };
    Arc::new(State {
        text: text.to_owned(),
        media: media.iter().map(medium).collect(),
    })
}

/// Returns a question with these options. Each label stands for the option at the same index.
pub(super) fn asked(text: &str, labels: &[String], options: &[String]) -> LabelCall {
    let lines = labels.iter().zip(options);
    let lines: String = lines
        .map(|(label, option)| format!("{label}) {option}\n"))
        .collect();
    LabelCall {
        upstream_model: MODEL.into(),
        state: state(text, &[]),
        question: format!("Which is it?\n\n{lines}\nAnswer with the label alone.").into(),
        labels: labels.to_vec().into(),
        seed: 0,
    }
}

/// Returns the question of most tests. It has three labels, and the second is the most probable.
pub(super) fn three() -> LabelCall {
    let texts = |all: [&str; 3]| all.map(str::to_owned);
    asked(
        "[[decide * one=0.3 two=0.6 three=0.1 mass=0.9]]",
        &texts(["A", "B", "C"]),
        &texts(["one", "two", "three"]),
    )
}

/// Expected probabilities of the labels of [`three`].
pub(super) const THREE: [f64; 3] = [0.27, 0.54, 0.09];

pub(super) fn sources(provider: &dyn DecideProvider, state: &State) -> Vec<DecisionSource> {
    let ways = provider.decision_ways(MODEL, state);
    ways.into_iter().map(DecisionWay::source).collect()
}

/// Returns the provider's current decision method with this source.
pub(super) fn way(provider: &dyn DecideProvider, call: &LabelCall, source: DecisionSource) -> DecisionWay {
    let mut ways = provider.decision_ways(MODEL, &call.state).into_iter();
    ways.find(|way| way.source() == source).unwrap()
}

pub(super) async fn read(
    provider: &dyn DecideProvider,
    source: DecisionSource,
    call: &LabelCall,
) -> Result<Option<LabelReading>, UpstreamError> {
    provider
        .read_labels(&context_with_long_timeout(), way(provider, call, source), call)
        .await
}

/// Returns the probabilities of a reading; 0 for a label that was not reported.
pub(super) fn shares(reading: &LabelReading) -> Vec<f64> {
    let logprobs = reading.logprobs.iter();
    logprobs.map(|one| one.map_or(0.0, f64::exp)).collect()
}

pub(super) fn near(one: &[f64], two: &[f64], by: f64) -> bool {
    one.len() == two.len() && one.iter().zip(two).all(|(one, two)| (one - two).abs() <= by)
}
