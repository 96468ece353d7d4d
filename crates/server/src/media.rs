//! Builds the media store and the signer of media URLs from `[media]`.

use std::sync::Arc;

use secrecy::ExposeSecret;
use tollgate_accounts::{MediaAddresses, Pepper, SealedBlobs, SigningKey};
use tollgate_backends::local_files;
use tollgate_backends::s3::{self, S3Config, S3Credentials};
use tollgate_storage::{BlobStore, Result};

use crate::config::file::{MediaStoreSetting, S3Section};
use crate::config::{Config, ConfigError, VariableName};

/// Directory of media within the data directory.
pub const FOLDER: &str = "media";
/// Region for S3-compatible servers if none is set.
const DEFAULT_REGION: &str = "us-east-1";
/// Environment variables with the default region, in order of precedence.
const REGION_VARIABLES: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];

/// Validates `[media]` and its key files, without connecting to the media store.
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

/// Opens the media store, with encryption of its objects.
pub fn open(config: &Config, pepper: &Pepper) -> anyhow::Result<Arc<dyn BlobStore>> {
    Ok(Arc::new(SealedBlobs::new(open_plain(config)?, pepper.clone())))
}

/// Opens the media store without encryption of its objects.
pub fn open_plain(config: &Config) -> anyhow::Result<Arc<dyn BlobStore>> {
    Ok(match bucket(config)? {
        Some(bucket) => Arc::new(s3::open(bucket)?),
        None => files(config)?,
    })
}

fn files(config: &Config) -> Result<Arc<dyn BlobStore>> {
    Ok(Arc::new(local_files::open(config.data.join(FOLDER))?))
}

/// Returns the signer of media URLs. Without a configured key, the signing key is derived from the
/// installation's pepper. After a key is configured, URLs signed with the derived key stay valid,
/// unless a previous key is configured too.
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
    let own = own.ok_or_else(|| {
        ConfigError::new(
            "service",
            "cannot derive the signing key of media URLs from the pepper",
        )
    })?;
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
    variable: &Option<VariableName>,
    file: &Option<String>,
) -> std::result::Result<Option<SigningKey>, ConfigError> {
    let secret = config.key(&format!("{place}_file"), variable.as_deref(), file.as_deref())?;
    match (secret, variable) {
        (Some(secret), _) => match SigningKey::new(secret.expose_secret().as_bytes()) {
            Some(key) => Ok(Some(key)),
            None => Err(ConfigError::new(
                place,
                "must have at least 32 characters; `openssl rand -hex 32` generates such a key",
            )),
        },
        (None, Some(variable)) => Err(ConfigError::new(
            format!("{place}_env"),
            format!("the variable {variable} is not set"),
        )),
        (None, None) => Ok(None),
    }
}

/// Returns the S3 settings; `None` if media are stored in files.
fn bucket(config: &Config) -> std::result::Result<Option<S3Config>, ConfigError> {
    if config.file.media.store == MediaStoreSetting::Files {
        return Ok(None);
    }
    let fault = |key: &str, message: &str| ConfigError::new(format!("media.s3.{key}"), message);
    let Some(section) = &config.file.media.s3 else {
        return Err(fault("bucket", "is required with store = \"s3\""));
    };
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
    if !(3..=63).contains(&section.bucket.len()) || !section.bucket.chars().all(plain) {
        return Err(fault(
            "bucket",
            "must be 3 to 63 lowercase letters, digits, dots and hyphens",
        ));
    }
    if let Some(endpoint) = &section.endpoint {
        s3::check_endpoint(endpoint, section.allow_http).map_err(|reason| fault("endpoint", reason))?;
    }
    let setting = || {
        REGION_VARIABLES
            .iter()
            .find_map(|name| config.environment.get(name))
    };
    let region = section.region.as_deref().or_else(setting);
    let region = region.or(section.endpoint.as_ref().map(|_| DEFAULT_REGION));
    let region = region.ok_or_else(|| fault("region", "is required, such as \"eu-central-1\""))?;
    Ok(Some(S3Config {
        bucket: section.bucket.clone(),
        region: region.to_owned(),
        endpoint: section.endpoint.clone(),
        prefix: prefix(&section.prefix).ok_or_else(|| fault("prefix", INVALID_PREFIX))?,
        path_style: section.path_style.unwrap_or(section.endpoint.is_some()),
        allow_http: section.allow_http,
        credentials: credentials(config, section)?,
    }))
}

