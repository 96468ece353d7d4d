import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { ConfirmDialog } from "../../parts/confirm.tsx";
import { Card, Table, Time, type Column } from "../../parts/data.tsx";
import { EmptyState, ErrorState, TableSkeleton } from "../../parts/states.tsx";
import { request } from "../../shell/api.ts";
import { count, smallAmount } from "../../shell/format.ts";
import { useResource } from "../../shell/resource.ts";
import { href } from "../../shell/router.ts";
import { operator } from "../../shell/session.ts";
import type { List, RealtimeSession } from "../../shell/types.ts";

const MAX_SESSIONS = 100;

/** Open realtime sessions of the node that responds. */
export function RealtimeSessions() {
  const sessions = useResource("realtime-sessions", (signal) =>
    request<List<RealtimeSession>>("GET", `/realtime/sessions?limit=${MAX_SESSIONS}`, { signal }),
  );
  const [ending, setEnding] = useState<RealtimeSession | null>(null);
  const list = sessions.data?.data;
  const role = operator.value?.admin.role;
  const mayEnd = role === "owner" || role === "support";
  const columns: Column<RealtimeSession>[] = [
    ...COLUMNS,
    {
      label: "Actions",
      isHidden: true,
      isNumber: true,
      cell: (session) =>
        mayEnd && (
          <Button size="small" kind="bare" label={`End ${session.id}`} onClick={() => setEnding(session)}>
            End
          </Button>
        ),
    },
  ];
  const end = async (session: RealtimeSession) => {
    await request<RealtimeSession>("POST", `/realtime/sessions/${session.id}/end`, { body: {} });
    setEnding(null);
    sessions.reload();
  };
  return (
    <Card title="Realtime sessions" note={list && `${count(list.length)}${sessions.data?.has_more ? " or more" : ""} open on this node`}>
      {sessions.error && !list ? (
        <ErrorState what="The list of sessions" error={sessions.error} onRetry={sessions.reload} />
      ) : !list ? (
        <TableSkeleton columns={["160px", "80px", "120px", "64px"]} />
      ) : list.length === 0 ? (
        <EmptyState title="No open sessions">Sessions of /v1/realtime on this node appear here.</EmptyState>
      ) : (
        <Table caption="Realtime sessions" columns={columns} rows={list} id={(session) => session.id} size="dense" />
      )}
      {ending && (
        <ConfirmDialog
          title="End the session"
          action="End the session"
          onConfirm={() => end(ending)}
          onClose={() => setEnding(null)}
        >
          The connection of <code>{ending.id}</code> is closed. A running response is cancelled, and what was delivered is
          charged.
        </ConfirmDialog>
      )}
    </Card>
  );
}

const COLUMNS: Column<RealtimeSession>[] = [
  {
    label: "Account",
    cell: (session) => <a href={href(`/accounts/${session.account}`)}>{session.account_name || session.account}</a>,
  },
  { label: "Kind", cell: (session) => (session.kind === "voice" ? "Voice" : "Transcription") },
  { label: "Model", isOptional: true, cell: (session) => <code>{session.model}</code> },
  { label: "Node", isOptional: true, cell: (session) => <span class="muted">{session.node}</span> },
  { label: "Opened", isOptional: true, cell: (session) => <Time at={session.opened_at} /> },
  { label: "Last activity", isNumber: true, cell: (session) => <Time at={session.last_activity_at} /> },
  { label: "Charges", isNumber: true, isOptional: true, cell: (session) => count(session.charges) },
  {
    label: "Credits",
    isNumber: true,
    cell: (session) => <span title={session.charged}>{smallAmount(session.charged)}</span>,
  },
];
