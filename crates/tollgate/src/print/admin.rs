//! Tables about people, and what they changed.

use tollgate_server::control::view::admin::{AdminView, AuditView, MemberView};

use super::tables::table;

/// Administrators, a line for each.
pub fn admins(admins: &[AdminView]) -> String {
    let row = |admin: &AdminView| {
        [
            admin.id.to_string(),
            format!("…{}", admin.last4),
            admin.state.clone(),
            admin.role.clone(),
            admin.created_at.clone(),
            admin.name.clone(),
        ]
    };
    table(
        ["ID", "TOKEN", "STATE", "ROLE", "CREATED", "NAME"],
        admins.iter().map(row),
    )
}

/// Changes, a line for each.
pub fn audit(entries: &[AuditView]) -> String {
    let row = |entry: &AuditView| {
        let account = entry.account.map(|account| account.to_string());
        [
            entry.at.clone(),
            entry.actor.clone(),
            entry.action.clone(),
            entry.outcome.clone(),
            account.unwrap_or_else(|| "-".to_owned()),
            entry.object.clone(),
        ]
    };
    table(
        ["AT", "ACTOR", "ACTION", "OUTCOME", "ACCOUNT", "OBJECT"],
        entries.iter().map(row),
    )
}

/// Members, a line for each.
pub fn members(members: &[MemberView]) -> String {
    let row = |member: &MemberView| {
        [
            member.id.to_string(),
            member.role.clone(),
            member.created_at.clone(),
            member.email.clone(),
        ]
    };
    table(["ID", "ROLE", "CREATED", "EMAIL"], members.iter().map(row))
}
