import type { ComponentChildren } from "preact";

import { useAction } from "../shell/action.ts";
import { Button } from "./button.tsx";
import { Dialog } from "./dialog.tsx";
import { Icon } from "./icon.tsx";
import { Banner } from "./states.tsx";

/** Asks before an action that cannot be undone. The action closes the dialog if it succeeds. */
export function ConfirmDialog(props: {
  title: string;
  /** Verb and noun of the action. */
  action: string;
  children: ComponentChildren;
  onConfirm: () => Promise<void>;
  onClose: () => void;
}) {
  const { isBusy, error, run } = useAction();
  return (
    <Dialog
      title={props.title}
      size="small"
      icon={
        <span class="okring warnring">
          <Icon name="warning" />
        </span>
      }
      onClose={props.onClose}
      onSubmit={() => run(props.onConfirm)}
      footer={
        <>
          <Button autoFocus onClick={props.onClose}>
            Back
          </Button>
          <Button kind="danger-fill" type="submit" isBusy={isBusy}>
            {props.action}
          </Button>
        </>
      }
    >
      {error && <Banner kind="failure">{error.message}</Banner>}
      <p class="muted t14">{props.children}</p>
    </Dialog>
  );
}
