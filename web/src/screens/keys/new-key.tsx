import { Button } from "../../parts/button.tsx";
import { Secret } from "../../parts/code.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Icon } from "../../parts/icon.tsx";
import { date, dayTime } from "../../shell/format.ts";
import { knownChatModel, Snippets } from "../../shell/snippets.tsx";
import type { ApiKey, KeyMode } from "../../shell/types.ts";
import { masked } from "./keys.ts";
import { describeModels, describeScopes, type Rights } from "./rights.tsx";

/** A new key with its secret. Only the state of the open dialog has it. */
export interface NewKey {
  name: string;
  secret: string;
  mode: KeyMode;
  expiresAt: string | null;
  rights: Rights;
  /** The replaced key, with the time until which it works. */
  replaced?: { key: ApiKey; worksUntil: string | null };
}

/** Shows a new key, which cannot be shown again, and a first call with it. */
export function NewKeyDialog(props: { created: NewKey; onClose: () => void }) {
  const { name, secret, mode, expiresAt, rights, replaced } = props.created;
  return (
    <Dialog
      title={`Key “${name}” is ready`}
      size="large"
      icon={
        <span class="okring">
          <Icon name="check" />
        </span>
      }
      isSecret
      onClose={props.onClose}
      footer={<Button onClick={props.onClose}>I have stored it</Button>}
    >
      <p class="muted t14">
        Copy it now. The gateway stores only a hash, so this is the only time that the key is shown.
      </p>
      <Secret text={secret} />
      <Snippets model={mode === "test" ? "sim/chat" : knownChatModel()} apiKey={secret} />
      <dl class="kv t12">
        <dt>Mode</dt>
        <dd>{mode === "test" ? "Test: simulated models only, no charges" : "Live"}</dd>
        <dt>Rights</dt>
        <dd>
          {describeModels(rights.models)}, {describeScopes(rights.scopes).toLowerCase()}
        </dd>
        <dt>Expires</dt>
        <dd>{expiresAt ? date(expiresAt) : "Never"}</dd>
        {replaced && (
          <>
            <dt>Replaced key</dt>
            <dd>
              <code>{masked(replaced.key)}</code>{" "}
              {replaced.worksUntil ? `works until ${dayTime(replaced.worksUntil)}` : "has stopped working"}
            </dd>
          </>
        )}
      </dl>
    </Dialog>
  );
}
