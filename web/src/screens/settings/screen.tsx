import { useEffect, useRef, useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { CopyButton } from "../../parts/code.tsx";
import { Chip } from "../../parts/data.tsx";
import { Field } from "../../parts/field.tsx";
import { Section } from "../../parts/section.tsx";
import { notify, notifyFailure } from "../../parts/toast.tsx";
import { request, toApiError } from "../../shell/api.ts";
import { isSuspended } from "../../shell/details.ts";
import { Page } from "../../shell/page.tsx";
import { passwordFault, PasswordRules } from "../../shell/password.tsx";
import { roleLabel } from "../../shell/roles.ts";
import { place, setParams } from "../../shell/router.ts";
import { account, renameAccount, role, session, setSession } from "../../shell/session.ts";
import { Sessions, ThemeChoice } from "../../shell/sessions.tsx";
import { endSession } from "../../shell/side.tsx";
import type { Account, AccountSession } from "../../shell/types.ts";

/** The person's profile, password, sessions and theme, and the account. */
export function Screen() {
  const [version, setVersion] = useState(0);
  return (
    <Page title="Settings">
      <div class="settings">
        <Section title="Profile" note="Other people in your accounts see your name and address.">
          <Profile />
        </Section>
        <Section title="Password" note="A change ends all your other sessions.">
          <Password onChanged={() => setVersion(version + 1)} />
        </Section>
        <Section title="Sessions" note="Every browser in which you are signed in.">
          <Sessions version={version} />
        </Section>
        <Section title="Appearance" note="Stored in this browser.">
          <ThemeChoice />
        </Section>
        <Section title="Account" note="The account that is shown.">
          <AccountName key={account.value?.id} />
        </Section>
        <Section title="Sign out" note="Ends the session in this browser.">
          <Button icon="signout" onClick={endSession}>
            Sign out
          </Button>
        </Section>
      </div>
    </Page>
  );
}

function Profile() {
  const person = session.value?.person;
  const [name, setName] = useState(person?.name ?? "");
  const [email, setEmail] = useState(person?.email ?? "");
  const [faults, setFaults] = useState<{ name?: string; email?: string }>({});
  const [isBusy, setBusy] = useState(false);
  const isChanged = name.trim() !== person?.name || email.trim() !== (person?.email ?? "");
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy || !isChanged) return;
    const found = {
      ...(name.trim() ? {} : { name: "Enter your name." }),
      ...(/^\S+@\S+$/.test(email.trim()) ? {} : { email: "Enter an e-mail address, such as jo@example.com." }),
    };
    setFaults(found);
    if (Object.keys(found).length > 0) return;
    setBusy(true);
    try {
      const body = { name: name.trim(), email: email.trim() };
      const reply = await request<{ session: AccountSession }>("PATCH", "/person", { body });
      setSession(reply.session);
      notify("Profile saved");
    } catch (error) {
      const { param, code, message } = toApiError(error);
      if (param === "email" && code === "conflict") setFaults({ email: "This address belongs to another person." });
      else if (param === "email" || param === "name") setFaults({ [param]: message });
      else if (param !== "step_up") notifyFailure("The profile was not saved", error);
    }
    setBusy(false);
  };
  return (
    <form class="form" noValidate onSubmit={(event) => void submit(event)}>
      <Field
        label="Name"
        name="name"
        autocomplete="name"
        maxLength={100}
        value={name}
        error={faults.name ?? null}
        onInput={setName}
      />
      <Field
        label="E-mail"
        type="email"
        name="email"
        autocomplete="email"
        value={email}
        disabled={Boolean(person?.email)}
        hint={person?.email ? "The address cannot be changed." : undefined}
        error={faults.email ?? null}
        onInput={setEmail}
      />
      <Button type="submit" isBusy={isBusy} disabled={!isChanged}>
        Save
      </Button>
    </form>
  );
}

function Password(props: { onChanged: () => void }) {
  const [password, setPassword] = useState("");
  const [fault, setFault] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  const isRequested = place.value.params.get("show") === "password";
  useEffect(() => {
    if (!isRequested) return;
    form.current?.querySelector("input")?.focus();
    setParams({ show: null });
  }, [isRequested]);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy) return;
    const found = passwordFault(password);
    setFault(found);
    if (found) return;
    setBusy(true);
    try {
      const reply = await request<{ session: AccountSession }>("PUT", "/credentials/password", { body: { password } });
      setSession(reply.session);
      setPassword("");
      notify("Password changed. All other sessions have ended.");
      props.onChanged();
    } catch (error) {
      const { param, message } = toApiError(error);
      if (param === "password") setFault(message);
      else if (param !== "step_up") notifyFailure("The password was not changed", error);
    }
    setBusy(false);
  };
  return (
    <form ref={form} class="form" noValidate onSubmit={(event) => void submit(event)}>
      <Field
        label="New password"
        type="password"
        name="new-password"
        autocomplete="new-password"
        value={password}
        error={fault}
        onInput={(value) => {
          setPassword(value);
          setFault(null);
        }}
      >
        {password && <PasswordRules password={password} />}
      </Field>
      <Button type="submit" isBusy={isBusy} disabled={!password}>
        Change password
      </Button>
    </form>
  );
}

function AccountName() {
  const current = account.value;
  const [name, setName] = useState(current?.name ?? "");
  const [isBusy, setBusy] = useState(false);
  if (!current) return null;
  const mayRename = (role.value === "owner" || role.value === "admin") && !isSuspended.value;
  const isChanged = name.trim() !== "" && name.trim() !== current.name;
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy || !isChanged) return;
    setBusy(true);
    try {
      const changed = await request<Account>("PATCH", "/account", { body: { name: name.trim() }, account: true });
      renameAccount(changed.name);
      notify("Account renamed");
    } catch (error) {
      if (toApiError(error).param !== "step_up") notifyFailure("The account was not renamed", error);
    }
    setBusy(false);
  };
  return (
    <form class="form" noValidate onSubmit={(event) => void submit(event)}>
      <dl class="kv">
        <dt>Id</dt>
        <dd class="row">
          <code class="breakable">{current.id}</code>
          <CopyButton text={current.id} label="Copy the account id" />
        </dd>
        <dt>Your role</dt>
        <dd>
          <Chip>{roleLabel(role.value)}</Chip>
        </dd>
      </dl>
      <Field
        label="Account name"
        name="account"
        maxLength={100}
        value={name}
        disabled={!mayRename}
        hint={mayRename ? undefined : "Owners and admins of an active account can change the name."}
        onInput={setName}
      />
      {mayRename && (
        <Button type="submit" isBusy={isBusy} disabled={!isChanged}>
          Rename
        </Button>
      )}
    </form>
  );
}
