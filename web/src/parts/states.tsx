import type { ComponentChildren } from "preact";

import type { ApiError } from "../shell/api.ts";
import { Button } from "./button.tsx";
import { CopyButton } from "./code.tsx";
import { Icon, type IconName } from "./icon.tsx";

const KINDS = { warning: "", failure: "bad", info: "info", accent: "acc" };

/** The state of the page, with its action. */
export function Banner(props: {
  kind: keyof typeof KINDS;
  children: ComponentChildren;
  action?: ComponentChildren;
}) {
  const icon: IconName = props.kind === "warning" || props.kind === "failure" ? "warning" : "info";
  return (
    <div class={`banner ${KINDS[props.kind]}`} role={props.kind === "failure" ? "alert" : "status"}>
      <Icon name={icon} />
      <span class="grow">{props.children}</span>
      {props.action}
    </div>
  );
}

/** A list without entries, with the next step. */
export function EmptyState(props: { title: string; children?: ComponentChildren; action?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{props.title}</h2>
      {props.children && <p>{props.children}</p>}
      {props.action}
    </div>
  );
}

/** A part that could not be loaded, with the id of the request. */
export function ErrorState(props: { what: string; error: ApiError; onRetry: () => void }) {
  return (
    <div class="fail" role="alert">
      <span class="mark-bad">
        <Icon name="warning" />
      </span>
      <h2>{props.what} could not be loaded</h2>
      <p>{props.error.message}</p>
      <Button icon="retry" onClick={props.onRetry}>
        Try again
      </Button>
      {props.error.requestId && (
        <div class="rid">
          <span class="muted">x-request-id</span>
          <code class="breakable">{props.error.requestId}</code>
          <CopyButton text={props.error.requestId} label="Copy the request id" />
        </div>
      )}
    </div>
  );
}

/** Grey bars in the shape of the result. They appear after 200 ms. */
export function Skeleton(props: { width: string; height?: number }) {
  const height = props.height ? { height: `${props.height}px` } : {};
  return <span class="skel late" style={{ width: props.width, ...height }} />;
}

export function TableSkeleton(props: { rows?: number; columns: string[] }) {
  const rows = Array.from({ length: props.rows ?? 5 }, (_, index) => index);
  return (
    <div class="clipped">
      <table aria-hidden="true">
        <tbody>
          {rows.map((row) => (
            <tr key={row} class="still">
              {props.columns.map((width, column) => (
                <td key={column}>
                  <Skeleton width={`calc(${width} * ${0.7 + ((row * 3 + column) % 4) / 10})`} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
