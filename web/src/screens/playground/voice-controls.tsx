import { useEffect, useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Icon } from "../../parts/icon.tsx";
import type { VoiceSettings } from "./voice-session.ts";
import { talk } from "./voice-state.ts";

/** Whether a key belongs to a field, or the space bar to a control, and so is no shortcut. */
function isTaken(event: KeyboardEvent): boolean {
  const target = event.target instanceof Element ? event.target : null;
  const controls = event.key === " " ? "input, textarea, select, dialog, button, a" : "input, textarea, select, dialog";
  return event.defaultPrevented || event.repeat || event.ctrlKey || event.metaKey || event.altKey || !!target?.closest(controls);
}

/** The buttons of a session, and the field for messages. */
export function Controls(props: { settings: VoiceSettings; mayStart: boolean; onStart: (withMicrophone: boolean) => void }) {
  const { settings } = props;
  const [text, setText] = useState("");
  const phase = talk.phase.value;
  const isTalk = settings.kind === "talk";
  const isPush = settings.detection === "off";
  const hasMicrophone = talk.hasMicrophone.value;
  const mayInterrupt = talk.isPlaying.value || talk.isResponding.value;
  useEffect(() => {
    if (phase !== "open") return undefined;
    const press = (event: KeyboardEvent) => {
      if (isTaken(event)) return;
      if (event.key === "m" && hasMicrophone && !isPush) talk.mute(!talk.isMuted.peek());
      else if (event.key === " " && isPush && hasMicrophone) talk.talk(true);
      else if (event.key === " " && mayInterrupt) talk.interrupt();
      else return;
      event.preventDefault();
    };
    const release = (event: KeyboardEvent) => {
      if (event.key === " ") talk.talk(false);
    };
    const leave = () => talk.talk(false);
    window.addEventListener("keydown", press);
    window.addEventListener("keyup", release);
    window.addEventListener("blur", leave);
    return () => {
      window.removeEventListener("keydown", press);
      window.removeEventListener("keyup", release);
      window.removeEventListener("blur", leave);
    };
  }, [phase, isPush, hasMicrophone, mayInterrupt]);
  if (!talk.isLive) {
    const isContinued = talk.entries.value.length > 0;
    return (
      <div class="vctl">
        <Button kind="primary" size="large" icon={isContinued ? "retry" : "microphone"} disabled={!props.mayStart} onClick={() => props.onStart(true)}>
          {isContinued ? "Reconnect" : isTalk ? "Start talking" : "Start transcription"}
        </Button>
        {isTalk && (
          <Button size="large" kind="bare" disabled={!props.mayStart} onClick={() => props.onStart(false)}>
            {isContinued ? "Reconnect without a microphone" : "Start without a microphone"}
          </Button>
        )}
      </div>
    );
  }
  const message = text.trim();
  return (
    <form
      class="vctl"
      onSubmit={(event) => {
        event.preventDefault();
        if (!message || phase !== "open") return;
        talk.write(message);
        setText("");
      }}
    >
      {hasMicrophone && isPush && <PushButton disabled={phase !== "open"} />}
      {hasMicrophone && !isPush && <MuteButton />}
      {isTalk && (
        <Button size="large" icon="stop" disabled={!mayInterrupt} onClick={() => talk.interrupt()}>
          Interrupt {!isPush && <kbd>Space</kbd>}
        </Button>
      )}
      {isTalk && (
        <div class="in soft">
          <input
            aria-label="Message"
            placeholder="Type instead of speaking"
            autocomplete="off"
            value={text}
            disabled={phase !== "open"}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </div>
      )}
      {isTalk && (
        <Button size="large" type="submit" disabled={!message || phase !== "open"}>
          Send
        </Button>
      )}
      <Button kind="danger-fill" size="large" class={isTalk ? "" : "end"} onClick={() => talk.end()}>
        End session
      </Button>
    </form>
  );
}

function MuteButton() {
  const isMuted = talk.isMuted.value;
  return (
    <button type="button" class="btn lg" aria-pressed={isMuted} onClick={() => talk.mute(!isMuted)}>
      <Icon name={isMuted ? "muted" : "microphone"} />
      {isMuted ? "Unmute" : "Mute"} <kbd>M</kbd>
    </button>
  );
}

function PushButton(props: { disabled: boolean }) {
  const isTalking = talk.isTalking.value;
  const isKey = (event: KeyboardEvent) => event.key === " " || event.key === "Enter";
  return (
    <button
      type="button"
      class={isTalking ? "btn lg pri vpush" : "btn lg vpush"}
      aria-pressed={isTalking}
      disabled={props.disabled}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        talk.talk(true);
      }}
      onPointerUp={() => talk.talk(false)}
      onPointerCancel={() => talk.talk(false)}
      onKeyDown={(event) => {
        if (!isKey(event)) return;
        event.preventDefault();
        talk.talk(true);
      }}
      onKeyUp={(event) => {
        if (isKey(event)) talk.talk(false);
      }}
      onBlur={() => talk.talk(false)}
    >
      <Icon name="microphone" />
      {isTalking ? "Release to send" : "Hold to talk"} <kbd class={isTalking ? "onp" : undefined}>Space</kbd>
    </button>
  );
}
