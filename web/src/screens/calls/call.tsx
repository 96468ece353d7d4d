import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { CopyButton } from "../../parts/code.tsx";
import { Chip, Stat, Stats } from "../../parts/data.tsx";
import { ReceiptBox, ReceiptRow } from "../../parts/receipt.tsx";
import { ErrorState, Skeleton } from "../../parts/states.tsx";
import { request } from "../../shell/api.ts";
import { Outcome } from "../../shell/calls.tsx";
import { amount, count, dateTime, duration, fromUnits, isZero, toUnits, whole } from "../../shell/format.ts";
import type { Names } from "../../shell/names.ts";
import { useResource } from "../../shell/resource.ts";
import { href } from "../../shell/router.ts";
import type { CallDetail, Receipt, ReceiptLine, Transfer } from "../../shell/types.ts";

interface PaneProps {
  id: string;
  names: Names;
  previous: (() => void) | null;
  next: (() => void) | null;
  onClose: () => void;
}

let isFirst = true;

/** A call with its timeline, price lines and transfers, beside the list. */
export function CallPane(props: PaneProps) {
  const detail = useResource(props.id, (signal) =>
    request<CallDetail>("GET", `/calls/${encodeURIComponent(props.id)}`, { account: true, signal }),
  );
  const pane = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    // The focus stays on the buttons that move to the next call, and on the address of a link.
    if (!isFirst && !pane.current?.contains(document.activeElement)) pane.current?.focus({ preventScroll: true });
  }, []);
  useEffect(() => {
    isFirst = false;
  }, []);
  const isEnd = !props.previous || !props.next;
  useLayoutEffect(() => {
    // A button that becomes disabled at the end of the list loses the focus.
    if (document.activeElement?.matches(":disabled")) pane.current?.focus({ preventScroll: true });
  }, [props.id, isEnd]);
  const call = detail.data?.call;
  return (
    <aside
      ref={pane}
      class="calldetail"
      aria-label="Call"
      tabIndex={-1}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.preventDefault();
        props.onClose();
      }}
    >
      <header>
        <div class="stack g2 grow">
          {call ? (
            <span class="row g4">
              <code class="strong trunc">{call.request_id}</code>
              <CopyButton text={call.request_id} label="Copy the request id" />
            </span>
          ) : (
            <Skeleton width="220px" height={16} />
          )}
          {call && (
            <span class="muted t12">
              {dateTime(call.created_at)} · {call.endpoint}
            </span>
          )}
        </div>
        <span class="row g4">
          <Button kind="bare" size="small" icon="left" label="Newer call" disabled={!props.previous} onClick={() => props.previous?.()} />
          <Button kind="bare" size="small" icon="right" label="Older call" disabled={!props.next} onClick={() => props.next?.()} />
          <Button kind="bare" size="small" icon="close" label="Close" onClick={props.onClose} />
        </span>
      </header>
      {detail.error && !detail.data ? (
        <ErrorState what="The call" error={detail.error} onRetry={detail.reload} />
      ) : detail.data ? (
        <Body detail={detail.data} names={props.names} />
      ) : (
        <div class="dbody" aria-busy="true">
          <Skeleton width="100%" height={72} />
          <Skeleton width="100%" height={96} />
          <Skeleton width="100%" height={144} />
        </div>
      )}
    </aside>
  );
}

function Body(props: { detail: CallDetail; names: Names }) {
  const { call, timeline, receipt, transfers } = props.detail;
  const total = Date.parse(timeline.ended_at) - Date.parse(timeline.accepted_at);
  const first = timeline.first_content_at && Date.parse(timeline.first_content_at) - Date.parse(timeline.accepted_at);
  return (
    <div class="dbody">
      <Stats isSmall>
        <Stat label="Charge" note={call.estimated ? "Estimated usage" : undefined}>
          <b title={receipt.charge}>{amount(receipt.charge, 6)}</b>
        </Stat>
        <Stat label="First output">
          <b class={typeof first === "number" ? undefined : "muted"}>{typeof first === "number" ? duration(first) : "None"}</b>
        </Stat>
        <Stat label="Total">
          <b>{duration(total)}</b>
        </Stat>
      </Stats>
      <Timeline total={total} first={typeof first === "number" ? first : null} />
      <PriceLines receipt={receipt} version={call.price_version} />
      <Part title="Request">
        <RequestFacts detail={props.detail} names={props.names} />
      </Part>
      <Part title="Ledger" note={transfers.length > 0 ? "transfers of this call" : undefined}>
        <Transfers transfers={transfers} />
      </Part>
    </div>
  );
}

