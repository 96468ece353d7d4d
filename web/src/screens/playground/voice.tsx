import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { returnFocus } from "../../parts/focus.ts";
import { Banner } from "../../parts/states.tsx";
import { duration, isZero, smallAmount } from "../../shell/format.ts";
import { Page } from "../../shell/page.tsx";
import { href } from "../../shell/router.ts";
import { account } from "../../shell/session.ts";
import { shortName } from "./catalog.ts";
import { CodeDialog } from "./code-dialog.tsx";
import { Controls } from "./voice-controls.tsx";
import type { Fault } from "./voice-faults.ts";
import { Levels, StateChip, stateOf, Transcript } from "./voice-parts.tsx";
import { modelIn, secretRequest, type VoiceSettings } from "./voice-session.ts";
import { SettingsPane } from "./voice-settings.tsx";
import { completed, DETECTIONS, form, talk } from "./voice-state.ts";

/** Member of the conversation. */
let owner: string | undefined;

/** Delay after the latest change of a setting before the open session has it. */
const CHANGE_MS = 500;

/** Talks with a voice model, or transcribes speech while it lasts. */
export function VoiceMode(props: { tabs: ComponentChildren; mayCall: boolean }) {
  const settings = completed(form.value);
  const [isCodeOpen, setCodeOpen] = useState(false);
  const member = account.value?.member_id;
  useEffect(() => {
    if (owner !== member) talk.clear();
    owner = member;
    return () => talk.end();
  }, [member]);
  const live = JSON.stringify([settings.instructions, settings.detection, settings.silence, settings.threshold, settings.language]);
  const applied = useRef(live);
  useEffect(() => {
    if (talk.phase.value !== "open") applied.current = live;
    if (applied.current === live) return undefined;
    const timer = setTimeout(() => {
      applied.current = live;
      talk.change(settings);
    }, CHANGE_MS);
    return () => clearTimeout(timer);
  }, [live]);
  const start = (withMicrophone: boolean) => {
    applied.current = live;
    void talk.start(settings, withMicrophone);
  };
  const { isLive } = talk;
  const entries = talk.entries.value;
  // The button that had the focus disappears with the start and the end of a session.
  useEffect(() => {
    if (document.activeElement === document.body) returnFocus(null);
  }, [isLive]);
  return (
    <Page
      title="Voice"
      isFlush
      action={
        <span class="row pactions">
          <Button size="small" icon="code" disabled={!modelIn(settings)} onClick={() => setCodeOpen(true)}>
            <span class="wideonly">Code</span>
            <span class="sr narrow">Code</span>
          </Button>
          <Button size="small" icon="plus" disabled={entries.length === 0} onClick={() => talk.clear()}>
            New session
          </Button>
        </span>
      }
    >
      {props.tabs}
      <div class="pg voice">
        <div class="pmain">
          <Top settings={settings} />
          <Faults settings={settings} onStart={start} />
          {entries.length === 0 ? <Introduction settings={settings} /> : <Transcript entries={entries} model={modelIn(settings)} />}
          <Controls settings={settings} mayStart={props.mayCall && modelIn(settings) !== ""} onStart={start} />
        </div>
        <SettingsPane settings={settings} isLive={isLive} />
      </div>
      <Announcer settings={settings} />
      {isCodeOpen && (
        <CodeDialog
          requests={[{ label: "Client secret", path: "/realtime/client_secrets", body: { json: JSON.stringify(secretRequest(settings)) } }]}
          isSent={isLive}
          onClose={() => setCodeOpen(false)}
        />
      )}
    </Page>
  );
}

function Top(props: { settings: VoiceSettings }) {
  const { settings } = props;
  const { isLive } = talk;
  const model = modelIn(settings);
  const detection = DETECTIONS.find((one) => one.value === settings.detection)?.label ?? "";
  const voice = settings.kind === "talk" ? settings.voice.trim() || talk.voice.value : null;
  const reply = talk.replyMs.value;
  const { cost } = talk.total.value;
  return (
    <header class="vtop">
      <div class="row">
        <StateChip state={stateOf(talk, settings)} startedAt={talk.startedAt.value} isLive={isLive} />
        <span class="muted t12 trunc wideonly">{[shortName(model), voice, detection].filter(Boolean).join(" · ")}</span>
        <span class="end row muted t12 num">
          {reply !== null && (
            <span class="wideonly">
              reply after <b class="ink">{duration(reply)}</b>
            </span>
          )}
          {!isZero(cost) && (
            <span title={cost}>
              charge <b class="ink">{smallAmount(cost)}</b>
            </span>
          )}
        </span>
      </div>
      <div class={settings.kind === "talk" ? "vlevels two" : "vlevels"}>
        <Levels label="You" level={talk.inputLevel} isLive={isLive} />
        {settings.kind === "talk" && <Levels label={shortName(model)} level={talk.outputLevel} isLive={isLive} isOther />}
      </div>
    </header>
  );
}

function Introduction(props: { settings: VoiceSettings }) {
  return (
    <div class="vlog">
      <div class="empty start">
        {props.settings.kind === "talk" ? (
          <>
            <h2>Talk with a voice model</h2>
            <p>
              Speak, or type. Speaking interrupts an answer. The browser asks for the microphone at the start. Each answer is a
              call with its exact charge; an open session itself is free. Words are not stored.
            </p>
          </>
        ) : (
          <>
            <h2>Transcribe speech while it lasts</h2>
            <p>The words appear as you speak. Each second of audio is charged, silence included, except while the microphone is muted.</p>
          </>
        )}
      </div>
    </div>
  );
}

function Faults(props: { settings: VoiceSettings; onStart: (withMicrophone: boolean) => void }) {
  const microphone = talk.microphoneFault.value;
  const fault = talk.fault.value;
  if (!microphone && !fault) return null;
  return (
    <div class="vfaults">
      {microphone && (
        <Banner
          kind="failure"
          action={
            !talk.isLive && (
              <span class="row">
                <Button size="small" icon="retry" onClick={() => props.onStart(true)}>
                  Try again
                </Button>
                {props.settings.kind === "talk" && (
                  <Button size="small" onClick={() => props.onStart(false)}>
                    Continue by typing
                  </Button>
                )}
              </span>
            )
          }
        >
          <b>The microphone is off.</b> {microphone}
        </Banner>
      )}
      {fault && <FaultBanner fault={fault} />}
    </div>
  );
}

function FaultBanner(props: { fault: Fault }) {
  const { fault } = props;
  const action =
    fault.isOfBalance ? (
      <a class="btn sm" href={href("/billing")}>
        Billing
      </a>
    ) : (
      <Button
        size="small"
        kind="bare"
        icon="close"
        label="Close the message"
        onClick={() => {
          talk.fault.value = null;
        }}
      />
    );
  return (
    <Banner kind="failure" action={action}>
      <b>{fault.title}</b> <span class="note">{fault.message}</span>
      <span class="muted t12 row wrap">
        {fault.code && <code>{fault.code}</code>}
        {fault.requestId && <code class="breakable">{fault.requestId}</code>}
      </span>
    </Banner>
  );
}

/** Tells screen readers the state, and each line when it is complete. */
function Announcer(props: { settings: VoiceSettings }) {
  const { word } = stateOf(talk, props.settings);
  const last = talk.entries.value.findLast((entry) => !entry.isPending && entry.who !== "note");
  return (
    <>
      <span class="sr" role="status">
        {word}
      </span>
      <span class="sr" aria-live="polite">
        {last?.who === "model" ? last.text : ""}
      </span>
    </>
  );
}
