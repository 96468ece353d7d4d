use tollgate_types::clock::SystemClock;

use super::*;
use crate::assemble::http_client;
use crate::config::Flags;
use crate::config::env::Environment;

fn built(text: &str, environment: &[(&str, &str)]) -> Result<Vec<WebBackend>, ConfigError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.toml");
    std::fs::write(&path, text).unwrap();
    let flags = Flags {
        config: Some(path),
        ..Flags::default()
    };
    let config = Config::load(&flags, Environment::of(environment))?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    build(&config, &http_client(&config), &clock)
}

#[test]
fn sections_become_backends() {
    let text = "[search.wiki]\nkind = \"mediawiki\"\nbase_url = \"https://wiki.example.com/w/api.php\"\n\
                [search.brave]\nkind = \"brave\"\napi_key_env = \"BRAVE_API_KEY\"\nprice = \"0.005\"\nweight = 2\n\
                timeout_ms = 60000\n\
                [search.own]\nkind = \"searxng\"\nbase_url = \"http://127.0.0.1:8888/search\"\nweight = 0.5\n";
    let backends = built(text, &[("BRAVE_API_KEY", "canary")]).unwrap();
    let shown: Vec<(&str, f32)> = backends
        .iter()
        .map(|web| (web.backend.name(), web.weight))
        .collect();
    assert_eq!(shown, [("brave", 2.0), ("own", 0.5), ("wiki", 1.0)]);
    let prices = backends
        .iter()
        .map(|web| web.price_record(SystemClock::default().now()));
    let prices: Vec<(String, bool)> = prices
        .map(|record| (record.model, record.prices.is_free()))
        .collect();
    let expected = [
        ("search/brave", false),
        ("search/own", true),
        ("search/wiki", true),
    ];
    assert_eq!(
        prices,
        expected.map(|(model, is_free)| (model.to_owned(), is_free))
    );
    assert!(built("", &[]).unwrap().is_empty());
}

/// Each case: settings, the setting that the error names, and a part of its message.
#[test]
fn errors_say_what_to_write() {
    let brave = "[search.b]\nkind = \"brave\"\napi_key_env = \"K\"\n";
    let own = "[search.o]\nkind = \"searxng\"\nbase_url = \"http://127.0.0.1:1\"\n";
    let cases = [
        (
            "[search.o]\nkind = \"searxng\"".to_owned(),
            "search.o.base_url",
            "\"http://127.0.0.1:8888\"",
        ),
        (
            "[search.o]\nkind = \"mediawiki\"".to_owned(),
            "search.o.base_url",
            "\"https://en.wikipedia.org/w\"",
        ),
        (
            "[search.m]\nkind = \"mcp\"".to_owned(),
            "search.m.base_url",
            "\"https://example.com/mcp\"",
        ),
        (
            "[search.m]\nkind = \"mcp\"\nbase_url = \"http://127.0.0.1:9000/mcp\"".to_owned(),
            "search.m",
            "egress.allow",
        ),
        (
            "[search.b]\nkind = \"brave\"".to_owned(),
            "search.b.api_key_env",
            "such as \"BRAVE_API_KEY\"",
        ),
        (
            "[search.b]\nkind = \"tavily\"".to_owned(),
            "search.b.api_key_env",
            "such as \"TAVILY_API_KEY\"",
        ),
        (
            brave.replace("\"K\"", "\"UNSET\""),
            "search.b.api_key_env",
            "the variable UNSET is not set",
        ),
        (
            brave.replace("api_key_env = \"K\"", "api_key_file = \"/no/such/file\""),
            "search.b.api_key_file",
            "cannot read /no/such/file",
        ),
        (
            brave.replace("\"K\"", "\"OWN\""),
            "variable OWN",
            "contains a key of this gateway",
        ),
        (
            format!("{brave}base_url = \"http://x.example.com\""),
            "search.b",
            "is not https",
        ),
        (
            format!("{own}price = \"-0.1\""),
            "search.o.price",
            "such as \"0.005\"",
        ),
        (
            format!("{own}timeout_ms = 0"),
            "search.o.timeout_ms",
            "from 1 to 60000",
        ),
        (
            format!("{own}timeout_ms = 60001"),
            "search.o.timeout_ms",
            "from 1 to 60000",
        ),
        (format!("{own}weight = 0.0"), "search.o.weight", "above 0"),
        (format!("{own}weight = -1"), "search.o.weight", "above 0"),
        (format!("{own}weight = inf"), "search.o.weight", "above 0"),
        (
            own.replace("search.o", "search.Own"),
            "search.Own",
            "use 1 to 64 of a-z",
        ),
        (
            own.replace("search.o", "search.-o"),
            "search.-o",
            "begin it with a letter",
        ),
    ];
    let environment = [("K", "canary-1"), ("OWN", "sk-service-canary0123")];
    for (text, place, part) in cases {
        let error = built(&text, &environment).err().expect(&text);
        assert_eq!(error.place, place, "{text}");
        assert!(error.message.contains(part), "{text}: {error}");
        assert!(!error.to_string().contains("canary"), "{error}");
    }
    let longest = own.replace("search.o", &format!("search.{}", "a".repeat(64)));
    assert!(built(&longest, &[]).is_ok());
    let too_long = own.replace("search.o", &format!("search.{}", "a".repeat(65)));
    assert!(built(&too_long, &[]).is_err());
    assert!(built(&format!("{own}timeout_ms = 1"), &[]).is_ok());
    let mcp = "[egress]\nallow = [\"127.0.0.1:9000\"]\n\
               [search.m]\nkind = \"mcp\"\nbase_url = \"http://127.0.0.1:9000/mcp\"\napi_key_env = \"K\"";
    assert!(built(mcp, &environment).is_ok());
}

#[test]
fn unknown_kinds_and_keys_are_refused_with_the_known_ones() {
    for (text, part) in [
        ("[search.o]\nkind = \"google\"", "\"brave\" or \"exa\""),
        (
            "[search.o]\nkind = \"brave\"\nbase = \"x\"",
            "did you mean 'base_url'",
        ),
        ("[search.o]\nbase_url = \"x\"", "missing field `kind`"),
        ("[search.o]\nkind = \"brave\"\nprice = 0.005", "write \"0.005\""),
    ] {
        let error = built(text, &[]).err().unwrap();
        assert!(error.message.contains(part), "{text}: {error}");
    }
}
