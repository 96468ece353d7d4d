//! Objects encrypted at rest: a [`BlobStore`] that wraps another one.
//!
//! An object begins with [`MAGIC`] and 16 random bytes. Chunks of 64 KiB follow, each encrypted
//! with AES-256-GCM and followed by its tag; the last chunk has the remaining bytes and may be
//! empty. The key is derived from the installation's pepper, the account, the object and the random
//! bytes. The nonce contains the number of the chunk and a flag for the last chunk (the STREAM
//! construction of Hoang, Reyhanitabar, Rogaway and Vizár, 2015). A chunk therefore decrypts only
//! at its position in its object, and decryption of a truncated object fails at its end.
//!
//! Objects of earlier versions have no such header and are returned unchanged.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use bytes::{Buf, Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use tollgate_storage::blob::{clamp, too_large};
use tollgate_storage::{Blob, BlobContent, BlobKey, BlobStore, Result, StorageError, StorageErrorKind};

use crate::secret::Pepper;

/// First bytes of an encrypted object. No supported file type starts with these bytes.
const MAGIC: [u8; 8] = *b"\x93TGSEAL1";
/// Length of the salt after the magic bytes, in bytes.
const SALT: usize = 16;
const HEADER: usize = MAGIC.len() + SALT;
/// Number of plain bytes of a full chunk.
const CHUNK: usize = 64 << 10;
const TAG: usize = 16;
const SEALED_CHUNK: u64 = (CHUNK + TAG) as u64;

/// Store that encrypts objects and stores them in another store.
pub struct SealedBlobs {
    inner: Arc<dyn BlobStore>,
    pepper: Pepper,
}

impl fmt::Debug for SealedBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealedBlobs({})", self.inner.name())
    }
}

impl SealedBlobs {
    /// Creates a store that encrypts the objects in `inner`, with keys of the installation with
    /// this pepper.
    pub fn new(inner: Arc<dyn BlobStore>, pepper: Pepper) -> Self {
        Self { inner, pepper }
    }

    fn key(&self, object: BlobKey, salt: &[u8]) -> Result<LessSafeKey> {
        let salt: String = salt.iter().map(|byte| format!("{byte:02x}")).collect();
        let secret = self.pepper.digest(&format!("object {object} {salt}"));
        let key = UnboundKey::new(&AES_256_GCM, &secret);
        Ok(LessSafeKey::new(key.map_err(|_| {
            corrupt("cannot derive the encryption key of an object")
        })?))
    }

    /// Opens an object and reads its header, or the whole object if it is shorter.
    async fn opened(&self, key: BlobKey, range: Option<Range<u64>>) -> Result<Option<(Blob, BytesMut)>> {
        let Some(mut blob) = self.inner.get(key, range).await? else {
            return Ok(None);
        };
        let mut head = BytesMut::new();
        while head.len() < HEADER
            && let Some(part) = blob.content.next().await
        {
            head.extend_from_slice(&part?);
        }
        Ok(Some((blob, head)))
    }

    async fn whole(&self, key: BlobKey) -> Result<Option<Blob>> {
        let Some((blob, mut head)) = self.opened(key, None).await? else {
            return Ok(None);
        };
        let Some(salt) = salt(&head).map(<[u8]>::to_vec) else {
            let content = stream::iter([Ok(head.freeze())]).chain(blob.content);
            let content = Box::pin(content);
            return Ok(Some(Blob { content, ..blob }));
        };
        let length = plain_length(blob.length)?;
        head.advance(HEADER);
        let opening = Opening {
            content: blob.content,
            key: self.key(key, &salt)?,
            buffer: head,
            index: 0,
            length,
            range: 0..length,
        };
        Ok(Some(opening.blob()))
    }

    async fn part(&self, key: BlobKey, range: Range<u64>) -> Result<Option<Blob>> {
        let Some((blob, head)) = self.opened(key, Some(0..HEADER as u64)).await? else {
            return Ok(None);
        };
        let Some(salt) = salt(&head) else {
            return self.inner.get(key, Some(range)).await;
        };
        let length = plain_length(blob.length)?;
        let range = clamp(Some(range), length);
        if range.is_empty() {
            let content = Box::pin(stream::empty());
            return Ok(Some(Blob {
                length,
                range,
                content,
            }));
        }
        let (first, last) = (range.start / CHUNK as u64, (range.end - 1) / CHUNK as u64);
        let place = |chunk: u64| HEADER as u64 + chunk * SEALED_CHUNK;
        let Some(sealed) = self.inner.get(key, Some(place(first)..place(last + 1))).await? else {
            return Ok(None);
        };
        let opening = Opening {
            content: sealed.content,
            key: self.key(key, salt)?,
            buffer: BytesMut::new(),
            index: first,
            length,
            range,
        };
        Ok(Some(opening.blob()))
    }
}

#[async_trait]
impl BlobStore for SealedBlobs {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    async fn put(&self, key: BlobKey, content: BlobContent, max_bytes: u64) -> Result<u64> {
        let mut header = MAGIC.to_vec();
        header.resize(HEADER, 0);
        let (_, salt) = header.split_at_mut(MAGIC.len());
        getrandom::fill(salt)
            .map_err(|error| StorageError::new(StorageErrorKind::Unavailable, error.to_string()))?;
        let sealing = Sealing {
            key: self.key(key, salt)?,
            content,
            pending: Bytes::new(),
            chunk: Vec::with_capacity(CHUNK + TAG),
            index: 0,
            length: 0,
            max_bytes,
            has_ended: false,
        };
        let header = stream::iter([Ok(Bytes::from(header))]);
        let sealed = header.chain(stream::try_unfold(sealing, Sealing::next));
        let written = self
            .inner
            .put(key, Box::pin(sealed), sealed_length(max_bytes))
            .await?;
        plain_length(written)
    }

