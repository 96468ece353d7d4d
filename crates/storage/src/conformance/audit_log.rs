//! Cases for [`crate::AuditLog`].

use tollgate_types::{AccountId, AdminId, AuditId, MemberId, RequestId};

use super::Factory;
use super::samples::{at, kind};
use crate::{AuditEntry, AuditFilter, StorageErrorKind};

fn entry(number: u128) -> AuditEntry {
    AuditEntry {
        id: AuditId::from_u128(number),
        at: at(u64::try_from(number).unwrap_or(0)),
        actor: "cli".to_owned(),
        actor_id: None,
        member: None,
        role: "owner".to_owned(),
        action: "account.create".to_owned(),
        account: None,
        object: String::new(),
        before: None,
        after: None,
        request: None,
        outcome: "done".to_owned(),
    }
}

fn full(number: u128) -> AuditEntry {
    AuditEntry {
        actor: "jo".to_owned(),
        actor_id: Some(AdminId::from_u128(u128::MAX)),
        member: Some(MemberId::from_u128(1 << 64)),
        role: "support".to_owned(),
        action: "key.revoke".to_owned(),
        account: Some(AccountId::from_u128(7)),
        object: "key \"Zoë\"; DROP TABLE audit_log".to_owned(),
        before: Some(r#"{"state":"active"}"#.to_owned()),
        after: Some(r#"{"state":"revoked"}"#.to_owned()),
        request: Some(RequestId::from_u128(9)),
        outcome: "not_found".to_owned(),
        ..entry(number)
    }
}

/// Checks that entries are read back verbatim, newest first, in pages; an id is used once.
pub async fn appended_then_read_in_pages(factory: Factory) {
    let storage = factory.open().await;
    let log = &storage.audit_log;
    for new in [entry(1), full(2), entry(3), full(4), entry(1 << 127)] {
        log.append(new).await.unwrap();
    }
    let all = [entry(1 << 127), full(4), entry(3), full(2), entry(1)];
    let (mut read, mut before) = (Vec::new(), None);
    loop {
        let page = log.list(AuditFilter::default(), before, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.id);
        read.extend(page);
    }
    assert_eq!(read, all);
    assert_eq!(kind(log.append(full(1)).await), StorageErrorKind::Conflict);
    let last = log
        .list(AuditFilter::default(), Some(AuditId::from_u128(2)), 9)
        .await;
    assert_eq!(last.unwrap(), [entry(1)]);
}

/// Checks that each filter works separately, and all together.
pub async fn every_filter(factory: Factory) {
    let storage = factory.open().await;
    let log = &storage.audit_log;
    for new in [entry(1), full(2), entry(3), full(4)] {
        log.append(new).await.unwrap();
    }
    let none = AuditFilter::default();
    let cases = [
        (none.clone(), vec![4, 3, 2, 1]),
        (
            AuditFilter {
                account: full(1).account,
                ..none.clone()
            },
            vec![4, 2],
        ),
        (
            AuditFilter {
                account: Some(AccountId::from_u128(8)),
                ..none.clone()
            },
            vec![],
        ),
        (
            AuditFilter {
                actor: Some("cli".to_owned()),
                ..none.clone()
            },
            vec![3, 1],
        ),
        (
            AuditFilter {
                action: Some("key.revoke".to_owned()),
                ..none.clone()
            },
            vec![4, 2],
        ),
        (
            AuditFilter {
                since: Some(at(3)),
                ..none
            },
            vec![4, 3],
        ),
        (
            AuditFilter {
                account: full(1).account,
                actor: Some("jo".to_owned()),
                action: Some("key.revoke".to_owned()),
                since: Some(at(3)),
            },
            vec![4],
        ),
    ];
    for (filter, expected) in cases {
        let read = log.list(filter.clone(), None, 10).await.unwrap();
        let ids: Vec<u128> = read.iter().map(|entry| entry.id.as_u128()).collect();
        assert_eq!(ids, expected, "{filter:?}");
    }
}
