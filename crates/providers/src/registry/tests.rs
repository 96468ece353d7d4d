use secrecy::SecretString;

use super::*;
use crate::http::HttpSettings;

fn built(config: &ProviderConfig) -> Result<Arc<dyn Provider>, String> {
    build(config, &HttpClient::new(HttpSettings::default())).map_err(|error| error.to_string())
}

fn block(name: &str, preset: Option<&str>, base_url: Option<&str>, key: Option<&str>) -> ProviderConfig {
    ProviderConfig {
        preset: preset.map(str::to_owned),
        base_url: base_url.map(str::to_owned),
        api_key: key.map(SecretString::from),
        ..ProviderConfig::named(name)
    }
}

#[test]
fn blocks_become_providers_of_their_name() {
    for (name, preset, base_url) in [
        ("sim", None, None),
        ("trial", Some("sim"), None),
        ("ollama", None, None),
        ("rack", Some("vllm"), Some("http://10.0.0.7:8000")),
        ("house", None, Some("http://models.test/v1")),
        ("backup", Some("openai"), Some("http://127.0.0.1:9/v1")),
    ] {
        let provider = built(&block(name, preset, base_url, None)).unwrap();
        assert_eq!(provider.id(), name);
        assert!(provider.text().is_some());
        assert!(provider.embeddings().is_some());
        assert_eq!(provider.is_simulated(), preset == Some("sim") || name == "sim");
    }
}

/// At a preset's default address, batches use the provider's batch API by default. Other servers of
/// the format may have no batch API.
#[test]
fn native_batches_default_follows_the_address() {
    for (preset, base_url, setting, expected) in [
        ("openai", None, None, true),
        ("openai", None, Some(false), false),
        ("openai", Some("http://10.0.0.7:8000/v1"), None, false),
        ("openai", Some("http://10.0.0.7:8000/v1"), Some(true), true),
        ("anthropic", None, None, true),
        ("anthropic", None, Some(false), false),
        ("anthropic", Some("http://10.0.0.7:8000"), None, false),
        ("openrouter", None, None, false),
    ] {
        let config = ProviderConfig {
            native_batches: setting,
            ..block(preset, None, base_url, Some("k"))
        };
        let provider = built(&config).unwrap();
        let is_enabled = provider.batches().is_some_and(|batches| batches.is_enabled());
        assert_eq!(is_enabled, expected, "{preset} {base_url:?} {setting:?}");
    }
    let senseless = ProviderConfig {
        native_batches: Some(true),
        ..block("openrouter", None, None, Some("k"))
    };
    assert!(built(&senseless).err().unwrap().contains("`batches`"));
}

#[test]
fn config_errors_name_the_block_and_the_fix() {
    for (config, parts) in [
        (
            block("opnai", None, None, None),
            &["[providers.opnai]", "`openai`", "base_url"][..],
        ),
        (
            block("x", Some("lmstudio"), None, None),
            &["[providers.x]", "`lm-studio`"],
        ),
        (
            block("openai", None, None, None),
            &["[providers.openai]", "OPENAI_API_KEY", "api_key_env"],
        ),
        (
            block("azure-openai", None, None, Some("k")),
            &["[providers.azure-openai]", "base_url", "/openai/v1"],
        ),
        (
            block("x", None, Some("ftp://host"), None),
            &["[providers.x]", "http://"],
        ),
        (block("x", None, Some("host/v1"), None), &["[providers.x]"]),
        (
            block("x", None, Some("http://me:secret@host/v1"), None),
            &["[providers.x]", "…@host"],
        ),
        (block("x", None, Some("http://host/v1#a"), None), &["fragment"]),
        (
            block("x", None, Some("http://host/v1"), Some("a\nsecret")),
            &["[providers.x]", "authorization"],
        ),
    ] {
        let Err(message) = built(&config) else {
            panic!("{config:?} is fine");
        };
        for part in parts {
            assert!(message.contains(part), "{message} lacks {part}");
        }
        assert!(!message.contains("secret"), "{message}");
    }
}

