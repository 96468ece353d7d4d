//! The paths of one provider, each with what lets a request in. The model stands in the path, so they are made when they
//! are first needed.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use tollgate_upstream::{CallContext, UpstreamError};

use crate::http::{
    BaseUrl, Credential, Endpoint, EndpointError, HttpClient, RequestBody, Response, Timeouts, Variant,
};
use crate::tokens::{Token, TokenCache, TokenError};

/// An address with what is shown there, and its paths so far.
#[derive(Debug)]
pub struct Access {
    base: BaseUrl,
    credentials: Vec<Credential>,
    /// Shown with every request besides the credentials, which it changes too often to be one of.
    tokens: Option<TokenCache>,
    paths: RwLock<HashMap<String, Arc<Endpoint>>>,
}

/// A request without its credentials.
enum Asked<'a> {
    Get,
    Post(&'a Bytes),
    /// A path of the whole server that is asked for a few times and never again.
    Look,
}

impl Access {
    /// This address with these credentials on every request.
    pub fn new(base: BaseUrl, credentials: Vec<Credential>) -> Result<Self, EndpointError> {
        // What is wrong with them is said at once.
        Endpoint::new(&base, "/models", &credentials)?;
        Ok(Self {
            base,
            credentials,
            tokens: None,
            paths: RwLock::default(),
        })
    }

    /// This address with a token on every request.
    pub(crate) fn by_token(base: BaseUrl, tokens: TokenCache) -> Result<Self, EndpointError> {
        Ok(Self {
            tokens: Some(tokens),
            ..Self::new(base, Vec::new())?
        })
    }

    pub(super) fn is_secure(&self) -> bool {
        self.base.is_secure()
    }

    /// Sends a POST and answers when the response headers are there.
    pub(super) async fn post(
        &self,
        http: &HttpClient,
        path: &str,
        body: &Bytes,
        timeouts: Timeouts,
    ) -> Result<Response, UpstreamError> {
        self.send(http, path, Asked::Post(body), timeouts).await
    }

    /// Sends a GET and answers when the response headers are there.
    pub(super) async fn get(
        &self,
        http: &HttpClient,
        path: &str,
        timeout: Duration,
    ) -> Result<Response, UpstreamError> {
        self.send(http, path, Asked::Get, Timeouts::brief(timeout)).await
    }

    /// The address.
    pub(super) fn base(&self) -> &BaseUrl {
        &self.base
    }

    /// Sends a GET for a path of the whole server, such as one that it has told, and answers when the response
    /// headers are there.
    pub(super) async fn look(
        &self,
        http: &HttpClient,
        ctx: &CallContext,
        path: &str,
    ) -> Result<Response, UpstreamError> {
        self.send(http, path, Asked::Look, Timeouts::of(ctx)).await
    }

    /// A token that is refused is renewed and shown once more: with a status of 401 nothing was done for the request.
    async fn send(
        &self,
        http: &HttpClient,
        path: &str,
        asked: Asked<'_>,
        timeouts: Timeouts,
    ) -> Result<Response, UpstreamError> {
        let Some(tokens) = &self.tokens else {
            return self.send_once(http, path, &asked, None, timeouts).await;
        };
        let patience = match asked {
            // Whoever lists waits no longer than this for all of it: who does not answer is to be told apart.
            Asked::Get => timeouts.headers / 2,
            Asked::Post(_) | Asked::Look => timeouts.headers,
        };
        let token = tokens.token(http, patience).await.map_err(TokenError::of_call)?;
        let response = self.send_once(http, path, &asked, Some(&token), timeouts).await?;
        if response.status != 401 {
            return Ok(response);
        }
        let newer = tokens.instead_of(&token, http, patience).await;
        match newer.map_err(TokenError::of_call)? {
            Some(newer) => self.send_once(http, path, &asked, Some(&newer), timeouts).await,
            None => Ok(response),
        }
    }

    async fn send_once(
        &self,
        http: &HttpClient,
        path: &str,
        asked: &Asked<'_>,
        token: Option<&Token>,
        timeouts: Timeouts,
    ) -> Result<Response, UpstreamError> {
        let (endpoint, base) = match asked {
            Asked::Look => {
                let root = self.base.root();
                (self.endpoint(&root, path)?, root)
            }
            Asked::Get | Asked::Post(_) => (self.at(path)?, self.base.clone()),
        };
        let variant = token
            .map(|token| shown(&base, path, token))
            .transpose()
            .map_err(|error| UpstreamError::connect(error.to_string()))?;
        match (asked, variant) {
            (Asked::Get | Asked::Look, None) => http.get(&endpoint, timeouts).await,
            (Asked::Get | Asked::Look, Some(variant)) => http.get_variant(&endpoint, variant, timeouts).await,
            (Asked::Post(body), None) => {
                let body = RequestBody::from(Bytes::clone(body));
                http.post(&endpoint, body, timeouts).await
            }
            (Asked::Post(body), Some(variant)) => {
                let body = RequestBody::from(Bytes::clone(body));
                http.post_variant(&endpoint, variant, body, timeouts).await
            }
        }
    }

    /// The endpoint of a path. Models come from the settings and the catalog, so there are few.
    fn at(&self, path: &str) -> Result<Arc<Endpoint>, UpstreamError> {
        let known = self
            .paths
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(path)
            .cloned();
        if let Some(endpoint) = known {
            return Ok(endpoint);
        }
        let endpoint = self.endpoint(&self.base, path)?;
        let mut paths = self.paths.write().unwrap_or_else(PoisonError::into_inner);
        Ok(paths.entry(path.to_owned()).or_insert(endpoint).clone())
    }

    fn endpoint(&self, base: &BaseUrl, path: &str) -> Result<Arc<Endpoint>, UpstreamError> {
        let endpoint = Endpoint::new(base, path, &self.credentials);
        endpoint
            .map(Arc::new)
            .map_err(|error| UpstreamError::connect(error.to_string()))
    }
}

fn shown(base: &BaseUrl, path: &str, token: &Token) -> Result<Variant, EndpointError> {
    let mut variant = Variant::new(base, path)?;
    variant.insert("authorization", &token.authorization())?;
    Ok(variant)
}
