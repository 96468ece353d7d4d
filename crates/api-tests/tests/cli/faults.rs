//! Failures of commands: exit codes, and messages with a remedy.

use serde_json::Value;

use crate::installation::Installation;

const UNKNOWN_ACCOUNT: &str = "acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a";

/// Runs the command with text and with JSON output. Asserts the same exit code, an empty stdout,
/// `words` on stderr, and `code` in the JSON.
fn refused(installation: &Installation, command: &[&str], exit: i32, code: &str, words: &str) {
    let people = installation.run(command);
    assert_eq!(
        (people.code, people.stdout.as_str()),
        (exit, ""),
        "{command:?}: {people:?}"
    );
    assert!(people.stderr.contains(words), "{command:?}: {people:?}");
    let command: Vec<&str> = command.iter().copied().chain(["--json"]).collect();
    let programs = installation.run(&command);
    assert_eq!(
        (programs.code, programs.stdout.as_str()),
        (exit, ""),
        "{command:?}: {programs:?}"
    );
    let error: Value =
        serde_json::from_str(&programs.stderr).unwrap_or_else(|error| panic!("{error}: {programs:?}"));
    assert_eq!(error["error"]["code"], code, "{programs:?}");
    assert!(
        error["error"]["message"].as_str().unwrap().contains(words),
        "{programs:?}"
    );
}

#[test]
fn wrong_usage_exits_2() {
    let installation = Installation::new();
    installation.fine(&["migrate"]);
    refused(&installation, &["acounts", "list"], 2, "usage", "accounts");
    refused(
        &installation,
        &["accounts", "show", "acct_7"],
        2,
        "usage",
        "tollgate accounts list",
    );
    refused(
        &installation,
        &["accounts", "set-limits", UNKNOWN_ACCOUNT],
        2,
        "usage",
        "--rpm",
    );
    refused(
        &installation,
        &["accounts", "set-limits", UNKNOWN_ACCOUNT, "--tpm", "none"],
        2,
        "usage",
        "above 0, or `default`",
    );
    refused(
        &installation,
        &["credits", "grant", UNKNOWN_ACCOUNT, "1,5"],
        2,
        "usage",
        "such as 12.5",
    );
    refused(
        &installation,
        &["credits", "grant", UNKNOWN_ACCOUNT, "0"],
        2,
        "invalid_parameter",
        "above 0",
    );
    refused(
        &installation,
        &["accounts", "create", ""],
        2,
        "invalid_parameter",
        "1 to 200 characters",
    );
    assert_eq!(installation.run(&["accounts"]).code, 2);
}

#[test]
fn wrong_settings_exit_2_with_their_place() {
    let installation = Installation::new();
    let file = installation.write(
        "t.toml",
        "[server]\nlisten = \"127.0.0.1:0\"\ntrusted_proxy = []\n",
    );
    let file = file.to_str().unwrap();
    for command in ["serve", "migrate"] {
        refused(
            &installation,
            &[command, "--config", file],
            2,
            "invalid_settings",
            "t.toml:3:1",
        );
    }
    refused(
        &installation,
        &["models", "list", "--config", file],
        2,
        "invalid_settings",
        "did you mean 'trusted_proxies'?",
    );
    refused(
        &installation,
        &["serve", "--config", "nowhere.toml"],
        2,
        "invalid_settings",
        "nowhere.toml: cannot be read",
    );
    refused(
        &installation,
        &["serve", "--listen", "0.0.0.0:0"],
        2,
        "invalid_settings",
        "TLS",
    );
    refused(
        &installation,
        &["serve", "--admin", "nonsense"],
        2,
        "invalid_settings",
        "server.admin",
    );
    refused(
        &installation,
        &["worker"],
        2,
        "invalid_settings",
        "a worker requires PostgreSQL",
    );
    let leaving = Installation::new().with("TOLLGATE_JOBS__RUN_HERE", "false");
    refused(&leaving, &["serve"], 2, "invalid_settings", "set run_here = true");
    let unfiltered = Installation::new().with("TOLLGATE_LOG", "tollgate=loud");
    refused(
        &unfiltered,
        &["models", "list"],
        2,
        "invalid_settings",
        "TOLLGATE_LOG",
    );
    assert!(!installation.data().exists(), "nothing was started");
}

