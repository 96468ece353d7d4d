import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Field } from "../../parts/field.tsx";
import { Banner } from "../../parts/states.tsx";
import { request, toApiError } from "../../shell/api.ts";
import { Front } from "../../shell/front.tsx";
import { passwordFault, PasswordRules } from "../../shell/password.tsx";
import { account, session, setSession } from "../../shell/session.ts";
import { endSession } from "../../shell/side.tsx";
import type { AccountSession } from "../../shell/types.ts";

type Faults = Partial<Record<"email" | "name" | "password" | "form", string>>;

/** Completes a person who came by a link: e-mail, name and password. */
export function Screen() {
  const person = session.value?.person;
  const [email, setEmail] = useState(person?.email ?? "");
  const [name, setName] = useState(person?.name ?? "");
  const [password, setPassword] = useState("");
  const [faults, setFaults] = useState<Faults>({});
  const [isBusy, setBusy] = useState(false);

  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy) return;
    const weak = passwordFault(password);
    const found: Faults = {
      ...(/^\S+@\S+$/.test(email.trim()) ? {} : { email: "Enter an e-mail address, such as jo@example.com." }),
      ...(name.trim() ? {} : { name: "Enter your name." }),
      ...(weak ? { password: weak } : {}),
    };
    setFaults(found);
    if (Object.keys(found).length > 0) return;
    setBusy(true);
    try {
      await request("PATCH", "/person", { body: { email: email.trim(), name: name.trim() } });
      const reply = await request<{ session: AccountSession }>("PUT", "/credentials/password", { body: { password } });
      setSession(reply.session);
    } catch (failure) {
      const { code, param, message } = toApiError(failure);
      setBusy(false);
      if (param === "email" && code === "conflict") {
        setFaults({ email: "This address belongs to another person. Sign out and sign in with it, or use another." });
      } else if (param === "email" || param === "name" || param === "password") {
        setFaults({ [param]: message });
      } else {
        setFaults({ form: message });
      }
    }
  };

  return (
    <Front
      title="Welcome"
      note={account.value ? `You have joined ${account.value.name}. Set up how you sign in.` : "Set up how you sign in."}
    >
      {faults.form && <Banner kind="failure">{faults.form}</Banner>}
      <form class="stack g16" noValidate onSubmit={(event) => void submit(event)}>
        <Field
          label="E-mail"
          type="email"
          name="email"
          autocomplete="username"
          isLarge
          autoFocus
          value={email}
          error={faults.email ?? null}
          onInput={setEmail}
        />
        <Field
          label="Name"
          name="name"
          autocomplete="name"
          isLarge
          maxLength={100}
          value={name}
          error={faults.name ?? null}
          onInput={setName}
        />
        <Field
          label="Password"
          type="password"
          name="new-password"
          autocomplete="new-password"
          isLarge
          value={password}
          error={faults.password ?? null}
          onInput={setPassword}
        >
          <PasswordRules password={password} />
        </Field>
        <Button kind="primary" size="large" type="submit" isBusy={isBusy}>
          Continue
        </Button>
      </form>
      <p class="muted t12">
        Not you?{" "}
        <Button kind="bare" size="small" onClick={endSession}>
          Sign out
        </Button>
      </p>
    </Front>
  );
}
