import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { CopyButton } from "../../parts/code.tsx";
import { Chip, Status } from "../../parts/data.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Check, Choices, Field } from "../../parts/field.tsx";
import { Banner } from "../../parts/states.tsx";
import { notify } from "../../parts/toast.tsx";
import { useAction } from "../../shell/action.ts";
import { request } from "../../shell/api.ts";
import { dateTime, relative } from "../../shell/format.ts";
import { mayChangeKey } from "../../shell/roles.ts";
import type { ApiKey } from "../../shell/types.ts";
import { COMPAT_LEVELS, masked, MAX_NAME_LENGTH, mayRotate, statusOf, SYNC } from "./keys.ts";
import { changesOf, faultOf, RightsFacts, RightsFields, rightsOf } from "./rights.tsx";

interface DetailsProps {
  apiKey: ApiKey;
  /** Name of the creator; undefined for removed members. */
  creator: string | undefined;
  keys: ApiKey[];
  onClose: () => void;
  onChanged: () => void;
  onRotate: () => void;
  onRevoke: () => void;
}

/** Facts and settings of a key. */
export function DetailsDialog(props: DetailsProps) {
  const { apiKey: key, onClose } = props;
  const mayChange = mayChangeKey(key) && key.state !== "revoked";
  const [name, setName] = useState(key.name);
  const [fault, setFault] = useState<string | null>(null);
  const [compat, setCompat] = useState(key.compat);
  const [sync, setSync] = useState(key.sync);
  const [rights, setRights] = useState(rightsOf(key));
  const [rightsFaults, setRightsFaults] = useState<ReturnType<typeof faultOf>>(null);
  const { isBusy, error, run } = useAction();
  const body = {
    ...(name.trim() !== key.name ? { name: name.trim() } : {}),
    ...(compat !== key.compat ? { compat } : {}),
    ...(sync !== key.sync ? { sync } : {}),
    ...changesOf(rightsOf(key), rights),
  };
  const isChanged = Object.keys(body).length > 0;
  const submit = () => {
    if (!mayChange || !isChanged) return;
    if (!name.trim()) return setFault("Enter a name.");
    const wrong = faultOf(rights);
    if (wrong) return setRightsFaults(wrong);
    run(async () => {
      await request("PATCH", `/keys/${key.id}`, { body, account: true });
      notify(`Key “${name.trim()}” saved`);
      props.onChanged();
      onClose();
    });
  };
  return (
    <Dialog
      title={key.name}
      isSide
      onClose={onClose}
      {...(mayChange ? { onSubmit: submit } : {})}
      footer={
        mayChange ? (
          <>
            {mayRotate(key) && <Button onClick={props.onRotate}>Rotate</Button>}
            <Button kind="danger" onClick={props.onRevoke}>
              Revoke
            </Button>
            <span class="end" />
            <Button onClick={onClose}>Cancel</Button>
            <Button kind="primary" type="submit" isBusy={isBusy} disabled={!isChanged}>
              Save
            </Button>
          </>
        ) : (
          <Button onClick={onClose}>Close</Button>
        )
      }
    >
      {error && <Banner kind="failure">{error.message}</Banner>}
      <Facts apiKey={key} creator={props.creator} keys={props.keys} withSettings={!mayChange} />
      {mayChange && (
        <>
          <hr class="rule" />
          <Field
            label="Name"
            name="key-name"
            maxLength={MAX_NAME_LENGTH}
            value={name}
            error={fault}
            onInput={(value) => {
              setName(value);
              setFault(null);
            }}
          />
          <RightsFields
            value={rights}
            faults={rightsFaults}
            onChange={(next) => {
              setRights(next);
              setRightsFaults(null);
            }}
          />
          <Choices label="Compatibility" value={compat} choices={COMPAT_LEVELS} onChange={setCompat} />
          <Check label={SYNC.label} note={SYNC.note} value={sync} onChange={setSync} />
        </>
      )}
    </Dialog>
  );
}

function Facts(props: { apiKey: ApiKey; creator: string | undefined; keys: ApiKey[]; withSettings: boolean }) {
  const { apiKey: key } = props;
  const { tone, label } = statusOf(key);
  const replacement = props.keys.find((one) => one.id === key.replaced_by);
  const replaced = props.keys.find((one) => one.replaced_by === key.id);
  return (
    <dl class="kv">
      <dt>Key</dt>
      <dd class="row">
        <code>{masked(key)}</code>
        {key.mode === "test" && <Chip>Test</Chip>}
      </dd>
      <dt>Id</dt>
      <dd class="row g4">
        <code class="breakable">{key.id}</code>
        <CopyButton text={key.id} label="Copy the key id" />
      </dd>
      <dt>State</dt>
      <dd>
        <Status {...(tone ? { tone } : {})} isQuiet={tone !== "warn"}>
          {label}
        </Status>
      </dd>
      <dt>Created</dt>
      <dd>{dateTime(key.created_at)}</dd>
      <dt>Created by</dt>
      <dd>{key.created_by ? (props.creator ?? "A removed member") : "An operator"}</dd>
      <dt>Expires</dt>
      <dd>{key.expires_at ? dateTime(key.expires_at) : "Never"}</dd>
      <dt>Last used</dt>
      <dd>{key.last_used_at ? `${dateTime(key.last_used_at)}, ${relative(key.last_used_at)}` : "Never"}</dd>
      {replacement && (
        <>
          <dt>Replaced by</dt>
          <dd>
            <code>{masked(replacement)}</code>
          </dd>
        </>
      )}
      {replaced && (
        <>
          <dt>Replaces</dt>
          <dd>
            <code>{masked(replaced)}</code> <span class="muted">{statusOf(replaced).label}</span>
          </dd>
        </>
      )}
      {props.withSettings && (
        <>
          <RightsFacts rights={rightsOf(key)} />
          <dt>Compatibility</dt>
          <dd>{COMPAT_LEVELS.find((level) => level.value === key.compat)?.label ?? key.compat}</dd>
          <dt>Images</dt>
          <dd>{key.sync ? "Requests wait for the images" : "Requests return a job"}</dd>
        </>
      )}
    </dl>
  );
}
