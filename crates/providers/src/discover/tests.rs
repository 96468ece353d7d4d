use tollgate_testkit::upstream::{FakeUpstream, Reply, refusing_base_url};

use super::*;
use crate::http::HttpSettings;

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
    // The environment variable with Azure's address is missing.
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
    assert!(bedrock("").is_empty(), "the region is unknown");
}

/// Each row has environment variables and the provider that the first variable enables; `None` if
/// the other variable assigns the key to another server.
#[test]
fn keys_for_another_server_add_no_provider() {
    let openai = ("OPENAI_API_KEY", "sk-1");
    let anthropic = ("ANTHROPIC_API_KEY", "sk-2");
    let gemini = ("GEMINI_API_KEY", "k");
    for (variables, expected) in [
        (vec![openai], Some("openai")),
        (
            vec![openai, ("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1")],
            None,
        ),
        (
            vec![openai, ("OPENAI_API_BASE", "http://127.0.0.1:8080/v1")],
            None,
        ),
        (vec![openai, ("OPENAI_BASE_URL", "nonsense")], None),
        (vec![openai, ("OPENAI_BASE_URL", " ")], Some("openai")),
        (
            vec![openai, ("OPENAI_BASE_URL", "https://api.openai.com/v1/")],
            Some("openai"),
        ),
        (
            vec![anthropic, ("ANTHROPIC_BASE_URL", "http://127.0.0.1:8080")],
            None,
        ),
        (
            vec![anthropic, ("ANTHROPIC_BASE_URL", "https://api.anthropic.com")],
            Some("anthropic"),
        ),
        (
            vec![gemini, ("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:8080")],
            None,
        ),
        (
            vec![gemini, ("OPENAI_BASE_URL", "http://127.0.0.1:8080")],
            Some("gemini"),
        ),
    ] {
        let found = from_environment(|name| {
            let variable = variables.iter().find(|(variable, _)| *variable == name);
            variable.map(|(_, value)| (*value).to_owned())
        });
        let names: Vec<&str> = found.iter().map(|config| &*config.name).collect();
        assert_eq!(names, Vec::from_iter(expected), "{variables:?}");
    }
}

#[test]
fn discovery_skips_the_own_port() {
    let ports = |own_port: u16| -> Vec<Option<u16>> {
        let addresses = default_addresses(own_port);
        let parsed = addresses.iter().map(|address| BaseUrl::parse(address).unwrap());
        parsed.map(|address| address.port()).collect()
    };
    assert!(ports(9).contains(&Some(8080)));
    let others: Vec<_> = ports(9).into_iter().filter(|port| *port != Some(8080)).collect();
    assert_eq!(ports(8080), others);
}

