//! Commands on the running server and its providers.

use serde::{Deserialize, Serialize};
use tollgate_types::{Error, ErrorCode};

use crate::operation::{Completed, Declaration, Operation};
use crate::view::providers::{ProviderView, ServerView};
use crate::{Actor, Operations};

/// Lists the configured providers with their health.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListProviders;

impl Operation for ListProviders {
    const NAME: &'static str = "list_providers";
    const NEEDS_SERVER: bool = true;

    type Reply = Vec<ProviderView>;

    fn declaration(&self) -> Declaration {
        Declaration::read()
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let snapshot = operations.catalog.current().clone();
        Ok(operations.server.providers(&snapshot).into())
    }
}

/// Returns the addresses on which the running server listens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShowServer;

impl Operation for ShowServer {
    const NAME: &'static str = "show_server";
    const NEEDS_SERVER: bool = true;

    type Reply = ServerView;

    fn declaration(&self) -> Declaration {
        Declaration::read()
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let addresses = operations.server.addresses();
        let addresses = addresses.ok_or_else(|| {
            let message = "No server is running. Start one with `tollgate serve`.";
            Error::new(ErrorCode::NotFound, message)
        })?;
        Ok(addresses.into())
    }
}
