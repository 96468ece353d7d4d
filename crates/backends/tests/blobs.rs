//! Tests of blob stores: files in a temporary directory, and a test server with the S3 protocol.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "blobs/files.rs"]
mod files;
#[path = "blobs/s3.rs"]
mod s3;

use tokio::runtime::Builder;
use tollgate_storage::BlobKey;
use tollgate_types::AccountId;

fn block_on<T>(test: impl Future<Output = T>) -> T {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(test)
}

fn key(object: u128) -> BlobKey {
    BlobKey {
        account: AccountId::from_u128(7),
        object,
    }
}
