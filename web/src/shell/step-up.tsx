import { signal } from "@preact/signals";
import { useState } from "preact/hooks";

import { Button } from "../parts/button.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { Field } from "../parts/field.tsx";
import { request, setHooks, toApiError } from "./api.ts";
import { minutes } from "./format.ts";
import { session, setSession } from "./session.ts";
import type { AccountSession } from "./types.ts";

/** Ends the request for the password; true if the proof succeeded. */
const pending = signal<((isProved: boolean) => void) | null>(null);

setHooks({
  stepUp: () =>
    new Promise((resolve) => {
      pending.value?.(false);
      pending.value = resolve;
    }),
});

/** Asks for the password before a change that needs a recent proof. */
export function StepUp() {
  return pending.value ? <StepUpDialog done={pending.value} /> : null;
}

function StepUpDialog(props: { done: (isProved: boolean) => void }) {
  const [password, setPassword] = useState("");
  const [error, setError] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);

  const finish = (isProved: boolean) => {
    pending.value = null;
    props.done(isProved);
  };
  const submit = async () => {
    if (isBusy) return;
    if (!password) return setError("Enter your password.");
    setBusy(true);
    try {
      const reply = await request<{ session: AccountSession }>("POST", "/step-up", { body: { password } });
      setSession(reply.session);
      finish(true);
    } catch (failure) {
      const { param, status, retryAfter, message } = toApiError(failure);
      if (status === 429) setError(`Too many failures. Try again in ${minutes(retryAfter)}.`);
      else setError(param === "password" ? "The password is wrong." : message);
      setBusy(false);
    }
  };

  return (
    <Dialog
      title="Enter your password"
      size="small"
      isAlone
      onClose={() => finish(false)}
      onSubmit={() => void submit()}
      footer={
        <>
          <Button onClick={() => finish(false)}>Cancel</Button>
          <Button kind="primary" type="submit" isBusy={isBusy}>
            Continue
          </Button>
        </>
      }
    >
      <p class="muted">This change requires your password. You are not asked again for 15 minutes.</p>
      <input type="email" autocomplete="username" value={session.value?.person.email ?? ""} readOnly hidden />
      <Field
        label="Password"
        type="password"
        name="password"
        autocomplete="current-password"
        value={password}
        error={error}
        autoFocus
        onInput={(value) => {
          setPassword(value);
          setError(null);
        }}
      />
    </Dialog>
  );
}