/// Some faults appear only when providers, models and secrets are set up. A start refuses them like
/// other faults of the settings, and `config check` reports them with the same message. Neither
/// command leaves files behind.
#[test]
fn a_faulty_block_exits_2_and_the_check_says_the_same() {
    let installation = Installation::new();
    let cases = [
        (
            "[providers.x]\npreset = \"nonsense\"\nbase_url = \"http://127.0.0.1:1/v1\"\n",
            "providers.x: unknown preset `nonsense`",
        ),
        (
            "[providers.x]\npreset = \"vllm\"\nbase_url = \"ftp://127.0.0.1\"\n",
            "providers.x: ",
        ),
        (
            "[providers.x]\npreset = \"vllm\"\napi_key_file = \"nowhere/key\"\n",
            "providers.x.api_key_file: cannot read nowhere/key",
        ),
        (
            "[providers.x]\npreset = \"vllm\"\nregion = \"us-east-1\"\n",
            "providers.x: `region` is not a setting of the preset `vllm`",
        ),
        (
            "[providers.x]\npreset = \"vllm\"\naccess_key_id_env = \"ID\"\nsecret_access_key_env = \"S\"\n",
            "providers.x: the preset `vllm` does not sign requests",
        ),
        (
            "[providers.x]\npreset = \"bedrock\"\nregion = \"us-east-1\"\naccess_key_id_env = \"ID\"\n",
            "providers.x: access_key_id_env and secret_access_key_env must be set together",
        ),
        (
            "[models.\"a/b\"]\ntargets = [\"nobody/b\"]\nprices = { input = \"1\" }\n",
            "models.\"a/b\".targets[0]: ",
        ),
        (
            "[models.\"a/b\"]\ntargets = [\"sim/chat\"]\nprices = { output = \"1\" }\n",
            "models.\"a/b\".prices: ",
        ),
        ("[models.\"a b\"]\ntargets = [\"sim/chat\"]\n", "models.\"a b\": "),
        ("[aliases]\nlarge = \"nobody/large\"\n", "aliases"),
        (
            "[service]\npepper_env = \"NOT_SET\"\n",
            "service.pepper_env (NOT_SET): ",
        ),
        (
            "[service]\npepper_file = \"nowhere/pepper\"\n",
            "service.pepper_file (nowhere/pepper): ",
        ),
    ];
    for (text, words) in cases {
        let file = installation.write("t.toml", text);
        let file = file.to_str().unwrap();
        let serve = ["serve", "--config", file];
        refused(&installation, &serve, 2, "invalid_settings", words);
        let refused = installation.run(&serve);
        let sentence = refused.stderr.lines().last().unwrap();
        let sentence = sentence.strip_prefix("error: ").unwrap();
        let checked = installation.run(&["config", "check", "--config", file]);
        assert_eq!(checked.code, 3, "{text}: {checked:?}");
        assert!(checked.stdout.contains(sentence), "{sentence}: {checked:?}");
        assert!(!installation.data().exists(), "{text}: nothing was started");
    }
    let file = installation.write("t.toml", cases[0].0);
    refused(
        &installation,
        &["models", "list", "--config", file.to_str().unwrap()],
        2,
        "invalid_settings",
        cases[0].1,
    );
}

