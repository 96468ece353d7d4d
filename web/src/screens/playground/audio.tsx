import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { CopyButton } from "../../parts/code.tsx";
import { Chip } from "../../parts/data.tsx";
import { Field, FileField } from "../../parts/field.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Slider } from "../../parts/slider.tsx";
import { EmptyState } from "../../parts/states.tsx";
import { TextArea } from "../../parts/text-area.tsx";
import { open, PUBLIC_API, upload } from "../../shell/api.ts";
import { count, duration, size } from "../../shell/format.ts";
import { place } from "../../shell/router.ts";
import { loadUsage } from "../../shell/usage.ts";
import { findModel, modelsFor } from "./catalog.ts";
import { CallForm, compactBody, FormPage, ModelField, modeState, QuoteReceipt, times, trimmed, ValueField } from "./forms.tsx";
import { useQuote } from "./quote.ts";

export const SPEECH_ENDPOINT = "/v1/audio/speech";
export const TRANSCRIPTION_ENDPOINT = "/v1/audio/transcriptions";

const MAX_SPOKEN = 4096;
const FORMATS = ["mp3", "wav", "opus", "aac", "flac"];

const TYPES: Record<string, string> = { mp3: "audio/mpeg", wav: "audio/wav", opus: "audio/ogg", aac: "audio/aac", flac: "audio/flac" };

const speech = modeState({ model: "", input: "", voice: "alloy", instructions: "", format: "mp3", speed: null as number | null });

interface Spoken {
  key: number;
  url: string;
  model: string;
  voice: string;
  text: string;
  format: string;
  bytes: number;
  ms: number;
  cost: string | null;
  requestId: string | null;
}

const recordings = modeState<Spoken[]>([]);

let lastKey = 0;

/** Speaks a text. */
export function SpeechMode(props: { tabs: ComponentChildren; mayCall: boolean }) {
  const models = modelsFor(SPEECH_ENDPOINT);
  const form = speech.value;
  const model = findModel(form.model) ?? models.find((one) => one.id === place.value.params.get("model")) ?? models[0];
  const change = (changes: Partial<typeof form>) => {
    speech.value = { ...speech.peek(), ...changes };
  };
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [sent, setSent] = useState<string | null>(null);
  const body = compactBody({
    model: model?.id,
    input: form.input,
    voice: form.voice.trim(),
    instructions: form.instructions.trim(),
    response_format: form.format === "mp3" ? "" : form.format,
    speed: form.speed,
  });
  const isComplete = form.input.trim() !== "" && form.voice.trim() !== "" && !!model && props.mayCall;
  const quote = useQuote(isComplete ? JSON.stringify(body) : null, () => [{ endpoint: SPEECH_ENDPOINT, request: body }]);
  const length = [...form.input].length;
  const submit = () => {
    if (!isComplete || isBusy) return;
    setBusy(true);
    setError(null);
    setSent(JSON.stringify(body));
    const start = performance.now();
    open("POST", `${PUBLIC_API}/audio/speech`, { body, account: true })
      .then(async (response) => {
        const content = await response.arrayBuffer();
        lastKey += 1;
        const spoken: Spoken = {
          key: lastKey,
          url: URL.createObjectURL(new Blob([content], { type: TYPES[form.format] ?? "audio/mpeg" })),
          model: model?.id ?? "",
          voice: form.voice.trim(),
          text: form.input,
          format: form.format,
          bytes: content.byteLength,
          ms: performance.now() - start,
          cost: response.headers.get("x-tollgate-cost"),
          requestId: response.headers.get("x-request-id"),
        };
        recordings.value = [spoken, ...recordings.peek()];
        void loadUsage();
      })
      .catch((failure: unknown) => setError(failure))
      .finally(() => setBusy(false));
  };
  return (
    <FormPage
      title="Speech"
      tabs={props.tabs}
      code={{ label: "Speech", path: "/audio/speech", body: { json: sent ?? JSON.stringify(body) }, output: `speech.${form.format}` }}
      isSent={sent !== null}
      form={
        <CallForm
          error={error}
          onSubmit={submit}
          footer={<QuoteReceipt quote={quote} hint="The quote appears as you type." />}
          submit={
            <Button kind="primary" size="large" type="submit" class="grow" isBusy={isBusy} disabled={!isComplete}>
              Speak
            </Button>
          }
        >
          <ModelField models={models} value={model?.id ?? ""} onChange={(id) => change({ model: id })} />
          <TextArea
            label="Text"
            rows={6}
            value={form.input}
            maxLength={MAX_SPOKEN}
            note={`${count(length)} of ${count(MAX_SPOKEN)}`}
            onInput={(input) => change({ input })}
          />
          <Field label="Voice" value={form.voice} hint="A voice of the provider, such as alloy." onInput={(voice) => change({ voice })} />
          <TextArea label="Instructions, optional" rows={1} value={form.instructions} onInput={(instructions) => change({ instructions })} />
          <ValueField label="Format" value={form.format} values={FORMATS} onChange={(format) => change({ format })} />
          <Slider label="Speed" value={form.speed} minimum={0.25} maximum={4} step={0.05} start={1} onChange={(speed) => change({ speed })} />
        </CallForm>
      }
    >
      {recordings.value.length === 0 ? (
        <EmptyState title="Nothing spoken yet">Recordings stay here until the page is closed. Download those that you need.</EmptyState>
      ) : (
        recordings.value.map((one) => <SpokenView key={one.key} spoken={one} />)
      )}
    </FormPage>
  );
}

