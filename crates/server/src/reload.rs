//! Applies changed settings while the server runs: on SIGHUP and when the settings file changes. A
//! reload covers providers, models, aliases, templates, prices, plans, default rate limits,
//! realtime sessions and the content policy. Invalid settings are rejected as a whole, and the
//! previous ones stay active. The module also repeats requests for model lists that failed.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use notify::{RecursiveMode, Watcher};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tollgate_types::ErrorCode;

use crate::assemble::{Assembled, assemble};
use crate::cause;
use crate::config::{Config, ConfigError, FileConfig, Flags, needs_restart};
use crate::provider_status::ProviderEntry;
use crate::wiring::Services;
use tollgate_operations::{Actor, prices};

/// Time without changes after which a changed file is read, because editors write in several steps.
const DEBOUNCE_INTERVAL: Duration = Duration::from_millis(200);
/// Interval of checks without a file event. Some file systems report no events, and the watch of a
/// directory reports none after the directory was replaced.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// The first and the maximum pause before missing model lists are requested again; pauses double.
const LIST_PAUSES: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(60)];
/// Maximum number of watched paths: the settings file and the targets of its symbolic links.
const MAX_LINKS: usize = 16;
/// The symbolic link that Kubernetes replaces when mounted settings change.
const MOUNT_LINK: &str = "..data";

/// Activates the assembled providers and catalog. Prices are activated first, so that every charge
/// can be traced. If the prices are rejected, nothing is activated.
pub async fn install(services: &Services, assembled: Assembled) -> Result<()> {
    let activated = prices::activate(
        &services.app_state.operations,
        &assembled.snapshot,
        &Actor::settings(),
    )
    .await;
    activated.map_err(|error| match error.code {
        ErrorCode::InvalidParameter => anyhow::Error::new(ConfigError::new("models", error.message)),
        _ => anyhow::Error::new(error).context("cannot activate prices"),
    })?;
    services.providers.replace(assembled.providers);
    services
        .providers
        .set_stop_on_disconnect(assembled.stop_on_disconnect);
    services.app_state.catalog.replace(assembled.snapshot);
    services
        .app_state
        .provider_status
        .replace(assembled.provider_status);
    services.pipeline.set_policy(assembled.policy);
    for note in assembled.notes {
        tracing::warn!("{note}");
    }
    Ok(())
}

/// Reloads the settings after each change and on SIGHUP, until `stop` is cancelled.
pub async fn watch(
    flags: Flags,
    running: Config,
    services: Arc<Services>,
    stop: CancellationToken,
) -> Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    let (changes, mut changed) = mpsc::channel(1);
    let mut watch = Watch::new(flags.settings_file(), changes);
    let mut settings = Settings::new(flags, running);
    loop {
        watch.follow();
        // Events are lost before the watch starts and while it moves to another directory.
        if settings.have_changed() {
            tokio::time::sleep(DEBOUNCE_INTERVAL).await;
        } else {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(POLL_INTERVAL) => {
                    settings.request_missing_lists(&services).await;
                    continue;
                }
                _ = hangup.recv() => {}
                Some(()) = changed.recv() => settle(&mut changed).await,
            }
        }
        settings.reload(&services).await;
    }
}

async fn settle(changed: &mut mpsc::Receiver<()>) {
    while tokio::time::timeout(DEBOUNCE_INTERVAL, changed.recv())
        .await
        .is_ok_and(|change| change.is_some())
    {}
}

/// The settings of a running process and the state of their reload.
struct Settings {
    flags: Flags,
    /// The settings at the start.
    started: Config,
    /// Whether the active settings come from a file.
    has_file: bool,
    /// The result of the last read, valid or not.
    last_read: Result<FileConfig, ConfigError>,
    /// The active settings.
    active: Config,
    /// Time of the next request for missing model lists, and the pause after that request.
    next_lists: (Instant, Duration),
}

impl Settings {
    fn new(flags: Flags, started: Config) -> Self {
        Self {
            has_file: started.path.is_some(),
            last_read: Ok(started.file.clone()),
            active: started.clone(),
            next_lists: (Instant::now(), LIST_PAUSES[0]),
            flags,
            started,
        }
    }

    fn read(&self) -> Result<Config, ConfigError> {
        let config = Config::load(&self.flags, self.started.environment.clone())?;
        match config.path {
            None if self.has_file => {
                let place = self.flags.settings_file().display().to_string();
                let message = "the file no longer exists; restore it, or restart to run without it";
                Err(ConfigError::new(place, message))
            }
            _ => Ok(config),
        }
    }

    /// Returns whether the settings differ from those of the last read.
    fn have_changed(&self) -> bool {
        self.read().map(|config| config.file) != self.last_read
    }