    async fn get(&self, key: BlobKey, range: Option<Range<u64>>) -> Result<Option<Blob>> {
        match range {
            None => self.whole(key).await,
            Some(range) => self.part(key, range).await,
        }
    }

    async fn length(&self, key: BlobKey) -> Result<Option<u64>> {
        let Some((blob, head)) = self.opened(key, Some(0..HEADER as u64)).await? else {
            return Ok(None);
        };
        match salt(&head) {
            Some(_) => plain_length(blob.length).map(Some),
            None => Ok(Some(blob.length)),
        }
    }

    async fn delete(&self, key: BlobKey) -> Result<()> {
        self.inner.delete(key).await
    }
}

/// Encryption of an object while it streams.
struct Sealing {
    key: LessSafeKey,
    content: BlobContent,
    /// Received bytes that do not belong to a chunk yet.
    pending: Bytes,
    chunk: Vec<u8>,
    index: u64,
    length: u64,
    max_bytes: u64,
    has_ended: bool,
}

impl Sealing {
    /// Returns the next chunk. A full chunk is the last one only if no bytes follow.
    async fn next(mut self) -> Result<Option<(Bytes, Self)>> {
        if self.has_ended {
            return Ok(None);
        }
        loop {
            if self.pending.is_empty() {
                match self.content.next().await.transpose()? {
                    Some(part) => {
                        self.length = self.length.saturating_add(part.len() as u64);
                        if self.length > self.max_bytes {
                            return Err(too_large(self.max_bytes));
                        }
                        self.pending = part;
                        continue;
                    }
                    None => self.has_ended = true,
                }
            }
            if self.has_ended || self.chunk.len() == CHUNK {
                let next = Vec::with_capacity(CHUNK + TAG);
                let mut chunk = std::mem::replace(&mut self.chunk, next);
                let nonce = nonce(self.index, self.has_ended);
                self.key
                    .seal_in_place_append_tag(nonce, Aad::empty(), &mut chunk)
                    .map_err(|_| corrupt("an object cannot be encrypted"))?;
                self.index += 1;
                return Ok(Some((chunk.into(), self)));
            }
            let taken = self.pending.len().min(CHUNK - self.chunk.len());
            self.chunk.extend_from_slice(&self.pending.split_to(taken));
        }
    }
}

/// Decryption of an object while it streams, from the chunk `index`.
struct Opening {
    content: BlobContent,
    key: LessSafeKey,
    buffer: BytesMut,
    index: u64,
    /// Plain length of the object, in bytes.
    length: u64,
    /// Range of the object that is not returned yet.
    range: Range<u64>,
}

impl Opening {
    fn blob(self) -> Blob {
        let (length, range) = (self.length, self.range.clone());
        // The empty object has one chunk, which authenticates its length.
        let is_over = self.range.is_empty() && length > 0;
        let content = stream::try_unfold((self, is_over), |(opening, is_over)| async move {
            match is_over {
                true => Ok(None),
                false => opening.next().await,
            }
        });
        Blob {
            length,
            range,
            content: Box::pin(content),
        }
    }

    async fn next(mut self) -> Result<Option<(Bytes, (Self, bool))>> {
        let start = self.index * CHUNK as u64;
        let plain = (self.length - start).min(CHUNK as u64);
        let is_last = start + plain == self.length;
        let size = usize::try_from(plain).unwrap_or(CHUNK) + TAG;
        while self.buffer.len() < size {
            let part = self.content.next().await.transpose()?;
            let part = part.ok_or_else(|| corrupt("the object was truncated while it was read"))?;
            self.buffer.extend_from_slice(&part);
        }
        let mut chunk = self.buffer.split_to(size);
        self.key
            .open_in_place(nonce(self.index, is_last), Aad::empty(), &mut chunk)
            .map_err(|_| corrupt("the object was modified, or was encrypted with another pepper"))?;
        let within = |place: u64| usize::try_from(place.clamp(start, start + plain) - start).unwrap_or(CHUNK);
        let (from, to) = (within(self.range.start), within(self.range.end));
        chunk.truncate(to);
        chunk.advance(from);
        self.index += 1;
        self.range.start = (start + plain).min(self.range.end);
        let is_over = self.range.is_empty();
        Ok(Some((chunk.freeze(), (self, is_over))))
    }
}

/// Returns the salt of an encrypted object; `None` for one that is not encrypted.
fn salt(head: &[u8]) -> Option<&[u8]> {
    head.strip_prefix(&MAGIC)?.get(..SALT)
}

fn nonce(chunk: u64, is_last: bool) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[0] = u8::from(is_last);
    nonce[NONCE_LEN - 8..].copy_from_slice(&chunk.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// Returns the encrypted length of an object of `plain` bytes.
fn sealed_length(plain: u64) -> u64 {
    let chunks = plain.div_ceil(CHUNK as u64).max(1);
    plain
        .saturating_add(chunks * TAG as u64)
        .saturating_add(HEADER as u64)
}

/// Returns the plain length of an encrypted object. `Corrupt` if no object has this encrypted
/// length.
fn plain_length(sealed: u64) -> Result<u64> {
    let chunks = sealed.saturating_sub(HEADER as u64).div_ceil(SEALED_CHUNK);
    let plain = sealed.checked_sub(HEADER as u64 + chunks * TAG as u64);
    plain
        .filter(|plain| sealed_length(*plain) == sealed)
        .ok_or_else(|| corrupt("the object was truncated while it was read"))
}

fn corrupt(what: &'static str) -> StorageError {
    StorageError::new(StorageErrorKind::Corrupt, what)
}

#[cfg(test)]
mod tests;
