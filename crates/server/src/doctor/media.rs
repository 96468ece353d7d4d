//! Checks of the media store and the media programs.

use tollgate_media_tools::{Tools, how_to_install};
use tollgate_storage::blob::probe;
use tollgate_storage::{BlobKey, StorageError};
use tollgate_types::AccountId;

use super::Finding;
use crate::config::file::MediaStoreSetting;
use crate::config::{Config, StorageUrl};
use crate::media;

const SUBJECT: &str = "media";

/// Checks that the media store can store, read and delete a small object.
pub async fn check(config: &Config) -> Finding {
    let (place, remedy) = match config.file.media.store {
        MediaStoreSetting::Files if !config.data.exists() => {
            return Finding::note(
                SUBJECT,
                format!("{} does not exist yet", config.data.join(media::FOLDER).display()),
                "the gateway creates it when it stores the first object",
            );
        }
        MediaStoreSetting::Files => (
            config.data.join(media::FOLDER).display().to_string(),
            "run as its owner, change its owner with chown, or free space on its disk",
        ),
        MediaStoreSetting::S3 => (
            "the bucket".to_owned(),
            "check [media.s3]; its key needs the permissions GetObject, PutObject, DeleteObject and AbortMultipartUpload",
        ),
    };
    match probe_store(config).await {
        Err(error) => Finding::fault(
            SUBJECT,
            format!("cannot store, read and delete an object in {place}: {error:#}"),
            remedy,
        ),
        Ok(()) if is_local_to_node(config) => Finding::note(
            SUBJECT,
            format!("objects can be stored in {place}, which other nodes may not share"),
            "share the directory between all nodes, or set media.store = \"s3\" before you start a second node",
        ),
        Ok(()) => Finding::fine(SUBJECT, format!("objects can be stored in {place}")),
    }
}

/// Reports missing programs for video and speech, and a missing font for captions.
pub fn programs() -> Finding {
    const SUBJECT: &str = "media programs";
    let missing = Tools::find().missing();
    if missing.is_empty() {
        return Finding::fine(
            SUBJECT,
            "the programs for video and speech and the font for captions are installed",
        );
    }
    let names: Vec<&str> = missing.iter().map(|one| one.name).collect();
    let what = format!(
        "{} not found: some videos, compositions, and compressed audio of the simulator need {}",
        names.join(", "),
        if names.len() == 1 { "it" } else { "them" }
    );
    Finding::note(SUBJECT, what, how_to_install(&missing))
}

async fn probe_store(config: &Config) -> anyhow::Result<()> {
    let store = media::open_plain(config)?;
    let mut object = [0_u8; 16];
    getrandom::fill(&mut object).map_err(|error| anyhow::anyhow!("cannot obtain random bytes: {error}"))?;
    let key = BlobKey {
        // No account has this id.
        account: AccountId::from_u128(0),
        object: u128::from_ne_bytes(object),
    };
    probe(&*store, key)
        .await
        .map_err(|StorageError { source, .. }| anyhow::anyhow!(source))
}

fn is_local_to_node(config: &Config) -> bool {
    let has_nodes = matches!(config.storage, StorageUrl::Postgres(_));
    has_nodes && config.file.media.store == MediaStoreSetting::Files
}
