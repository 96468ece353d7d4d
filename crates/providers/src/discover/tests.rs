use tollgate_testkit::upstream::{FakeUpstream, Reply, refusing_base_url};

use super::*;
use crate::http::HttpSettings;
use crate::openai_compatible::preset;

#[test]
fn presets_whose_key_is_set_are_found() {
    let variables = |name: &str| match name {
        "OPENAI_API_KEY" => Some("sk-1".to_owned()),
        "GROQ_API_KEY" => Some("  ".to_owned()),
        "AZURE_OPENAI_API_KEY" => Some("sk-2".to_owned()),
        _ => None,
    };
    let names = |found: Vec<ProviderConfig>| -> Vec<String> {
        found.iter().map(|config| config.name.to_string()).collect()
    };
    // Azure's address is missing.
    assert_eq!(names(from_environment(variables)), ["openai"]);
    let with_address = |name: &str| match name {
        "AZURE_OPENAI_ENDPOINT" => Some("https://acme.openai.azure.com/".to_owned()),
        _ => variables(name),
    };
    let found = from_environment(with_address);
    assert_eq!(
        found[1].base_url.as_deref(),
        Some("https://acme.openai.azure.com/")
    );
    assert_eq!(names(found), ["openai", "azure-openai"]);
    assert!(from_environment(|_| None).is_empty());
    let bedrock = |region: &'static str| {
        from_environment(move |name| match name {
            "AWS_BEARER_TOKEN_BEDROCK" => Some("k".to_owned()),
            "AWS_DEFAULT_REGION" => Some(region.to_owned()),
            _ => None,
        })
    };
    assert_eq!(bedrock("eu-west-1")[0].region.as_deref(), Some("eu-west-1"));
    assert!(bedrock("").is_empty(), "nobody knows where it is");
}

#[test]
fn a_gateway_does_not_ask_itself() {
    let names = |own_port: u16| -> Vec<&str> {
        let addresses = usual_addresses(own_port);
        addresses.iter().map(|(preset, _)| preset.name).collect()
    };
    assert!(names(9).contains(&"llama.cpp"));
    let others: Vec<&str> = names(9).into_iter().filter(|name| *name != "llama.cpp").collect();
    assert_eq!(names(8080), others);
}

#[tokio::test]
async fn servers_that_answer_are_found() {
    let (ollama, silent, other) = tokio::join!(
        FakeUpstream::start(),
        FakeUpstream::start(),
        FakeUpstream::start()
    );
    ollama.set_models(["llama3", "qwen"]);
    silent.push_for_models(Reply::hang());
    other.push_for_models(Reply::html(200));
    let addresses = vec![
        (preset("ollama").unwrap(), ollama.base_url()),
        (preset("vllm").unwrap(), silent.base_url()),
        (preset("llama.cpp").unwrap(), other.base_url()),
        (preset("sglang").unwrap(), refusing_base_url().await),
    ];
    let http = HttpClient::new(HttpSettings::default());
    let found = servers_at(&http, addresses, Duration::from_millis(500)).await;
    let shown: Vec<(&str, usize)> = found
        .iter()
        .map(|server| (&*server.config.name, server.models.len()))
        .collect();
    assert_eq!(shown, [("ollama", 2)]);
}
