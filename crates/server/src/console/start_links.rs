//! Sign-in links that the server prints when it starts.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Result;
use tollgate_storage::{LinkPurpose, LinkTarget, Role};

use crate::config::Config;
use crate::wiring::AppState;

/// Name of the administrator that the first start creates for the operators' console.
const FIRST_ADMIN: &str = "operator";
/// Lifetime of the links of the first start.
const FIRST_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// Lifetime of the links of later starts.
const LATER_LIFETIME: Duration = Duration::from_secs(15 * 60);

/// Links that the banner contains.
#[derive(Debug, Default)]
pub(crate) struct StartLinks {
    /// Signs in the owner of the first account.
    pub(crate) console: Option<String>,
    /// Signs in the first administrator with the role `owner`.
    pub(crate) operator: Option<String>,
    /// Lifetime of the links, as a phrase.
    pub(crate) lifetime: &'static str,
}

/// Creates the links to print. Later starts print links only on a terminal, because anyone who can
/// read a log could use them, and only for a server on the loopback.
pub(crate) async fn create(config: &Config, app_state: &AppState, is_first: bool) -> Result<StartLinks> {
    let is_local = config.listen.ip().is_loopback() && std::io::stdout().is_terminal();
    if !config.file.console.enabled || !(is_first || is_local) {
        return Ok(StartLinks::default());
    }
    if is_first {
        app_state.admins.create(FIRST_ADMIN, Role::Owner).await?;
    }
    let (duration, lifetime) = match is_first {
        true => (FIRST_LIFETIME, "24 hours"),
        false => (LATER_LIFETIME, "15 minutes"),
    };
    let accounts = app_state.storage.accounts.list(None, 1).await?;
    let owner = accounts.first().map(|account| LinkTarget::Owner(account.id));
    let admins = app_state.admins.list().await?;
    let admin = admins
        .iter()
        .find(|admin| admin.role == Role::Owner && admin.revoked_at.is_none())
        .map(|admin| LinkTarget::Admin(admin.id));
    Ok(StartLinks {
        console: link(app_state, owner, duration).await?,
        operator: link(app_state, admin, duration).await?,
        lifetime,
    })
}

async fn link(
    app_state: &AppState,
    target: Option<LinkTarget>,
    lifetime: Duration,
) -> Result<Option<String>> {
    let Some(target) = target else {
        return Ok(None);
    };
    let sign_ins = &app_state.sign_ins;
    let (_, token) = sign_ins
        .create_link(LinkPurpose::SignIn, target, lifetime)
        .await?;
    let is_admin = matches!(target, LinkTarget::Admin(_));
    Ok(Some(app_state.operations.sign_in_url(is_admin, token.reveal())))
}
