//! The parts of replies that the audit log records, and the accounts whose names are added.

use serde::Serialize;
use serde_json::{Value, json, to_value};
use tollgate_types::AccountId;

use super::admin::{AdminView, AuditView, CreatedAdminView, InvitationView, MemberView, SignInLinkView};
use super::prices::{PriceChangeView, PriceCheckView, PriceView};
use super::providers::{ProviderView, ServerView};
use super::{
    AccountView, BalanceView, CheckView, CreatedKeyView, GrantedView, KeyView, LimitView, LotView, ModelView,
    PlanView, RefundView, StatementView, SubscriptionView, TransferView, UsageView, WithdrawalView,
};
use crate::Reply;
use crate::alerts::{AlertView, NoticeView};
use crate::batches::BatchView;
use crate::receipts::{LedgerAuditView, ReceiptView};
use crate::research::{ResearchJobView, SourcesView};
use crate::sessions::RealtimeSessionView;
use crate::top_ups::{AutoView, PageView, TopUpView};
use crate::webhooks::DeliveryView;

fn whole(view: &impl Serialize) -> Option<Value> {
    to_value(view).ok()
}

impl Reply for AccountView {
    fn account(&self) -> Option<AccountId> {
        Some(self.id)
    }

    fn object(&self) -> String {
        self.id.to_string()
    }

    fn recorded(&self) -> Option<Value> {
        whole(self)
    }
}

impl Reply for CreatedKeyView {
    fn object(&self) -> String {
        self.id.to_string()
    }

    fn recorded(&self) -> Option<Value> {
        Some(json!({"id": self.id}))
    }
}

impl Reply for KeyView {
    fn account(&self) -> Option<AccountId> {
        Some(self.account)
    }

    fn recorded(&self) -> Option<Value> {
        whole(self)
    }
}

impl Reply for GrantedView {
    fn object(&self) -> String {
        self.id.to_string()
    }

    fn recorded(&self) -> Option<Value> {
        whole(self)
    }
}

impl Reply for RefundView {
    fn account(&self) -> Option<AccountId> {
        Some(self.account)
    }

    fn recorded(&self) -> Option<Value> {
        whole(self)
    }

    fn names(&mut self) -> Vec<(AccountId, &mut Option<String>)> {
        vec![(self.account, &mut self.account_name)]
    }
}

impl Reply for WithdrawalView {
    fn account(&self) -> Option<AccountId> {
        Some(self.account)
    }

    fn recorded(&self) -> Option<Value> {
        whole(self)
    }
}

impl Reply for SubscriptionView {
    fn account(&self) -> Option<AccountId> {
        Some(self.account)
    }

    fn object(&self) -> String {
        self.id.to_string()
    }

    fn recorded(&self) -> Option<Value> {
        whole(self)
    }

    fn names(&mut self) -> Vec<(AccountId, &mut Option<String>)> {
        vec![(self.account, &mut self.account_name)]
    }
}

impl Reply for PageView {
    fn object(&self) -> String {
        let top_up = self.top_up.as_ref().map(|top_up| top_up.id.to_string());
        let opened = top_up.or_else(|| self.subscription.map(|id| id.to_string()));
        opened.unwrap_or_default()
    }

    /// Omits the URL, which is for the payer only.
    fn recorded(&self) -> Option<Value> {
        let subscription = self.subscription.map(|id| json!({"id": id}));
        self.top_up.as_ref().and_then(whole).or(subscription)
    }

    fn names(&mut self) -> Vec<(AccountId, &mut Option<String>)> {
        self.top_up.iter_mut().flat_map(Reply::names).collect()
    }
}

impl Reply for TopUpView {
    fn names(&mut self) -> Vec<(AccountId, &mut Option<String>)> {
        vec![(self.account, &mut self.account_name)]
    }
}

impl Reply for AutoView {
    fn recorded(&self) -> Option<Value> {
        whole(self)
    }
}

impl Reply for AlertView {
    fn recorded(&self) -> Option<Value> {
        whole(&AlertView {
            webhook_secret: None,
            ..self.clone()
        })
    }
}

