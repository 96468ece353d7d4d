//! Sign-ins of people and administrators: their entries in the audit log, and links that replace a
//! forgotten password.

use tollgate_storage::{Admin, Membership};
use tollgate_types::{RequestId, SessionId};
use tollgate_upstream::Mail;

use crate::audited::{AuditRecord, DONE, write_audit_record};
use crate::{Actor, Operations};

/// Action of sign-ins in the audit log.
const STARTED: &str = "session.start";

impl Operations {
    /// Whether links can be sent by e-mail.
    pub fn sends_mail(&self) -> bool {
        self.notices.mailer.is_some()
    }

    /// Records the sign-in of a person in the audit log of each of the person's accounts.
    pub async fn record_sign_in(&self, memberships: &[Membership], session: SessionId, request: RequestId) {
        for Membership { member, .. } in memberships {
            let entry = AuditRecord {
                action: STARTED,
                account: Some(member.account),
                object: session.to_string(),
                ..AuditRecord::default()
            };
            // The server's log contains an entry that cannot be written.
            let _ = write_audit_record(self, &Actor::member(member, request), entry, DONE).await;
        }
    }

    /// Records the sign-in of an administrator in the audit log.
    pub async fn record_admin_sign_in(&self, admin: &Admin, session: SessionId, request: RequestId) {
        let entry = AuditRecord {
            action: STARTED,
            object: session.to_string(),
            ..AuditRecord::default()
        };
        let _ = write_audit_record(self, &Actor::admin(admin, request), entry, DONE).await;
    }

    /// Sends a link that signs a person in without a password. Sends nothing if the address is
    /// unknown, if it has received too many links, or without a mail server.
    pub async fn send_reset_link(&self, email: &str) {
        let Some(mailer) = &self.notices.mailer else {
            return;
        };
        let link = match self.sign_ins.reset_link(email).await {
            Ok(Some(link)) => link,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "cannot create a link that resets a password");
                return;
            }
        };
        let service = &self.notices.sender;
        let url = self.sign_in_url(false, link.token.reveal());
        let mail = Mail {
            id: link.id.to_string(),
            to: link.email,
            subject: format!("Reset your password for {service}"),
            text: format!(
                "Someone has requested a link to reset your password for {service}. Open it to set a new password. \
                 It ends your other sessions, works once and expires in 1 hour:\n\n{url}\n\n\
                 If you have not requested the link, ignore this message. Your password is unchanged.\n"
            ),
        };
        if let Err(error) = mailer.send(&mail).await {
            tracing::warn!(%error, "cannot send a link that resets a password");
        }
    }
}
