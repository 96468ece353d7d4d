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

/// A call costs the list price, and a batch brings in less: makers are given them, and who else speaks like a maker may have none.
#[test]
fn batches_go_to_their_makers_unless_it_is_said_otherwise() {
    for (preset, base_url, said, expected) in [
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
            native_batches: said,
            ..block(preset, None, base_url, Some("k"))
        };
        let provider = built(&config).unwrap();
        let is_wanted = provider.batches().is_some_and(|batches| batches.is_wanted());
        assert_eq!(is_wanted, expected, "{preset} {base_url:?} {said:?}");
    }
    let senseless = ProviderConfig {
        native_batches: Some(true),
        ..block("openrouter", None, None, Some("k"))
    };
    assert!(built(&senseless).err().unwrap().contains("`batches`"));
}

#[test]
fn mistakes_name_the_block_and_what_to_do() {
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
fn makers_of_pictures_and_films_need_their_keys() {
    for (name, variable) in [
        ("fal", Some("FAL_KEY")),
        ("replicate", Some("REPLICATE_API_TOKEN")),
        ("stable-diffusion.cpp", None),
    ] {
        assert_eq!(usual_key_variable(name), variable);
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
fn workflows_are_for_those_that_have_them() {
    let with = |name: &str, workflows: Option<&str>| ProviderConfig {
        workflows: workflows.map(PathBuf::from),
        ..block(name, None, None, Some("k"))
    };
    let folder = crate::media::tests::calls::WORKFLOWS;
    assert!(built(&with("comfyui", Some(folder))).is_ok());
    for (config, said) in [
        (with("comfyui", None), "workflows"),
        (
            with("comfyui", Some("/nowhere/at/all")),
            "cannot read /nowhere/at/all",
        ),
        (with("openai", Some(folder)), "`workflows` means nothing"),
    ] {
        let message = built(&config).err().unwrap();
        assert!(message.contains(said), "{message}");
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
    assert_eq!(usual_key_variable("groq"), Some("GROQ_API_KEY"));
    assert_eq!(usual_key_variable("ollama"), None);
}
