//! Media: whether their bytes can be kept.

use tollgate_storage::blob::probe;
use tollgate_storage::{BlobKey, StorageError};
use tollgate_studio::{Tools, how_to_install};
use tollgate_types::AccountId;

use super::Finding;
use crate::config::file::MediaStoreSetting;
use crate::config::{Config, StorageUrl};
use crate::media;

const WHAT: &str = "media";

/// Keeps a small object, reads it back and deletes it.
pub async fn look(config: &Config) -> Finding {
    let (place, remedy) = match config.file.media.store {
        MediaStoreSetting::Files if !config.data.exists() => {
            return Finding::note(
                WHAT,
                format!("{} does not exist yet", config.data.join(media::FOLDER).display()),
                "the first object makes it",
            );
        }
        MediaStoreSetting::Files => (
            config.data.join(media::FOLDER).display().to_string(),
            "run as the user that owns it, give it to this user with chown, or free space on its disk",
        ),
        MediaStoreSetting::S3 => (
            "the bucket".to_owned(),
            "check [media.s3], and that its key may do GetObject, PutObject, DeleteObject and AbortMultipartUpload there",
        ),
    };
    match try_out(config).await {
        Err(error) => Finding::fault(
            WHAT,
            format!("an object cannot be kept in {place}: {error:#}"),
            remedy,
        ),
        Ok(()) if is_apart(config) => Finding::note(
            WHAT,
            format!("objects can be kept in {place}, which other nodes do not see"),
            "set media.store = \"s3\" before a second node is started",
        ),
        Ok(()) => Finding::fine(WHAT, format!("objects can be kept in {place}")),
    }
}

/// Which programs are there that make films and speech.
pub fn programs() -> Finding {
    const WHAT: &str = "films";
    let missing = Tools::find().missing();
    if missing.is_empty() {
        return Finding::fine(
            WHAT,
            "the programs for films and speech and the font of captions are installed",
        );
    }
    let names: Vec<&str> = missing.iter().map(|one| one.name).collect();
    let what = format!(
        "{} not found: without {} some films, compositions, and speech and transcripts of the simulator are not made",
        names.join(", "),
        if names.len() == 1 { "it" } else { "them" }
    );
    Finding::note(WHAT, what, how_to_install(&missing))
}

async fn try_out(config: &Config) -> anyhow::Result<()> {
    let store = media::open(config)?;
    let mut object = [0_u8; 16];
    getrandom::fill(&mut object).map_err(|error| anyhow::anyhow!("no random bytes: {error}"))?;
    let key = BlobKey {
        // No account has it.
        account: AccountId::from_u128(0),
        object: u128::from_ne_bytes(object),
    };
    probe(&*store, key)
        .await
        .map_err(|StorageError { source, .. }| anyhow::anyhow!(source))
}

fn is_apart(config: &Config) -> bool {
    let has_nodes = matches!(config.storage, StorageUrl::Postgres(_));
    has_nodes && config.file.media.store == MediaStoreSetting::Files
}
