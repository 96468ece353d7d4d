//! The paths of one provider, each with what lets a request in. The model stands in the path, so they are made when they
//! are first needed.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use tollgate_upstream::UpstreamError;

use crate::http::{BaseUrl, Credential, Endpoint, EndpointError};

/// An address with its credentials, and its paths so far.
#[derive(Debug)]
pub struct Access {
    base: BaseUrl,
    credentials: Vec<Credential>,
    paths: RwLock<HashMap<String, Arc<Endpoint>>>,
}

impl Access {
    /// This address with these credentials on every request.
    pub fn new(base: BaseUrl, credentials: Vec<Credential>) -> Result<Self, EndpointError> {
        // What is wrong with them is said at once.
        Endpoint::new(&base, "/models", &credentials)?;
        Ok(Self {
            base,
            credentials,
            paths: RwLock::default(),
        })
    }

    pub(super) fn is_secure(&self) -> bool {
        self.base.is_secure()
    }

    /// The endpoint of a path. Models come from the settings and the catalog, so there are few.
    pub(super) fn at(&self, path: &str) -> Result<Arc<Endpoint>, UpstreamError> {
        let known = self
            .paths
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(path)
            .cloned();
        if let Some(endpoint) = known {
            return Ok(endpoint);
        }
        let endpoint = Endpoint::new(&self.base, path, &self.credentials)
            .map_err(|error| UpstreamError::connect(error.to_string()))?;
        let endpoint = Arc::new(endpoint);
        let mut paths = self.paths.write().unwrap_or_else(PoisonError::into_inner);
        Ok(paths.entry(path.to_owned()).or_insert(endpoint).clone())
    }
}

/// The path of what a model is asked to do. Tuned models have a folder of their own in their names.
pub(super) fn path_of(model: &str, action: &str) -> String {
    match model.contains('/') {
        true => format!("/{model}:{action}"),
        false => format!("/models/{model}:{action}"),
    }
}
