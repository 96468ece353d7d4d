//! DNS lookups.

use std::io;
use std::net::IpAddr;

use async_trait::async_trait;

/// Port for DNS lookups; tests use scripted results.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// Returns all addresses of a host.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The operating system's resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((host, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}
