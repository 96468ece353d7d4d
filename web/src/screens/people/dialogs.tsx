import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Secret } from "../../parts/code.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Choices, Field } from "../../parts/field.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Banner } from "../../parts/states.tsx";
import { notify } from "../../parts/toast.tsx";
import { useAction } from "../../shell/action.ts";
import { request } from "../../shell/api.ts";
import { count, date, plural } from "../../shell/format.ts";
import { useResource } from "../../shell/resource.ts";
import { describeNewRole, isSelf, mayManageRole, roleLabel, ROLES } from "../../shell/roles.ts";
import type { ApiKey, Invitation, List, Member, Role } from "../../shell/types.ts";

const CHOICES = () => ROLES.filter((one) => mayManageRole(one.value));

/** Creates an invitation. */
export function InviteDialog(props: { onClose: () => void; onInvited: (invitation: Invitation) => void }) {
  const [email, setEmail] = useState("");
  const [fault, setFault] = useState<string | null>(null);
  const [role, setRole] = useState<Role>("member");
  const { isBusy, error, run } = useAction();
  const submit = () => {
    if (!/^\S+@\S+$/.test(email.trim())) {
      setFault("Enter an e-mail address, such as jo@example.com.");
      return;
    }
    run(async () => {
      const body = { email: email.trim(), role };
      props.onInvited(await request<Invitation>("POST", "/invitations", { body, account: true }));
    });
  };
  return (
    <Dialog
      title="Invite a person"
      onClose={props.onClose}
      onSubmit={submit}
      footer={
        <>
          <Button onClick={props.onClose}>Cancel</Button>
          <Button kind="primary" type="submit" isBusy={isBusy}>
            Create link
          </Button>
        </>
      }
    >
      {error && <Banner kind="failure">{error.message}</Banner>}
      <Field
        label="E-mail"
        type="email"
        name="email"
        autoFocus
        value={email}
        error={fault}
        hint="The person signs in with this address."
        onInput={(value) => {
          setEmail(value);
          setFault(null);
        }}
      />
      <Choices label="Role" value={role} choices={CHOICES()} onChange={setRole} />
    </Dialog>
  );
}

/** Shows the link of an invitation, which cannot be shown again. */
export function InvitationDialog(props: { invitation: Invitation; onClose: () => void }) {
  const { member, url, expires_at: end, mailed } = props.invitation;
  return (
    <Dialog
      title={`Invitation for ${member.email}`}
      icon={
        <span class="okring">
          <Icon name="check" />
        </span>
      }
      isSecret
      onClose={props.onClose}
      footer={
        <>
          <Button onClick={props.onClose}>Done</Button>
        </>
      }
    >
      <p class="muted t14">
        {mailed
          ? "The link was sent by e-mail. You can also give it to the person yourself."
          : "Give this link to the person. No e-mail was sent."}{" "}
        This is the only time that it is shown.
      </p>
      <Secret text={url} />
      <dl class="kv t12">
        <dt>Role</dt>
        <dd>{roleLabel(member.role)}</dd>
        <dt>Works until</dt>
        <dd>{date(end)}, once</dd>
      </dl>
    </Dialog>
  );
}

/** Changes the role of a member. */
export function RoleDialog(props: { member: Member; onClose: () => void; onChanged: () => void }) {
  const { member } = props;
  const [role, setRole] = useState<Role>(member.role);
  const { isBusy, error, run } = useAction();
  const name = member.name || member.email;
  const submit = () => {
    if (role === member.role) {
      props.onClose();
      return;
    }
    run(async () => {
      await request("PATCH", `/members/${member.id}`, { body: { role }, account: true });
      notify(describeNewRole(name, role));
      props.onChanged();
      props.onClose();
    });
  };
  return (
    <Dialog
      title={`Role of ${name}`}
      onClose={props.onClose}
      onSubmit={submit}
      footer={
        <>
          <Button onClick={props.onClose}>Cancel</Button>
          <Button kind="primary" type="submit" isBusy={isBusy}>
            Change role
          </Button>
        </>
      }
    >
      {error && <Banner kind="failure">{error.message}</Banner>}
      {isSelf(member) && role !== member.role && (
        <Banner kind="warning">This is your own role. You may be unable to undo the change.</Banner>
      )}
      <Choices label="Role" value={role} choices={CHOICES()} onChange={setRole} />
    </Dialog>
  );
}

type KeyChoice = "revoke" | "keep";

/** Removes a member, or withdraws an invitation. */
export function RemoveDialog(props: { member: Member; onClose: () => void; onRemoved: () => void }) {
  const { member } = props;
  const isInvitation = member.status !== "active";
  const keys = useResource(isInvitation ? null : member.id, (signal) =>
    request<List<ApiKey>>("GET", "/keys", { account: true, signal }),
  );
  const [choice, setChoice] = useState<KeyChoice>("revoke");
  const { isBusy, error, run } = useAction();
  const created = keys.data?.data.filter((key) => key.created_by === member.id && key.state === "active") ?? [];
  const name = member.name || member.email;
  const submit = () =>
    run(async () => {
      const query = choice === "keep" ? "?keep_keys=true" : "";
      await request("DELETE", `/members/${member.id}${query}`, { account: true });
      notify(isInvitation ? `The invitation of ${name} was withdrawn` : `${name} was removed`);
      props.onRemoved();
      props.onClose();
    });
  return (
    <Dialog
      title={isInvitation ? `Withdraw the invitation of ${name}?` : `Remove ${name}?`}
      size="small"
      icon={
        <span class="okring warnring">
          <Icon name="warning" />
        </span>
      }
      onClose={props.onClose}
      onSubmit={submit}
      footer={
        <>
          <Button autoFocus onClick={props.onClose}>
            Cancel
          </Button>
          <Button kind="danger-fill" type="submit" isBusy={isBusy || keys.isLoading}>
            {isInvitation ? "Withdraw" : "Remove"}
          </Button>
        </>
      }
    >
      {error && <Banner kind="failure">{error.message}</Banner>}
      <p class="muted t14">
        {isInvitation
          ? "The link stops working immediately."
          : "The person loses access to this account immediately. Other accounts of the person are not affected."}
      </p>
      {keys.error && (
        <Banner kind="warning">
          The keys of the account could not be loaded. All keys that this member created will be revoked.
        </Banner>
      )}
      {created.length > 0 && (
        <Choices
          label={`${name} created ${plural(created.length, "active key")}`}
          value={choice}
          choices={[
            { value: "revoke", label: "Revoke the keys this member created", note: revocationNote(created) },
            { value: "keep", label: "Let them work", note: "Owners and admins can manage them." },
          ]}
          onChange={setChoice}
        />
      )}
    </Dialog>
  );
}

const NAMED_KEYS = 3;

const LIST = new Intl.ListFormat("en-GB");

/** Names the first keys that stop working. */
function revocationNote(keys: ApiKey[]): string {
  const names = keys.slice(0, NAMED_KEYS).map((key) => key.name);
  const rest = keys.length - names.length;
  const list = LIST.format(rest > 0 ? [...names, `${count(rest)} more`] : names);
  return `Calls with ${list} fail immediately.`;
}
