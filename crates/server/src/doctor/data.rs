//! The data directory and the secrets: there, writable, and nobody else's to read.

use std::fs::{self, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_types::{Clock, Timestamp};

use super::Finding;
use crate::config::{Config, StorageUrl};
use crate::secrets;

/// How far files may be ahead of the clock: file servers have clocks of their own.
const TOLERANCE: Duration = Duration::from_secs(300);

/// Looks at the directory, the secrets in it and the secret that is kept elsewhere.
pub fn look(config: &Config, clock: &dyn Clock) -> Vec<Finding> {
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
            "name another one with --data DIR",
        ),
        Ok(_) => match try_to_write(data) {
            Ok(()) => Finding::fine(what, format!("{shown} can be written")),
            Err(error) => Finding::fault(
                what,
                format!("{shown} cannot be written: {error}"),
                "run as the user that owns it, give it to this user with chown, or free space on its disk",
            ),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Finding::note(
            what,
            format!("{shown} does not exist yet"),
            "the first `tollgate serve` makes it",
        ),
        Err(error) => Finding::fault(
            what,
            format!("{shown} cannot be looked at: {error}"),
            "run as the user that owns it, or name another one with --data DIR",
        ),
    }
}

/// Only writing tells whether writing works: a disk may be full or mounted read-only.
fn try_to_write(data: &Path) -> std::io::Result<()> {
    let probe = data.join(format!(".doctor-{}", std::process::id()));
    let written = OpenOptions::new().write(true).create_new(true).open(&probe);
    written.and_then(|mut file| std::io::Write::write_all(&mut file, b"probe"))?;
    fs::remove_file(&probe)
}

/// The directory and the secrets in it are their owner's alone.
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
        None => Finding::fine("secrets", "only their owner can read them"),
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

/// Books without the secret under which their keys were digested: every key would stop to work.
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
                "{} is missing, and {} was made with it",
                pepper.display(),
                database.display()
            ),
            "name the directory that has it with --data DIR, or restore it from the backup, before the next start: with a new one no key works any more",
        )
    })
}

/// The secret that the settings name: it can be read and is long enough.
pub fn shared_secret(config: &Config) -> Option<Finding> {
    let service = &config.file.service;
    let named = match (&service.pepper_env, &service.pepper_file) {
        (Some(name), _) => format!("service.pepper_env ({name})"),
        (None, Some(file)) => format!("service.pepper_file ({file})"),
        (None, None) => return None,
    };
    if let Err(error) = secrets::pepper(config) {
        let remedy =
            "give it a secret of at least 32 characters, the same on every node: openssl rand -hex 32";
        return Some(Finding::fault("secrets", format!("{error:#}"), remedy));
    }
    let file = service
        .pepper_file
        .as_ref()
        .filter(|_| service.pepper_env.is_none())
        .map(PathBuf::from);
    match file.filter(|file| fs::metadata(file).is_ok_and(|found| is_open(&found))) {
        // Mounted secrets often belong to another user and a group: worth knowing, not worth refusing.
        Some(file) => Some(Finding::note(
            "secrets",
            format!("{} can be read by other users", file.display()),
            format!("chmod go-rwx {}", file.display()),
        )),
        None => Some(Finding::fine("secrets", format!("{named} can be used"))),
    }
}

/// Files that were written later than now: the clock was set back.
fn from_the_future(data: &Path, now: Timestamp) -> Option<Finding> {
    let ahead = fs::read_dir(data).ok()?.flatten().find(|entry| {
        let modified = entry.metadata().and_then(|found| found.modified()).ok();
        let since_epoch = modified.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        since_epoch.is_some_and(|at| Timestamp::from_micros(0).plus(at) > now.plus(TOLERANCE))
    })?;
    Some(Finding::fault(
        "clock",
        format!(
            "{} was written later than now: the clock has been set back",
            ahead.path().display()
        ),
        "set the clock (timedatectl set-ntp true): windows of limits and expiry of keys go by it",
    ))
}