function SpokenView(props: { spoken: Spoken }) {
  const { spoken } = props;
  return (
    <section class="job" aria-label={`Speech of ${spoken.model}`}>
      <header class="row wrap">
        <Chip tone="ok" dot>
          {duration(spoken.ms)}
        </Chip>
        <Chip>{spoken.voice}</Chip>
        <span class="muted t12">
          {spoken.model}, {spoken.format}, {size(spoken.bytes)}
        </span>
        <span class="end row">
          {spoken.cost && (
            <b class="num" title={spoken.cost}>
              {trimmed(spoken.cost)}
            </b>
          )}
          <a class="btn sm sq bare" href={spoken.url} download={`speech.${spoken.format}`} aria-label="Download the recording" title="Download">
            <Icon name="download" />
          </a>
        </span>
      </header>
      <audio src={spoken.url} controls aria-label={`Recording of ${spoken.voice}`} />
      <p class="muted clamp">{spoken.text}</p>
    </section>
  );
}

interface Segment {
  id: number;
  start: number;
  end: number;
  text: string;
}

interface Transcript {
  text: string;
  language?: string;
  duration?: number;
  segments?: Segment[];
  usage?: { seconds?: number; cost?: string };
}

const MAX_AUDIO_BYTES = 25 * 1024 * 1024;
const AUDIO_TYPES = ".flac,.m4a,.mp3,.mp4,.mpeg,.mpga,.oga,.ogg,.wav,.webm";

const transcription = modeState({ model: "", language: "", prompt: "", hasTimes: true, file: null as File | null });
const transcript = modeState<{ result: Transcript; name: string; ms: number } | null>(null);