    /// Reads and applies the settings, or logs the error.
    async fn reload(&mut self, services: &Services) {
        let read = self.read();
        self.last_read = read
            .as_ref()
            .map(|config| config.file.clone())
            .map_err(Clone::clone);
        let applied = match read {
            Ok(config) => apply(&config, services).await.map(|()| config),
            Err(error) => Err(error.into()),
        };
        match applied {
            Ok(config) => {
                self.has_file |= config.path.is_some();
                tracing::info!("settings reloaded");
                let stale = needs_restart(&self.flags, &self.started.file, &config.file);
                if !stale.is_empty() {
                    tracing::warn!("needs a restart: {} (read at the start only)", stale.join(", "));
                }
                self.active = config;
                self.next_lists = (Instant::now(), LIST_PAUSES[0]);
            }
            Err(error) => tracing::error!(
                "the new settings are rejected and the previous ones stay active: {}",
                cause::chain(&error)
            ),
        }
    }

    /// Repeats the requests for model lists if the last request for one failed and the pause has
    /// passed. Installs the new catalog if a missing list arrived.
    async fn request_missing_lists(&mut self, services: &Services) {
        let previous = services.app_state.provider_status.entries();
        let missing = || previous.iter().filter(|entry| entry.list_error.is_some());
        let (due, pause) = self.next_lists;
        if missing().next().is_none() || Instant::now() < due {
            return;
        }
        let assembled = assemble(&self.active, &services.http, &previous).await;
        self.next_lists = (Instant::now() + pause, (pause * 2).min(LIST_PAUSES[1]));
        let installed = match assembled {
            Ok(assembled) => {
                let now = &assembled.provider_status;
                let has_list = |last: &&ProviderEntry| {
                    now.iter()
                        .any(|entry| entry.is_same(last) && entry.list_error.is_none())
                };
                let arrived: Vec<String> = missing().filter(has_list).map(|last| last.name.clone()).collect();
                if arrived.is_empty() {
                    return;
                }
                install(services, assembled).await.map(|()| arrived)
            }
            Err(error) => Err(error.into()),
        };
        match installed {
            Ok(arrived) => tracing::info!("received the model lists of: {}", arrived.join(", ")),
            Err(error) => tracing::error!("cannot use the model lists: {}", cause::chain(&error)),
        }
    }
}

/// Watch on the directories of the settings file and of the links that lead to it. It covers
/// directories because a file may not exist yet and is replaced by renaming. It covers links
/// because mounted settings are replaced by changing a link.
struct Watch {
    file: PathBuf,
    changes: mpsc::Sender<()>,
    places: Vec<WatchedEntry>,
    /// Watcher of the file system, which stops when it is dropped; `None` if it could not be
    /// started.
    watcher: Option<notify::RecommendedWatcher>,
}

/// A directory entry that leads to the settings file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WatchedEntry {
    directory: PathBuf,
    /// Device and inode of the directory, which differ if another directory replaces it at the same
    /// path.
    identity: (u64, u64),
    name: OsString,
}

impl Watch {
    fn new(file: PathBuf, changes: mpsc::Sender<()>) -> Self {
        Self {
            file,
            changes,
            places: Vec::new(),
            watcher: None,
        }
    }

    /// Moves the watch to the current location of the file.
    fn follow(&mut self) {
        let places = places_of(&self.file);
        if places == self.places {
            return;
        }
        self.watcher = match watch_places(&places, self.changes.clone()) {
            Ok(watcher) => Some(watcher),
            Err(error) => {
                tracing::warn!(
                    "cannot watch {}; changes apply after a few seconds or on SIGHUP: {error}",
                    self.file.display()
                );
                None
            }
        };
        self.places = places;
    }
}

fn places_of(file: &Path) -> Vec<WatchedEntry> {
    let mut places = Vec::new();
    let mut path = file.to_owned();
    while places.len() < MAX_LINKS {
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let found = parent
            .canonicalize()
            .and_then(|directory| Ok((directory.metadata()?, directory)));
        let (Ok((metadata, directory)), Some(name)) = (found, path.file_name()) else {
            break;
        };
        places.push(WatchedEntry {
            directory,
            identity: (metadata.dev(), metadata.ino()),
            name: name.to_owned(),
        });
        match path.read_link() {
            Ok(target) => path = parent.join(target),
            Err(_) => break,
        }
    }
    places
}

fn watch_places(
    places: &[WatchedEntry],
    changes: mpsc::Sender<()>,
) -> notify::Result<notify::RecommendedWatcher> {
    let names: Vec<OsString> = places.iter().map(|place| place.name.clone()).collect();
    let concerns = move |changed: &PathBuf| {
        let name = changed.file_name();
        name.is_some_and(|name| name == MOUNT_LINK || names.iter().any(|wanted| wanted == name))
    };
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access() && event.paths.iter().any(&concerns)) {
            let _ = changes.try_send(());
        }
    })?;
    let mut directories: Vec<&Path> = places.iter().map(|place| &*place.directory).collect();
    directories.sort_unstable();
    directories.dedup();
    for directory in directories {
        watcher.watch(directory, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

async fn apply(config: &Config, services: &Services) -> Result<()> {
    let previous = services.app_state.provider_status.entries();
    let assembled = assemble(config, &services.http, &previous).await?;
    install(services, assembled).await?;
    services.app_state.plans.replace(config.plans());
    services.realtime.set_settings(config.file.realtime.settings());
    services
        .app_state
        .limiter
        .set_defaults(config.file.limits.rpm, config.file.limits.tpm);
    Ok(())
}
