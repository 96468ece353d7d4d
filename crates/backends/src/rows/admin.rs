//! Rows of administrators, audit log, members and active prices.

use tollgate_storage::{
    Admin, AuditEntry, Member, MemberRole, PriceChange, PriceRecord, Result, Role, StorageError,
};
use tollgate_types::{AccountId, AdminId, AuditId, MemberId, PersonId, RequestId, Timestamp};

use super::{corrupt, id_from, prices_from, version_from};

use crate::columns::columns;

columns! {
    /// A row of `admin`.
    pub(crate) struct AdminColumns {
        id: Vec<u8>,
        name: String,
        role: String,
        digest: Vec<u8>,
        last4: String,
        created_at: i64,
        revoked_at: Option<i64>,
    }
}

impl TryFrom<AdminColumns> for Admin {
    type Error = StorageError;

    fn try_from(columns: AdminColumns) -> Result<Admin> {
        let digest = columns
            .digest
            .try_into()
            .map_err(|_| corrupt("invalid token digest"))?;
        Ok(Admin {
            id: AdminId::from_u128(id_from(&columns.id)?),
            name: columns.name,
            role: Role::parse(&columns.role).ok_or_else(|| corrupt(format!("role '{}'", columns.role)))?,
            digest,
            last4: columns.last4,
            created_at: Timestamp::from_micros(columns.created_at),
            revoked_at: columns.revoked_at.map(Timestamp::from_micros),
        })
    }
}

columns! {
    /// A row of `audit_log`.
    pub(crate) struct AuditColumns {
        id: Vec<u8>,
        at: i64,
        actor: String,
        actor_id: Option<Vec<u8>>,
        member_id: Option<Vec<u8>>,
        role: String,
        action: String,
        account_id: Option<Vec<u8>>,
        object: String,
        before: Option<String>,
        after: Option<String>,
        request_id: Option<Vec<u8>>,
        outcome: String,
    }
}

impl TryFrom<AuditColumns> for AuditEntry {
    type Error = StorageError;

    fn try_from(columns: AuditColumns) -> Result<AuditEntry> {
        let id = |bytes: Option<Vec<u8>>| bytes.as_deref().map(id_from).transpose();
        Ok(AuditEntry {
            id: AuditId::from_u128(id_from(&columns.id)?),
            at: Timestamp::from_micros(columns.at),
            actor: columns.actor,
            actor_id: id(columns.actor_id)?.map(AdminId::from_u128),
            member: id(columns.member_id)?.map(MemberId::from_u128),
            role: columns.role,
            action: columns.action,
            account: id(columns.account_id)?.map(AccountId::from_u128),
            object: columns.object,
            before: columns.before,
            after: columns.after,
            request: id(columns.request_id)?.map(RequestId::from_u128),
            outcome: columns.outcome,
        })
    }
}

columns! {
    /// A row of `member`.
    pub(crate) struct MemberColumns {
        id: Vec<u8>,
        account_id: Vec<u8>,
        person_id: Option<Vec<u8>>,
        email: String,
        role: String,
        created_at: i64,
    }
}

impl TryFrom<MemberColumns> for Member {
    type Error = StorageError;

    fn try_from(columns: MemberColumns) -> Result<Member> {
        let role = MemberRole::parse(&columns.role);
        let person = columns.person_id.as_deref().map(id_from).transpose()?;
        Ok(Member {
            id: MemberId::from_u128(id_from(&columns.id)?),
            account: AccountId::from_u128(id_from(&columns.account_id)?),
            person: person.map(PersonId::from_u128),
            email: columns.email,
            role: role.ok_or_else(|| corrupt(format!("unknown member role '{}'", columns.role)))?,
            created_at: Timestamp::from_micros(columns.created_at),
        })
    }
}

columns! {
    /// A row of `price_change`, with the prices and the creation time of its price version.
    pub(crate) struct PriceChangeColumns {
        id: Vec<u8>,
        model: String,
        version: i64,
        at: i64,
        actor: String,
        prices: String,
        created_at: i64,
    }
}

impl TryFrom<PriceChangeColumns> for (PriceChange, PriceRecord) {
    type Error = StorageError;

    fn try_from(columns: PriceChangeColumns) -> Result<(PriceChange, PriceRecord)> {
        let version = version_from(columns.version);
        let record = PriceRecord {
            version,
            model: columns.model.clone(),
            prices: prices_from(&columns.prices)?,
            created_at: Timestamp::from_micros(columns.created_at),
        };
        let change = PriceChange {
            id: AuditId::from_u128(id_from(&columns.id)?),
            model: columns.model,
            version,
            at: Timestamp::from_micros(columns.at),
            actor: columns.actor,
        };
        Ok((change, record))
    }
}
