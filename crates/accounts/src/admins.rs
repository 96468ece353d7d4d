//! Admin tokens and their administrators. Nothing is cached: admin requests are rare, and a
//! revocation takes effect immediately on every node.

use std::sync::Arc;

use tollgate_storage::{Admin, AdminStore, Role, StorageErrorKind};
use tollgate_types::id::IdSource;
use tollgate_types::{AdminId, Clock, Error, ErrorCode};

use crate::keys::KeyError;
use crate::secret::{Pepper, SecretKey, TokenShape, digest_prefix, same_digest};

/// Audit log names of actors that are not administrators.
const RESERVED: [&str; 2] = ["cli", "settings"];

/// Service that creates, authenticates and revokes administrators.
pub struct Admins {
    shape: TokenShape,
    pepper: Pepper,
    store: Arc<dyn AdminStore>,
    clock: Arc<dyn Clock>,
    ids: Arc<IdSource>,
}

impl Admins {
    /// Creates the service over `store`.
    pub fn new(
        shape: TokenShape,
        pepper: Pepper,
        store: Arc<dyn AdminStore>,
        clock: Arc<dyn Clock>,
        ids: Arc<IdSource>,
    ) -> Self {
        Self {
            shape,
            pepper,
            store,
            clock,
            ids,
        }
    }

    /// Returns the format of this installation's admin tokens.
    pub fn shape(&self) -> &TokenShape {
        &self.shape
    }

    /// Returns the administrator of a valid, unrevoked token.
    pub async fn authenticate(&self, token: &str) -> Result<Admin, KeyError> {
        if !self.shape.fits(token) {
            return Err(KeyError::Invalid);
        }
        let digest = self.pepper.digest(token);
        let found = self.store.find(digest_prefix(&digest)).await;
        let found = found.map_err(|error| KeyError::Storage(Arc::new(error)))?;
        let genuine = found.filter(|admin| same_digest(&admin.digest, &digest));
        genuine
            .filter(|admin| admin.revoked_at.is_none())
            .ok_or(KeyError::Invalid)
    }

    /// Creates an administrator. Only the returned value has the token in the clear.
    pub async fn create(&self, name: &str, role: Role) -> Result<(Admin, SecretKey), Error> {
        check_name(name)?;
        let secret = self.shape.generate();
        let secret = secret.map_err(|error| Error::internal(error.to_string()))?;
        let now = self.clock.now();
        let admin = Admin {
            id: AdminId::from_u128(self.ids.next(now)),
            name: name.to_owned(),
            role,
            digest: self.pepper.digest(secret.reveal()),
            last4: secret.last4().to_owned(),
            created_at: now,
            revoked_at: None,
        };
        let stored = self.store.create(admin.clone()).await;
        stored.map_err(|error| match error.kind {
            StorageErrorKind::Conflict => {
                let message =
                    "An active administrator already has this name. Revoke that administrator first, or choose another name.";
                Error::new(ErrorCode::Conflict, message).with_param("name")
            }
            _ => Error::internal(error),
        })?;
        Ok((admin, secret))
    }

    /// Returns the administrator with this id; `None` if it does not exist or is revoked.
    pub async fn active(&self, id: AdminId) -> Result<Option<Admin>, Error> {
        let admins = self.store.list().await?;
        let mut active = admins.into_iter().filter(|admin| admin.revoked_at.is_none());
        Ok(active.find(|admin| admin.id == id))
    }

    /// Returns every administrator, including revoked ones.
    pub async fn list(&self) -> Result<Vec<Admin>, Error> {
        self.store.list().await.map_err(Error::internal)
    }

    /// Revokes an administrator permanently.
    pub async fn revoke(&self, id: AdminId) -> Result<Admin, Error> {
        let revoked = self.store.revoke(id, self.clock.now()).await;
        revoked.map_err(|error| match error.kind {
            StorageErrorKind::NotFound => {
                Error::new(ErrorCode::NotFound, "The administrator does not exist.")
            }
            _ => Error::internal(error),
        })
    }
}

/// Checks a name for the audit log: plain characters, and not reserved.
fn check_name(name: &str) -> Result<(), Error> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._@-".contains(c);
    let problem = if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        "The name must have 1 to 64 characters: lowercase letters, digits, and any of . _ @ -"
    } else if RESERVED.contains(&name) {
        "This name is reserved in the audit log. Choose another name."
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorCode::InvalidParameter, problem).with_param("name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_not_reserved() {
        let longest = "a".repeat(64);
        for name in ["jo", "jo@example.com", "on-call.2", longest.as_str()] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let too_long = "a".repeat(65);
        for name in [
            "",
            "Jo",
            "jo smith",
            "jo\n",
            "cli",
            "settings",
            "é",
            too_long.as_str(),
        ] {
            assert_eq!(
                check_name(name).unwrap_err().param.as_deref(),
                Some("name"),
                "{name}"
            );
        }
    }
}
