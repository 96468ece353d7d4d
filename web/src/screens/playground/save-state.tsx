import type { SaveState } from "./saving.ts";

const REASONS: Record<Extract<SaveState, { kind: "not_saving" }>["reason"], string> = {
  full: "the limit of chats is reached",
  conflict: "the chat was changed elsewhere",
  too_large: "the chat is too large",
  refused: "the server refuses it",
};

/** One of three indicators: Saved, Saving, Not saving. */
export function SaveIndicator(props: { state: SaveState }) {
  const { state } = props;
  if (state.kind === "none") return <span class="save" role="status" />;
  if (state.kind === "not_saving") {
    return (
      <span class="save no" role="status" title={state.message}>
        <span class="dot" aria-hidden="true" />
        <span>
          Not saving<span class="wideonly">: {REASONS[state.reason]}</span>
        </span>
      </span>
    );
  }
  const isSaved = state.kind === "saved";
  return (
    <span class={isSaved ? "save ok" : "save ing"} role="status" title={isSaved ? undefined : (state.message ?? undefined)}>
      <span class="dot" aria-hidden="true" />
      {isSaved ? "Saved" : "Saving"}
    </span>
  );
}