/** Transcribes a recording, from a file or the microphone. */
export function TranscriptionMode(props: { tabs: ComponentChildren; mayCall: boolean }) {
  const models = modelsFor(TRANSCRIPTION_ENDPOINT);
  const form = transcription.value;
  const model = findModel(form.model) ?? models.find((one) => one.id === place.value.params.get("model")) ?? models[0];
  const change = (changes: Partial<typeof form>) => {
    transcription.value = { ...transcription.peek(), ...changes };
  };
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [isSent, setSent] = useState(false);
  const { file } = form;
  const fields: Record<string, string> = {
    model: model?.id ?? "",
    ...(form.language.trim() ? { language: form.language.trim() } : {}),
    ...(form.prompt.trim() ? { prompt: form.prompt.trim() } : {}),
    ...(form.hasTimes ? { response_format: "verbose_json" } : {}),
  };
  const fault = file && file.size > MAX_AUDIO_BYTES ? "The recording is larger than 25 MiB." : null;
  const isComplete = file !== null && !fault && !!model && props.mayCall;
  const submit = () => {
    if (!isComplete || isBusy || !file) return;
    setBusy(true);
    setError(null);
    setSent(true);
    const data = new FormData();
    for (const [name, value] of Object.entries(fields)) data.append(name, value);
    data.append("file", file, file.name);
    const start = performance.now();
    upload<Transcript>(`${PUBLIC_API}/audio/transcriptions`, data, () => undefined, new AbortController().signal)
      .then((result) => {
        transcript.value = { result, name: file.name, ms: performance.now() - start };
        void loadUsage();
      })
      .catch((failure: unknown) => setError(failure))
      .finally(() => setBusy(false));
  };
  const price = model?.pricing["audio"];
  const shown = transcript.value;
  return (
    <FormPage
      title="Transcription"
      tabs={props.tabs}
      code={{ label: "Transcription", path: "/audio/transcriptions", body: { form: { ...fields, file: file?.name ?? "recording.mp3" } } }}
      isSent={isSent}
      form={
        <CallForm
          error={error}
          onSubmit={submit}
          footer={price && <p class="muted t12 num">{times(price, "60").replace(/0+$/, "")} credits a minute of audio</p>}
          submit={
            <Button kind="primary" size="large" type="submit" class="grow" isBusy={isBusy} disabled={!isComplete}>
              Transcribe
            </Button>
          }
        >
          <ModelField models={models} value={model?.id ?? ""} onChange={(id) => change({ model: id })} />
          <FileField
            label="Recording"
            file={file}
            accept={AUDIO_TYPES}
            error={fault}
            hint="MP3, WAV, FLAC, Ogg, M4A or WebM, at most 25 MiB."
            onChange={(chosen) => change({ file: chosen })}
          />
          <Recorder onRecorded={(recorded) => change({ file: recorded })} />
          <Field label="Language, optional" value={form.language} hint="A code such as en. Without it, the model detects the language." onInput={(language) => change({ language })} />
          <TextArea label="Prompt, optional" rows={2} value={form.prompt} hint="Names and terms in the recording." onInput={(prompt) => change({ prompt })} />
          <label class="row">
            <input type="checkbox" class="cb" checked={form.hasTimes} onChange={(event) => change({ hasTimes: event.currentTarget.checked })} />
            Times of the segments
          </label>
        </CallForm>
      }
    >
      {shown ? (
        <section class="job" aria-label="Transcript">
          <header class="row wrap">
            <h2 class="trunc">{shown.name}</h2>
            <Chip tone="ok" dot>
              {duration(shown.ms)}
            </Chip>
            {shown.result.language && <Chip>{shown.result.language}</Chip>}
            <span class="end row">
              {shown.result.usage?.seconds !== undefined && <span class="muted t12 num">{shown.result.usage.seconds.toFixed(1)} s of audio</span>}
              {shown.result.usage?.cost && (
                <b class="num" title={shown.result.usage.cost}>
                  {trimmed(shown.result.usage.cost)}
                </b>
              )}
              <CopyButton text={shown.result.text} label="Copy the transcript" />
            </span>
          </header>
          {shown.result.segments && shown.result.segments.length > 0 ? (
            <ol class="segments">
              {shown.result.segments.map((segment) => (
                <li key={segment.id}>
                  <span class="muted num">{clockOf(segment.start)}</span>
                  <span>{segment.text.trim()}</span>
                </li>
              ))}
            </ol>
          ) : (
            <p class="t14">{shown.result.text}</p>
          )}
          <span class="sr" role="status">
            Transcript of {shown.name} is ready
          </span>
        </section>
      ) : (
        <EmptyState title="No transcript yet">Choose a recording, or speak into the microphone.</EmptyState>
      )}
    </FormPage>
  );
}

function clockOf(seconds: number): string {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/** Records from the microphone. */
function Recorder(props: { onRecorded: (file: File) => void }) {
  const [recorder, setRecorder] = useState<MediaRecorder | null>(null);
  const [error, setError] = useState<string | null>(null);
  const active = useRef<MediaRecorder | null>(null);
  useEffect(
    () => () => {
      active.current?.stream.getTracks().forEach((track) => track.stop());
    },
    [],
  );
  if (!("MediaRecorder" in window) || !navigator.mediaDevices) return null;
  const start = () => {
    setError(null);
    navigator.mediaDevices.getUserMedia({ audio: true }).then(
      (stream) => {
        const next = new MediaRecorder(stream);
        const chunks: Blob[] = [];
        next.ondataavailable = (event) => chunks.push(event.data);
        next.onstop = () => {
          stream.getTracks().forEach((track) => track.stop());
          const isOgg = next.mimeType.includes("ogg");
          props.onRecorded(new File(chunks, isOgg ? "microphone.ogg" : "microphone.webm", { type: next.mimeType }));
          active.current = null;
          setRecorder(null);
        };
        next.start();
        active.current = next;
        setRecorder(next);
      },
      () => setError("The browser does not allow the microphone on this page."),
    );
  };
  return (
    <div class="row wrap">
      {recorder ? (
        <Button size="small" kind="danger" icon="stop" onClick={() => recorder.stop()}>
          Stop recording
        </Button>
      ) : (
        <Button size="small" onClick={start}>
          Record
        </Button>
      )}
      {recorder && (
        <span class="row bad t12" role="status">
          <span class="dot pulse" aria-hidden="true" />
          Recording
        </span>
      )}
      {error && (
        <span class="bad t12" role="alert">
          {error}
        </span>
      )}
    </div>
  );
}