#[test]
fn unknown_ids_are_refused_with_a_hint() {
    let installation = Installation::new();
    let accounts: [&[&str]; 7] = [
        &["accounts", "show", UNKNOWN_ACCOUNT],
        &["accounts", "set-limits", UNKNOWN_ACCOUNT, "--rpm", "1"],
        &["accounts", "suspend", UNKNOWN_ACCOUNT],
        &["keys", "create", "--account", UNKNOWN_ACCOUNT],
        &["keys", "list", "--account", UNKNOWN_ACCOUNT],
        &["credits", "grant", UNKNOWN_ACCOUNT, "1"],
        &["credits", "balance", UNKNOWN_ACCOUNT],
    ];
    let revoke = ["keys", "revoke", "key_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3b"];
    installation.fine(&["migrate"]);
    let all = || {
        for command in accounts {
            refused(&installation, command, 1, "not_found", "tollgate accounts list");
        }
        refused(&installation, &revoke, 1, "not_found", "tollgate keys list");
    };
    all();
    let _server = installation.serve();
    all();
}

#[test]
fn a_command_without_a_data_directory_is_refused_and_creates_nothing() {
    let installation = Installation::new();
    let export = installation.data().with_extension("csv");
    let commands: [&[&str]; 9] = [
        &["accounts", "list"],
        &["accounts", "show", UNKNOWN_ACCOUNT],
        &["models", "list"],
        &["plans", "list"],
        &["prices", "check"],
        &["audit", "list"],
        &["ledger", "check"],
        &["usage", "export", "--all", "--out", export.to_str().unwrap()],
        &["credits", "grant", UNKNOWN_ACCOUNT, "1"],
    ];
    let words = format!("No data in {}. Pass --data DIR", installation.data().display());
    for command in commands {
        refused(&installation, command, 2, "usage", &words);
        assert!(!installation.data().exists() && !export.exists(), "{command:?}");
    }
    installation.fine(&["accounts", "create", "acme"]);
    assert_eq!(installation.json(&["accounts", "list"])[0]["name"], "acme");
}

#[test]
fn a_failure_is_printed_once_and_without_its_kind() {
    let installation = Installation::new();
    let _server = installation.serve();
    // Without the socket the command opens the database itself, which the server has locked.
    std::fs::remove_file(installation.data().join("tollgate.sock")).unwrap();
    for command in [&["serve"][..], &["migrate"], &["accounts", "list"]] {
        let ended = installation.run(command);
        assert_eq!(ended.code, 1, "{command:?}: {ended:?}");
        let count = ended.stderr.matches("another tollgate process").count();
        assert_eq!(count, 1, "{command:?}: {ended:?}");
        assert!(!ended.stderr.contains("Unavailable"), "{command:?}: {ended:?}");
    }
}

#[test]
fn a_data_directory_that_cannot_be_used_is_a_failure() {
    let installation = Installation::new();
    std::fs::write(installation.data(), "a file").unwrap();
    let ended = installation.run(&["accounts", "list"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.stderr.contains(&*installation.data().to_string_lossy()),
        "{ended:?}"
    );
}

#[test]
fn help_and_version_are_on_stdout_and_document_the_exit_codes() {
    let installation = Installation::new();
    let help = installation.fine(&["--help"]);
    for words in [
        "Exit codes:",
        "2  invalid usage or settings",
        "3  a check found problems",
        "TOLLGATE_<SECTION>__<KEY>",
        "Examples:",
    ] {
        assert!(help.contains(words), "{words}: {help}");
    }
    for command in [
        "serve",
        "migrate",
        "doctor",
        "openapi",
        "accounts create",
        "keys create",
        "credits grant",
        "ledger check",
        "config check",
    ] {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = installation.fine(&words);
        assert!(
            help.contains(&format!("Examples:\n  tollgate {command}")),
            "{help}"
        );
        assert!(
            help.contains("--config <FILE>") && help.contains("--data <DIR>") && help.contains("--json"),
            "{help}"
        );
    }
    assert_eq!(
        installation.fine(&["--version"]),
        format!("tollgate {}\n", env!("CARGO_PKG_VERSION"))
    );
}
