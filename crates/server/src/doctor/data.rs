//! Checks of the data directory and the secrets: they exist, are writable and are private.

use std::fs::{self, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_types::{Clock, Timestamp};

use super::Finding;
use crate::config::{Config, StorageUrl};
use crate::{cause, secrets};

/// Maximum accepted lead of a file's modification time over the clock. File servers have their own
/// clocks.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(300);

/// Checks the data directory, the secrets in it, and the secret that the settings name.
pub fn check(config: &Config, clock: &dyn Clock) -> Vec<Finding> {
    let mut findings = vec![directory(&config.data)];
    if config.data.is_dir() {
        findings.push(private(&config.data));
        findings.extend(from_the_future(&config.data, clock.now()));
    }
    findings.extend(own_secret(config));
    findings.extend(shared_secret(config));
    findings
}

fn directory(data: &Path) -> Finding {
    let what = "data directory";
    let shown = data.display();
    match fs::metadata(data) {
        Ok(found) if !found.is_dir() => Finding::fault(
            what,
            format!("{shown} is not a directory"),
            "choose another directory with --data DIR",
        ),
        Ok(_) => match try_to_write(data) {
            Ok(()) => Finding::fine(what, format!("{shown} can be written")),
            Err(error) => Finding::fault(
                what,
                format!("{shown} cannot be written: {error}"),
                "run as its owner, change its owner with chown, or free space on its disk",
            ),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Finding::note(
            what,
            format!("{shown} does not exist yet"),
            "the first `tollgate serve` creates it",
        ),
        Err(error) => Finding::fault(
            what,
            format!("cannot access {shown}: {error}"),
            "run as its owner, or choose another directory with --data DIR",
        ),
    }
}

/// Writes and deletes a test file. Permissions alone do not reveal a full disk or a read-only
/// mount.
fn try_to_write(data: &Path) -> std::io::Result<()> {
    let probe = data.join(format!(".doctor-{}", std::process::id()));
    let written = OpenOptions::new().write(true).create_new(true).open(&probe);
    written.and_then(|mut file| std::io::Write::write_all(&mut file, b"probe"))?;
    fs::remove_file(&probe)
}

/// Checks that only the owner can access the directory and the secrets in it.
fn private(data: &Path) -> Finding {
    let places = [
        data.to_owned(),
        data.join("secrets"),
        data.join("secrets").join("pepper"),
    ];
    match places
        .iter()
        .find(|place| fs::metadata(place).is_ok_and(|found| is_open(&found)))
    {
        None => Finding::fine("secrets", "only the owner can read the secrets"),
        Some(place) => Finding::fault(
            "secrets",
            format!("{} can be read by other users", place.display()),
            format!("chmod go-rwx {}", place.display()),
        ),
    }
}

fn is_open(found: &Metadata) -> bool {
    found.permissions().mode() & 0o077 != 0
}

/// Reports a database without the secret with which its keys are hashed. A start would create a new
/// secret, and no existing key would work.
fn own_secret(config: &Config) -> Option<Finding> {
    let service = &config.file.service;
    let own = service.pepper_env.is_none() && service.pepper_file.is_none();
    let StorageUrl::Sqlite(database) = &config.storage else {
        return None;
    };
    let pepper = config.data.join("secrets").join("pepper");
    (own && database.exists() && !pepper.exists()).then(|| {
        Finding::fault(
            "secrets",
            format!(
                "{} is missing, but {} was created with it",
                pepper.display(),
                database.display()
            ),
            "before the next start, pass the directory that contains the file with --data DIR or restore it from a backup; with a new secret no existing key works",
        )
    })
}

/// Checks that the secret named in the settings can be read and is long enough. Returns `None` if
/// the settings name no secret.
pub fn shared_secret(config: &Config) -> Option<Finding> {
    let service = &config.file.service;
    let named = match (&service.pepper_env, &service.pepper_file) {
        (Some(name), _) => format!("service.pepper_env ({name})"),
        (None, Some(file)) => format!("service.pepper_file ({file})"),
        (None, None) => return None,
    };
    if let Err(error) = secrets::pepper(config) {
        let remedy = "set a secret of at least 32 characters, the same on every node; `openssl rand -hex 32` generates one";
        return Some(Finding::fault("secrets", cause::chain(&error), remedy));
    }
    let file = service
        .pepper_file
        .as_ref()
        .filter(|_| service.pepper_env.is_none())
        .map(PathBuf::from);
    match file.filter(|file| fs::metadata(file).is_ok_and(|found| is_open(&found))) {
        // Mounted secrets often belong to another user and a group, so this is a note, not a fault.
        Some(file) => Some(Finding::note(
            "secrets",
            format!("{} can be read by other users", file.display()),
            format!("chmod go-rwx {}", file.display()),
        )),
        None => Some(Finding::fine("secrets", format!("{named} can be used"))),
    }
}

/// Reports a file whose modification time is more than [`CLOCK_TOLERANCE`] ahead of `now`. The
/// usual cause is a clock that was set back.
fn from_the_future(data: &Path, now: Timestamp) -> Option<Finding> {
    let ahead = fs::read_dir(data).ok()?.flatten().find(|entry| {
        let modified = entry.metadata().and_then(|found| found.modified()).ok();
        let since_epoch = modified.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        since_epoch.is_some_and(|at| Timestamp::from_micros(0).plus(at) > now.plus(CLOCK_TOLERANCE))
    })?;
    Some(Finding::fault(
        "clock",
        format!(
            "{} has a modification time in the future: the clock was probably set back",
            ahead.path().display()
        ),
        "set the clock (timedatectl set-ntp true): rate limits and key expiry depend on it",
    ))
}
