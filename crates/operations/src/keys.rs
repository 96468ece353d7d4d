//! Commands on API keys.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tollgate_accounts::KeyParams;
use tollgate_accounts::keys::no_such_key;
use tollgate_storage::{Compat, Key, KeyChange, KeyMode, KeyState};
use tollgate_types::{AccountId, Error, ErrorCode, KeyId, MemberId};

use crate::accounts::find;
use crate::audited::Authority;
use crate::credits::in_days;
use crate::key_rights::{self, Selection};
use crate::operation::{Completed, Declaration, Operation};
use crate::permission::{MemberPermission, Permission};
use crate::view::{CreatedKeyView, KeyView};
use crate::{Actor, Operations};

/// Maximum time for which a replaced key still works, in hours.
const MAX_OVERLAP_HOURS: u32 = 720;

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
    /// Models that the key may use.
    #[serde(default = "all")]
    pub models: Selection,
    /// Scopes of the key.
    #[serde(default = "all")]
    pub scopes: Selection,
}

fn all() -> Selection {
    Selection::All
}

impl Operation for CreateKey {
    const NAME: &'static str = "create_key";
    type Reply = CreatedKeyView;

    fn declaration(&self) -> Declaration {
        Declaration::change("key.create", Permission::Keys)
            .for_members(MemberPermission::Use)
            .extending(self.account)
    }

    async fn execute(self, operations: &Operations, actor: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let mode = if self.test { KeyMode::Test } else { KeyMode::Live };
        let expires_at = self
            .expires_in_days
            .map(|days| in_days(operations.clock.now(), days));
        let params = KeyParams {
            name: self.name,
            mode,
            compat: read_compat(self.compat.as_deref())?.unwrap_or_default(),
            sync: self.sync,
            rights: key_rights::read(operations, actor, self.models, self.scopes)?,
            expires_at: expires_at.transpose()?,
            created_by: actor.member_id(),
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
        Declaration::read()
            .for_members(MemberPermission::Read)
            .of_account(self.account)
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
    /// Account that owns the key, if a member changes it.
    #[serde(default)]
    pub account: Option<AccountId>,
    /// Display name of the key.
    #[serde(default)]
    pub name: Option<String>,
    /// Compatibility level: `strict`, `standard` or `lenient`.
    pub compat: Option<String>,
    /// Whether image requests wait for the images by default.
    pub sync: Option<bool>,
    /// Models that the key may use.
    #[serde(default)]
    pub models: Option<Selection>,
    /// Scopes of the key.
    #[serde(default)]
    pub scopes: Option<Selection>,
}

impl Operation for ChangeKey {
    const NAME: &'static str = "change_key";
    type Reply = KeyView;

    fn declaration(&self) -> Declaration {
        of_key("key.change", self.id, self.account)
    }

    async fn execute(self, operations: &Operations, actor: &Actor) -> Result<Completed<Self::Reply>, Error> {
        if let Some(account) = self.account {
            changeable(operations, actor, account, self.id).await?;
        }
        let compat = read_compat(self.compat.as_deref())?;
        let models = self
            .models
            .map(|models| key_rights::read_models(operations, models));
        let scopes = self.scopes.map(|scopes| key_rights::read_scopes(actor, scopes));
        let change = KeyChange {
            name: self.name,
            compat,
            sync: self.sync,
            models: models.transpose()?,
            scopes: scopes.transpose()?,
        };
        let key = operations.keys.change(self.id, change).await?;
        Ok(view_key(operations, &key).await.into())
    }
}

/// Replaces a key by a new one with the same settings. The reply contains the new key itself, which
/// is returned only once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RotateKey {
    /// Id of the key to replace.
    pub id: KeyId,
    /// Account that owns the key.
    pub account: AccountId,
    /// Time for which the old key still works, in hours: 0 to 720.
    pub overlap_hours: u32,
}

impl Operation for RotateKey {
    const NAME: &'static str = "rotate_key";
    type Reply = CreatedKeyView;

    fn declaration(&self) -> Declaration {
        of_key("key.rotate", self.id, Some(self.account)).extending(self.account)
    }

    async fn execute(self, operations: &Operations, actor: &Actor) -> Result<Completed<Self::Reply>, Error> {
        if self.overlap_hours > MAX_OVERLAP_HOURS {
            let message = "'overlap_hours' must be from 0 to 720.";
            return Err(Error::new(ErrorCode::InvalidParameter, message).with_param("overlap_hours"));
        }
        let old = changeable(operations, actor, self.account, self.id).await?;
        let overlap = Duration::from_secs(u64::from(self.overlap_hours) * 60 * 60);
        let (key, secret) = operations.keys.rotate(&old, overlap, actor.member_id()).await?;
        let view = CreatedKeyView {
            id: key.id,
            key: secret.reveal().to_owned(),
        };
        Ok(view.into())
    }
}

/// Revokes a key permanently.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RevokeKey {
    pub id: KeyId,
    /// Account that owns the key, if a member revokes it.
    #[serde(default)]
    pub account: Option<AccountId>,
}

impl Operation for RevokeKey {
    const NAME: &'static str = "revoke_key";
    type Reply = KeyView;

    fn declaration(&self) -> Declaration {
        of_key("key.revoke", self.id, self.account)
    }

    async fn execute(self, operations: &Operations, actor: &Actor) -> Result<Completed<Self::Reply>, Error> {
        if let Some(account) = self.account {
            changeable(operations, actor, account, self.id).await?;
        }
        let key = operations.keys.revoke(self.id).await?;
        Ok(view_key(operations, &key).await.into())
    }
}

/// Declares a change of a key, which members may make on keys of their account.
fn of_key(action: &'static str, id: KeyId, account: Option<AccountId>) -> Declaration {
    let declared = Declaration::change(action, Permission::Keys).of_object(id);
    match account {
        Some(account) => declared.for_members(MemberPermission::Use).of_account(account),
        None => declared,
    }
}

/// Returns a key of an account that the actor may change; `not_found` if the account does not have
/// it. Members may change the keys that they have created, or with [`MemberPermission::Manage`] all
/// of them.
async fn changeable(
    operations: &Operations,
    actor: &Actor,
    account: AccountId,
    id: KeyId,
) -> Result<Key, Error> {
    let keys = operations.keys.list(account).await?;
    let key = keys
        .into_iter()
        .find(|key| key.id == id)
        .ok_or_else(no_such_key)?;
    match actor.authority() {
        Authority::Member { id: member, role, .. } if key.created_by != Some(member) => {
            MemberPermission::Manage.check(role)?;
        }
        Authority::Member { .. } | Authority::Operator { .. } => (),
    }
    Ok(key)
}

/// Revokes the keys that a member has created.
pub(crate) async fn revoke_keys_of(
    operations: &Operations,
    account: AccountId,
    member: MemberId,
) -> Result<(), Error> {
    for key in operations.keys.list(account).await? {
        if key.created_by == Some(member) && key.state == KeyState::Active {
            operations.keys.revoke(key.id).await?;
        }
    }
    Ok(())
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
