//! Tests specific to buckets: interrupted uploads, wrong settings, an unavailable server.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, future, stream};
use tollgate_backends::s3::{self, S3Config, S3Credentials};
use tollgate_storage::blob::whole;
use tollgate_storage::conformance::{Blobs, BoxFuture};
use tollgate_storage::{BlobContent, BlobStore, StorageError, StorageErrorKind};
use tollgate_testkit::s3::{BUCKET, S3Server};

use crate::{block_on, key};

/// Conformance suite of all blob stores.
mod conformance {
    tollgate_storage::blob_conformance_tests!(crate::s3::run);
}

fn run(case: impl FnOnce(Blobs) -> BoxFuture<()>) {
    block_on(async {
        let server = S3Server::start().await;
        let config = config(&server);
        let open = move || Arc::new(s3::open(config.clone()).unwrap()) as Arc<dyn BlobStore>;
        case(Blobs::new(open)).await;
        until_no_upload_is_open(&server).await;
    });
}

fn config(server: &S3Server) -> S3Config {
    S3Config {
        bucket: BUCKET.to_owned(),
        region: "us-east-1".to_owned(),
        endpoint: Some(server.url()),
        prefix: "installation/".to_owned(),
        path_style: true,
        allow_http: false,
        credentials: S3Credentials::Key {
            id: "id".to_owned(),
            secret: "canary".into(),
            token: None,
        },
    }
}

async fn until_no_upload_is_open(server: &S3Server) {
    while server.open_uploads().await > 0 {}
}

/// Returns content of 20 MB, which is three parts.
fn parts() -> BlobContent {
    let chunk = Bytes::from(vec![7; 1_000_000]);
    Box::pin(stream::iter(vec![chunk; 20]).map(Ok))
}

/// An upload that fails or is dropped is aborted, which removes its parts.
#[test]
fn uploads_are_aborted() {
    block_on(async {
        let server = S3Server::start().await;
        let store = s3::open(config(&server)).unwrap();
        let error = StorageError::new(StorageErrorKind::Timeout, "the sender is gone");
        let failing = parts().chain(stream::once(async { Err(error) }));
        let put = store.put(key(1), Box::pin(failing), u64::MAX).await;
        assert_eq!(put.unwrap_err().kind, StorageErrorKind::Timeout);
        until_no_upload_is_open(&server).await;

        let (taken, all_taken) = tokio::sync::oneshot::channel();
        let end = stream::once(async move {
            let _ = taken.send(());
            future::pending().await
        });
        let mut put = store.put(key(1), Box::pin(parts().chain(end)), u64::MAX);
        tokio::select! {
            put = &mut put => panic!("its content has not ended: {put:?}"),
            taken = all_taken => taken.unwrap(),
        }
        assert_eq!(server.open_uploads().await, 1);
        drop(put);
        until_no_upload_is_open(&server).await;
        assert_eq!(server.keys().await, [""; 0]);
    });
}

/// Keys begin with the installation's prefix and the account.
#[test]
fn keys_are_under_the_prefix() {
    block_on(async {
        let server = S3Server::start().await;
        let store = s3::open(config(&server)).unwrap();
        store.put(key(0xab), whole("text"), 9).await.unwrap();
        let account = key(0).account;
        assert_eq!(
            server.keys().await,
            [format!("installation/{account}/00/{:032x}", 0xab)]
        );
        assert!(!format!("{store:?} {:?}", config(&server)).contains("canary"));
    });
}

/// A missing bucket is an error, not a missing object, because the bucket's name may be wrong.
#[test]
fn missing_bucket_is_no_missing_object() {
    block_on(async {
        let server = S3Server::start().await;
        let config = S3Config {
            bucket: "other".to_owned(),
            ..config(&server)
        };
        let store = s3::open(config).unwrap();
        for result in [
            store.put(key(1), whole("text"), 9).await.map(drop),
            store.get(key(1), None).await.map(drop),
            store.delete(key(1)).await,
        ] {
            assert_eq!(result.unwrap_err().kind, StorageErrorKind::Unavailable);
        }
    });
}

/// An unavailable server is an error, not a missing object.
#[test]
fn unreachable_servers_are_unavailable() {
    block_on(async {
        let server = S3Server::start().await;
        let store = s3::open(config(&server)).unwrap();
        drop(server);
        assert!(store.put(key(1), whole("text"), 9).await.is_err());
        for result in [
            store.get(key(1), None).await.map(drop),
            store.length(key(1)).await.map(drop),
            store.delete(key(1)).await,
        ] {
            assert_eq!(result.unwrap_err().kind, StorageErrorKind::Unavailable);
        }
    });
}
