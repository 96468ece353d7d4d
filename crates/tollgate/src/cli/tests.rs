use clap::CommandFactory;

use super::*;

/// Collects every command, groups included, with its path.
fn all(command: &clap::Command, path: &str, found: &mut Vec<(String, clap::Command)>) {
    found.push((path.to_owned(), command.clone()));
    for inner in command
        .get_subcommands()
        .filter(|inner| inner.get_name() != "help")
    {
        all(inner, &format!("{path} {}", inner.get_name()), found);
    }
}

fn commands() -> Vec<(String, clap::Command)> {
    let mut found = Vec::new();
    all(&Cli::command(), "tollgate", &mut found);
    found
}

/// Splits an example into words at white space, except within double quotes. Drops a redirection.
fn words(example: &str) -> Vec<String> {
    let example = example.split(" > ").next().unwrap();
    let quoted = example.split('"').enumerate();
    quoted
        .flat_map(|(index, part)| match index % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        })
        .collect()
}

#[test]
fn the_definition_is_valid() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_has_examples_and_they_parse() {
    let mut checked = 0;
    for (path, command) in commands() {
        let help = command
            .get_after_help()
            .unwrap_or_else(|| panic!("{path} has no examples"))
            .to_string();
        let examples: Vec<&str> = help
            .lines()
            .filter_map(|line| line.strip_prefix("  tollgate "))
            .collect();
        assert!(!examples.is_empty(), "{path} has no examples");
        for example in examples {
            let line = format!("tollgate {example}");
            assert!(
                line.starts_with(&path),
                "{path} shows an example of something else: {line}"
            );
            Cli::try_parse_from(words(&line)).unwrap_or_else(|error| panic!("{line}: {error}"));
            checked += 1;
        }
    }
    assert!(checked > 20, "{checked}");
}

#[test]
fn the_place_may_stand_before_or_after_the_command() {
    for line in [
        "tollgate --data d --config c --json accounts list",
        "tollgate accounts list --json --config c --data d",
    ] {
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        assert_eq!(cli.place.data, Some("d".into()));
        assert_eq!(cli.place.config, Some("c".into()));
        assert!(cli.json);
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let id = "acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a";
    let cases = [
        "accounts".to_owned(),
        "accounts show acct_7".to_owned(),
        "accounts show ".to_owned(),
        format!("accounts set-limits {id}"),
        format!("accounts set-limits {id} --rpm 0"),
        format!("accounts set-limits {id} --rpm -1"),
        format!("accounts set-limits {id} --rpm 4294967296"),
        format!("accounts set-limits {id} --tpm Default"),
        format!("accounts set-limits {id} --tpm none"),
        format!("keys create --account {id} --expires-in-days 0"),
        format!("keys revoke {id}"),
        format!("credits grant {id}"),
        format!("credits grant {id} 1,5"),
        format!("credits grant {id} 0.0000000001"),
        "serve now".to_owned(),
    ];
    for case in cases {
        let line = format!("tollgate {case}");
        let error = Cli::try_parse_from(line.split(' ')).expect_err(&line);
        assert_eq!(error.exit_code(), 2, "{line}");
    }
}

#[test]
fn a_key_has_a_name_by_default() {
    let line = "tollgate keys create --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a";
    let Command::Keys(Keys::Create {
        name,
        expires_in_days,
        ..
    }) = Cli::try_parse_from(line.split(' ')).unwrap().command
    else {
        panic!("not keys create");
    };
    assert_eq!((name.as_str(), expires_in_days), ("default", None));
}
