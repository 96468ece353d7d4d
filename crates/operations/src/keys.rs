//! Commands on API keys.

use serde::{Deserialize, Serialize};
use tollgate_accounts::KeyParams;
use tollgate_storage::{Compat, Key, KeyChange, KeyMode};
use tollgate_types::{AccountId, Error, ErrorCode, KeyId};

use crate::accounts::find;
use crate::credits::in_days;
use crate::operation::{Completed, Declaration, Operation};
use crate::permission::Permission;
use crate::view::{CreatedKeyView, KeyView};
use crate::{Actor, Operations};

/// Creates a key. The reply contains the key itself, which is returned only once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CreateKey {
    /// Account that owns the key.
    pub account: AccountId,
    /// Display name of the key.
    pub name: String,
    /// Number of days until the key expires; `None` for never.
    pub expires_in_days: Option<u32>,
    /// Compatibility level: `strict`, `standard` (default) or `lenient`.
    #[serde(default)]
    pub compat: Option<String>,
    /// Whether to create a test key, which reaches only simulated models and spends no credits.
    #[serde(default)]
    pub test: bool,
    /// Whether image requests wait for the images by default, instead of returning a job.
    #[serde(default)]
    pub sync: bool,
}

impl Operation for CreateKey {
    const NAME: &'static str = "create_key";
    type Reply = CreatedKeyView;

    fn declaration(&self) -> Declaration {
        Declaration::change("key.create", Permission::Keys).extending(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let mode = if self.test { KeyMode::Test } else { KeyMode::Live };
        let expires_at = self
            .expires_in_days
            .map(|days| in_days(operations.clock.now(), days));
        let params = KeyParams {
            name: self.name,
            mode,
            compat: read_compat(self.compat.as_deref())?.unwrap_or_default(),
            sync: self.sync,
            expires_at: expires_at.transpose()?,
        };
        let (key, secret) = operations.keys.create(self.account, params).await?;
        let view = CreatedKeyView {
            id: key.id,
            key: secret.reveal().to_owned(),
        };
        Ok(view.into())
    }
}

/// Lists the keys of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListKeys {
    pub account: AccountId,
}

impl Operation for ListKeys {
    const NAME: &'static str = "list_keys";
    type Reply = Vec<KeyView>;

    fn declaration(&self) -> Declaration {
        Declaration::read().of_account(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        find(operations, self.account).await?;
        let keys = operations.keys.list(self.account).await?;
        Ok(view_keys(operations, self.account, &keys).await?.into())
    }
}

/// Changes the settings of a key; `None` leaves a setting unchanged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangeKey {
    pub id: KeyId,
    /// Compatibility level: `strict`, `standard` or `lenient`.
    pub compat: Option<String>,
    /// Whether image requests wait for the images by default.
    pub sync: Option<bool>,
}

impl Operation for ChangeKey {
    const NAME: &'static str = "change_key";
    type Reply = KeyView;

    fn declaration(&self) -> Declaration {
        Declaration::change("key.change", Permission::Keys).of_object(self.id)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let compat = read_compat(self.compat.as_deref())?;
        let change = KeyChange {
            compat,
            sync: self.sync,
        };
        let key = operations.keys.change(self.id, change).await?;
        Ok(view_key(operations, &key).await.into())
    }
}

/// Revokes a key permanently.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RevokeKey {
    pub id: KeyId,
}

impl Operation for RevokeKey {
    const NAME: &'static str = "revoke_key";
    type Reply = KeyView;

    fn declaration(&self) -> Declaration {
        Declaration::change("key.revoke", Permission::Keys).of_object(self.id)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let key = operations.keys.revoke(self.id).await?;
        Ok(view_key(operations, &key).await.into())
    }
}

/// Returns the views of an account's keys with their last use.
async fn view_keys(operations: &Operations, account: AccountId, keys: &[Key]) -> Result<Vec<KeyView>, Error> {
    let used = operations.storage.usage.last_used(account).await;
    let used = used.map_err(Error::internal)?;
    let now = operations.clock.now();
    let view = |key: &Key| KeyView::of(key, used.get(&key.id).copied(), now);
    Ok(keys.iter().map(view).collect())
}

/// Returns the view of a changed key. If its last use cannot be read, the view omits it, because
/// the change has succeeded.
async fn view_key(operations: &Operations, key: &Key) -> KeyView {
    let used = operations.storage.usage.last_used(key.account).await.ok();
    let used = used.and_then(|used| used.get(&key.id).copied());
    KeyView::of(key, used, operations.clock.now())
}

fn read_compat(name: Option<&str>) -> Result<Option<Compat>, Error> {
    let unknown = || {
        let message = "'compat' must be 'strict', 'standard' or 'lenient'.";
        Error::new(ErrorCode::InvalidParameter, message).with_param("compat")
    };
    name.map(|name| Compat::parse(name).ok_or_else(unknown))
        .transpose()
}