impl Reply for CreatedAdminView {
    fn object(&self) -> String {
        self.id.to_string()
    }

    fn recorded(&self) -> Option<Value> {
        Some(json!({"id": self.id, "name": self.name, "role": self.role}))
    }
}

impl Reply for AdminView {
    fn recorded(&self) -> Option<Value> {
        whole(self)
    }
}

impl Reply for MemberView {
    fn account(&self) -> Option<AccountId> {
        Some(self.account)
    }

    fn object(&self) -> String {
        self.id.to_string()
    }

    fn recorded(&self) -> Option<Value> {
        whole(self)
    }
}

impl Reply for InvitationView {
    fn account(&self) -> Option<AccountId> {
        self.member.account()
    }

    fn object(&self) -> String {
        self.member.object()
    }

    fn recorded(&self) -> Option<Value> {
        self.member.recorded()
    }
}

/// The link is a secret, so nothing is recorded.
impl Reply for SignInLinkView {}

impl Reply for PriceCheckView {
    fn recorded(&self) -> Option<Value> {
        whole(self)
    }
}

impl Reply for BatchView {
    fn names(&mut self) -> Vec<(AccountId, &mut Option<String>)> {
        vec![(self.account, &mut self.account_name)]
    }
}

impl Reply for ResearchJobView {
    fn names(&mut self) -> Vec<(AccountId, &mut Option<String>)> {
        vec![(self.account, &mut self.account_name)]
    }
}

impl Reply for StatementView {
    fn names(&mut self) -> Vec<(AccountId, &mut Option<String>)> {
        vec![(self.account, &mut self.account_name)]
    }
}

impl Reply for ReceiptView {
    fn names(&mut self) -> Vec<(AccountId, &mut Option<String>)> {
        vec![(self.account_id, &mut self.account_name)]
    }
}

impl Reply for AuditView {
    fn names(&mut self) -> Vec<(AccountId, &mut Option<String>)> {
        let account = self.account;
        account
            .map(|account| (account, &mut self.account_name))
            .into_iter()
            .collect()
    }
}

impl Reply for RealtimeSessionView {
    fn account(&self) -> Option<AccountId> {
        Some(self.account)
    }

    fn recorded(&self) -> Option<Value> {
        whole(self)
    }

    fn names(&mut self) -> Vec<(AccountId, &mut Option<String>)> {
        vec![(self.account, &mut self.account_name)]
    }
}

impl Reply for LedgerAuditView {
    fn names(&mut self) -> Vec<(AccountId, &mut Option<String>)> {
        let each = self.differences.iter_mut();
        each.map(|view| (view.account_id, &mut view.account_name))
            .collect()
    }
}

impl Reply for BalanceView {}
impl Reply for CheckView {}
impl Reply for LimitView {}
impl Reply for LotView {}
impl Reply for ModelView {}
impl Reply for NoticeView {}

impl Reply for DeliveryView {
    fn recorded(&self) -> Option<Value> {
        whole(self)
    }
}
impl Reply for PlanView {}
impl Reply for PriceChangeView {}
impl Reply for PriceView {}
impl Reply for ProviderView {}
impl Reply for ServerView {}
impl Reply for SourcesView {}
impl Reply for TransferView {}
impl Reply for UsageView {}

#[cfg(test)]
mod tests {
    use tollgate_types::{AdminId, KeyId};

    use super::*;

    #[test]
    fn secrets_are_not_recorded() {
        let secret = "c4n4ry";
        let key = CreatedKeyView {
            id: KeyId::from_u128(1),
            key: secret.to_owned(),
        };
        let admin = CreatedAdminView {
            id: AdminId::from_u128(1),
            name: "jo".to_owned(),
            role: "owner".to_owned(),
            token: secret.to_owned(),
        };
        for recorded in [key.recorded(), admin.recorded()] {
            let recorded = recorded.unwrap().to_string();
            assert!(
                recorded.contains("00001") && !recorded.contains(secret),
                "{recorded}"
            );
        }
    }
}
