import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { CopyButton } from "../../parts/code.tsx";
import { ConfirmDialog } from "../../parts/confirm.tsx";
import { Card, Status, Table, TableFrame, Time, type Column, type Tone } from "../../parts/data.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Pager } from "../../parts/pager.tsx";
import { EmptyState, ErrorState, TableSkeleton } from "../../parts/states.tsx";
import { notify, notifyFailure } from "../../parts/toast.tsx";
import { PUBLIC_API, request, toApiError } from "../../shell/api.ts";
import { isSuspended } from "../../shell/details.ts";
import { dateTime } from "../../shell/format.ts";
import { useLive } from "../../shell/live.ts";
import { Page } from "../../shell/page.tsx";
import { usePaged } from "../../shell/paging.ts";
import { usePolling } from "../../shell/polling.ts";
import { useResource } from "../../shell/resource.ts";
import { mayAdminister } from "../../shell/roles.ts";
import { href } from "../../shell/router.ts";
import { account } from "../../shell/session.ts";
import type { AlertDelivery, Delivery, List } from "../../shell/types.ts";
import { typeLabel } from "../jobs/jobs.ts";

const PAGE_SIZE = 25;

const POLL_MS = 4000;

const SECRET_PATH = `${PUBLIC_API}/account/webhook_secret`;

/** The signing secret of the account, and the deliveries of its events. */
export function Screen() {
  return (
    <Page title="Webhooks">
      {mayAdminister() ? (
        <>
          <SigningSecret />
          <Deliveries />
          <Alerts />
        </>
      ) : (
        <EmptyState title="Your role does not include webhooks">
          Admins and owners of the account can read the signing secret and the deliveries.
        </EmptyState>
      )}
    </Page>
  );
}

interface SecretBody {
  secret: string;
}

function SigningSecret() {
  const [secret, setSecret] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [isRotating, setRotating] = useState(false);
  const show = async () => {
    setBusy(true);
    try {
      setSecret((await request<SecretBody>("GET", SECRET_PATH, { account: true })).secret);
    } catch (error) {
      // A cancelled request for the password is no failure.
      if (toApiError(error).param !== "step_up") notifyFailure("The secret was not loaded", error);
    }
    setBusy(false);
  };
  return (
    <Card
      title="Signing secret"
      action={
        !isSuspended.value && (
          <Button size="small" icon="retry" onClick={() => setRotating(true)}>
            Rotate
          </Button>
        )
      }
    >
      <div class="in-pad stack g12">
        <p class="muted">
          A job or a batch with a <code>webhook_url</code> posts an event when it ends. The header{" "}
          <code>webhook-signature</code> is an HMAC with this secret, as defined by Standard Webhooks. Verify it before you
          use an event.
        </p>
        {secret ? (
          <div class="signing">
            <code class="grow breakable">{secret}</code>
            <CopyButton text={secret} label="Copy the secret" />
            <Button size="small" kind="bare" onClick={() => setSecret(null)}>
              Hide
            </Button>
          </div>
        ) : (
          <div class="signing">
            <code class="grow muted" aria-hidden="true">
              whsec_••••••••••••••••••••••••
            </code>
            <Button size="small" isBusy={isBusy} onClick={() => void show()}>
              Show the secret
            </Button>
          </div>
        )}
      </div>
      {isRotating && (
        <ConfirmDialog
          title="Rotate the signing secret?"
          action="Rotate secret"
          onClose={() => setRotating(false)}
          onConfirm={async () => {
            const reply = await request<SecretBody>("POST", `${SECRET_PATH}/rotate`, { body: {}, account: true });
            setSecret(reply.secret);
            setRotating(false);
            notify("Secret rotated. Update your receivers now.");
          }}
        >
          All deliveries from now on are signed only with a new secret, including retries of earlier events. Receivers that
          verify with the old secret refuse them until you update them.
        </ConfirmDialog>
      )}
    </Card>
  );
}

const STATES: Record<string, { label: string; tone?: Tone }> = {
  delivered: { label: "Delivered", tone: "ok" },
  failed: { label: "Failed", tone: "bad" },
  pending: { label: "Pending", tone: "info" },
};

function DeliveryState(props: { state: string }) {
  const state = STATES[props.state] ?? { label: props.state };
  return (
    <Status {...(state.tone ? { tone: state.tone } : {})} isQuiet={state.tone === "ok"}>
      {state.label}
    </Status>
  );
}

function Deliveries() {
  const { list, page, next, previous } = usePaged<Delivery>("/deliveries", {}, PAGE_SIZE);
  const [opened, setOpened] = useState<string | null>(null);
  const rows = list.data?.data;
  useLive("jobs", list.reload, POLL_MS);
  usePolling(rows?.some((delivery) => delivery.state === "pending") ?? false, POLL_MS, list.reload);
  return (
    <Card
      title="Deliveries"
      note="of jobs that have ended"
      action={
        <Button size="small" icon="retry" isBusy={list.isLoading && !!rows} onClick={list.reload}>
          Refresh
        </Button>
      }
    >
      {list.error && !rows ? (
        <ErrorState what="The deliveries" error={list.error} onRetry={list.reload} />
      ) : !rows ? (
        <TableSkeleton columns={["120px", "96px", "200px", "48px", "72px"]} rows={6} />
      ) : rows.length === 0 ? (
        <EmptyState title="No deliveries yet">
          Send <code>webhook_url</code> with a request for images, a video, a composition or a batch. The delivery of its event
          appears here.
        </EmptyState>
      ) : (
        <>
          <TableFrame label="Deliveries">
            <table>
              <caption class="sr">Deliveries</caption>
              <thead>
                <tr>
                  <th scope="col">Job</th>
                  <th scope="col">Delivery</th>
                  <th scope="col" class="opt">
                    Receiver
                  </th>
                  <th scope="col" class="n opt">
                    Attempts
                  </th>
                  <th scope="col" class="n">
                    Job ended
                  </th>
                </tr>
              </thead>
              <tbody>
                {rows.map((delivery) => (
                  <DeliveryRow
                    key={delivery.id}
                    delivery={delivery}
                    isOpen={opened === delivery.id}
                    onToggle={() => setOpened(opened === delivery.id ? null : delivery.id)}
                    onChanged={list.reload}
                  />
                ))}
              </tbody>
            </table>
          </TableFrame>
          <Pager page={page} shown={rows.length} next={next} previous={previous} />
        </>
      )}
    </Card>
  );
}

