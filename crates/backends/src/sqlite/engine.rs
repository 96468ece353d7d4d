//! Implements [`Engine`] on SQLite.

use async_trait::async_trait;
use tokio::sync::oneshot;
use tollgate_storage::{Engine, Result, StorageError, StorageErrorKind};

use super::writer::{Command, execute};
use super::{Sqlite, stopped, unavailable};
use crate::ids::lock;

#[async_trait]
impl Engine for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    async fn ping(&self) -> Result<()> {
        self.fatal.check()?;
        if self.is_failing() {
            let why = "the database cannot be written";
            return Err(StorageError::new(StorageErrorKind::Unavailable, why));
        }
        self.read(|connection| Box::pin(execute(connection, "SELECT 1")))
            .await
    }

    async fn failed(&self) -> String {
        self.fatal.reported().await
    }

    async fn flush(&self) -> Result<()> {
        (**self).flush(true).await
    }

    async fn close(&self) -> Result<()> {
        let (done, answer) = oneshot::channel();
        // A checkpoint can truncate the write-ahead log only without readers.
        self.readers.close().await;
        self.inbox.send(Command::Close { done });
        let closed = answer.await.map_err(stopped)?;
        self.journal.stop_syncer();
        let syncer = lock(&self.0.syncer).take();
        if let Some(syncer) = syncer {
            let joined = self.runtime.spawn_blocking(move || syncer.join());
            joined
                .await
                .map_err(stopped)?
                .map_err(|_| stopped("the journal's thread panicked"))?;
        }
        if closed.is_ok() {
            self.journal.remove().map_err(unavailable)?;
        }
        self.lock.release();
        closed
    }
}