function Part(props: { title: string; note?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="stack g4" aria-label={props.title}>
      <div class="row between">
        <h2>{props.title}</h2>
        {props.note && <span class="muted t12">{props.note}</span>}
      </div>
      {props.children}
    </section>
  );
}

const TICKS = 4;

/** Milliseconds below which the labels of the timeline have a decimal, so that they differ. */
const SHORT_MS = 20;

function tick(ms: number, total: number): string {
  return total < SHORT_MS ? `${ms.toFixed(1)} ms` : duration(ms);
}

function Timeline(props: { total: number; first: number | null }) {
  const { total, first } = props;
  const rows: [string, number, number, string][] =
    first === null
      ? [["Until the end", 0, total, "s8"]]
      : [
          ["First output", 0, first, "s2"],
          ["Output", first, total, "s1"],
        ];
  const scale = Math.max(total, 1);
  return (
    <Part title="Timeline">
      <div class="wf">
        <div class="wfax" aria-hidden="true">
          {Array.from({ length: TICKS + 1 }, (_, index) => (
            <span key={index}>{index === 0 ? "0" : tick((total * index) / TICKS, total)}</span>
          ))}
        </div>
        {rows.map(([label, from, to, color]) => (
          <div key={label} class="wfr">
            <span>{label}</span>
            <span class="wft" aria-hidden="true">
              <i class={color} style={{ left: `${(from / scale) * 100}%`, width: `max(3px, ${((to - from) / scale) * 100}%)` }} />
            </span>
            <span class="num">{duration(to - from)}</span>
          </div>
        ))}
      </div>
    </Part>
  );
}

/** Names of the classes of usage, and their units that are not tokens. */
const CLASSES: Record<string, { label: string; unit?: string; size?: number }> = {
  input: { label: "Input" },
  cache_read: { label: "Cached input" },
  cache_write: { label: "Cache write" },
  cache_write_1h: { label: "Cache write, 1 h" },
  cache_read_audio: { label: "Cached audio input" },
  input_audio: { label: "Audio input" },
  input_image: { label: "Image input" },
  output: { label: "Output" },
  reasoning: { label: "Reasoning" },
  output_audio: { label: "Audio output" },
  image: { label: "Images", unit: "", size: 1e6 },
  video: { label: "Video", unit: " s", size: 1e6 },
  audio: { label: "Audio", unit: " s", size: 1e6 },
  character: { label: "Characters" },
  search: { label: "Searches", unit: "", size: 1e6 },
};

function PriceRow(props: { line: ReceiptLine }) {
  const { line } = props;
  const { label, unit = "", size = 1 } = CLASSES[line.class] ?? { label: line.class };
  const quantity = (line.tokens / size).toLocaleString("en", { maximumFractionDigits: 6 });
  return <ReceiptRow label={label} factors={`${quantity}${unit} × ${whole(line.price)}`} value={whole(creditsOf(line.product))} />;
}

function PriceLines(props: { receipt: Receipt; version: string }) {
  const { receipt } = props;
  const unpaid = toUnits(receipt.cost) - toUnits(receipt.charge);
  const { requests } = receipt;
  const hasAllowance = !isZero(receipt.included);
  const isPerMillion = [...receipt.lines, ...receipt.parts.flatMap((part) => part.lines)].some((line) => !CLASSES[line.class]?.size);
  return (
    <Part title="Price lines" note={`price version ${props.version}${isPerMillion ? " · per 1 M" : ""}`}>
      <ReceiptBox>
        {receipt.parts.length > 0
          ? receipt.parts.map((part) => (
              <>
                <ReceiptRow
                  key={part.name}
                  label={
                    <>
                      <b>{part.name}</b> <span class="muted">{part.model}</span>
                    </>
                  }
                  value={whole(part.cost)}
                />
                {part.lines.map((line) => (
                  <PriceRow key={part.name + line.class} line={line} />
                ))}
              </>
            ))
          : receipt.lines.map((line) => <PriceRow key={line.class} line={line} />)}
        {requests && <ReceiptRow label="Requests" factors={count(requests.count)} value={whole(requests.cost)} />}
        {receipt.lines.length === 0 && receipt.parts.length === 0 && !requests && (
          <ReceiptRow label="No usage was charged" value="0.00" isMuted />
        )}
        {unpaid > 0n && !isZero(receipt.cost) && (
          <ReceiptRow label="Above the held amount, not charged" value={`−${whole(fromUnits(unpaid))}`} isMuted />
        )}
        <ReceiptRow label="Charge" value={whole(receipt.charge)} isSum />
      </ReceiptBox>
      <dl class="kv split-kv t12">
        {receipt.long_prompt_above !== null && (
          <>
            <dt>Prices for long prompts</dt>
            <dd>above {count(receipt.long_prompt_above)} input tokens</dd>
          </>
        )}
        {hasAllowance && (
          <>
            <dt>Paid by the allowance of the plan</dt>
            <dd>{whole(receipt.included)}</dd>
            <dt>Paid with credits</dt>
            <dd>{whole(receipt.paid)}</dd>
          </>
        )}
        {!isZero(receipt.refunded) && (
          <>
            <dt class="ok">Refunded</dt>
            <dd class="ok">{whole(receipt.refunded)}</dd>
          </>
        )}
        <dt>
          <i class="swatch hatch" aria-hidden="true" /> Held while it ran
        </dt>
        <dd>
          {whole(receipt.held_credits)}
          {!isZero(receipt.held_allowance) && ` and ${whole(receipt.held_allowance)} of the allowance`}
        </dd>
      </dl>
    </Part>
  );
}

