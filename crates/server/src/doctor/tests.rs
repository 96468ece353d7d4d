use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tollgate_catalog::{CatalogInput, EnabledProvider};
use tollgate_types::Timestamp;
use tollgate_types::clock::ManualClock;
use tollgate_upstream::error::{UpstreamCause, UpstreamErrorKind};
use tollgate_upstream::{ListedModel, UpstreamError};

use super::*;
use crate::config::Flags;
use crate::config::env::Environment;

/// Returns settings with this data directory and without discovery, so that servers on this machine
/// have no influence.
fn config(text: &str, data: &Path, environment: &[(&str, &str)]) -> Config {
    let path = data.with_extension("toml");
    fs::write(
        &path,
        format!("[server]\ndiscover = false\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n{text}"),
    )
    .unwrap();
    let flags = Flags {
        config: Some(path),
        data: Some(data.to_owned()),
        ..Flags::default()
    };
    Config::load(&flags, Environment::of(environment)).unwrap()
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}

fn states(findings: &[Finding], what: &str) -> Vec<State> {
    findings
        .iter()
        .filter(|finding| finding.what == what)
        .map(|finding| finding.state)
        .collect()
}

fn now() -> ManualClock {
    let since_epoch = tollgate_types::clock::SystemClock::default();
    ManualClock::at(tollgate_types::Clock::now(&since_epoch))
}

#[test]
fn a_fresh_machine_has_no_fault() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let findings = block_on(run(&config("", &data, &[])));
    let faults: Vec<&Finding> = findings
        .iter()
        .filter(|finding| finding.state == State::Fault)
        .collect();
    assert!(faults.is_empty(), "{faults:?}");
    for what in [
        "settings",
        "data directory",
        "storage",
        "media",
        "limits",
        "server",
        "admin address",
        "providers",
        "models",
        "clock",
        "open files",
    ] {
        assert_eq!(states(&findings, what).len(), 1, "{what}: {findings:?}");
    }
    assert!(!data.exists(), "a check creates no files");
    let advised = |finding: &Finding| (finding.state == State::Fine) == finding.remedy.is_none();
    assert!(findings.iter().all(advised), "{findings:?}");
}

#[test]
fn secrets_that_others_can_read_are_a_fault_with_the_command_that_repairs_it() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    crate::secrets::make_private_dir(&data.join("secrets")).unwrap();
    let config = config("", &data, &[]);
    assert_eq!(states(&data::check(&config, &now()), "secrets"), [State::Fine]);
    let pepper = data.join("secrets").join("pepper");
    fs::write(&pepper, "x".repeat(64)).unwrap();
    fs::set_permissions(&pepper, fs::Permissions::from_mode(0o640)).unwrap();
    let findings = data::check(&config, &now());
    assert_eq!(states(&findings, "secrets"), [State::Fault]);
    let remedy = findings
        .iter()
        .find_map(|finding| finding.remedy.clone())
        .unwrap();
    assert_eq!(remedy, format!("chmod go-rwx {}", pepper.display()));
}

#[test]
fn ledgers_without_their_secret_are_a_fault() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    crate::secrets::make_private_dir(&data).unwrap();
    fs::write(data.join("tollgate.db"), "").unwrap();
    let findings = data::check(&config("", &data, &[]), &now());
    assert_eq!(
        states(&findings, "secrets"),
        [State::Fine, State::Fault],
        "{findings:?}"
    );
}

#[test]
fn a_clock_that_was_set_back_shows_in_the_files() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    crate::secrets::make_private_dir(&data).unwrap();
    let file = fs::File::create(data.join("journal")).unwrap();
    let config = config("", &data, &[]);
    assert_eq!(states(&data::check(&config, &now()), "clock"), []);
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000))
        .unwrap();
    assert_eq!(states(&data::check(&config, &now()), "clock"), [State::Fault]);
    assert_eq!(
        states(
            &data::check(
                &config,
                &ManualClock::at(Timestamp::from_micros(4_000_000_000_000_000))
            ),
            "clock"
        ),
        []
    );
}

#[test]
fn a_shared_secret_must_be_there_and_long_enough() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let text = "[service]\npepper_env = \"PEPPER\"";
    let long = "0123456789abcdef0123456789abcdef";
    for (environment, state) in [
        (&[][..], State::Fault),
        (&[("PEPPER", "short")][..], State::Fault),
        (&[("PEPPER", long)][..], State::Fine),
    ] {
        let finding = data::shared_secret(&config(text, &data, environment)).unwrap();
        assert_eq!(finding.state, state, "{finding:?}");
        assert!(!finding.detail.contains(long), "{finding:?}");
    }
    assert_eq!(data::shared_secret(&config("", &data, &[])), None);
}

