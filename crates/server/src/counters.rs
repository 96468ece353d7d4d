//! Selects the counters of rate limits: in memory, or in a Redis that several nodes share.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use secrecy::ExposeSecret;
use tollgate_backends::memory::MemoryCounters;
use tollgate_backends::redis::{self, RedisConfig, RedisCounters};
use tollgate_storage::Counters;
use tollgate_types::Clock;

use crate::config::{Config, StorageUrl};

/// Maximum time that a start waits for Redis. Joining an empty Redis takes almost as long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

/// The counters of rate limits.
pub struct Counting {
    /// Counters that the rate limiter uses.
    pub counters: Arc<dyn Counters>,
    shared: Option<Arc<RedisCounters>>,
}

impl Counting {
    /// Creates counters in the memory of this process.
    pub fn in_process(clock: &Arc<dyn Clock>) -> Self {
        Self {
            counters: Arc::new(MemoryCounters::new(clock.clone())),
            shared: None,
        }
    }

    /// Creates the counters that the settings select. The start continues if Redis is unreachable:
    /// this node then counts separately until Redis is available.
    pub async fn open(config: &Config, clock: &Arc<dyn Clock>) -> Result<Self> {
        let Some(url) = &config.redis else {
            if matches!(config.storage, StorageUrl::Postgres(_)) {
                tracing::warn!(
                    "each node counts requests and tokens per minute separately; set redis.url to share limits"
                );
            }
            return Ok(Self::in_process(clock));
        };
        let mut node = [0_u8; 8];
        getrandom::fill(&mut node).map_err(|error| anyhow::anyhow!("cannot obtain random bytes: {error}"))?;
        let settings = RedisConfig {
            prefix: config.file.redis.prefix.clone(),
            decision_timeout: Duration::from_millis(config.file.redis.timeout_ms),
            ..RedisConfig::new(url.expose_secret(), u64::from_ne_bytes(node))
        };
        let shared = Arc::new(redis::open(settings, clock.clone())?);
        if !shared.wait_until_shared(CONNECT_TIMEOUT).await {
            tracing::warn!(
                "Redis is unreachable; this node counts requests and tokens separately until Redis is available"
            );
        }
        Ok(Self {
            counters: shared.clone(),
            shared: Some(shared),
        })
    }

    /// Sends pending counts to Redis and removes this node from its list of nodes.
    pub async fn close(&self) {
        if let Some(shared) = &self.shared {
            shared.close().await;
        }
    }
}