function RequestFacts(props: { detail: CallDetail; names: Names }) {
  const { call } = props.detail;
  const { names } = props;
  const key = call.key_id && names.keys.find((one) => one.id === call.key_id);
  return (
    <dl class="kv split-kv">
      <dt>Outcome</dt>
      <dd>
        <Outcome outcome={call.outcome} />
      </dd>
      <dt>Model</dt>
      <dd>
        {call.model ? <a href={href(`/calls?model=${encodeURIComponent(call.model)}`)}>{call.model}</a> : "None"}
      </dd>
      {call.requested_model && call.requested_model !== call.model && (
        <>
          <dt>Requested as</dt>
          <dd>{call.requested_model}</dd>
        </>
      )}
      {call.upstream_model && (
        <>
          <dt>Model of the provider</dt>
          <dd>{call.upstream_model}</dd>
        </>
      )}
      {call.key_id && (
        <>
          <dt>Key</dt>
          <dd>
            <a href={href(`/calls?key=${encodeURIComponent(call.key_id)}`)}>{names.key(call.key_id)}</a>{" "}
            {key && <code class="muted">…{key.last4}</code>}
          </dd>
        </>
      )}
      {call.member_id && (
        <>
          <dt>Member</dt>
          <dd>
            <a href={href(`/calls?member=${encodeURIComponent(call.member_id)}`)}>{names.member(call.member_id)}</a>{" "}
            <Chip>Console</Chip>
          </dd>
        </>
      )}
      {call.plan_name && (
        <>
          <dt>Plan</dt>
          <dd>{call.plan_name}</dd>
        </>
      )}
      {call.estimated && (
        <>
          <dt>Usage</dt>
          <dd>Estimated by the gateway</dd>
        </>
      )}
    </dl>
  );
}

/** Returns credits for a product of quantity and price, in millionths of a nano-credit. */
function creditsOf(product: string): string {
  const digits = product.padStart(16, "0");
  return `${digits.slice(0, -15)}.${digits.slice(-15)}`;
}

const TRANSFERS: Record<string, string> = {
  hold: "Held",
  hold_lease: "Held",
  hold_allowance: "Allowance held",
  settle: "Charged",
  settle_included: "Charged to the allowance",
  release: "Released",
  release_lease: "Released",
  release_allowance: "Allowance released",
  release_breakage: "Allowance expired",
  refund: "Refunded",
  refund_allowance: "Refunded to the allowance",
  overrun: "Above the held amount",
  crash_loss: "Lost by an interruption",
};

function transferName(leg: string): string {
  return TRANSFERS[leg] ?? leg;
}

function Transfers(props: { transfers: Transfer[] }) {
  if (props.transfers.length === 0) return <p class="muted t12">The call moved no credits.</p>;
  return (
    <ul class="legs">
      {props.transfers.map((transfer) => (
        <li key={transfer.leg} title={dateTime(transfer.at)}>
          <i class={transfer.leg.startsWith("hold") ? "swatch hatch" : "swatch s1"} aria-hidden="true" />
          <span class="stack g2">
            <span>{transferName(transfer.leg)}</span>
            <span class="muted t12">
              {transfer.from} → {transfer.to}
            </span>
          </span>
          <span class="num">{whole(transfer.amount)}</span>
        </li>
      ))}
    </ul>
  );
}
