//! The part of a reply that the audit log records: ids and state, but no keys, tokens or secrets.

use serde::Serialize;
use serde_json::{Value, json, to_value};
use tollgate_types::AccountId;

use super::Reply;
use crate::alerts::AlertView;

impl Reply {
    /// Returns the account of the changed object, if the reply contains it.
    pub fn account(&self) -> Option<AccountId> {
        match self {
            Reply::Account(account) => Some(account.id),
            Reply::Key(key) => Some(key.account),
            Reply::Refund(refund) => Some(refund.account),
            Reply::Withdrawal(withdrawal) => Some(withdrawal.account),
            Reply::Subscription(subscription) => Some(subscription.account),
            Reply::Member(member) => Some(member.account),
            _ => None,
        }
    }

    /// Returns the id of the object in the reply to a command that creates one; otherwise an empty
    /// string.
    pub fn object(&self) -> String {
        match self {
            Reply::Account(account) => account.id.to_string(),
            Reply::CreatedKey(created) => created.id.to_string(),
            Reply::Granted(granted) => granted.id.to_string(),
            Reply::Subscription(subscription) => subscription.id.to_string(),
            Reply::CreatedAdmin(created) => created.id.to_string(),
            Reply::Member(member) => member.id.to_string(),
            Reply::Page(page) => {
                let top_up = page.top_up.as_ref().map(|top_up| top_up.id.to_string());
                let opened = top_up.or_else(|| page.subscription.map(|id| id.to_string()));
                opened.unwrap_or_default()
            }
            _ => String::new(),
        }
    }

    /// Returns the changed object as JSON, without secrets; `None` if the reply contains no such
    /// object.
    pub fn recorded(&self) -> Option<Value> {
        fn whole(view: &impl Serialize) -> Option<Value> {
            to_value(view).ok()
        }
        match self {
            Reply::Account(account) => whole(account),
            Reply::CreatedKey(created) => Some(json!({"id": created.id})),
            Reply::Key(key) => whole(key),
            Reply::Granted(granted) => whole(granted),
            Reply::Refund(refund) => whole(refund),
            Reply::Withdrawal(withdrawal) => whole(withdrawal),
            Reply::Subscription(subscription) => whole(subscription),
            Reply::CreatedAdmin(created) => {
                Some(json!({"id": created.id, "name": created.name, "role": created.role}))
            }
            Reply::Admin(admin) => whole(admin),
            Reply::PriceCheck(check) => whole(check),
            Reply::Member(member) => whole(member),
            // The URL of the page is for the payer only, so the log does not store it.
            Reply::Page(page) => {
                let subscription = page.subscription.map(|id| json!({"id": id}));
                page.top_up.as_ref().and_then(whole).or(subscription)
            }
            Reply::AutoTopUp(auto) => auto.as_ref().and_then(whole),
            Reply::Alert(alert) => whole(&AlertView {
                webhook_secret: None,
                ..alert.clone()?
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_types::{AdminId, KeyId};

    use super::*;
    use crate::view::CreatedKeyView;
    use crate::view::admin::CreatedAdminView;

    #[test]
    fn secrets_are_not_recorded() {
        let secret = "c4n4ry";
        let key = Reply::CreatedKey(CreatedKeyView {
            id: KeyId::from_u128(1),
            key: secret.to_owned(),
        });
        let admin = Reply::CreatedAdmin(CreatedAdminView {
            id: AdminId::from_u128(1),
            name: "jo".to_owned(),
            role: "owner".to_owned(),
            token: secret.to_owned(),
        });
        for reply in [key, admin] {
            let recorded = reply.recorded().unwrap().to_string();
            assert!(
                recorded.contains("00001") && !recorded.contains(secret),
                "{recorded}"
            );
        }
    }
}