#[test]
fn unshared_limits_are_noted() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let postgres = "[storage]\nurl = \"postgres://h/d\"\n[service]\npepper_env = \"P\"\n";
    let redis = format!("{postgres}[redis]\nurl = \"redis://:canary@{closed}\"\n");
    for (text, stated, expected_state) in [
        ("", State::Fine, State::Fine),
        ("[redis]\nurl = \"redis://:canary@h\"", State::Note, State::Note),
        (postgres, State::Note, State::Note),
        (&redis, State::Fine, State::Fault),
    ] {
        let config = config(text, &data, &[("P", "p")]);
        assert_eq!(limits::stated(&config).state, stated, "{text}");
        let finding = block_on(limits::check(&config));
        assert_eq!(finding.state, expected_state, "{finding:?}");
        assert!(!format!("{finding:?}").contains("canary"), "{finding:?}");
    }
}

#[test]
fn providers_without_a_key_or_an_answer_are_faults() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    // The port was bound and released, so no server listens on it.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let text = format!(
        "[providers.openai]\n[providers.near]\npreset = \"vllm\"\nbase_url = \"http://127.0.0.1:{port}/v1\"\n\
         [providers.off]\npreset = \"openai\"\nenabled = false"
    );
    let findings = block_on(run(&config(&text, &data, &[])));
    assert_eq!(
        states(&findings, "provider openai"),
        [State::Fault],
        "{findings:?}"
    );
    assert_eq!(states(&findings, "provider near"), [State::Fault], "{findings:?}");
    assert_eq!(states(&findings, "provider off"), []);
    assert_eq!(states(&findings, "providers"), []);
    let keyless = findings
        .iter()
        .find(|finding| finding.what == "provider openai")
        .unwrap();
    assert!(
        keyless.remedy.as_ref().unwrap().contains("OPENAI_API_KEY"),
        "{keyless:?}"
    );
}

#[test]
fn a_provider_that_signs_needs_no_key_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let text = format!(
        "[providers.cloud]\npreset = \"bedrock\"\nregion = \"us-east-1\"\nbase_url = \"http://127.0.0.1:{port}\""
    );
    let signing = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "secret")];
    for (environment, remedy) in [
        (&[][..], "AWS_BEARER_TOKEN_BEDROCK"),
        (&signing[..1], "AWS_BEARER_TOKEN_BEDROCK"),
        (&signing[..], "providers.cloud.base_url"),
    ] {
        let findings = block_on(run(&config(&text, &data, environment)));
        let found: Vec<&Finding> = findings
            .iter()
            .filter(|found| found.what == "provider cloud")
            .collect();
        assert_eq!(found.len(), 1, "{findings:?}");
        assert!(found[0].remedy.as_ref().unwrap().contains(remedy), "{found:?}");
    }
}

#[test]
fn provider_answers_are_reported_with_a_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let block =
        "[providers.gpu]\npreset = \"vllm\"\nbase_url = \"http://127.0.0.1:1/v1\"\napi_key_env = \"GPU_KEY\"";
    let config = config(
        block,
        &directory.path().join("data"),
        &[("GPU_KEY", "canary"), ("GROQ_API_KEY", "canary")],
    );
    let status = |kind, status| {
        let error = UpstreamError::new(kind, UpstreamCause::Status, "its words");
        UpstreamError {
            status: Some(status),
            ..error
        }
    };
    use UpstreamErrorKind::{Credentials, RateLimited, Unavailable};
    let cases = [
        (
            "gpu",
            status(Credentials, 401),
            State::Fault,
            "set GPU_KEY to a valid key",
        ),
        (
            "groq",
            status(Credentials, 403),
            State::Fault,
            "set GROQ_API_KEY to a valid key",
        ),
        ("gpu", status(RateLimited, 429), State::Note, "later"),
        ("gpu", status(Unavailable, 404), State::Note, "[models] blocks"),
        (
            "gpu",
            status(Unavailable, 500),
            State::Fault,
            "providers.gpu.base_url",
        ),
        (
            "gpu",
            UpstreamError::connect("refused"),
            State::Fault,
            "providers.gpu.base_url",
        ),
        (
            "gpu",
            UpstreamError::timeout("silence"),
            State::Fault,
            "the load of the server",
        ),
        (
            "gpu",
            UpstreamError::protocol("no list"),
            State::Fault,
            "a web page",
        ),
    ];
    for (name, error, state, words) in cases {
        let shown = error.to_string();
        let listing = [providers::ProviderListing {
            name: name.to_owned(),
            listed: Err(error),
        }];
        let findings = providers::check(&config, &listing, &[format!("providers.{name}: known already")]);
        assert_eq!(findings.len(), 1, "{shown}: {findings:?}");
        assert_eq!(
            (findings[0].what.as_str(), findings[0].state),
            (format!("provider {name}").as_str(), state),
            "{shown}"
        );
        assert!(
            findings[0].remedy.as_ref().unwrap().contains(words),
            "{shown}: {findings:?}"
        );
        assert!(!format!("{findings:?}").contains("canary"), "{findings:?}");
    }
    let findings = providers::check(&config, &[], &["providers.other: is odd".to_owned()]);
    assert_eq!(
        states(&findings, "providers"),
        [State::Note],
        "a note without another finding is shown"
    );
}

