//! Providers, models, aliases, templates, prices, plans, limits and the content policy follow the settings file while the server
//! runs: on SIGHUP and when the file changes. Settings that cannot be used are refused as a whole, and the old ones stay.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use notify::{RecursiveMode, Watcher};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tollgate_types::ErrorCode;

use crate::assemble::{Assembled, assemble};
use crate::config::{Config, ConfigError, Flags};
use crate::control::{Actor, prices};
use crate::wiring::Services;

/// How long a file must be quiet before it is read: editors write in several steps.
const QUIET: Duration = Duration::from_millis(200);

/// Puts assembled providers and catalog into service. Prices are in force first, so that every charge can be traced; when
/// they cannot be meant, nothing is put into service.
pub async fn install(services: &Services, assembled: Assembled) -> Result<()> {
    let put = prices::put_in_force(&services.domains, &assembled.snapshot, &Actor::settings()).await;
    put.map_err(|error| match error.code {
        ErrorCode::InvalidParameter => anyhow::Error::new(ConfigError::new("models", error.message)),
        _ => anyhow::Error::new(error).context("cannot put prices in force"),
    })?;
    services.providers.replace(assembled.providers);
    services.domains.catalog.replace(assembled.snapshot);
    services.domains.roster.replace(assembled.roster);
    services.pipeline.set_policy(assembled.policy);
    for note in assembled.notes {
        tracing::warn!("{note}");
    }
    Ok(())
}

/// Reloads until `stop`.
pub async fn watch(
    flags: Flags,
    running: Config,
    services: Arc<Services>,
    stop: CancellationToken,
) -> Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    let (changes, mut changed) = mpsc::channel(1);
    let path = running.path.clone();
    // The watcher stops when it is dropped.
    let _watcher = path
        .as_deref()
        .map(|path| watch_file(path, changes))
        .transpose()?;
    // Nobody watched from the start of the process until now.
    let mut missed = has_changed(&flags, &running);
    loop {
        if !std::mem::take(&mut missed) {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                _ = hangup.recv() => {}
                Some(()) = changed.recv() => settle(&mut changed).await,
            }
        }
        match reload(&flags, &running, &services).await {
            Ok(()) => tracing::info!("settings reloaded"),
            Err(error) => tracing::error!("the new settings are refused and the old ones stay: {error:#}"),
        }
    }
}

/// Whether the settings are not those that run.
fn has_changed(flags: &Flags, running: &Config) -> bool {
    Config::load(flags, running.environment.clone()).map_or(true, |now| now.file != running.file)
}

async fn settle(changed: &mut mpsc::Receiver<()>) {
    while tokio::time::timeout(QUIET, changed.recv())
        .await
        .is_ok_and(|change| change.is_some())
    {}
}

/// Watches the directory and not the file: mounted settings are replaced by swapping a link.
fn watch_file(path: &Path, changes: mpsc::Sender<()>) -> Result<notify::RecommendedWatcher> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let name = path.file_name().map(ToOwned::to_owned);
    // `..data` is the link that Kubernetes swaps when mounted settings change.
    let concerns = move |changed: &PathBuf| {
        changed.file_name() == name.as_deref()
            || changed.file_name().is_some_and(|changed| changed == "..data")
    };
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access() && event.paths.iter().any(&concerns)) {
            let _ = changes.try_send(());
        }
    })?;
    watcher.watch(&directory, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

async fn reload(flags: &Flags, running: &Config, services: &Services) -> Result<()> {
    let config = Config::load(flags, running.environment.clone())?;
    let assembled = assemble(&config, &services.http).await?;
    install(services, assembled).await?;
    services.domains.plans.replace(config.plans());
    services
        .domains
        .limiter
        .set_defaults(config.file.limits.rpm, config.file.limits.tpm);
    Ok(())
}
