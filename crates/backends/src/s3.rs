//! [`BlobStore`] in a bucket of S3, or of what speaks like it.
//!
//! What fits one part is one request, which is refused when the key is taken. More is uploaded part by part, and there at
//! once with the last request; an upload that fails or that nobody waits for is aborted. What a process that dies has
//! uploaded is found by nobody; a lifecycle rule of the bucket clears it away.

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

/// Bytes of a part. All parts but the last have the same, as some servers want it, and S3 takes 10,000: 80 GB.
const PART: usize = 8 << 20;
/// Longest wait for a connection.
const CONNECTING: Duration = Duration::from_secs(5);
/// Longest silence of the server.
const SILENCE: Duration = Duration::from_secs(30);
/// How long a request is tried again.
const TRYING: Duration = Duration::from_secs(20);
/// How often.
const RETRIES: usize = 3;

/// Variables that say how a machine or a pod gets the keys of its role.
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

/// Where the bucket is and as whom it is used.
#[derive(Clone)]
pub struct S3Config {
    /// Name of the bucket. It is there already.
    pub bucket: String,
    /// Such as `eu-central-1`.
    pub region: String,
    /// Where a server is that is not Amazon's, such as `https://minio.example.com`.
    pub endpoint: Option<String>,
    /// What keys begin with; empty, or it ends with a slash.
    pub prefix: String,
    /// Whether the bucket stands in the path of an address, and not in the name of its host.
    pub path_style: bool,
    /// Whether the endpoint may be spoken to in the open although it is another machine.
    pub allow_http: bool,
    /// As whom.
    pub credentials: S3Credentials,
}

/// As whom a bucket is used.
#[derive(Clone)]
pub enum S3Credentials {
    /// A key of an account.
    Key {
        /// Its id.
        id: String,
        /// Its secret.
        secret: SecretString,
        /// The token of a temporary one.
        token: Option<SecretString>,
    },
    /// The role of the machine or pod; what is set of [`ROLE_VARIABLES`].
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

/// Whether this is an address that a bucket may be at; what is wrong with it otherwise, without what it holds.
pub fn check_endpoint(endpoint: &str, allow_http: bool) -> std::result::Result<(), &'static str> {
    let url = Url::parse(endpoint).map_err(|_| "write https://host, or http://127.0.0.1:port")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("an address has no user and no password: name the key's variables or files");
    }
    let is_here = match url.host() {
        Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => return Err("it names no host"),
    };
    match url.scheme() {
        "https" => Ok(()),
        "http" if allow_http || is_here => Ok(()),
        "http" => {
            Err("without TLS everybody on the way reads along: write https://, or set allow_http = true")
        }
        _ => Err("write https://host, or http://127.0.0.1:port"),
    }
}

/// Prepares to use a bucket; nothing is asked of the server before the first object. Can be called, and the store used,
/// from any number of runtimes.
///
/// `Unavailable` when the settings cannot be those of a bucket.
pub fn open(config: S3Config) -> Result<S3> {
    if let Some(endpoint) = &config.endpoint {
        check_endpoint(endpoint, config.allow_http)
            .map_err(|reason| StorageError::new(StorageErrorKind::Unavailable, reason))?;
    }
    let runtime = OwnedRuntime::start("tollgate-s3").map_err(unavailable)?;
    let client = ClientOptions::new()
        .with_connect_timeout(CONNECTING)
        .with_read_timeout(SILENCE)
        // A whole answer takes as long as its reader.
        .with_timeout_disabled()
        .with_allow_http(true);
    let retry = RetryConfig {
        max_retries: RETRIES,
        retry_timeout: TRYING,
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

/// The library wants the bucket within the address where it stands in the name of the host.
fn endpoint_of(endpoint: &str, config: &S3Config) -> String {
    let endpoint = endpoint.trim_end_matches('/');
    match endpoint.split_once("://") {
        Some((scheme, host)) if !config.path_style => format!("{scheme}://{}.{host}", config.bucket),
        _ => endpoint.to_owned(),
    }
}

/// Objects in a bucket.
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

    async fn put(&self, key: BlobKey, content: BlobContent, most: u64) -> Result<u64> {
        let path = self.path(key);
        let mut parts = Parts::new(content, most);
        let Some(first) = parts.next().await? else {
            return self.put_small(&path, Bytes::new()).await;
        };
        if first.len() < PART {
            return self.put_small(&path, first).await;
        }
        if self.length(key).await?.is_some() {
            return Err(is_taken(&path));
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
        // Somebody may have taken the key meanwhile; then what was there first stays.
        if self.length(key).await?.is_some() {
            return Err(is_taken(&path));
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
            // A server refuses a range that has no byte of the object.
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
        // S3 answers that it is deleted when it is not there; what it cannot find is the bucket.
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

/// Content in parts of [`PART`] bytes; the last one may have fewer.
struct Parts {
    content: BlobContent,
    /// What was read beyond the last part.
    ahead: BytesMut,
    length: u64,
    most: u64,
}

impl Parts {
    fn new(content: BlobContent, most: u64) -> Self {
        Self {
            content,
            ahead: BytesMut::new(),
            length: 0,
            most,
        }
    }

    async fn next(&mut self) -> Result<Option<Bytes>> {
        while self.ahead.len() < PART {
            let Some(piece) = self.content.next().await else {
                break;
            };
            let piece = piece?;
            self.length += piece.len() as u64;
            if self.length > self.most {
                return Err(too_large(self.most));
            }
            self.ahead.extend_from_slice(&piece);
        }
        if self.ahead.is_empty() {
            return Ok(None);
        }
        let part = self.ahead.len().min(PART);
        Ok(Some(self.ahead.split_to(part).freeze()))
    }
}

/// An upload that is aborted when it is dropped before it is complete.
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

/// An object that is not there, unless it is the bucket that is not.
fn absent<T>(error: Error) -> Result<Option<T>> {
    match error.to_string().contains("NoSuchBucket") {
        true => Err(before_writing(error)),
        false => Ok(None),
    }
}

fn is_taken(path: &Path) -> StorageError {
    StorageError::new(StorageErrorKind::Conflict, format!("{path} is taken"))
}

/// A failure after which nothing is there that was not before.
fn before_writing(error: Error) -> StorageError {
    StorageError::new(StorageErrorKind::Unavailable, error)
}

/// A failure of the request that makes an object.
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
