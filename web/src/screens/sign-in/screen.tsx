import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Field } from "../../parts/field.tsx";
import { Banner } from "../../parts/states.tsx";
import { request, toApiError } from "../../shell/api.ts";
import { minutes } from "../../shell/format.ts";
import { Front } from "../../shell/front.tsx";
import { place } from "../../shell/router.ts";
import { continueAfterSignIn, service, session, setSession, signInToken } from "../../shell/session.ts";
import type { AccountSession } from "../../shell/types.ts";

type LinkState = "ready" | "gone" | { needsSignIn: string };

/** Signs a person in, by a link or by the password. */
export function Screen() {
  const [link, setLink] = useState<LinkState>("ready");
  if (signInToken.value && link === "ready") return <LinkPage onRefused={setLink} />;
  return <PasswordPage link={link} onSignedIn={() => setLink("ready")} />;
}

function LinkPage(props: { onRefused: (state: LinkState) => void }) {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const person = session.value?.person;

  const redeem = async () => {
    setBusy(true);
    setError(null);
    try {
      const body = { token: signInToken.value };
      const reply = await request<{ session: AccountSession }>("POST", "/sign-in/link", { body });
      signInToken.value = null;
      setSession(reply.session);
      continueAfterSignIn();
    } catch (failure) {
      const { status, param, message, retryAfter } = toApiError(failure);
      setBusy(false);
      if (status === 410) {
        signInToken.value = null;
        props.onRefused("gone");
      } else if (param === "sign_in") {
        props.onRefused({ needsSignIn: message });
      } else {
        setError(status === 429 ? `Too many attempts. Try again in ${minutes(retryAfter)}.` : message);
      }
    }
  };

  return (
    <Front title="Sign in" note={location.host}>
      <p class="t14">
        {person
          ? `You are signed in as ${person.email ?? person.name}. Continue to use this link.`
          : "This link signs you in once. It stops working when you continue."}
      </p>
      {error && <Banner kind="failure">{error}</Banner>}
      <Button kind="primary" size="large" isBusy={isBusy} onClick={() => void redeem()}>
        Sign in
      </Button>
    </Front>
  );
}

function PasswordPage(props: { link: LinkState; onSignedIn: () => void }) {
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [errors, setErrors] = useState<{ email?: string; password?: string; form?: string }>({});
  const [isBusy, setBusy] = useState(false);
  const [sentTo, setSentTo] = useState<string | null>(null);
  const hasEnded = place.value.params.has("ended");

  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy) return;
    const missing = {
      ...(email.includes("@") ? {} : { email: "Enter your e-mail address." }),
      ...(password ? {} : { password: "Enter your password." }),
    };
    setErrors(missing);
    if (Object.keys(missing).length > 0) return;
    setBusy(true);
    try {
      const body = { email: email.trim(), password };
      const reply = await request<{ session: AccountSession }>("POST", "/sign-in/password", { body });
      setSession(reply.session);
      if (signInToken.value) props.onSignedIn();
      else continueAfterSignIn();
    } catch (failure) {
      const { status, param, message, retryAfter } = toApiError(failure);
      if (status === 429) {
        setErrors({ form: `Too many failures for this address. Try again in ${minutes(retryAfter)}.` });
      } else if (param === "password") {
        setErrors({
          password: "E-mail or password is wrong. After 10 failures, the address is locked for 15 minutes.",
        });
      } else {
        setErrors({ form: message });
      }
    }
    setBusy(false);
  };

  const sendLink = async () => {
    if (!email.includes("@")) {
      setErrors({ email: "Enter your e-mail address." });
      return;
    }
    setErrors({});
    try {
      await request("POST", "/sign-in/reset", { body: { email: email.trim() } });
      setSentTo(email.trim());
    } catch (failure) {
      const { param, message } = toApiError(failure);
      setErrors(param === "email" ? { email: message } : { form: message });
    }
  };

  return (
    <Front title="Sign in" note={location.host}>
      {errors.form ? (
        <Banner kind="failure">{errors.form}</Banner>
      ) : props.link === "gone" ? (
        <Banner kind="warning">
          <b>This link no longer works.</b> It was used, or it has expired. Ask for a new one, or use your password.
        </Banner>
      ) : typeof props.link === "object" ? (
        <Banner kind="info">{props.link.needsSignIn}</Banner>
      ) : (
        hasEnded && <Banner kind="info">Your session has ended. Sign in to continue.</Banner>
      )}
      <form class="stack g16" noValidate onSubmit={(event) => void submit(event)}>
        <Field
          label="E-mail"
          type="email"
          name="email"
          autocomplete="username"
          isLarge
          autoFocus
          value={email}
          error={errors.email ?? null}
          onInput={setEmail}
        />
        <Field
          label="Password"
          type="password"
          name="password"
          autocomplete="current-password"
          isLarge
          value={password}
          error={errors.password ?? null}
          onInput={setPassword}
        />
        <Button kind="primary" size="large" type="submit" isBusy={isBusy}>
          Sign in
        </Button>
      </form>
      {service.value.sends_mail && (
        <Button kind="bare" onClick={() => void sendLink()}>
          E-mail me a link to reset the password
        </Button>
      )}
      <div role="status">
        {sentTo && (
          <Banner kind="info">
            If {sentTo} belongs to a person of this service, a link is on its way. It works once, for one hour, and asks for
            a new password.
          </Banner>
        )}
      </div>
      <div class="stack g12 muted t12">
        <p>
          No account yet, or the password is lost? Ask an admin of your account for an invitation. On the server, this
          command prints a link:
        </p>
        <p class="shell-hint">
          <code>tollgate console link --account ID</code>
        </p>
      </div>
    </Front>
  );
}
