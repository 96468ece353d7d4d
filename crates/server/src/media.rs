//! From `[media]` to where the bytes of media are, and what their addresses are signed with.

use std::sync::Arc;

use secrecy::ExposeSecret;
use tollgate_accounts::{MediaAddresses, Pepper, SigningKey};
use tollgate_backends::local_files;
use tollgate_backends::s3::{self, S3Config, S3Credentials};
use tollgate_storage::{BlobStore, Result};

use crate::config::file::{MediaStoreSetting, S3Section};
use crate::config::{Config, ConfigError};

/// The folder of media within the data directory.
pub const FOLDER: &str = "media";
/// The region of servers that are not Amazon's and ask for none.
const ANY_REGION: &str = "us-east-1";
/// Where the region is usually said.
const REGION_VARIABLES: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];

/// Whether `[media]` can be used. Nothing is opened, made or connected to.
pub fn check(config: &Config) -> std::result::Result<(), ConfigError> {
    bucket(config)?;
    let section = &config.file.media;
    for (place, variable, file) in [
        (CURRENT, &section.signing_key_env, &section.signing_key_file),
        (
            PREVIOUS,
            &section.previous_signing_key_env,
            &section.previous_signing_key_file,
        ),
    ] {
        signing_key(config, place, variable, file)?;
    }
    Ok(())
}

/// Where bytes are kept.
pub fn open(config: &Config) -> anyhow::Result<Arc<dyn BlobStore>> {
    Ok(match bucket(config)? {
        Some(bucket) => Arc::new(s3::open(bucket)?),
        None => files(config)?,
    })
}

fn files(config: &Config) -> Result<Arc<dyn BlobStore>> {
    Ok(Arc::new(local_files::open(config.data.join(FOLDER))?))
}

/// What addresses are signed with. Without a key in the settings it follows from the installation's pepper; once there is
/// one, addresses that were signed before it stay good.
pub fn addresses(config: &Config, pepper: &Pepper) -> std::result::Result<MediaAddresses, ConfigError> {
    let section = &config.file.media;
    let current = signing_key(
        config,
        CURRENT,
        &section.signing_key_env,
        &section.signing_key_file,
    )?;
    let previous = signing_key(
        config,
        PREVIOUS,
        &section.previous_signing_key_env,
        &section.previous_signing_key_file,
    )?;
    let own = SigningKey::of_installation(pepper);
    let own = own.ok_or_else(|| ConfigError::new("service", "no key can be made of the secret"))?;
    Ok(match current {
        Some(current) => MediaAddresses::new(current, Some(previous.unwrap_or(own))),
        None => MediaAddresses::new(own, previous),
    })
}

const CURRENT: &str = "media.signing_key";
const PREVIOUS: &str = "media.previous_signing_key";

fn signing_key(
    config: &Config,
    place: &str,
    variable: &Option<String>,
    file: &Option<String>,
) -> std::result::Result<Option<SigningKey>, ConfigError> {
    let secret = config.key(&format!("{place}_file"), variable.as_deref(), file.as_deref())?;
    match (secret, variable) {
        (Some(secret), _) => match SigningKey::new(secret.expose_secret().as_bytes()) {
            Some(key) => Ok(Some(key)),
            None => Err(ConfigError::new(
                place,
                "a key must have at least 32 characters: openssl rand -hex 32",
            )),
        },
        (None, Some(variable)) => Err(ConfigError::new(
            format!("{place}_env"),
            format!("the variable {variable} is not set"),
        )),
        (None, None) => Ok(None),
    }
}

/// The bucket; nothing where files are used.
fn bucket(config: &Config) -> std::result::Result<Option<S3Config>, ConfigError> {
    if config.file.media.store == MediaStoreSetting::Files {
        return Ok(None);
    }
    let fault = |key: &str, message: &str| ConfigError::new(format!("media.s3.{key}"), message);
    let Some(section) = &config.file.media.s3 else {
        return Err(fault("bucket", "with store = \"s3\" this is needed"));
    };
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
    if !(3..=63).contains(&section.bucket.len()) || !section.bucket.chars().all(plain) {
        return Err(fault(
            "bucket",
            "a bucket's name is 3 to 63 small letters, digits, dots and hyphens",
        ));
    }
    if let Some(endpoint) = &section.endpoint {
        s3::check_endpoint(endpoint, section.allow_http).map_err(|reason| fault("endpoint", reason))?;
    }
    let said = || {
        REGION_VARIABLES
            .iter()
            .find_map(|name| config.environment.get(name))
    };
    let region = section.region.as_deref().or_else(said);
    let region = region.or(section.endpoint.as_ref().map(|_| ANY_REGION));
    let region = region.ok_or_else(|| fault("region", "is needed, such as \"eu-central-1\""))?;
    Ok(Some(S3Config {
        bucket: section.bucket.clone(),
        region: region.to_owned(),
        endpoint: section.endpoint.clone(),
        prefix: prefix(&section.prefix)
            .ok_or_else(|| fault("prefix", "is letters, digits and -_. between slashes"))?,
        path_style: section.path_style.unwrap_or(section.endpoint.is_some()),
        allow_http: section.allow_http,
        credentials: credentials(config, section)?,
    }))
}

