//! [`BlobStore`] in a bucket of S3 or a compatible server.
//!
//! Content smaller than a part is written with one request, which fails if the key exists. Other
//! content is uploaded in parts and becomes visible with the last request. An upload that fails or
//! is dropped is aborted. Parts left by a process that died are invisible; a lifecycle rule of the
//! bucket should delete them.

use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::SpawnedReqwestConnector;
use object_store::path::Path;
use object_store::{
    ClientOptions, Error, GetOptions, GetRange, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode,
    PutOptions, RetryConfig,
};
use secrecy::{ExposeSecret, SecretString};
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tollgate_storage::blob::{clamp, too_large};
use tollgate_storage::{Blob, BlobContent, BlobKey, BlobStore, Result, StorageError, StorageErrorKind};
use url::{Host, Url};

use crate::journal::unavailable;
use crate::runtime::OwnedRuntime;

/// Size of a part, in bytes. All parts except the last have this size, as some servers require. S3
/// allows 10,000 parts, which is about 84 GB.
const PART_BYTES: usize = 8 << 20;
/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time without data from the server.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time for retries of a request.
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of retries of a request.
const MAX_RETRIES: usize = 3;

/// Environment variables with the role credentials of a machine or pod.
pub const ROLE_VARIABLES: [&str; 8] = [
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_ENDPOINT_URL_STS",
    "AWS_METADATA_ENDPOINT",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
];

/// The bucket and the credentials for it.
#[derive(Clone)]
pub struct S3Config {
    /// Name of the bucket, which must exist.
    pub bucket: String,
    /// Region, such as `eu-central-1`.
    pub region: String,
    /// URL of a server other than Amazon's, such as `https://minio.example.com`.
    pub endpoint: Option<String>,
    /// Prefix of all keys: empty, or ending with a slash.
    pub prefix: String,
    /// Whether the bucket is in the path of a URL rather than in the host name.
    pub path_style: bool,
    /// Whether plain HTTP to another machine is allowed.
    pub allow_http: bool,
    /// Credentials for the bucket.
    pub credentials: S3Credentials,
}

/// Credentials for a bucket.
#[derive(Clone)]
pub enum S3Credentials {
    /// An access key.
    Key {
        /// Access key id.
        id: String,
        /// Secret access key.
        secret: SecretString,
        /// Session token, if the key is temporary.
        token: Option<SecretString>,
    },
    /// The role of the machine or pod: the variables of [`ROLE_VARIABLES`] that are set.
    Role(Vec<(&'static str, String)>),
}

impl fmt::Debug for S3Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Config")
            .field("bucket", &self.bucket)
            .field("region", &self.region)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// Checks an endpoint URL. Without `allow_http`, plain HTTP is accepted only for this machine. The
/// error contains no part of the URL.
pub fn check_endpoint(endpoint: &str, allow_http: bool) -> std::result::Result<(), &'static str> {
    let url = Url::parse(endpoint).map_err(|_| "write https://host, or http://127.0.0.1:port")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("remove the user name and the password: set the key in environment variables or files");
    }
    let is_local = match url.host() {
        Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => return Err("the host is missing"),
    };
    match url.scheme() {
        "https" => Ok(()),
        "http" if allow_http || is_local => Ok(()),
        "http" => Err("the connection is unencrypted: write https://, or set allow_http = true"),
        _ => Err("write https://host, or http://127.0.0.1:port"),
    }
}

