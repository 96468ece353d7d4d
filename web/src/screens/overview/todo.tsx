import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

import { Icon } from "../../parts/icon.tsx";
import { request } from "../../shell/api.ts";
import { href } from "../../shell/router.ts";
import { useResource } from "../../shell/resource.ts";
import { mayCreateKeys } from "../../shell/roles.ts";
import { account, role, session } from "../../shell/session.ts";
import { store, stored } from "../../shell/theme.ts";
import type { AccountUsage, ApiKey, List, Member } from "../../shell/types.ts";

/** Name of the account that the first start creates. */
const FIRST_NAME = "default";

/** Storage of the steps that were done at the latest visit: the account, and a digit for each step. */
const DONE_STEPS = "tollgate.steps";

/** Returns whether each step was done at the latest visit; null if that is unknown. */
function latestSteps(): boolean[] | null {
  const [id, digits] = (stored(DONE_STEPS) ?? "").split(" ");
  return id && id === account.value?.id && digits ? [...digits].map((digit) => digit === "1") : null;
}

interface Step {
  label: string;
  note: string;
  isDone: boolean;
  action?: ComponentChildren;
}

/** The first steps with a new account. */
export function Todo(props: { usage: AccountUsage | null }) {
  const members = useResource(account.value?.id ?? null, (signal) =>
    request<List<Member>>("GET", "/members", { account: true, signal }),
  );
  const keys = useResource(account.value?.id ?? null, (signal) =>
    request<List<ApiKey>>("GET", "/keys", { account: true, signal }),
  );
  const isAdmin = role.value === "owner" || role.value === "admin";
  const steps: Step[] = [
    {
      label: "Set up your sign-in",
      note: "E-mail, name and password.",
      isDone: !!session.value?.person.has_password,
    },
    {
      label: "Name the account",
      note: "Invitations show the name.",
      isDone: account.value?.name !== FIRST_NAME,
      action: isAdmin && (
        <a class="btn sm" href={href("/settings")}>
          Rename
        </a>
      ),
    },
    {
      label: "Create a key",
      note: "One for each application.",
      isDone: (keys.data?.data ?? []).some((key) => key.state === "active"),
      action: mayCreateKeys() && (
        <a class="btn sm" href={href("/keys?create=1")}>
          Create key
        </a>
      ),
    },
    {
      label: "Make the first call",
      note: "With the key, from any client.",
      isDone: (props.usage?.totals.requests ?? 0) > 0,
    },
    {
      label: "Invite your team",
      note: "Each person has a role.",
      isDone: (members.data?.data.length ?? 0) > 1,
      action: isAdmin && (
        <a class="btn sm" href={href("/people?invite=1")}>
          Invite
        </a>
      ),
    },
  ];
  const isLoading = !props.usage || !members.data || !keys.data;
  const id = account.value?.id ?? "";
  const digits = steps.map((step) => (step.isDone ? "1" : "0")).join("");
  useEffect(() => {
    if (!isLoading) store(DONE_STEPS, `${id} ${digits}`);
  }, [isLoading, id, digits]);
  if (isLoading) {
    // The card has its size from the start, so that the page does not move when the data arrives.
    const latest = latestSteps();
    if (!latest && steps.slice(0, 2).every((step) => step.isDone)) return null;
    for (const [index, step] of steps.entries()) step.isDone = latest?.[index] ?? (step.isDone || step.label === "Create a key");
  }
  const done = steps.filter((step) => step.isDone).length;
  if (done === steps.length) return null;
  return (
    <section class="card" aria-busy={isLoading}>
      <header>
        <h2>Get started</h2>
        <span class="end muted t12 num">
          {isLoading ? "" : `${done} of ${steps.length}`}
        </span>
      </header>
      <ul class="todo">
        {steps.map((step) => (
          <li key={step.label} class={step.isDone ? "done" : undefined}>
            <span class="tick" aria-hidden="true">
              <Icon name="check" />
            </span>
            <span class="grow">
              {step.label}
              {step.isDone ? <span class="sr">, done</span> : <span class="muted t12 note">{step.note}</span>}
            </span>
            {!step.isDone && !isLoading && step.action}
          </li>
        ))}
      </ul>
    </section>
  );
}
