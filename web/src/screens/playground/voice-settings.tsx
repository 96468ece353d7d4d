import { useEffect, useState } from "preact/hooks";

import { Field, Options, Select } from "../../parts/field.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Slider } from "../../parts/slider.tsx";
import { TextArea } from "../../parts/text-area.tsx";
import { findModel, shortName } from "./catalog.ts";
import { ModelField } from "./forms.tsx";
import { microphones } from "./voice-audio.ts";
import { CostSoFar } from "./voice-parts.tsx";
import { MAX_MINUTES, modelIn, type Detection, type Kind, type VoiceSettings } from "./voice-session.ts";
import { DETECTIONS, form, KINDS, talk, talkModels, transcribeModels } from "./voice-state.ts";

/** The settings of a session and its cost, at the side. On phones they are folded. */
export function SettingsPane(props: { settings: VoiceSettings; isLive: boolean }) {
  const { settings, isLive } = props;
  const [isOpen, setOpen] = useState(false);
  const [devices, setDevices] = useState<MediaDeviceInfo[]>([]);
  const hasMicrophone = talk.hasMicrophone.value;
  useEffect(() => {
    if (!navigator.mediaDevices) return undefined;
    let isShown = true;
    const load = () => void microphones().then((found) => isShown && setDevices(found), () => undefined);
    load();
    navigator.mediaDevices.addEventListener("devicechange", load);
    return () => {
      isShown = false;
      navigator.mediaDevices.removeEventListener("devicechange", load);
    };
  }, [hasMicrophone]);
  const change = (changes: Partial<VoiceSettings>) => {
    form.value = { ...form.peek(), ...changes };
  };
  const isTalk = settings.kind === "talk";
  const hasBoth = talkModels().length > 0 && transcribeModels().length > 0;
  const isServer = settings.detection === "server_vad";
  const price = findModel(settings.transcribeModel)?.pricing["audio"];
  const isCostValid = settings.maxCost === "" || /^\d+(\.\d{1,9})?$/.test(settings.maxCost.trim());
  return (
    <aside class={isOpen ? "params open" : "params"} aria-label="Session">
      <header class="row between">
        <h2>Session</h2>
        <button type="button" class="fold" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <span class="muted t12 trunc">{shortName(modelIn(settings))}</span>
          <Icon name="down" />
          <span class="sr">Show the settings</span>
        </button>
      </header>
      <div class="plist">
        <fieldset class="plist" disabled={isLive}>
          {hasBoth && <Options label="Kind" value={settings.kind} options={KINDS} onChange={(kind: Kind) => change({ kind })} />}
          <ModelField
            models={isTalk ? talkModels() : transcribeModels()}
            value={modelIn(settings)}
            onChange={(id) => change(isTalk ? { talkModel: id } : { transcribeModel: id })}
          />
          {isTalk && (
            <Field
              label="Voice, optional"
              value={settings.voice}
              hint={talk.voice.value && !settings.voice ? `The model uses ${talk.voice.value}.` : "A voice of the speech model, such as alloy."}
              onInput={(voice) => change({ voice })}
            />
          )}
        </fieldset>
        {isTalk ? (
          <TextArea label="Instructions, optional" rows={3} value={settings.instructions} onInput={(instructions) => change({ instructions })} />
        ) : (
          <Field label="Language, optional" value={settings.language} hint="A code such as en." onInput={(language) => change({ language })} />
        )}
        <Options
          label="Turn detection"
          value={settings.detection}
          options={DETECTIONS}
          hint={HINTS[settings.detection]}
          onChange={(detection: Detection) => change({ detection })}
        />
        {isServer && (
          <>
            <Slider label="Silence in ms" value={settings.silence} minimum={100} maximum={2000} step={50} start={500} onChange={(silence) => change({ silence })} />
            <Slider label="Threshold" value={settings.threshold} minimum={0} maximum={1} step={0.05} start={0.5} onChange={(threshold) => change({ threshold })} />
          </>
        )}
        <fieldset class="plist" disabled={isLive}>
          {isTalk && <Slider label="Speed" value={settings.speed} minimum={0.25} maximum={1.5} step={0.05} start={1} onChange={(speed) => change({ speed })} />}
          {devices.length > 0 && (
            <Select
              label="Microphone"
              value={devices.some((device) => device.deviceId === settings.device) ? settings.device : ""}
              options={[
                { value: "", label: "Default" },
                ...devices.filter((device) => device.deviceId !== "default").map((device) => ({ value: device.deviceId, label: device.label })),
              ]}
              onChange={(device) => change({ device })}
            />
          )}
          <label class="row">
            <input type="checkbox" class="cb" checked={settings.isProcessed} onChange={(event) => change({ isProcessed: event.currentTarget.checked })} />
            Remove echo and noise
          </label>
          {isTalk && (
            <Field
              label="Maximum cost, optional"
              value={settings.maxCost}
              error={isCostValid ? null : "Enter an amount such as 0.50."}
              hint="In credits, for all answers of a session."
              onInput={(maxCost) => change({ maxCost })}
            />
          )}
        </fieldset>
        <CostSoFar total={talk.total.value} isTranscription={!isTalk} />
        <p class="muted t12">
          A session ends after {MAX_MINUTES} minutes.
          {!isTalk && price && ` A second of audio costs ${price} credits.`}
        </p>
      </div>
    </aside>
  );
}

const HINTS: Record<Detection, string> = {
  server_vad: "A pause ends your turn.",
  semantic_vad: "A finished sentence ends your turn.",
  off: "You hold a button while you speak.",
};
