//! Commands that check the ledger.

use serde::{Deserialize, Serialize};
use tollgate_billing::{Scope, check_ledger, check_usage_hours};
use tollgate_types::{AccountId, Error, HoldId, RequestId, Timestamp};

use crate::accounts::find;
use crate::operation::{Completed, Declaration, Operation};
use crate::permission::MemberPermission;
use crate::receipts::{self, LedgerAuditView, ReceiptView};
use crate::view::CheckView;
use crate::{Actor, Operations};

/// Recomputes the charges in the ledger and reports differences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditLedger {
    /// Account to audit; `None` for all.
    pub account: Option<AccountId>,
    /// Earliest end time of the audited calls, inclusive.
    pub from: Option<Timestamp>,
    /// Latest end time of the audited calls, exclusive.
    pub to: Option<Timestamp>,
}

impl Operation for AuditLedger {
    const NAME: &'static str = "audit_ledger";
    type Reply = LedgerAuditView;

    fn declaration(&self) -> Declaration {
        Declaration::read()
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let Self { account, from, to } = self;
        if let Some(account) = account {
            find(operations, account).await?;
        }
        let scope = Scope { account, from, to };
        Ok(receipts::audit(operations, scope).await?.into())
    }
}

/// Returns the charge of a call with its arithmetic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShowReceipt {
    /// Id of the request. It has the same value as the id of the call's hold.
    pub request: RequestId,
}

impl Operation for ShowReceipt {
    const NAME: &'static str = "show_receipt";
    type Reply = ReceiptView;

    fn declaration(&self) -> Declaration {
        Declaration::read()
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        Ok(receipts::receipt(operations, self.request).await?.into())
    }
}

/// Returns the charge of a call of an account with its arithmetic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShowCall {
    /// Account that made the call.
    pub account: AccountId,
    /// Id of the call's hold.
    pub id: HoldId,
}

impl Operation for ShowCall {
    const NAME: &'static str = "show_call";
    type Reply = ReceiptView;

    fn declaration(&self) -> Declaration {
        Declaration::read()
            .for_members(MemberPermission::Read)
            .of_account(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        Ok(receipts::of_call(operations, self.account, self.id).await?.into())
    }
}

/// Checks the invariants of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckLedger {
    /// Whether to recompute the cost of every usage row too.
    pub reprice: bool,
}

impl Operation for CheckLedger {
    const NAME: &'static str = "check_ledger";
    type Reply = CheckView;

    fn declaration(&self) -> Declaration {
        Declaration::read()
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let storage = &operations.storage;
        let report = check_ledger(&*storage.ledger, self.reprice).await;
        let mut report = report.map_err(Error::internal)?;
        let checked = check_usage_hours(&*storage.usage_hours, &mut report).await;
        checked.map_err(Error::internal)?;
        Ok(CheckView::from(&report).into())
    }
}
