//! Display names of accounts in replies. They are added after the audit log has recorded the reply:
//! a name may be personal data, and it could not be removed from the log when the account is
//! closed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use tollgate_types::AccountId;

use crate::Operations;
use crate::Reply;

/// Fills in the display names of the accounts in a reply. If an account cannot be read, its name
/// stays empty, because the command has already succeeded. Reads each account once.
pub(crate) async fn fill(operations: &Operations, reply: &mut Reply) {
    let mut known: BTreeMap<AccountId, Option<String>> = BTreeMap::new();
    for (id, name) in collect_accounts(reply) {
        *name = match known.entry(id) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(unknown) => {
                let found = operations.storage.accounts.get(id).await;
                let read = found.ok().flatten().map(|account| account.name);
                unknown.insert(read).clone()
            }
        };
    }
}

/// Returns the accounts of a reply, each with the field for its display name.
fn collect_accounts(reply: &mut Reply) -> Vec<(AccountId, &mut Option<String>)> {
    match reply {
        Reply::Refund(view) => vec![(view.account, &mut view.account_name)],
        Reply::Subscription(view) => vec![(view.account, &mut view.account_name)],
        Reply::Batch(view) => vec![(view.account, &mut view.account_name)],
        Reply::Statement(view) => vec![(view.account, &mut view.account_name)],
        Reply::Receipt(view) => vec![(view.account_id, &mut view.account_name)],
        Reply::Page(page) => {
            let top_up = page.top_up.iter_mut();
            top_up
                .map(|view| (view.account, &mut view.account_name))
                .collect()
        }
        Reply::Subscriptions(views) => {
            let each = views.iter_mut();
            each.map(|view| (view.account, &mut view.account_name)).collect()
        }
        Reply::Batches(views) => {
            let each = views.iter_mut();
            each.map(|view| (view.account, &mut view.account_name)).collect()
        }
        Reply::TopUps(views) => {
            let each = views.iter_mut();
            each.map(|view| (view.account, &mut view.account_name)).collect()
        }
        Reply::Audit(views) => {
            let each = views.iter_mut();
            each.filter_map(|view| Some((view.account?, &mut view.account_name)))
                .collect()
        }
        Reply::LedgerAudit(audit) => {
            let each = audit.differences.iter_mut();
            each.map(|view| (view.account_id, &mut view.account_name))
                .collect()
        }
        _ => Vec::new(),
    }
}