#[test]
fn models_without_a_price_and_targets_that_lead_nowhere_are_noted() {
    let directory = tempfile::tempdir().unwrap();
    let block =
        "[models.\"acme/large\"]\ntargets = [\"gpu/large\", \"gpu/lagre\"]\nprices = { input = \"1\" }";
    let config = config(block, &directory.path().join("data"), &[]);
    let gpu = EnabledProvider {
        name: "gpu".to_owned(),
        preset: "vllm".to_owned(),
        simulated: false,
        default_price: None,
        discovered: Vec::new(),
    };
    let input = CatalogInput {
        providers: vec![gpu],
        models: config.file.models.clone(),
        ..CatalogInput::default()
    };
    let snapshot = tollgate_catalog::load(&input).unwrap();
    let listed = ["large", "small"].map(|name| ListedModel {
        name: name.to_owned(),
        ..ListedModel::default()
    });
    let listing = [providers::ProviderListing {
        name: "gpu".to_owned(),
        listed: Ok(listed.into()),
    }];
    let findings = models::check(&config, &snapshot, &listing);
    let details: Vec<&str> = findings.iter().map(|finding| finding.detail.as_str()).collect();
    assert_eq!(
        details,
        [
            "callable models: 1 of providers and 0 of the simulator",
            "priced models without known limits: 1 (acme/large); a call without an output cap returns at most 4096 tokens",
            "models without a price are not offered: small",
            "the provider does not list these targets of [models] blocks: lagre",
        ]
    );
    let states: Vec<State> = findings.iter().map(|finding| finding.state).collect();
    assert_eq!(states, [State::Fine, State::Note, State::Note, State::Note]);
}

#[test]
fn default_prices_without_listed_models_are_noted() {
    let directory = tempfile::tempdir().unwrap();
    let block = |price: &str| {
        format!("[providers.gpu]\npreset = \"vllm\"\nbase_url = \"http://127.0.0.1:9\"\n{price}\n")
    };
    let details = |price: &str, names: &[&str]| -> Vec<String> {
        let config = config(&block(price), &directory.path().join("data"), &[]);
        let snapshot = tollgate_catalog::load(&CatalogInput::default()).unwrap();
        let listed = names.iter().map(|name| ListedModel {
            name: (*name).to_owned(),
            ..ListedModel::default()
        });
        let listing = [providers::ProviderListing {
            name: "gpu".to_owned(),
            listed: Ok(listed.collect()),
        }];
        let findings = models::check(&config, &snapshot, &listing).into_iter();
        findings.map(|finding| finding.detail).collect()
    };
    let note = "the provider lists no models, so its default_price has no effect";
    let price = "default_price = { input = \"1\" }";
    assert!(details(price, &[]).iter().any(|detail| detail == note));
    assert!(!details(price, &["large"]).iter().any(|detail| detail == note));
    assert!(!details("", &[]).iter().any(|detail| detail == note));
}

#[test]
fn settings_that_make_no_catalog_are_a_fault() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let text = "[models.\"acme/large\"]\ntargets = [\"nobody/large\"]\nprices = { input = \"1\" }";
    let config = config(text, &data, &[]);
    for findings in [block_on(run(&config)), block_on(check_settings(&config))] {
        let fault = findings
            .iter()
            .find(|finding| finding.state == State::Fault)
            .unwrap();
        assert_eq!(fault.what, "settings");
        assert!(
            fault.detail.contains("models.\"acme/large\".targets[0]"),
            "{fault:?}"
        );
    }
}

#[test]
fn another_program_on_the_port_is_a_fault() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = config("", &data, &[]);
    config.listen = other.local_addr().unwrap();
    config.admin = config.listen;
    // The program accepts the connection and sends a greeting that no gateway sends.
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        std::io::Write::write_all(&mut stream, b"220 mail ready\r\n").unwrap();
        other
    });
    let finding = block_on(network::listener(&config, false));
    assert_eq!(
        (finding.what.as_str(), finding.state),
        ("server", State::Fault),
        "{finding:?}"
    );
    let other = answering.join().unwrap();
    assert_eq!(network::admin(&config, false).state, State::Note);
    assert_eq!(network::admin(&config, true).state, State::Fine);
    drop(other);
    assert_eq!(block_on(network::listener(&config, false)).state, State::Fine);
    assert_eq!(block_on(network::listener(&config, true)).state, State::Note);
}

