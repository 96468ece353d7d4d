//! Tables of administrators, members, providers, prices and the audit log.

use std::collections::BTreeMap;

use tollgate_operations::view::admin::{AdminView, AuditView, MemberView};
use tollgate_operations::view::prices::{MovedView, PriceChangeView, PriceCheckView, PriceView};
use tollgate_operations::view::providers::{ProviderView, TargetView};
use tollgate_types::Credits;

use super::tables::{format_account, table};

/// Formats administrators, one line each.
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

/// Formats audit log entries, one line each.
pub fn audit(entries: &[AuditView]) -> String {
    let row = |entry: &AuditView| {
        let account = entry
            .account
            .map(|id| format_account(id, entry.account_name.as_deref()));
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

/// Formats members, one line each.
pub fn members(members: &[MemberView]) -> String {
    let row = |member: &MemberView| {
        [
            member.id.to_string(),
            member.role.clone(),
            member.status.clone(),
            member.created_at.clone(),
            member.email.clone(),
        ]
    };
    table(
        ["ID", "ROLE", "STATUS", "CREATED", "EMAIL"],
        members.iter().map(row),
    )
}

fn reported(prices: &BTreeMap<String, Credits>) -> String {
    let each = prices.iter().map(|(class, price)| format!("{class} {price}"));
    each.collect::<Vec<_>>().join(", ")
}

/// Formats the current prices, one line per model.
pub fn prices(prices: &[PriceView]) -> String {
    let row = |price: &PriceView| {
        [
            price.model.clone(),
            price.version.clone(),
            reported(&price.prices),
        ]
    };
    table(["MODEL", "VERSION", "PRICES"], prices.iter().map(row))
}

/// Formats the price history of a model, one line per change.
pub fn price_changes(changes: &[PriceChangeView]) -> String {
    let row = |change: &PriceChangeView| {
        [
            change.at.clone(),
            change.actor.clone(),
            change.version.clone(),
            reported(&change.prices),
        ]
    };
    table(["SINCE", "BY", "VERSION", "PRICES"], changes.iter().map(row))
}

/// Formats models whose prices in the settings differ from the current prices, one line each.
pub fn price_check(check: &PriceCheckView) -> String {
    let row = |moved: &MovedView| {
        let before = moved.before.as_ref().map_or_else(|| "-".to_owned(), reported);
        let jumps = match (moved.jumps.is_empty(), check.forced) {
            (true, _) => "ok".to_owned(),
            (false, true) => format!("forced: {}", moved.jumps.join(", ")),
            (false, false) => format!("too far: {}", moved.jumps.join(", ")),
        };
        [moved.model.clone(), before, reported(&moved.after), jumps]
    };
    table(
        ["MODEL", "CURRENT", "SETTINGS", "VERDICT"],
        check.changes.iter().map(row),
    )
}

/// Formats providers, one line per target. A provider without targets has one line.
pub fn providers(providers: &[ProviderView]) -> String {
    let row = |provider: &ProviderView, target: Option<&TargetView>| {
        let of = |text: fn(&TargetView) -> String| target.map_or_else(|| "-".to_owned(), text);
        let last = |target: &TargetView| target.last_error.clone().unwrap_or_else(|| "-".to_owned());
        [
            provider.name.clone(),
            provider.base_url.clone().unwrap_or_else(|| "-".to_owned()),
            of(|target| target.upstream_model.clone()),
            of(|target| target.breaker.clone()),
            of(last),
        ]
    };
    let rows = providers.iter().flat_map(|provider| {
        let mut rows: Vec<[String; 5]> = Vec::new();
        rows.extend(provider.targets.iter().map(|target| row(provider, Some(target))));
        if rows.is_empty() {
            rows.push(row(provider, None));
        }
        rows
    });
    table(["PROVIDER", "ADDRESS", "MODEL", "BREAKER", "LAST ERROR"], rows)
}