/// A prefix as keys have it: empty, or with a slash behind it.
fn prefix(said: &str) -> Option<String> {
    let said = said.trim_matches('/');
    if said.is_empty() {
        return Some(String::new());
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_name = |name: &str| !name.is_empty() && !name.starts_with('.') && name.chars().all(plain);
    said.split('/').all(is_name).then(|| format!("{said}/"))
}

fn credentials(config: &Config, section: &S3Section) -> std::result::Result<S3Credentials, ConfigError> {
    let variable = |name: &String| config.environment.get(name).map(str::to_owned);
    let secret = config.key(
        "media.s3.secret_access_key_file",
        [section.secret_access_key_env.as_str()],
        section.secret_access_key_file.as_deref(),
    )?;
    match (variable(&section.access_key_id_env), secret) {
        (Some(id), Some(secret)) => Ok(S3Credentials::Key {
            id,
            secret,
            token: variable(&section.session_token_env).map(Into::into),
        }),
        (None, None) => {
            let said = |name| Some((name, config.environment.get(name)?.to_owned()));
            Ok(S3Credentials::Role(
                s3::ROLE_VARIABLES.into_iter().filter_map(said).collect(),
            ))
        }
        (Some(_), None) => Err(ConfigError::new(
            "media.s3.secret_access_key_env",
            format!(
                "{} is set and the secret is not: set {}, or secret_access_key_file",
                section.access_key_id_env, section.secret_access_key_env
            ),
        )),
        (None, Some(_)) => Err(ConfigError::new(
            "media.s3.access_key_id_env",
            format!("the secret is set and {} is not", section.access_key_id_env),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Flags;
    use crate::config::env::Environment;

    fn load(text: &str, env: &[(&str, &str)]) -> Config {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.toml");
        std::fs::write(&path, text).unwrap();
        let flags = Flags {
            config: Some(path),
            ..Flags::default()
        };
        Config::load(&flags, Environment::of(env)).unwrap()
    }

    const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "canary")];

    /// What `[media.s3]` says, variables, and the setting that is at fault.
    #[test]
    fn what_cannot_be_a_bucket_is_refused_with_its_place() {
        let region = [("AWS_REGION", "eu-central-1")];
        for (said, env, place) in [
            ("", &region[..], "media.s3.bucket"),
            ("bucket = \"Has Space\"", &region, "media.s3.bucket"),
            ("bucket = \"media\"", &[], "media.s3.region"),
            (
                "bucket = \"media\"\nendpoint = \"http://10.0.0.5:9000\"",
                &[],
                "media.s3.endpoint",
            ),
            (
                "bucket = \"media\"\nendpoint = \"https://u:canary@h\"",
                &[],
                "media.s3.endpoint",
            ),
            (
                "bucket = \"media\"\nprefix = \"a/../b\"",
                &region,
                "media.s3.prefix",
            ),
            (
                "bucket = \"media\"\nregion = \"x\"",
                &KEYS[..1],
                "media.s3.secret_access_key_env",
            ),
            (
                "bucket = \"media\"\nregion = \"x\"",
                &KEYS[1..],
                "media.s3.access_key_id_env",
            ),
            (
                "bucket = \"media\"\nregion = \"x\"\nsecret_access_key_file = \"/missing\"",
                &[],
                "media.s3.secret_access_key_file",
            ),
        ] {
            let config = load(&format!("[media]\nstore = \"s3\"\n[media.s3]\n{said}"), env);
            let error = check(&config).unwrap_err();
            assert_eq!(error.place, place, "{said}");
            assert!(!error.message.contains("canary"), "{error}");
            assert!(!config.printed().unwrap().contains("canary"));
        }
        let error = check(&load("[media]\nstore = \"s3\"", &region)).unwrap_err();
        assert_eq!(error.place, "media.s3.bucket");
    }

    #[test]
    fn a_bucket_is_the_one_that_is_meant() {
        let text = "[media]\nstore = \"s3\"\n[media.s3]\nbucket = \"media\"\nprefix = \"/tollgate/eu\"\n";
        let at_amazon = [&KEYS[..], &[("AWS_DEFAULT_REGION", "eu-west-1")]].concat();
        let found = bucket(&load(text, &at_amazon)).unwrap().unwrap();
        assert_eq!((&*found.region, found.path_style), ("eu-west-1", false));
        assert_eq!(found.prefix, "tollgate/eu/");
        assert!(matches!(found.credentials, S3Credentials::Key { id, token: None, .. } if id == "id"));

        let elsewhere = format!("{text}endpoint = \"http://127.0.0.1:9000\"\n");
        let found = bucket(&load(&elsewhere, &[("AWS_ROLE_ARN", "arn")]))
            .unwrap()
            .unwrap();
        assert_eq!((&*found.region, found.path_style), ("us-east-1", true));
        assert!(
            matches!(found.credentials, S3Credentials::Role(said) if said == [("AWS_ROLE_ARN", "arn".to_owned())])
        );
        assert!(bucket(&load("", &KEYS)).unwrap().is_none());
    }

    #[test]
    fn keys_of_addresses_are_those_that_are_named() {
        let keys = "[media]\nsigning_key_env = \"NEW\"\n";
        for (text, env, place) in [
            (keys, &[][..], "media.signing_key_env"),
            (keys, &[("NEW", "short")], "media.signing_key"),
            (
                "[media]\nprevious_signing_key_file = \"/missing\"",
                &[],
                "media.previous_signing_key_file",
            ),
        ] {
            assert_eq!(check(&load(text, env)).unwrap_err().place, place, "{text}");
        }
        let pepper = Pepper::new(&[1; 32]).unwrap();
        let new = "n".repeat(32);
        let shown = |text: &str| {
            let config = load(text, &[("NEW", &new)]);
            format!("{:?}", addresses(&config, &pepper).unwrap())
        };
        let own = format!("{:?}", SigningKey::of_installation(&pepper).unwrap());
        let named = format!("{:?}", SigningKey::new(new.as_bytes()).unwrap());
        assert!(shown("").contains(&format!("current: {own}, previous: None")));
        assert!(shown(keys).contains(&format!("current: {named}, previous: Some({own})")));
        let back = shown("[media]\nprevious_signing_key_env = \"NEW\"\n");
        assert!(back.contains(&format!("current: {own}, previous: Some({named})")));
    }
}
