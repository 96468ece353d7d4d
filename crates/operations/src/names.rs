//! Display names of accounts in replies. They are added after the audit log has recorded the reply:
//! a name may be personal data, and it could not be removed from the log when the account is
//! closed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use tollgate_types::AccountId;

use crate::{Operations, Reply};

/// Fills in the display names of the accounts in a reply. If an account cannot be read, its name
/// stays empty, because the command has already succeeded. Reads each account once.
pub(crate) async fn fill(operations: &Operations, reply: &mut impl Reply) {
    let mut known: BTreeMap<AccountId, Option<String>> = BTreeMap::new();
    for (id, name) in reply.names() {
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
