import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Field } from "../../parts/field.tsx";
import { Banner } from "../../parts/states.tsx";
import { request, toApiError } from "../../shell/api.ts";
import { minutes } from "../../shell/format.ts";
import { Front } from "../../shell/front.tsx";
import { place } from "../../shell/router.ts";
import { continueAfterSignIn, setSession, signInToken } from "../../shell/session.ts";
import type { OperatorSession } from "../../shell/types.ts";

interface Reply {
  session: OperatorSession;
}

/** Signs an administrator in, by a link or by the token of the admin API. */
export function Screen() {
  const [isGone, setGone] = useState(false);
  return signInToken.value ? <LinkPage onGone={() => setGone(true)} /> : <TokenPage isGone={isGone} />;
}

function LinkPage(props: { onGone: () => void }) {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const redeem = async () => {
    setBusy(true);
    setError(null);
    try {
      const reply = await request<Reply>("POST", "/sign-in/link", { body: { token: signInToken.value } });
      signInToken.value = null;
      setSession(reply.session);
      continueAfterSignIn();
    } catch (failure) {
      const { status, message } = toApiError(failure);
      if (status === 410) {
        signInToken.value = null;
        props.onGone();
        return;
      }
      setError(message);
      setBusy(false);
    }
  };
  return (
    <Front title="Sign in" note={`Operators of ${location.host}`}>
      <p class="t14">This link signs you in once. It stops working when you continue.</p>
      {error && <Banner kind="failure">{error}</Banner>}
      <Button kind="primary" size="large" isBusy={isBusy} onClick={() => void redeem()}>
        Sign in
      </Button>
    </Front>
  );
}

function TokenPage(props: { isGone: boolean }) {
  const [token, setToken] = useState("");
  const [fault, setFault] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const hasEnded = place.value.params.has("ended");
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy) return;
    if (!token.trim()) {
      setFault("Enter your token.");
      return;
    }
    setBusy(true);
    try {
      const reply = await request<Reply>("POST", "/sign-in/token", { body: { token: token.trim() } });
      setSession(reply.session);
      continueAfterSignIn();
    } catch (failure) {
      const { status, retryAfter, message } = toApiError(failure);
      if (status === 429) setFault(`Too many failures. Try again in ${minutes(retryAfter)}.`);
      else setFault(status === 401 || status === 403 ? "The token is wrong, or it was revoked." : message);
      setBusy(false);
    }
  };
  return (
    <Front title="Sign in" note={`Operators of ${location.host}`}>
      {props.isGone ? (
        <Banner kind="warning">
          <b>This link no longer works.</b> It was used, or it has expired. Use your token, or create a new link.
        </Banner>
      ) : (
        hasEnded && <Banner kind="info">Your session has ended. Sign in to continue.</Banner>
      )}
      <form class="stack g16" noValidate onSubmit={(event) => void submit(event)}>
        <Field
          label="Token"
          type="password"
          name="token"
          autocomplete="off"
          isLarge
          autoFocus
          value={token}
          error={fault}
          hint="The token of the admin API, as tollgate admins create prints it."
          onInput={(value) => {
            setToken(value);
            setFault(null);
          }}
        />
        <Button kind="primary" size="large" type="submit" isBusy={isBusy}>
          Sign in
        </Button>
      </form>
      <div class="stack g12 muted t12">
        <p>Without a token, this command prints a link on the server:</p>
        <p class="shell-hint">
          <code>tollgate console link --admin NAME</code>
        </p>
      </div>
    </Front>
  );
}
