//! Check of the rate limits: whether nodes share them, and whether Redis can be used.

use secrecy::ExposeSecret;
use tollgate_backends::redis;

use super::Finding;
use crate::config::{Config, StorageUrl};

const SUBJECT: &str = "limits";

/// Checks the settings of the rate limits without connecting to Redis.
pub fn stated(config: &Config) -> Finding {
    match (&config.storage, &config.redis) {
        (_, Some(_)) => Finding::fine(SUBJECT, "all nodes share the limits through Redis"),
        (StorageUrl::Sqlite(_), None) if config.file.redis.url.is_some() => Finding::note(
            SUBJECT,
            "redis.url has no effect: with SQLite a single process counts in memory",
            "remove redis.url, or use PostgreSQL to run several nodes",
        ),
        (StorageUrl::Sqlite(_), None) => Finding::fine(
            SUBJECT,
            "the single process counts requests and tokens in its memory",
        ),
        (StorageUrl::Postgres(_), None) => Finding::note(
            SUBJECT,
            "each node counts requests and tokens per minute separately",
            "set redis.url to enforce an account's limits across all nodes",
        ),
    }
}

/// Checks Redis if it is configured; otherwise, checks the settings only.
pub async fn check(config: &Config) -> Finding {
    let Some(url) = &config.redis else {
        return stated(config);
    };
    match redis::probe(url.expose_secret()).await {
        Ok(found) if found.evicts == Some(true) => Finding::note(
            SUBJECT,
            "Redis evicts keys when its memory is full, which loses counts",
            "set its maxmemory-policy to noeviction",
        ),
        Ok(found) => {
            let version = found
                .version
                .map(|version| format!(" {version}"))
                .unwrap_or_default();
            Finding::fine(
                SUBJECT,
                format!("all nodes share the limits through Redis{version}, which answers"),
            )
        }
        Err(error) => Finding::fault(
            SUBJECT,
            format!("Redis cannot be used, so each node enforces its share of the limits: {error}"),
            "check that redis.url is correct, and that Redis is running, accepts connections from this machine and allows scripts",
        ),
    }
}
