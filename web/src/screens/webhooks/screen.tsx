import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { CopyButton } from "../../parts/code.tsx";
import { ConfirmDialog } from "../../parts/confirm.tsx";
import { Card, Status, TableFrame, Time, type Tone } from "../../parts/data.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Pager } from "../../parts/pager.tsx";
import { EmptyState, ErrorState, TableSkeleton } from "../../parts/states.tsx";
import { notify, notifyFailure } from "../../parts/toast.tsx";
import { PUBLIC_API, request, toApiError } from "../../shell/api.ts";
import { isSuspended } from "../../shell/details.ts";
import { dateTime } from "../../shell/format.ts";
import { Page } from "../../shell/page.tsx";
import { usePaged } from "../../shell/paging.ts";
import { mayAdminister } from "../../shell/roles.ts";
import type { Delivery } from "../../shell/types.ts";

const PAGE_SIZE = 25;

const SECRET_PATH = `${PUBLIC_API}/account/webhook_secret`;

/** The signing secret of the account, and the deliveries of its events. */
export function Screen() {
  return (
    <Page title="Webhooks">
      {mayAdminister() ? (
        <>
          <SigningSecret />
          <Deliveries />
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
  dead: { label: "Failed", tone: "bad" },
  given_up: { label: "Failed", tone: "bad" },
  pending: { label: "Pending", tone: "info" },
  waiting: { label: "Waiting", tone: "warn" },
};

function Deliveries() {
  const { list, page, next, previous } = usePaged<Delivery>("/deliveries", {}, PAGE_SIZE);
  const [opened, setOpened] = useState<string | null>(null);
  const rows = list.data?.data;
  return (
    <Card
      title="Deliveries"
      note="of the last 30 days"
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
          Send <code>webhook_url</code> with a request for images, a video, a composition or a batch. The deliveries of its
          events, and those of alerts, appear here.
        </EmptyState>
      ) : (
        <>
          <TableFrame label="Deliveries">
            <table>
              <caption class="sr">Deliveries</caption>
              <thead>
                <tr>
                  <th scope="col">Event</th>
                  <th scope="col">State</th>
                  <th scope="col" class="opt">
                    Receiver
                  </th>
                  <th scope="col" class="n opt">
                    Attempts
                  </th>
                  <th scope="col" class="n">
                    Created
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

function receiverOf(delivery: Delivery): string {
  if (delivery.channel === "mail") return "E-mail";
  return (delivery.url && URL.parse(delivery.url)?.host) || "Webhook";
}

function DeliveryRow(props: { delivery: Delivery; isOpen: boolean; onToggle: () => void }) {
  const { delivery, isOpen } = props;
  const state = STATES[delivery.state] ?? { label: delivery.state };
  return (
    <>
      <tr class={isOpen ? "sel" : undefined}>
        <td>
          <button type="button" class="disclose" aria-expanded={isOpen} onClick={props.onToggle}>
            <Icon name="right" small class="muted" />
            <span class="strong5">{delivery.kind}</span>
          </button>
        </td>
        <td>
          <Status {...(state.tone ? { tone: state.tone } : {})} isQuiet={state.tone === "ok"}>
            {state.label}
          </Status>
        </td>
        <td class="opt">
          <span class="clip trunc muted">{receiverOf(delivery)}</span>
        </td>
        <td class="n opt">{delivery.attempts}</td>
        <td class="n">
          <Time at={delivery.created_at} />
        </td>
      </tr>
      {isOpen && (
        <tr class="detail">
          <td colSpan={5}>
            <dl class="kv t12">
              <dt>Id</dt>
              <dd class="row g4">
                <code class="breakable">{delivery.id}</code>
                <CopyButton text={delivery.id} label="Copy the event id" />
              </dd>
              <dt>Channel</dt>
              <dd>{delivery.channel === "mail" ? "E-mail" : "Webhook"}</dd>
              {delivery.url && (
                <>
                  <dt>URL</dt>
                  <dd>
                    <code class="breakable">{delivery.url}</code>
                  </dd>
                </>
              )}
              <dt>Attempts</dt>
              <dd class="num">{delivery.attempts}</dd>
              <dt>Created</dt>
              <dd>{dateTime(delivery.created_at)}</dd>
              {delivery.next_attempt_at && (
                <>
                  <dt>Next attempt</dt>
                  <dd>{dateTime(delivery.next_attempt_at)}</dd>
                </>
              )}
              {delivery.last_error && (
                <>
                  <dt>Last error</dt>
                  <dd class="bad">{delivery.last_error}</dd>
                </>
              )}
            </dl>
          </td>
        </tr>
      )}
    </>
  );
}
