//! Tests that keys are sent in one header and appear nowhere else.

use secrecy::SecretString;
use tollgate_testkit::upstream::{FakeUpstream, Reply};

use super::{KEY, ask, chat, context, provider_at};
use crate::http::{BaseUrl, Credential, Endpoint, HttpClient, HttpSettings};
use crate::openai_compatible::{OpenAiCompatible, preset};
use crate::registry::ProviderConfig;

#[test]
fn debug_output_hides_keys() {
    let key = SecretString::from(KEY);
    let base = BaseUrl::parse("http://localhost:1/v1").unwrap();
    let credentials = [
        Credential::bearer(&key).unwrap(),
        Credential::header("x-org", &key).unwrap(),
    ];
    let http = HttpClient::new(HttpSettings::default());
    let preset = preset("openai").unwrap();
    let provider = OpenAiCompatible::new("main".into(), preset, &base, &credentials, http).unwrap();
    let config = ProviderConfig {
        api_key: Some(key.clone()),
        headers: vec![("x-org".to_owned(), key)],
        ..ProviderConfig::named("main")
    };
    let endpoint = Endpoint::new(&base, "/x", &credentials).unwrap();
    for shown in [
        format!("{credentials:?}"),
        format!("{endpoint:?}"),
        format!("{provider:?}"),
        format!("{config:?}"),
    ] {
        assert!(!shown.contains("0123456789abcdef"), "{shown}");
        assert!(
            shown.contains("Sensitive") || shown.contains("REDACTED"),
            "{shown}"
        );
    }
}

#[tokio::test]
async fn an_upstream_that_repeats_key_and_prompt_is_not_quoted() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at("openai-compatible", &upstream.base_url());
    for status in [200, 302, 400, 401, 403, 404, 418, 422, 429, 500, 503] {
        let message = format!("Incorrect key {KEY} for 'tell me'");
        upstream.push(Reply::error(status, &message, &message).header("retry-after", &message));
        upstream.push(Reply::body(status, &message, message.clone()));
        for _ in 0..2 {
            let error = ask(&*provider, &context(), &chat(false)).await.unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(
                !shown.contains("0123456789abcdef") && !shown.contains("tell me"),
                "{shown}"
            );
        }
    }
}

#[test]
fn invalid_header_values_are_refused_without_quoting_them() {
    let error = Credential::bearer(&SecretString::from("sk-\nsecret")).unwrap_err();
    assert!(!error.to_string().contains("secret"), "{error}");
    let error = Credential::header("bad name", &SecretString::from("secret")).unwrap_err();
    assert!(error.to_string().contains("bad name"), "{error}");
}