fn owned_by(owner: &str) -> Reply {
    let list = format!(r#"{{"object":"list","data":[{{"id":"m","object":"model","owned_by":"{owner}"}}]}}"#);
    Reply::body(200, "application/json", list)
}

#[tokio::test]
async fn server_presets_follow_their_answers() {
    // Owner of the model, path of another endpoint, body of that endpoint, expected preset.
    for (owner, path, body, expected) in [
        ("vllm", "", "", "vllm"),
        ("llamacpp", "", "", "llama.cpp"),
        ("sglang", "", "", "sglang"),
        ("library", "/api/version", r#"{"version":"0.12.6"}"#, "ollama"),
        ("library", "/api/version", "<html>", "openai-compatible"),
        (
            "organization_owner",
            "/api/v0/models",
            r#"{"data":[{"id":"m","publisher":"p"}]}"#,
            "lm-studio",
        ),
        (
            "organization_owner",
            "/api/v1/models",
            r#"{"models":[{"key":"m","publisher":"p"}]}"#,
            "lm-studio",
        ),
        ("somebody", "", "", "openai-compatible"),
        // The server imitates Ollama, but its model list has the owner of llama.cpp.
        ("llamacpp", "/api/version", r#"{"version":"1"}"#, "llama.cpp"),
    ] {
        let server = FakeUpstream::start().await;
        server.push_for_models(owned_by(owner));
        if !path.is_empty() {
            server.set_file(path, Reply::body(200, "application/json", body));
        }
        let http = HttpClient::new(HttpSettings::default());
        let found = servers_at(&http, vec![server.base_url()], Duration::from_secs(10)).await;
        let shown: Vec<(&str, &str)> = found
            .iter()
            .map(|server| (&*server.config.name, server.preset.name))
            .collect();
        assert_eq!(shown, [(expected, expected)], "{owner} {path}");
    }
}

#[tokio::test]
async fn found_servers_get_unique_names() {
    let (one, two, silent, other) = tokio::join!(
        FakeUpstream::start(),
        FakeUpstream::start(),
        FakeUpstream::start(),
        FakeUpstream::start()
    );
    one.push_for_models(owned_by("vllm"));
    two.push_for_models(owned_by("vllm"));
    silent.push_for_models(Reply::hang());
    other.push_for_models(Reply::html(200));
    let addresses = vec![
        one.base_url(),
        two.base_url(),
        silent.base_url(),
        other.base_url(),
        refusing_base_url(),
    ];
    let http = HttpClient::new(HttpSettings::default());
    let found = servers_at(&http, addresses, Duration::from_millis(500)).await;
    let shown: Vec<(String, usize)> = found
        .iter()
        .map(|server| (server.config.name.to_string(), server.models.len()))
        .collect();
    let named = |server: &FakeUpstream| (format!("vllm-{}", server.address().port()), 1);
    assert_eq!(shown, [named(&one), named(&two)]);
}

#[test]
fn blocks_match_servers_by_address() {
    let server = LocalServer {
        config: ProviderConfig {
            base_url: Some("http://127.0.0.1:8000/v1".to_owned()),
            ..ProviderConfig::named("llama.cpp")
        },
        preset: preset("llama.cpp").unwrap(),
        models: Vec::new(),
    };
    for (preset, address, expected) in [
        ("openai-compatible", Some("http://localhost:8000"), true),
        ("openai-compatible", Some("http://[::1]:8000/v1"), true),
        ("openai-compatible", Some("http://127.0.0.1:8001/v1"), false),
        ("openai-compatible", Some("http://10.0.0.1:8000/v1"), false),
        ("openai-compatible", None, false),
        // Default address of the preset.
        ("vllm", None, true),
        ("llama.cpp", None, false),
        ("anthropic", None, false),
    ] {
        assert_eq!(server.is_at(preset, address), expected, "{preset} {address:?}");
    }
}

/// Responds to every request with `answer` and records the path of the request. Never returns.
async fn serve(listener: tokio::net::TcpListener, answer: &str, paths: &std::sync::Mutex<Vec<String>>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        paths
            .lock()
            .unwrap()
            .push(head.split(' ').nth(1).unwrap().to_owned());
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn another_gateway_is_not_asked_for_its_models() {
    let body =
        "connection: close\r\ncontent-length: 41\r\n\r\n{\"data\":[{\"id\":\"one\",\"owned_by\":\"vllm\"}]}";
    for (header, expected) in [
        ("x-request-id: req_1\r\n", &["/healthz"][..]),
        ("x-request-id: 7\r\n", &["/healthz", "/v1/models"]),
        ("", &["/healthz", "/v1/models"]),
    ] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        let addresses = vec![address];
        let answer = format!("HTTP/1.1 200 OK\r\n{header}{body}");
        let paths = std::sync::Mutex::default();
        let http = HttpClient::new(HttpSettings::default());
        let found = tokio::select! {
            found = servers_at(&http, addresses, Duration::from_secs(60)) => found,
            () = serve(listener, &answer, &paths) => Vec::new(),
        };
        assert_eq!(found.len() + 1, expected.len(), "{answer}");
        assert_eq!(*paths.lock().unwrap(), expected, "{answer}");
    }
}