const INVALID_PREFIX: &str =
    "must be names of letters, digits and - _ . between slashes; no name may start with a dot";

/// Normalizes a key prefix: empty, or with a trailing slash. `None` if it is invalid.
fn prefix(setting: &str) -> Option<String> {
    let setting = setting.trim_matches('/');
    if setting.is_empty() {
        return Some(String::new());
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_name = |name: &str| !name.is_empty() && !name.starts_with('.') && name.chars().all(plain);
    setting.split('/').all(is_name).then(|| format!("{setting}/"))
}

fn credentials(config: &Config, section: &S3Section) -> std::result::Result<S3Credentials, ConfigError> {
    let variable = |name: &str| config.environment.get(name).map(str::to_owned);
    let secret = config.key(
        "media.s3.secret_access_key_file",
        [&*section.secret_access_key_env],
        section.secret_access_key_file.as_deref(),
    )?;
    match (variable(&section.access_key_id_env), secret) {
        (Some(id), Some(secret)) => Ok(S3Credentials::Key {
            id,
            secret,
            token: variable(&section.session_token_env).map(Into::into),
        }),
        (None, None) => {
            let setting = |name| Some((name, config.environment.get(name)?.to_owned()));
            Ok(S3Credentials::Role(
                s3::ROLE_VARIABLES.into_iter().filter_map(setting).collect(),
            ))
        }
        (Some(_), None) => Err(ConfigError::new(
            "media.s3.secret_access_key_env",
            format!(
                "{} is set, but the secret is not: set {} or secret_access_key_file",
                section.access_key_id_env, section.secret_access_key_env
            ),
        )),
        (None, Some(_)) => Err(ConfigError::new(
            "media.s3.access_key_id_env",
            format!(
                "the secret access key is set, but {} is not: set both or neither",
                section.access_key_id_env
            ),
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

    /// Each case: `[media.s3]`, variables, and the invalid setting.
    #[test]
    fn invalid_buckets_are_refused_with_their_key() {
        let region = [("AWS_REGION", "eu-central-1")];
        for (setting, env, place) in [
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
            let config = load(&format!("[media]\nstore = \"s3\"\n[media.s3]\n{setting}"), env);
            let error = check(&config).unwrap_err();
            assert_eq!(error.place, place, "{setting}");
            assert!(!error.message.contains("canary"), "{error}");
            assert!(!config.printed().unwrap().contains("canary"));
        }
        let error = check(&load("[media]\nstore = \"s3\"", &region)).unwrap_err();
        assert_eq!(error.place, "media.s3.bucket");
    }

    #[test]
    fn buckets_resolve_region_and_credentials() {
        let text = "[media]\nstore = \"s3\"\n[media.s3]\nbucket = \"media\"\nprefix = \"/tollgate/eu\"\n";
        let at_amazon = [&KEYS[..], &[("AWS_DEFAULT_REGION", "eu-west-1")]].concat();
        let found = bucket(&load(text, &at_amazon)).unwrap().unwrap();
        assert_eq!((&*found.region, found.path_style), ("eu-west-1", false));
        assert_eq!(found.prefix, "tollgate/eu/");
        assert!(matches!(found.credentials, S3Credentials::Key { id, token: None, .. } if id == "id"));

        let with_endpoint = format!("{text}endpoint = \"http://127.0.0.1:9000\"\n");
        let found = bucket(&load(&with_endpoint, &[("AWS_ROLE_ARN", "arn")]))
            .unwrap()
            .unwrap();
        assert_eq!((&*found.region, found.path_style), ("us-east-1", true));
        assert!(
            matches!(found.credentials, S3Credentials::Role(setting) if setting == [("AWS_ROLE_ARN", "arn".to_owned())])
        );
        assert!(bucket(&load("", &KEYS)).unwrap().is_none());
    }

    #[test]
    fn signing_keys_follow_the_settings() {
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
