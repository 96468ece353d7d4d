//! Settings that are read only at start, and the check for changes to them at a reload.

use toml::{Table, Value};

use super::file::FileConfig;
use super::resolve::Flags;

/// Settings that a reload applies. A section stands for all of its keys.
const RELOADED: &[&str] = &[
    "providers",
    "models",
    "aliases",
    "templates",
    "plans",
    "policy",
    "realtime",
    "limits.rpm",
    "limits.tpm",
    "server.discover",
];

/// Returns the keys that have changed since the start and take effect only after a restart, such as
/// `egress.allow`. Omits keys that the command line overrides.
pub fn needs_restart(flags: &Flags, started: &FileConfig, now: &FileConfig) -> Vec<String> {
    let overridden = [
        ("server.listen", flags.listen.is_some()),
        ("server.admin", flags.admin.is_some()),
    ];
    let mut changed = Vec::new();
    compare("", &table_of(started), &table_of(now), &mut changed);
    changed.sort_unstable();
    changed.retain(|key| !overridden.contains(&(key.as_str(), true)));
    changed
}

/// Returns the keys that differ from the defaults and that a server reads only at start, such as
/// `egress.allow`.
pub fn start_only_keys(settings: &FileConfig) -> Vec<String> {
    needs_restart(&Flags::default(), &FileConfig::default(), settings)
}

fn table_of(settings: &FileConfig) -> Table {
    Table::try_from(settings).unwrap_or_default()
}

fn compare(section: &str, before: &Table, after: &Table, changed: &mut Vec<String>) {
    let added = after.keys().filter(|key| !before.contains_key(*key));
    for key in before.keys().chain(added) {
        let path = match section {
            "" => key.clone(),
            section => format!("{section}.{key}"),
        };
        if RELOADED.contains(&&*path) {
            continue;
        }
        let empty = Table::new();
        let inner = |value: Option<&Value>| match value {
            Some(Value::Table(table)) => Some(table.clone()),
            None => Some(empty.clone()),
            Some(_) => None,
        };
        let (old, new) = (before.get(key), after.get(key));
        match (inner(old), inner(new)) {
            _ if old == new => {}
            (Some(old), Some(new)) => compare(&path, &old, &new, changed),
            _ => changed.push(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_differ_from_the_defaults_need_a_restart() {
        let text = "[server]\nlisten = \"127.0.0.1:1\"\nadmin = \"127.0.0.1:9464\"\n[limits]\nrpm = 1\n\
                    [storage]\nurl = \"postgres://canary\"\n[providers.openai]\n";
        let settings = toml::from_str::<FileConfig>(text).unwrap();
        assert_eq!(start_only_keys(&settings), ["server.listen", "storage.url"]);
        assert!(start_only_keys(&FileConfig::default()).is_empty());
    }

    /// Each case: settings at the start, current settings, and the keys that need a restart.
    #[test]
    fn settings_that_need_a_restart_are_named() {
        let cases: [(&str, &str, &[&str]); 9] = [
            ("", "", &[]),
            ("", "[egress]\nallow = [\"10.0.0.0/8\"]", &["egress.allow"]),
            ("[egress]\nallow = [\"10.0.0.0/8\"]", "", &["egress.allow"]),
            ("[limits]\nrpm = 1", "[limits]\nrpm = 2\ntpm = 3", &[]),
            (
                "[limits]\nrpm = 1",
                "[limits]\nrpm = 2\nkeys = 3",
                &["limits.keys"],
            ),
            (
                "",
                "[server]\nlisten = \"127.0.0.1:1\"\nadmin = \"127.0.0.1:2\"\ndiscover = false",
                &["server.admin"],
            ),
            (
                "",
                "[media.s3]\nbucket = \"b\"\nregion = \"r\"",
                &["media.s3.bucket", "media.s3.region"],
            ),
            (
                "",
                "[providers.openai]\n[plans.gold]\n[aliases]\n\"a\" = \"b/c\"\n[policy]\n",
                &[],
            ),
            ("[storage]\nurl = \"postgres://canary\"", "", &["storage.url"]),
        ];
        let flags = Flags {
            listen: Some("127.0.0.1:3".to_owned()),
            ..Flags::default()
        };
        for (before, after, expected) in cases {
            let read = |text: &str| toml::from_str::<FileConfig>(text).unwrap();
            let changed = needs_restart(&flags, &read(before), &read(after));
            for key in expected {
                assert!(
                    changed.iter().any(|changed| changed == key),
                    "{after}: {changed:?}"
                );
            }
            let others = changed.iter().filter(|key| !key.starts_with("media."));
            let expected = expected.iter().filter(|key| !key.starts_with("media."));
            assert!(others.eq(expected), "{after}: {changed:?}");
        }
    }
}
