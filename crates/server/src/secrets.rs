//! The pepper: the secret with which keys are hashed. With the embedded database, the first start
//! creates the pepper unless the settings name one. For nodes with a shared database, the operator
//! sets the same pepper on every node.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result, bail};
use tollgate_accounts::Pepper;

use crate::config::{Config, ConfigError};

const TOO_SHORT: &str = "the secret that keys are hashed with must have at least 32 characters";

/// Returns the pepper from the settings, or the one in the data directory. Creates the latter if it
/// does not exist.
///
/// # Errors
///
/// Fails if the pepper cannot be read or created, or is too short.
pub fn pepper(config: &Config) -> Result<Pepper> {
    let service = &config.file.service;
    let (place, secret) = match (&service.pepper_env, &service.pepper_file) {
        (Some(name), _) => {
            let place = format!("service.pepper_env ({name})");
            match config.environment.get(name) {
                Some(secret) => (place, secret.to_owned()),
                None => bail!(ConfigError::new(place, "the variable is not set")),
            }
        }
        (None, Some(file)) => {
            let place = format!("service.pepper_file ({file})");
            match fs::read_to_string(file) {
                Ok(secret) => (place, secret),
                Err(error) => bail!(ConfigError::new(place, format!("cannot be read: {error}"))),
            }
        }
        (None, None) => return usable(&own_pepper(&config.data)?).context(TOO_SHORT),
    };
    usable(&secret).ok_or_else(|| ConfigError::new(place, TOO_SHORT).into())
}

fn usable(secret: &str) -> Option<Pepper> {
    Pepper::new(secret.trim().as_bytes())
}

/// Creates the directory, and missing parents, with mode 0700. Existing directories stay unchanged.
pub fn make_private_dir(path: &Path) -> Result<()> {
    let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    created.with_context(|| format!("cannot create the directory {}", path.display()))
}

fn own_pepper(data: &Path) -> Result<String> {
    let directory = data.join("secrets");
    make_private_dir(&directory)?;
    let path = directory.join("pepper");
    if let Ok(secret) = fs::read_to_string(&path) {
        return Ok(secret);
    }
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("cannot obtain random bytes: {error}"))?;
    let secret: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    // The file is written under a temporary name and renamed, so that a crash leaves no incomplete
    // pepper.
    let temporary = directory.join("pepper.new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(secret.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, &path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(secret)
}