function hostOf(url: string): string {
  return URL.parse(url)?.host || url;
}

function DeliveryRow(props: { delivery: Delivery; isOpen: boolean; onToggle: () => void; onChanged: () => void }) {
  const { delivery, isOpen } = props;
  const [isSending, setSending] = useState(false);
  const sendAgain = async () => {
    setSending(true);
    try {
      await request<Delivery>("POST", `/deliveries/${encodeURIComponent(delivery.id)}/redeliver`, { body: {}, account: true });
      notify("The event is sent again.");
      props.onChanged();
    } catch (error) {
      notifyFailure("The event was not sent again", error);
    }
    setSending(false);
  };
  return (
    <>
      <tr class={isOpen ? "sel" : undefined}>
        <td>
          <button type="button" class="disclose" aria-expanded={isOpen} onClick={props.onToggle}>
            <Icon name="right" small class="muted" />
            <span class="strong5">
              {typeLabel(delivery.job_type)} {delivery.job_status}
            </span>
          </button>
        </td>
        <td>
          <DeliveryState state={delivery.state} />
        </td>
        <td class="opt">
          <span class="clip trunc muted">{hostOf(delivery.url)}</span>
        </td>
        <td class="n opt">{delivery.attempts}</td>
        <td class="n">
          <Time at={delivery.ended_at} />
        </td>
      </tr>
      {isOpen && (
        <tr class="detail">
          <td colSpan={5}>
            <dl class="kv t12">
              <dt>Event</dt>
              <dd class="row g4">
                <code class="breakable">{delivery.event_id}</code>
                <CopyButton text={delivery.event_id} label="Copy the event id" />
              </dd>
              <dt>Job</dt>
              <dd>
                <a href={href(`/jobs?job=${encodeURIComponent(delivery.id)}`)}>
                  <code class="breakable">{delivery.id}</code>
                </a>
              </dd>
              <dt>URL</dt>
              <dd>
                <code class="breakable">{delivery.url}</code>
              </dd>
              <dt>Attempts</dt>
              <dd class="num">{delivery.attempts}</dd>
              {delivery.delivered_at && (
                <>
                  <dt>Delivered</dt>
                  <dd>{dateTime(delivery.delivered_at)}</dd>
                </>
              )}
              {delivery.due_at && (
                <>
                  <dt>Next attempt</dt>
                  <dd>{dateTime(delivery.due_at)}</dd>
                </>
              )}
              {delivery.failure && (
                <>
                  <dt>Last error</dt>
                  <dd class="bad">{delivery.failure}</dd>
                </>
              )}
            </dl>
            {!isSuspended.value && (
              <div class="row sendagain">
                <Button size="small" icon="retry" isBusy={isSending} onClick={() => void sendAgain()}>
                  {delivery.state === "pending" ? "Send now" : "Send again"}
                </Button>
              </div>
            )}
          </td>
        </tr>
      )}
    </>
  );
}

const ALERT_COLUMNS: Column<AlertDelivery>[] = [
  { label: "Receiver", cell: (alert) => <span class="clip trunc">{alert.channel === "email" ? alert.address : hostOf(alert.address)}</span> },
  { label: "Channel", isOptional: true, cell: (alert) => <span class="muted">{alert.channel === "email" ? "E-mail" : "Webhook"}</span> },
  {
    label: "Delivery",
    cell: (alert) => (
      <span title={alert.failure ?? undefined}>
        <DeliveryState state={alert.state} />
      </span>
    ),
  },
  { label: "Attempts", isNumber: true, isOptional: true, cell: (alert) => alert.attempts },
  { label: "Created", isNumber: true, cell: (alert) => <Time at={alert.created_at} /> },
];

/** Low-balance alerts; without any, the page does not mention them. */
function Alerts() {
  const alerts = useResource(account.value?.id ?? null, (signal) =>
    request<List<AlertDelivery>>("GET", "/alerts/deliveries", { account: true, signal }),
  );
  const rows = alerts.data?.data ?? [];
  if (alerts.error && !alerts.data) {
    return (
      <Card title="Low-balance alerts">
        <ErrorState what="The alerts" error={alerts.error} onRetry={alerts.reload} />
      </Card>
    );
  }
  if (rows.length === 0) return null;
  return (
    <Card title="Low-balance alerts" note="of the last 30 days">
      <Table caption="Low-balance alerts" columns={ALERT_COLUMNS} rows={rows} id={(alert) => alert.id} />
    </Card>
  );
}
