//! Endpoints of one provider with their authentication. Paths contain the model, so endpoints are
//! built on first use.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use tollgate_upstream::{CallContext, UpstreamError};

use crate::http::{
    BaseUrl, Credential, Endpoint, EndpointError, HttpClient, RequestBody, Response, Timeouts, Variant,
};
use crate::tokens::{Token, TokenCache, TokenError};

/// The base URL and credentials of a provider, and its endpoints by path.
#[derive(Debug)]
pub struct Access {
    base: BaseUrl,
    credentials: Vec<Credential>,
    /// Access tokens, sent in addition to the credentials; `None` if the credentials suffice.
    /// Tokens cannot be credentials of a stored endpoint, because tokens change.
    tokens: Option<TokenCache>,
    paths: RwLock<HashMap<String, Arc<Endpoint>>>,
}

/// Method of a request, and the body of a POST.
enum RequestKind<'a> {
    Get,
    Post(&'a Bytes),
    /// A GET for a path on the server's root. Its endpoint is not stored, because such a path is
    /// requested rarely.
    GetOnce,
    /// A POST without a body for such a path.
    PostOnce,
}

impl Access {
    /// Creates an access that sends these credentials with every request.
    pub fn new(base: BaseUrl, credentials: Vec<Credential>) -> Result<Self, EndpointError> {
        // Rejects invalid credentials when the provider is built.
        Endpoint::new(&base, "/models", &credentials)?;
        Ok(Self {
            base,
            credentials,
            tokens: None,
            paths: RwLock::default(),
        })
    }

    /// Creates an access that sends a token with every request.
    pub(crate) fn with_tokens(base: BaseUrl, tokens: TokenCache) -> Result<Self, EndpointError> {
        Ok(Self {
            tokens: Some(tokens),
            ..Self::new(base, Vec::new())?
        })
    }

    pub(super) fn is_secure(&self) -> bool {
        self.base.is_secure()
    }

    /// Sends a POST. Returns as soon as the response headers arrive.
    pub(super) async fn post(
        &self,
        http: &HttpClient,
        path: &str,
        body: &Bytes,
        timeouts: Timeouts,
    ) -> Result<Response, UpstreamError> {
        self.send(http, path, RequestKind::Post(body), timeouts).await
    }

    /// Sends a GET. Returns as soon as the response headers arrive.
    pub(super) async fn get(
        &self,
        http: &HttpClient,
        path: &str,
        timeout: Duration,
    ) -> Result<Response, UpstreamError> {
        self.send(http, path, RequestKind::Get, Timeouts::brief(timeout))
            .await
    }

    pub(super) fn base(&self) -> &BaseUrl {
        &self.base
    }

    /// Sends a GET for a path on the server's root, such as one from a response. Returns as soon as
    /// the response headers arrive.
    pub(super) async fn get_once(
        &self,
        http: &HttpClient,
        ctx: &CallContext,
        path: &str,
    ) -> Result<Response, UpstreamError> {
        self.send(http, path, RequestKind::GetOnce, Timeouts::of(ctx))
            .await
    }

    /// Sends a POST without a body for a path on the server's root. Returns as soon as the response
    /// headers arrive.
    pub(super) async fn post_once(
        &self,
        http: &HttpClient,
        ctx: &CallContext,
        path: &str,
    ) -> Result<Response, UpstreamError> {
        self.send(http, path, RequestKind::PostOnce, Timeouts::of(ctx))
            .await
    }

    /// Sends a request, with an access token if the provider uses tokens. After status 401, renews
    /// the token and sends the request once more. This is safe, because a request with status 401
    /// had no effect.
    async fn send(
        &self,
        http: &HttpClient,
        path: &str,
        request: RequestKind<'_>,
        timeouts: Timeouts,
    ) -> Result<Response, UpstreamError> {
        let Some(tokens) = &self.tokens else {
            return self.send_once(http, path, &request, None, timeouts).await;
        };
        let timeout = match request {
            // A model list has one time limit for the token and the response. With half of it for
            // the token, the error shows which of the two timed out.
            RequestKind::Get => timeouts.headers / 2,
            RequestKind::Post(_) | RequestKind::GetOnce | RequestKind::PostOnce => timeouts.headers,
        };
        let token = tokens.token(http, timeout).await.map_err(TokenError::of_call)?;
        let response = self
            .send_once(http, path, &request, Some(&token), timeouts)
            .await?;
        if response.status != 401 {
            return Ok(response);
        }
        let newer = tokens.replace_refused(&token, http, timeout).await;
        match newer.map_err(TokenError::of_call)? {
            Some(newer) => self.send_once(http, path, &request, Some(&newer), timeouts).await,
            None => Ok(response),
        }
    }

    async fn send_once(
        &self,
        http: &HttpClient,
        path: &str,
        request: &RequestKind<'_>,
        token: Option<&Token>,
        timeouts: Timeouts,
    ) -> Result<Response, UpstreamError> {
        let (endpoint, base) = match request {
            RequestKind::GetOnce | RequestKind::PostOnce => {
                let root = self.base.root();
                (self.endpoint(&root, path)?, root)
            }
            RequestKind::Get | RequestKind::Post(_) => (self.at(path)?, self.base.clone()),
        };
        let variant = token
            .map(|token| variant_with_token(&base, path, token))
            .transpose()
            .map_err(|error| UpstreamError::connect(error.to_string()))?;
        match (request, variant) {
            (RequestKind::Get | RequestKind::GetOnce, None) => http.get(&endpoint, timeouts).await,
            (RequestKind::Get | RequestKind::GetOnce, Some(variant)) => {
                http.get_variant(&endpoint, variant, timeouts).await
            }
            (RequestKind::PostOnce, None) => http.post(&endpoint, RequestBody::default(), timeouts).await,
            (RequestKind::PostOnce, Some(variant)) => {
                let body = RequestBody::default();
                http.post_variant(&endpoint, variant, body, timeouts).await
            }
            (RequestKind::Post(body), None) => {
                let body = RequestBody::from(Bytes::clone(body));
                http.post(&endpoint, body, timeouts).await
            }
            (RequestKind::Post(body), Some(variant)) => {
                let body = RequestBody::from(Bytes::clone(body));
                http.post_variant(&endpoint, variant, body, timeouts).await
            }
        }
    }

    /// Returns the endpoint of a path, and stores it for later calls. The paths depend on the
    /// models in the settings and the catalog, and on the page tokens of model lists.
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

    pub(super) fn endpoint(&self, base: &BaseUrl, path: &str) -> Result<Arc<Endpoint>, UpstreamError> {
        let endpoint = Endpoint::new(base, path, &self.credentials);
        endpoint
            .map(Arc::new)
            .map_err(|error| UpstreamError::connect(error.to_string()))
    }
}

fn variant_with_token(base: &BaseUrl, path: &str, token: &Token) -> Result<Variant, EndpointError> {
    let mut variant = Variant::new(base, path)?;
    variant.insert("authorization", &token.authorization())?;
    Ok(variant)
}
