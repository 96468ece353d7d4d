//! Where requests and tokens are counted: in this process, or at a Redis that several nodes share.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use secrecy::ExposeSecret;
use tollgate_backends::memory::MemoryCounters;
use tollgate_backends::redis::{self, RedisConfig, RedisCounters};
use tollgate_storage::Counters;
use tollgate_types::Clock;

use crate::config::{Config, StorageUrl};

/// How long a start waits for Redis: as long as it takes to settle on one that is there and empty.
const PATIENCE: Duration = Duration::from_secs(4);

/// The windows that limits are counted in.
pub struct Counting {
    /// For the limiter.
    pub counters: Arc<dyn Counters>,
    shared: Option<Arc<RedisCounters>>,
}

impl Counting {
    /// In the memory of this process.
    pub fn alone(clock: &Arc<dyn Clock>) -> Self {
        Self {
            counters: Arc::new(MemoryCounters::new(clock.clone())),
            shared: None,
        }
    }

    /// As the settings say. A Redis that is not there does not hinder the start.
    pub async fn open(config: &Config, clock: &Arc<dyn Clock>) -> Result<Self> {
        let Some(url) = &config.redis else {
            if matches!(config.storage, StorageUrl::Postgres(_)) {
                tracing::warn!(
                    "each node counts requests and tokens per minute for itself; set redis.url to share limits"
                );
            }
            return Ok(Self::alone(clock));
        };
        let mut node = [0_u8; 8];
        getrandom::fill(&mut node).map_err(|error| anyhow::anyhow!("no random bytes: {error}"))?;
        let settings = RedisConfig {
            prefix: config.file.redis.prefix.clone(),
            patience: Duration::from_millis(config.file.redis.timeout_ms),
            ..RedisConfig::new(url.expose_secret(), u64::from_ne_bytes(node))
        };
        let shared = Arc::new(redis::open(settings, clock.clone())?);
        if !shared.wait_until_shared(PATIENCE).await {
            tracing::warn!("Redis is not there; this node counts requests and tokens for itself until it is");
        }
        Ok(Self {
            counters: shared.clone(),
            shared: Some(shared),
        })
    }

    /// Tells others what they are to know before this process ends.
    pub async fn close(&self) {
        if let Some(shared) = &self.shared {
            shared.close().await;
        }
    }
}