/// Creates the store without sending a request. The store can be created and used from any number
/// of runtimes.
///
/// Returns `Unavailable` if the settings are invalid.
pub fn open(config: S3Config) -> Result<S3> {
    if let Some(endpoint) = &config.endpoint {
        check_endpoint(endpoint, config.allow_http)
            .map_err(|reason| StorageError::new(StorageErrorKind::Unavailable, reason))?;
    }
    let runtime = OwnedRuntime::start("tollgate-s3").map_err(unavailable)?;
    let client = ClientOptions::new()
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_read_timeout(READ_TIMEOUT)
        // The duration of a response depends on its reader.
        .with_timeout_disabled()
        .with_allow_http(true);
    let retry = RetryConfig {
        max_retries: MAX_RETRIES,
        retry_timeout: RETRY_TIMEOUT,
        ..RetryConfig::default()
    };
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&config.bucket)
        .with_region(&config.region)
        .with_virtual_hosted_style_request(!config.path_style)
        .with_disable_bulk_delete(true)
        .with_retry(retry)
        .with_http_connector(SpawnedReqwestConnector::new(runtime.handle().clone()))
        .with_client_options(client);
    if let Some(endpoint) = &config.endpoint {
        builder = builder.with_endpoint(endpoint_of(endpoint, &config));
    }
    builder = match &config.credentials {
        S3Credentials::Key { id, secret, token } => {
            let builder = builder
                .with_access_key_id(id)
                .with_secret_access_key(secret.expose_secret());
            match token {
                Some(token) => builder.with_token(token.expose_secret()),
                None => builder,
            }
        }
        S3Credentials::Role(variables) => variables.iter().fold(builder, |builder, (name, value)| match name
            .to_ascii_lowercase()
            .parse::<AmazonS3ConfigKey>()
        {
            Ok(key) => builder.with_config(key, value),
            Err(_) => builder,
        }),
    };
    Ok(S3 {
        store: builder.build().map_err(before_writing)?,
        prefix: config.prefix,
        tracker: TaskTracker::new(),
        runtime: Arc::new(runtime),
    })
}

/// Returns the endpoint in the form of the library: with virtual-hosted style it includes the
/// bucket.
fn endpoint_of(endpoint: &str, config: &S3Config) -> String {
    let endpoint = endpoint.trim_end_matches('/');
    match endpoint.split_once("://") {
        Some((scheme, host)) if !config.path_style => format!("{scheme}://{}.{host}", config.bucket),
        _ => endpoint.to_owned(),
    }
}

/// Object store in a bucket.
#[derive(Clone)]
pub struct S3 {
    store: AmazonS3,
    prefix: String,
    tracker: TaskTracker,
    runtime: Arc<OwnedRuntime>,
}

impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl BlobStore for S3 {
    fn name(&self) -> &'static str {
        "s3"
    }

    async fn put(&self, key: BlobKey, content: BlobContent, max_bytes: u64) -> Result<u64> {
        let path = self.path(key);
        let mut parts = Parts::new(content, max_bytes);
        let Some(first) = parts.next().await? else {
            return self.put_small(&path, Bytes::new()).await;
        };
        if first.len() < PART_BYTES {
            return self.put_small(&path, first).await;
        }
        if self.length(key).await?.is_some() {
            return Err(key_taken(&path));
        }
        let upload = self.store.put_multipart(&path).await.map_err(before_writing)?;
        let mut upload = Upload {
            upload: Some(upload),
            tracker: &self.tracker,
            runtime: self.runtime.handle(),
        };
        upload.put_part(first).await?;
        while let Some(part) = parts.next().await? {
            upload.put_part(part).await?;
        }
        // Another upload may have created the key meanwhile. Its object stays.
        if self.length(key).await?.is_some() {
            return Err(key_taken(&path));
        }
        upload.complete().await?;
        Ok(parts.length)
    }

    async fn get(&self, key: BlobKey, range: Option<Range<u64>>) -> Result<Option<Blob>> {
        let path = self.path(key);
        let options = GetOptions {
            range: range.clone().map(GetRange::Bounded),
            ..GetOptions::default()
        };
        match self.store.get_opts(&path, options).await {
            Ok(found) => Ok(Some(Blob {
                length: found.meta.size,
                range: found.range.clone(),
                content: Box::pin(found.into_stream().map(|part| part.map_err(before_writing))),
            })),
            Err(error @ Error::NotFound { .. }) => absent(error),
            // Servers reject a range that contains no byte of the object.
            Err(error) => match self.length(key).await? {
                Some(length) if clamp(range.clone(), length).is_empty() => Ok(Some(Blob {
                    length,
                    range: clamp(range, length),
                    content: tollgate_storage::blob::whole(Bytes::new()),
                })),
                _ => Err(before_writing(error)),
            },
        }
    }

    async fn length(&self, key: BlobKey) -> Result<Option<u64>> {
        match self.store.head(&self.path(key)).await {
            Ok(found) => Ok(Some(found.size)),
            Err(error @ Error::NotFound { .. }) => absent(error),
            Err(error) => Err(before_writing(error)),
        }
    }

    async fn delete(&self, key: BlobKey) -> Result<()> {
        // S3 reports success for a missing object; not found means that the bucket is missing.
        let deleted = self.store.delete(&self.path(key)).await;
        deleted.map_err(before_writing)
    }
}

impl S3 {
    fn path(&self, key: BlobKey) -> Path {
        Path::from(format!("{}{key}", self.prefix))
    }

