import { useSignalEffect, type ReadonlySignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { Avatar, Chip, type Tone } from "../../parts/data.tsx";
import { Icon } from "../../parts/icon.tsx";
import { count, smallAmount } from "../../shell/format.ts";
import { session } from "../../shell/session.ts";
import { prefixMark, shortName } from "./catalog.ts";
import { trimmed } from "./forms.tsx";
import { decibels, height, SILENCE_DB } from "./voice-pcm.ts";
import type { Entry, Talk, Usage, VoiceSettings } from "./voice-session.ts";

/** Returns a position such as `1:04`. */
export function clockOf(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

export interface State {
  word: "Not started" | "Connecting" | "Listening" | "Thinking" | "Speaking" | "Muted" | "Ready" | "Ended";
  tone?: Tone;
}

/** Returns the state of a session in one word. */
export function stateOf(talk: Talk, settings: VoiceSettings): State {
  const phase = talk.phase.value;
  if (phase === "idle") return { word: "Not started" };
  if (phase === "closed") return { word: "Ended" };
  if (phase === "connecting") return { word: "Connecting", tone: "info" };
  if (talk.isSpeechHeard.value || talk.isTalking.value) return { word: "Listening", tone: "ok" };
  if (talk.isPlaying.value) return { word: "Speaking", tone: "acc" };
  if (talk.isResponding.value || talk.isAwaited.value) return { word: "Thinking", tone: "info" };
  if (!talk.hasMicrophone.value || settings.detection === "off") return { word: "Ready" };
  return talk.isMuted.value ? { word: "Muted", tone: "warn" } : { word: "Listening", tone: "ok" };
}

export function StateChip(props: { state: State; startedAt: number; isLive: boolean }) {
  const { state, startedAt, isLive } = props;
  const [, setTick] = useState(0);
  useEffect(() => {
    if (!isLive) return undefined;
    const timer = setInterval(() => setTick((tick) => tick + 1), 1000);
    return () => clearInterval(timer);
  }, [isLive]);
  return (
    <span class="row">
      <Chip {...(state.tone ? { tone: state.tone } : {})} dot>
        {state.word}
      </Chip>
      {isLive && startedAt > 0 && <span class="num muted t12">{clockOf(Date.now() - startedAt)}</span>}
    </span>
  );
}

/** Number of bars of a level meter. */
const BARS = 84;

const HEIGHT = 48;

/** The course of a level over the last seconds. */
export function Levels(props: { label: string; level: ReadonlySignal<number>; isOther?: boolean; isLive: boolean }) {
  const { label, level, isLive } = props;
  const bars = useRef<number[]>(Array<number>(BARS).fill(0));
  const frame = useRef<HTMLDivElement>(null);
  const path = useRef<SVGPathElement>(null);
  const figure = useRef<HTMLSpanElement>(null);
  const draw = (value: number) => {
    // The level of an audio that has ended is exactly zero.
    bars.current = value === 0 ? Array<number>(BARS).fill(0) : [...bars.current.slice(1), height(value)];
    const middle = HEIGHT / 2;
    const lines = bars.current.map((bar, at) => {
      const half = Math.max(bar * middle * 0.96, 1);
      return `M${at * 3 + 1.5} ${(middle - half).toFixed(1)}v${(half * 2).toFixed(1)}`;
    });
    path.current?.setAttribute("d", lines.join(""));
    const level = Math.round(decibels(value));
    frame.current?.setAttribute("aria-valuenow", String(level));
    if (figure.current) figure.current.textContent = value === 0 ? "silent" : `${level < 0 ? "−" : ""}${Math.abs(level)} dB`;
  };
  useSignalEffect(() => draw(level.value));
  useLayoutEffect(() => draw(level.peek()), [isLive]);
  return (
    <div class={props.isOther ? "vlevel other" : "vlevel"}>
      <span class="t12 muted row between">
        <span class="trunc">{label}</span>
        <span class="num" ref={figure} aria-hidden="true" />
      </span>
      <div ref={frame} role="meter" aria-label={`Level of ${label}`} aria-valuemin={SILENCE_DB} aria-valuemax={0}>
        <svg viewBox={`0 0 ${BARS * 3} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          <path ref={path} />
        </svg>
      </div>
    </div>
  );
}

/** Pixels from the end within which the transcript follows its growth. */
const FOLLOW_PX = 64;

/** What both sides have said. */
export function Transcript(props: { entries: Entry[]; model: string }) {
  const frame = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    const box = frame.current;
    if (box && isAtEnd.current) box.scrollTop = box.scrollHeight;
  }, [props.entries]);
  return (
    <div
      ref={frame}
      class="vlog"
      tabIndex={0}
      role="region"
      aria-label="Transcript"
      onScroll={(event) => {
        const box = event.currentTarget;
        isAtEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < FOLLOW_PX;
      }}
    >
      <ol>
        {props.entries.map((entry) => (
          <Line key={entry.id} entry={entry} model={props.model} />
        ))}
      </ol>
    </div>
  );
}

function Line(props: { entry: Entry; model: string }) {
  const { entry, model } = props;
  const { who, text, heardLength, heardMs } = entry;
  const name = session.value?.person.name || session.value?.person.email || "You";
  if (who === "note") {
    return (
      <li class="vnote">
        <span class="muted num t12">{clockOf(entry.at)}</span>
        <span class="vring" aria-hidden="true" />
        <span class="muted t12">{text}</span>
      </li>
    );
  }
  const cut = heardLength === undefined ? "" : text.slice(heardLength);
  const isCut = heardMs !== undefined && cut.trim() !== "";
  return (
    <li>
      <span class="muted num t12">{clockOf(entry.at)}</span>
      {who === "person" ? (
        <Avatar name={name} />
      ) : (
        <span class="ava vmodel" aria-hidden="true">
          {prefixMark(model)}
        </span>
      )}
      <div>
        <span class="sr">{who === "person" ? "You: " : `${shortName(model)}: `}</span>
        <p class={entry.fault && who === "person" ? "muted" : undefined}>
          {heardLength === undefined ? text : text.slice(0, heardLength)}
          {cut && <del>{cut}</del>}
          {entry.isPending && <span class="caret pulse" aria-hidden="true" />}
        </p>
        {isCut && (
          <p class="t12 warn row">
            <Icon name="stop" small />
            <span>Interrupted after {((heardMs ?? 0) / 1000).toFixed(1)} s. The struck words were not heard.</span>
          </p>
        )}
        {entry.fault && who === "model" && <p class="t12 warn">{entry.fault}</p>}
        {entry.usage && <UsageLine usage={entry.usage} />}
      </div>
    </li>
  );
}

function UsageLine(props: { usage: Usage }) {
  const { usage } = props;
  const parts = [
    usage.seconds > 0 && `${usage.seconds.toFixed(1)} s of audio`,
    usage.audioIn > 0 && `${count(usage.audioIn)} audio in`,
    usage.textIn > 0 && `${count(usage.textIn)} text in`,
    usage.textOut > 0 && `${count(usage.textOut)} text out`,
    usage.audioOut > 0 && `${count(usage.audioOut)} audio out`,
  ].filter(Boolean);
  return (
    <p class="t12 muted num" title={usage.cost}>
      <b>{smallAmount(usage.cost)}</b> {parts.join(", ")}
    </p>
  );
}

/** The tokens and the charge of all answers so far. */
export function CostSoFar(props: { total: Usage; isTranscription: boolean }) {
  const { total } = props;
  const rows = props.isTranscription
    ? [["Audio", `${total.seconds.toFixed(1)} s`]]
    : [
        ["Audio in", `${count(total.audioIn)} tokens`],
        ["Text in", `${count(total.textIn)} tokens`],
        ["Text out", `${count(total.textOut)} tokens`],
        ["Audio out", `${count(total.audioOut)} tokens`],
      ];
  return (
    <section class="stack g4" aria-label="Cost so far">
      <h3>Cost so far</h3>
      <div class="receipt">
        {rows.map(([label, quantity]) => (
          <div key={label}>
            <span>{label}</span>
            <i />
            <span class="q">{quantity}</span>
          </div>
        ))}
        <div class="sum">
          <span>Charge</span>
          <i />
          <span title={total.cost}>{trimmed(total.cost)}</span>
        </div>
      </div>
    </section>
  );
}
