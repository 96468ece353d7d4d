//! What the audit log keeps of an answer. What a key or a token is has no place in it.

use serde::Serialize;
use serde_json::{Value, json, to_value};
use tollgate_types::AccountId;

use super::Reply;
use crate::control::alerts::AlertView;

impl Reply {
    /// The account that it is about.
    pub fn account(&self) -> Option<AccountId> {
        match self {
            Reply::Account(account) => Some(account.id),
            Reply::Key(key) => Some(key.account),
            Reply::Refund(refund) => Some(refund.account),
            Reply::Subscription(subscription) => Some(subscription.account),
            Reply::Member(member) => Some(member.account),
            _ => None,
        }
    }

    /// The id of what was made.
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
                let made = top_up.or_else(|| page.subscription.map(|id| id.to_string()));
                made.unwrap_or_default()
            }
            _ => String::new(),
        }
    }

    /// What became of what was changed, without secrets.
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
            // The address of the page is for whoever pays.
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
    use crate::control::view::CreatedKeyView;
    use crate::control::view::admin::CreatedAdminView;

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
