//! Limits: whether the nodes share them, and whether what they share them through is there.

use secrecy::ExposeSecret;
use tollgate_backends::redis;

use super::Finding;
use crate::config::{Config, StorageUrl};

const WHAT: &str = "limits";

/// What the settings alone say.
pub fn stated(config: &Config) -> Finding {
    match (&config.storage, &config.redis) {
        (_, Some(_)) => Finding::fine(WHAT, "are shared by all nodes through Redis"),
        (StorageUrl::Sqlite(_), None) if config.file.redis.url.is_some() => Finding::note(
            WHAT,
            "redis.url has no effect: with SQLite there is one process, which counts by itself",
            "take redis.url away, or store in PostgreSQL when there are to be several nodes",
        ),
        (StorageUrl::Sqlite(_), None) => Finding::fine(WHAT, "are counted in the one process that there is"),
        (StorageUrl::Postgres(_), None) => Finding::note(
            WHAT,
            "each node counts requests and tokens per minute for itself",
            "set redis.url where an account's limits are to hold over all nodes",
        ),
    }
}

/// Looks at Redis, where there is to be one.
pub async fn look(config: &Config) -> Finding {
    let Some(url) = &config.redis else {
        return stated(config);
    };
    match redis::look(url.expose_secret()).await {
        Ok(found) if found.evicts == Some(true) => Finding::note(
            WHAT,
            "Redis throws keys away when its memory is full, and with them what was counted",
            "set its maxmemory-policy to noeviction",
        ),
        Ok(found) => {
            let version = found
                .version
                .map(|version| format!(" {version}"))
                .unwrap_or_default();
            Finding::fine(WHAT, format!("are shared through Redis{version}, which answers"))
        }
        Err(error) => Finding::fault(
            WHAT,
            format!("Redis cannot be used, and each node keeps to its share of the limits: {error}"),
            "check redis.url, that Redis runs, lets this machine in and lets it execute scripts",
        ),
    }
}
