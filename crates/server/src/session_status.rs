//! Open realtime sessions as operators see them. There are none in a process without a server.

use std::sync::{Arc, OnceLock};

use tollgate_edge::websocket::{SessionRecord, Sessions};
use tollgate_operations::SessionSource;
use tollgate_operations::sessions::RealtimeSessionView;
use tollgate_operations::view::providers::ServerView;
use tollgate_types::{Clock, RealtimeSessionId, RequestId};

/// File with the host name of this machine, on Linux.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Reader of the open sessions of this process, for the commands of operators.
#[derive(Default)]
pub struct SessionStatus {
    served: OnceLock<Served>,
}

struct Served {
    sessions: Arc<Sessions>,
    clock: Arc<dyn Clock>,
    /// Name of this node, for operators.
    node: String,
}

impl SessionStatus {
    /// Sets the sessions of the server, which listens on `addresses`. Only the first call has an
    /// effect.
    pub fn watch(&self, sessions: &Arc<Sessions>, clock: &Arc<dyn Clock>, addresses: Option<&ServerView>) {
        let _ = self.served.set(Served {
            sessions: sessions.clone(),
            clock: clock.clone(),
            node: node_name(addresses),
        });
    }
}

impl SessionSource for SessionStatus {
    fn sessions(&self) -> Vec<RealtimeSessionView> {
        let Some(served) = self.served.get() else {
            return Vec::new();
        };
        let records = served.sessions.records();
        let listed = records.iter().rev().filter_map(|record| served.view(record));
        listed.collect()
    }

    fn end(&self, id: RealtimeSessionId) -> Option<RealtimeSessionView> {
        let served = self.served.get()?;
        let record = served.sessions.record(RequestId::from_u128(id.as_u128()))?;
        let view = served.view(&record)?;
        record.end();
        Some(view)
    }
}

impl Served {
    fn view(&self, record: &SessionRecord) -> Option<RealtimeSessionView> {
        let label = record.label.as_ref()?;
        let opened_at = record.opened_at;
        Some(RealtimeSessionView {
            id: RealtimeSessionId::from_u128(record.request.as_u128()),
            request_id: record.request,
            account: record.account,
            account_name: None,
            key_id: record.principal.key(),
            member_id: record.principal.member(),
            client_secret_id: record.secret,
            model: label.model.to_string(),
            kind: label.kind.to_owned(),
            way: label.way.to_owned(),
            node: self.node.clone(),
            opened_at: opened_at.to_rfc3339(),
            last_activity_at: record.last_activity_at().to_rfc3339(),
            age_seconds: self.clock.now().since(opened_at).as_secs(),
            charges: record.settled(),
            charged: record.charged(),
        })
    }
}

/// Returns the name of this node: its host name and the port of its public listener.
fn node_name(addresses: Option<&ServerView>) -> String {
    let host = std::fs::read_to_string(HOST_NAME).unwrap_or_default();
    let host = match host.trim() {
        "" => "localhost",
        name => name,
    };
    match addresses {
        Some(addresses) => format!("{host}:{}", addresses.listen.port()),
        None => host.to_owned(),
    }
}
