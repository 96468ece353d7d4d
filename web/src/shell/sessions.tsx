import { useState } from "preact/hooks";

import { Button } from "../parts/button.tsx";
import { Chip, Segments, Table, Time, type Column } from "../parts/data.tsx";
import { ErrorState, TableSkeleton } from "../parts/states.tsx";
import { notify, notifyFailure } from "../parts/toast.tsx";
import { request } from "./api.ts";
import { plural } from "./format.ts";
import { useResource } from "./resource.ts";
import { setTheme, theme, THEMES } from "./theme.ts";
import type { List, SignedIn } from "./types.ts";

/** The sessions of the person or administrator, with buttons to end them. */
export function Sessions(props: { version: number }) {
  const sessions = useResource(`sessions ${props.version}`, (signal) =>
    request<List<SignedIn>>("GET", "/sessions", { signal }),
  );
  const [ending, setEnding] = useState<string | null>(null);
  const end = async (one: SignedIn) => {
    setEnding(one.id);
    try {
      await request("DELETE", `/sessions/${one.id}`);
      notify(`The session in ${one.client} has ended`);
      sessions.reload();
    } catch (error) {
      notifyFailure("The session was not ended", error);
    }
    setEnding(null);
  };
  const endOthers = async () => {
    setEnding("others");
    try {
      const { ended } = await request<{ ended: number }>("DELETE", "/sessions");
      notify(`${plural(ended, "session")} ended`);
      sessions.reload();
    } catch (error) {
      notifyFailure("The sessions were not ended", error);
    }
    setEnding(null);
  };
  const columns: Column<SignedIn>[] = [
    {
      label: "Client",
      cell: (one) => (
        <span class="stack g2">
          <span class="row">
            <span class="strong5">{one.client}</span>
            {one.current && <Chip tone="acc">This browser</Chip>}
          </span>
          <span class="muted t12 mono">{one.address}</span>
        </span>
      ),
    },
    { label: "Signed in", isOptional: true, cell: (one) => <Time at={one.created_at} /> },
    { label: "Last seen", cell: (one) => <Time at={one.last_seen_at} /> },
    {
      label: "Actions",
      isHidden: true,
      isNumber: true,
      cell: (one) =>
        !one.current && (
          <Button size="small" isBusy={ending === one.id} onClick={() => void end(one)}>
            End<span class="sr"> the session in {one.client}</span>
          </Button>
        ),
    },
  ];
  const rows = sessions.data?.data;
  return (
    <div class="stack g12">
      <div class="card">
        {sessions.error && !rows ? (
          <ErrorState what="Your sessions" error={sessions.error} onRetry={sessions.reload} />
        ) : rows ? (
          <Table caption="Sessions" columns={columns} rows={rows} id={(one) => one.id} size="tall" />
        ) : (
          <TableSkeleton columns={["160px", "72px", "72px"]} rows={2} />
        )}
      </div>
      {rows && rows.length > 1 && (
        <div class="row">
          <Button isBusy={ending === "others"} onClick={() => void endOthers()}>
            End all other sessions
          </Button>
        </div>
      )}
    </div>
  );
}

/** The choice of the theme. */
export function ThemeChoice() {
  return <Segments label="Theme" value={theme.value} options={THEMES} onChange={setTheme} />;
}
