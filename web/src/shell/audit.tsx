import { useState } from "preact/hooks";

import { CopyButton } from "../parts/code.tsx";
import { Status, TableFrame, Time } from "../parts/data.tsx";
import { Icon } from "../parts/icon.tsx";
import { isOperator } from "./api.ts";
import { href } from "./router.ts";
import type { AuditEntry } from "./types.ts";

/** Entries of the audit log. A row opens the details of its change. */
export function AuditTable(props: { entries: AuditEntry[]; isShort?: boolean }) {
  const [opened, setOpened] = useState<string | null>(null);
  return (
    <TableFrame label="Changes">
      <table class="dense">
        <caption class="sr">Changes</caption>
        <thead>
          <tr>
            <th scope="col">Action</th>
            <th scope="col" class="opt">
              Actor
            </th>
            {isOperator && (
              <th scope="col" class="opt">
                Account
              </th>
            )}
            {!props.isShort && (
              <th scope="col" class="opt">
                Object
              </th>
            )}
            <th scope="col" class="opt">
              Outcome
            </th>
            <th scope="col" class="n">
              Time
            </th>
          </tr>
        </thead>
        <tbody>
          {props.entries.map((entry) => (
            <Entry
              key={entry.id}
              entry={entry}
              isShort={!!props.isShort}
              isOpen={opened === entry.id}
              onToggle={() => setOpened(opened === entry.id ? null : entry.id)}
            />
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

function Entry(props: { entry: AuditEntry; isShort: boolean; isOpen: boolean; onToggle: () => void }) {
  const { entry, isOpen } = props;
  const isDone = entry.outcome === "done";
  return (
    <>
      <tr class={isOpen ? "sel" : undefined}>
        <td>
          <button type="button" class="disclose" aria-expanded={isOpen} onClick={props.onToggle}>
            <Icon name="right" small class="muted" />
            <span class="strong5">{entry.action}</span>
          </button>
          <span class="narrow under muted t12">{entry.actor}</span>
        </td>
        <td class="opt">{entry.actor}</td>
        {isOperator && (
          <td class="opt">
            {entry.account ? (
              <a href={href(`/accounts/${entry.account}`)}>{entry.account_name ?? entry.account}</a>
            ) : (
              <span class="muted">–</span>
            )}
          </td>
        )}
        {!props.isShort && (
          <td class="opt">
            <code class="muted">{entry.object}</code>
          </td>
        )}
        <td class="opt">
          <Status tone={isDone ? "ok" : "bad"} isQuiet={isDone}>
            {isDone ? "Done" : entry.outcome}
          </Status>
        </td>
        <td class="n">
          <Time at={entry.at} />
        </td>
      </tr>
      {isOpen && (
        <tr class="detail">
          <td colSpan={6}>
            <Details entry={entry} />
          </td>
        </tr>
      )}
    </>
  );
}

function Details(props: { entry: AuditEntry }) {
  const { entry } = props;
  return (
    <div class="stack g12">
      <dl class="kv t12">
        <dt>Object</dt>
        <dd>
          <code>{entry.object}</code>
        </dd>
        <dt>Actor</dt>
        <dd>
          {entry.actor}, {entry.role}
        </dd>
        <dt>Outcome</dt>
        <dd>{entry.outcome}</dd>
        {entry.request_id && (
          <>
            <dt>Request</dt>
            <dd class="row">
              <code class="breakable">{entry.request_id}</code>
              <CopyButton text={entry.request_id} label="Copy the request id" />
            </dd>
          </>
        )}
      </dl>
      <div class="diff">
        <State title="Before" value={entry.before} />
        <State title="After" value={entry.after} />
      </div>
    </div>
  );
}

function State(props: { title: string; value: Record<string, unknown> | null | undefined }) {
  return (
    <div class="stack g4">
      <p class="lab">{props.title}</p>
      {props.value ? <pre>{JSON.stringify(props.value, null, 2)}</pre> : <p class="muted t12">None</p>}
    </div>
  );
}