#[test]
fn bedrock_needs_a_region_and_one_of_two_kinds_of_keys() {
    let of = |region: Option<&str>, key: Option<&str>, access: bool| ProviderConfig {
        region: region.map(str::to_owned),
        access_keys: access.then(|| AccessKeys {
            id: "AKIDEXAMPLE".to_owned(),
            secret: SecretString::from("secret"),
            session_token: None,
        }),
        ..block("bedrock", None, None, key)
    };
    for (config, parts) in [
        (
            of(None, Some("k"), false),
            &["[providers.bedrock]", "AWS_REGION", "region ="][..],
        ),
        (of(Some("us east"), Some("k"), false), &["region", "us-east-1"]),
        (of(Some(""), Some("k"), false), &["region"]),
        (
            of(Some("us-east-1"), None, false),
            &["AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "api_key_file"],
        ),
        (
            ProviderConfig {
                region: Some("us-east-1".to_owned()),
                ..block("openai", None, None, Some("k"))
            },
            &["[providers.openai]", "`region`"],
        ),
    ] {
        let Err(message) = built(&config) else {
            panic!("{config:?} is fine");
        };
        for part in parts {
            assert!(message.contains(part), "{message} lacks {part}");
        }
    }
    for config in [
        of(Some("us-east-1"), Some("k"), false),
        of(Some("cn-north-1"), None, true),
    ] {
        let provider = built(&config).unwrap();
        assert!(provider.text().is_some() && provider.embeddings().is_none());
    }
}

#[test]
fn every_preset_is_documented() {
    let page = include_str!("../../../../docs/providers.md");
    for name in preset_names() {
        let row = page
            .lines()
            .find(|line| line.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("{name} has no row"));
        for variable in key_variables(name) {
            assert!(row.contains(&format!("`{variable}`")), "{name}: {variable}");
        }
    }
}

#[test]
fn media_providers_need_their_keys() {
    for (name, variable) in [
        ("fal", Some("FAL_KEY")),
        ("replicate", Some("REPLICATE_API_TOKEN")),
        ("stable-diffusion.cpp", None),
    ] {
        assert_eq!(default_key_variable(name), variable);
        let built_without = built(&block(name, None, None, None));
        assert_eq!(built_without.is_ok(), variable.is_none(), "{name}");
        let message = built_without.err().unwrap_or_default();
        assert!(message.contains(variable.unwrap_or_default()), "{message}");
        let provider = built(&block(name, None, Some("http://127.0.0.1:9"), Some("k"))).unwrap();
        assert!(provider.images().is_some() && provider.videos().is_some() && provider.text().is_none());
        let message = built(&block(name, None, Some("http://127.0.0.1:9"), Some("a\nsecret")))
            .err()
            .unwrap();
        assert!(!message.contains("secret"), "{message}");
    }
}

#[test]
fn workflows_are_refused_by_other_presets() {
    let with = |name: &str, workflows: Option<&str>| ProviderConfig {
        workflows: workflows.map(PathBuf::from),
        ..block(name, None, None, Some("k"))
    };
    let folder = crate::media::tests::calls::WORKFLOWS;
    assert!(built(&with("comfyui", Some(folder))).is_ok());
    for (config, setting) in [
        (with("comfyui", None), "workflows"),
        (
            with("comfyui", Some("/nowhere/at/all")),
            "cannot read /nowhere/at/all",
        ),
        (with("openai", Some(folder)), "`workflows` is not a setting"),
    ] {
        let message = built(&config).err().unwrap();
        assert!(message.contains(setting), "{message}");
    }
}

#[test]
fn the_adapters_share_no_preset() {
    let mut names: Vec<&str> = preset_names().collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(names.contains(&"sim") && names.contains(&"openai"));
    assert_eq!(default_key_variable("groq"), Some("GROQ_API_KEY"));
    assert_eq!(default_key_variable("ollama"), None);
}

#[test]
fn hosted_servers_get_one_call_for_several_answers() {
    for (preset, address, setting, expected) in [
        (
            "openai-compatible",
            "https://models.example.com/v1",
            None,
            Some(false),
        ),
        (
            "openai-compatible",
            "https://models.example.com/v1",
            Some(true),
            Some(true),
        ),
        ("openai-compatible", "http://10.0.0.7:8000/v1", None, None),
        ("ollama", "https://models.example.com/v1", None, None),
        ("openai", "https://models.example.com/v1", None, None),
    ] {
        let config = ProviderConfig {
            preset: Some(preset.to_owned()),
            base_url: Some(address.to_owned()),
            separate_answers: setting,
            ..ProviderConfig::named("x")
        };
        assert_eq!(config.needs_call_per_answer(), expected, "{preset} {address}");
    }
}

#[test]
fn own_servers_stop_with_their_callers() {
    let stops = |preset: &str, base_url: Option<&str>, setting: Option<bool>| {
        let config = ProviderConfig {
            preset: Some(preset.to_owned()),
            base_url: base_url.map(str::to_owned),
            stops_on_disconnect: setting,
            ..ProviderConfig::named("x")
        };
        config.stops_on_disconnect()
    };
    for (preset, address, expected) in [
        ("vllm", None, true),
        ("llama.cpp", None, true),
        ("ollama", None, true),
        ("sglang", None, true),
        ("lm-studio", None, true),
        ("vllm", Some("https://models.example.com/v1"), true),
        ("openai", None, false),
        ("anthropic", Some("http://127.0.0.1:8000/v1"), false),
        ("sim", None, false),
        ("openai-compatible", Some("https://models.example.com/v1"), false),
        ("openai-compatible", Some("http://8.8.8.8/v1"), false),
        ("openai-compatible", Some("http://172.32.0.1/v1"), false),
        ("openai-compatible", Some("http://172.31.0.1/v1"), true),
        ("openai-compatible", Some("http://192.168.1.5:8000/v1"), true),
        ("openai-compatible", Some("http://[fd00::1]/v1"), true),
        ("openai-compatible", Some("http://[2001:db8::1]/v1"), false),
        ("openai-compatible", Some("http://localhost:8000/v1"), true),
        ("openai-compatible", Some("http://gpu-1:8000/v1"), true),
        ("openai-compatible", Some("http://gpu.internal/v1"), true),
        ("openai-compatible", None, false),
    ] {
        assert_eq!(stops(preset, address, None), expected, "{preset} {address:?}");
        for setting in [true, false] {
            assert_eq!(stops(preset, address, Some(setting)), setting, "{preset}");
        }
    }
}