    async fn put_small(&self, path: &Path, content: Bytes) -> Result<u64> {
        let length = content.len() as u64;
        let options = PutOptions::from(PutMode::Create);
        let put = self.store.put_opts(path, content.into(), options).await;
        put.map(|_| length).map_err(while_writing)
    }
}

/// Content in parts of [`PART_BYTES`] bytes; the last one may have fewer.
struct Parts {
    content: BlobContent,
    /// Bytes read beyond the last part.
    ahead: BytesMut,
    length: u64,
    max_bytes: u64,
}

impl Parts {
    fn new(content: BlobContent, max_bytes: u64) -> Self {
        Self {
            content,
            ahead: BytesMut::new(),
            length: 0,
            max_bytes,
        }
    }

    async fn next(&mut self) -> Result<Option<Bytes>> {
        while self.ahead.len() < PART_BYTES {
            let Some(chunk) = self.content.next().await else {
                break;
            };
            let chunk = chunk?;
            self.length += chunk.len() as u64;
            if self.length > self.max_bytes {
                return Err(too_large(self.max_bytes));
            }
            self.ahead.extend_from_slice(&chunk);
        }
        if self.ahead.is_empty() {
            return Ok(None);
        }
        let part = self.ahead.len().min(PART_BYTES);
        Ok(Some(self.ahead.split_to(part).freeze()))
    }
}

/// An upload that is aborted if it is dropped before it is complete.
struct Upload<'s> {
    upload: Option<Box<dyn MultipartUpload>>,
    tracker: &'s TaskTracker,
    runtime: &'s Handle,
}

impl Upload<'_> {
    async fn put_part(&mut self, part: Bytes) -> Result<()> {
        match &mut self.upload {
            Some(upload) => upload.put_part(part.into()).await.map_err(before_writing),
            None => Ok(()),
        }
    }

    async fn complete(mut self) -> Result<()> {
        if let Some(upload) = &mut self.upload {
            upload.complete().await.map_err(while_writing)?;
        }
        self.upload = None;
        Ok(())
    }
}

impl Drop for Upload<'_> {
    fn drop(&mut self) {
        if let Some(mut upload) = self.upload.take() {
            let abort = async move {
                if let Err(error) = upload.abort().await {
                    tracing::warn!(%error, "cannot abort the upload of an object");
                }
            };
            self.tracker.spawn_on(abort, self.runtime);
        }
    }
}

/// Converts a not-found error to `None`, unless the bucket is missing.
fn absent<T>(error: Error) -> Result<Option<T>> {
    match error.to_string().contains("NoSuchBucket") {
        true => Err(before_writing(error)),
        false => Ok(None),
    }
}

fn key_taken(path: &Path) -> StorageError {
    StorageError::new(StorageErrorKind::Conflict, format!("{path} already exists"))
}

/// Converts an error that changed nothing to `Unavailable`.
fn before_writing(error: Error) -> StorageError {
    StorageError::new(StorageErrorKind::Unavailable, error)
}

/// Converts an error of the request that creates an object. After a `Timeout`, the object may
/// exist.
fn while_writing(error: Error) -> StorageError {
    let kind = match &error {
        Error::AlreadyExists { .. } | Error::Precondition { .. } => StorageErrorKind::Conflict,
        Error::Generic { .. } => StorageErrorKind::Timeout,
        _ => StorageErrorKind::Unavailable,
    };
    StorageError::new(kind, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_without_tls_are_on_this_machine() {
        for (endpoint, allow_http, fine) in [
            ("https://s3.example.com", false, true),
            ("https://s3.example.com:9000/", false, true),
            ("http://127.0.0.1:9000", false, true),
            ("http://[::1]:9000", false, true),
            ("http://localhost:9000", false, true),
            ("http://10.0.0.5:9000", false, false),
            ("http://10.0.0.5:9000", true, true),
            ("http://127.0.0.1.example.com", false, false),
            ("https://user:secret@s3.example.com", false, false),
            ("s3://bucket", true, false),
            ("s3.example.com", true, false),
            ("", false, false),
        ] {
            assert_eq!(check_endpoint(endpoint, allow_http).is_ok(), fine, "{endpoint}");
        }
    }

    #[test]
    fn every_variable_of_roles_is_known() {
        for name in ROLE_VARIABLES {
            let key = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>();
            assert!(key.is_ok(), "{name}");
        }
    }
}