#[test]
fn media_are_tried_out() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let found = |text: &str| block_on(media::check(&config(text, &data, &[("P", "p")])));
    assert_eq!(found("").state, State::Note);
    assert!(!data.exists(), "a check creates no files");
    crate::secrets::make_private_dir(&data).unwrap();
    assert_eq!(found("").state, State::Fine);
    let shared = "[storage]\nurl = \"postgres://h/d\"\n[service]\npepper_env = \"P\"";
    let finding = found(shared);
    assert_eq!(finding.state, State::Note);
    assert!(finding.remedy.unwrap().contains("s3"));
    fs::remove_dir_all(data.join("media")).unwrap();
    fs::write(data.join("media"), "").unwrap();
    assert_eq!(found("").state, State::Fault);
}

#[test]
fn a_bucket_is_tried_out() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    block_on(async {
        let server = tollgate_testkit::s3::S3Server::start().await;
        let keys = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "canary")];
        for (bucket, state) in [
            (tollgate_testkit::s3::BUCKET, State::Fine),
            ("other", State::Fault),
        ] {
            let url = server.url();
            let text =
                format!("[media]\nstore = \"s3\"\n[media.s3]\nbucket = \"{bucket}\"\nendpoint = \"{url}\"");
            let finding = media::check(&config(&text, &data, &keys)).await;
            assert_eq!(finding.state, state, "{finding:?}");
            assert!(!format!("{finding:?}").contains("canary"));
        }
        assert_eq!(server.keys().await, [""; 0]);
    });
}

#[test]
fn web_search_backends_answer_a_test_query_or_are_reported() {
    use tollgate_testkit::upstream::{FakeUpstream, Reply, refusing_base_url};
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    block_on(async {
        let server = FakeUpstream::start().await;
        server.set_judge(|request| {
            let json = |status, body: &str| Reply::body(status, "application/json", body.to_owned());
            let first = request.path.split('/').nth(1).unwrap_or_default();
            Some(match first {
                "fine" => json(
                    200,
                    r#"{"results": [{"url": "https://example.com/", "title": "x"}]}"#,
                ),
                "empty" => json(200, r#"{"results": []}"#),
                "blocked" => json(
                    200,
                    r#"{"results": [], "unresponsive_engines": [["google", "CAPTCHA"]]}"#,
                ),
                "html" => Reply::html(403),
                "limited" => json(429, "{}"),
                "slow" => Reply::hang(),
                _ => json(401, "{}"),
            })
        });
        let own = |name: &str, base_url: &str| {
            format!("[search.{name}]\nkind = \"searxng\"\nbase_url = \"{base_url}\"\ntimeout_ms = 60000\n")
        };
        let at = |name: &str| own(name, &format!("http://{}/{name}", server.address()));
        let slow = at("slow").replace("60000", "100");
        let key = format!(
            "[search.key]\nkind = \"tavily\"\napi_key_env = \"K\"\nbase_url = \"http://{}/key\"\n",
            server.address()
        );
        let sections = ["fine", "empty", "blocked", "html", "limited"].map(at).concat();
        let text = format!("{sections}{slow}{key}{}", own("down", &refusing_base_url()));
        let findings = super::search::check(&config(&text, &data, &[("K", "canary")])).await;
        for (name, state, detail, remedy) in [
            (
                "blocked",
                State::Fault,
                "no search engine of the server answered: google",
                "base_url",
            ),
            ("down", State::Fault, "cannot be reached", "search.down.base_url"),
            ("empty", State::Note, "finds nothing", "search engines"),
            ("fine", State::Fine, "answers a test query with 1 results in", ""),
            ("html", State::Fault, "add `json` to `search.formats`", "base_url"),
            ("key", State::Fault, "refuses the key", "[search.key]"),
            ("limited", State::Note, "limits the rate", "later"),
            (
                "slow",
                State::Fault,
                "does not answer in time",
                "search.slow.timeout_ms",
            ),
        ] {
            let found = findings
                .iter()
                .find(|finding| finding.what == format!("search {name}"));
            let found = found.unwrap();
            assert_eq!(found.state, state, "{found:?}");
            assert!(found.detail.contains(detail), "{found:?}");
            assert!(
                found.remedy.as_deref().unwrap_or_default().contains(remedy),
                "{found:?}"
            );
            assert!(!format!("{found:?}").contains("canary"));
        }
        assert_eq!(findings.len(), 8);
    });
}
