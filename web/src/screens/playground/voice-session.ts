// A conversation with a voice model, or a live transcription, over a realtime session.

import { signal } from "@preact/signals";

import { PUBLIC_API, request, toApiError } from "../../shell/api.ts";
import { add } from "../../shell/format.ts";
import { loadUsage } from "../../shell/usage.ts";
import { Microphone, MicrophoneError, Speaker, type Dropped } from "./voice-audio.ts";
import { explainClose, explainError, type EventError, type Fault } from "./voice-faults.ts";
import { fromBase64, milliseconds, RATE, toBase64 } from "./voice-pcm.ts";

export type Kind = "talk" | "transcribe";

export type Detection = "server_vad" | "semantic_vad" | "off";

export interface VoiceSettings {
  kind: Kind;
  talkModel: string;
  transcribeModel: string;
  voice: string;
  instructions: string;
  language: string;
  detection: Detection;
  /** Silence that ends a turn, in milliseconds; null for the default. */
  silence: number | null;
  threshold: number | null;
  speed: number | null;
  maxCost: string;
  device: string;
  isProcessed: boolean;
}

export type Phase = "idle" | "connecting" | "open" | "closed";

/** A line of the transcript. */
export interface Entry {
  /** Id of the item in the conversation. */
  id: string;
  who: "person" | "model" | "note";
  text: string;
  /** Milliseconds since the start. */
  at: number;
  /** Whether words still arrive. */
  isPending: boolean;
  isTyped?: boolean;
  /** Characters that were heard, if the rest was cut. */
  heardLength?: number;
  /** Milliseconds that were heard of an answer that was cut. */
  heardMs?: number;
  usage?: Usage;
  requestId?: string;
  fault?: string | undefined;
}

export interface Usage {
  audioIn: number;
  textIn: number;
  audioOut: number;
  textOut: number;
  /** Seconds of transcribed audio. */
  seconds: number;
  cost: string;
}

export const NO_USAGE: Usage = { audioIn: 0, textIn: 0, audioOut: 0, textOut: 0, seconds: 0, cost: "0" };

function sumOf(left: Usage, right: Usage): Usage {
  return {
    audioIn: left.audioIn + right.audioIn,
    textIn: left.textIn + right.textIn,
    audioOut: left.audioOut + right.audioOut,
    textOut: left.textOut + right.textOut,
    seconds: left.seconds + right.seconds,
    cost: add(left.cost, right.cost),
  };
}

/** Lifetime of a client secret, which this page uses immediately. */
const SECRET_SECONDS = 60;

/** Duration of a session. A microphone that was forgotten then no longer starts answers. */
export const MAX_MINUTES = 30;

/** Samples of the shortest recording that the gateway accepts: 100 ms. */
const MIN_RECORDING = RATE / 10;

interface SessionObject {
  type: "realtime" | "transcription";
  model?: string;
  instructions?: string;
  audio: { input: Record<string, unknown>; output?: Record<string, unknown> };
}

/** Returns the session that the settings describe, for `session.update` and client secrets. */
function sessionOf(settings: VoiceSettings): SessionObject {
  const format = { type: "audio/pcm", rate: RATE };
  const turn_detection = detectionOf(settings);
  if (settings.kind === "transcribe") {
    const language = settings.language.trim();
    const transcription = { model: settings.transcribeModel, ...(language ? { language } : {}) };
    return { type: "transcription", audio: { input: { format, turn_detection, transcription } } };
  }
  const voice = settings.voice.trim();
  return {
    type: "realtime",
    model: settings.talkModel,
    instructions: settings.instructions.trim(),
    audio: {
      // A model that hears audio itself needs no words, but the transcript does.
      input: { format, turn_detection, transcription: {} },
      output: { format, ...(voice ? { voice } : {}), ...(settings.speed === null ? {} : { speed: settings.speed }) },
    },
  };
}

function detectionOf(settings: VoiceSettings): Record<string, unknown> | null {
  if (settings.detection === "off") return null;
  if (settings.detection === "semantic_vad") return { type: "semantic_vad" };
  return {
    type: "server_vad",
    ...(settings.silence === null ? {} : { silence_duration_ms: settings.silence }),
    ...(settings.threshold === null ? {} : { threshold: settings.threshold }),
  };
}

/** Returns the request for a client secret of this page. */
export function secretRequest(settings: VoiceSettings): Record<string, unknown> {
  const maxCost = settings.maxCost.trim();
  return {
    expires_after: { anchor: "created_at", seconds: SECRET_SECONDS },
    session: sessionOf(settings),
    ...(maxCost && settings.kind === "talk" ? { max_cost: maxCost } : {}),
    max_seconds: MAX_MINUTES * 60,
    allowed_origins: [location.origin],
  };
}

export function modelIn(settings: VoiceSettings): string {
  return settings.kind === "talk" ? settings.talkModel : settings.transcribeModel;
}

interface ResponseObject {
  id: string;
  status: string;
  status_details?: { reason?: string; error?: EventError } | null;
  output?: { id?: string; type?: string; content?: { transcript?: string; text?: string }[] }[];
  request_id?: string;
  usage?: {
    input_token_details?: { text_tokens?: number; audio_tokens?: number };
    output_token_details?: { text_tokens?: number; audio_tokens?: number };
    cost?: string;
  } | null;
}

interface ServerEvent {
  type: string;
  item_id?: string;
  delta?: string;
  text?: string;
  transcript?: string;
  error?: EventError;
  usage?: { seconds?: number; cost?: string } | null;
  item?: { id?: string; type?: string; role?: string; content?: { transcript?: string; text?: string }[] };
  response?: ResponseObject;
  session?: { audio?: { output?: { voice?: string } } };
}

/** Reasons why an answer is shorter than the model intended. */
const ENDS: Record<string, string> = {
  content_filter: "The content policy ended the answer.",
  max_output_tokens: "The answer has reached its maximum length.",
};

/** Returns the words of an item. */
function wordsOf(content: { transcript?: string; text?: string }[] | undefined): string {
  return (content ?? []).map((part) => part.transcript ?? part.text ?? "").join("");
}

function newId(): string {
  return `item_${crypto.randomUUID().replaceAll("-", "")}`;
}

/** A conversation, which several connections can continue. */
export class Talk {
  readonly phase = signal<Phase>("idle");
  readonly entries = signal<Entry[]>([]);
  readonly total = signal<Usage>(NO_USAGE);
  /** The latest error, or the reason for the end. */
  readonly fault = signal<Fault | null>(null);
  /** Why there is no microphone. */
  readonly microphoneFault = signal<string | null>(null);
  readonly hasMicrophone = signal(false);
  readonly isMuted = signal(false);
  /** Whether the person holds the button to talk. */
  readonly isTalking = signal(false);
  readonly isPlaying = signal(false);
  /** Whether an answer is being written. */
  readonly isResponding = signal(false);
  /** Whether the gateway hears speech. */
  readonly isSpeechHeard = signal(false);
  /** Whether the words of the person wait for an answer. */
  readonly isAwaited = signal(false);
  readonly startedAt = signal(0);
  /** Milliseconds from the end of the latest turn to the audio of its answer. */
  readonly replyMs = signal<number | null>(null);
  /** Voice that the gateway has chosen. */
  readonly voice = signal<string | null>(null);
  readonly inputLevel = signal(0);
  readonly outputLevel = signal(0);

  #settings: VoiceSettings | null = null;
  #socket: WebSocket | null = null;
  #microphone: Microphone | null = null;
  #speaker: Speaker | null = null;
  /** Number of the connection. What arrives for an earlier one is ignored. */
  #attempt = 0;
  #wasOpen = false;
  /** Whether the end of the running answer must be followed by another one. */
  #wantsResponse = false;
  #recorded = 0;
  #turnEndedAt = 0;
  /** Items whose further audio is dropped. */
  #dropped = new Set<string>();

  get isLive(): boolean {
    return this.phase.value === "connecting" || this.phase.value === "open";
  }

  /** Opens a session. A conversation that has entries continues. */
  async start(settings: VoiceSettings, withMicrophone: boolean): Promise<void> {
    this.#close();
    this.#settings = settings;
    this.#wasOpen = false;
    this.fault.value = null;
    this.microphoneFault.value = null;
    this.isMuted.value = false;
    this.phase.value = "connecting";
    const attempt = this.#attempt;
    const isCurrent = () => this.#attempt === attempt;
    try {
      if (settings.kind === "talk") {
        const speaker = await Speaker.open({
          onLevel: (level) => {
            this.outputLevel.value = level;
          },
          onPlaying: (isPlaying) => this.#setPlaying(isPlaying),
          onDropped: (items) => this.#cut(items),
        });
        if (!isCurrent()) return speaker.close();
        this.#speaker = speaker;
      }
      if (withMicrophone) {
        const microphone = await Microphone.open({
          device: settings.device,
          isProcessed: settings.isProcessed,
          onSamples: (samples, level) => this.#hear(samples, level),
          onEnd: () => {
            this.#closeMicrophone();
            this.#dropTurn();
            this.microphoneFault.value = "The microphone was disconnected, or its permission has ended.";
          },
        });
        if (!isCurrent()) return microphone.close();
        this.#microphone = microphone;
        this.hasMicrophone.value = true;
      }
      const secret = await request<{ value: string }>("POST", `${PUBLIC_API}/realtime/client_secrets`, {
        body: secretRequest(settings),
        account: true,
      });
      if (isCurrent()) this.#connect(secret.value, settings, attempt);
    } catch (error) {
      if (!isCurrent()) return;
      this.#close();
      this.phase.value = this.entries.value.length > 0 ? "closed" : "idle";
      if (error instanceof MicrophoneError) {
        this.microphoneFault.value = error.message;
        return;
      }
      const { message, code, requestId } = toApiError(error);
      this.fault.value = { title: "The session was not opened.", message, code, requestId };
    }
  }

  /** Ends the session. The transcript stays. */
  end(): void {
    if (!this.isLive) return;
    this.#close();
    this.#note("Session ended.");
    this.phase.value = "closed";
  }

  /** Ends the session and removes the transcript. */
  clear(): void {
    this.#close();
    this.phase.value = "idle";
    this.entries.value = [];
    this.total.value = NO_USAGE;
    this.fault.value = null;
    this.microphoneFault.value = null;
    this.replyMs.value = null;
    this.startedAt.value = 0;
  }

  /** Applies settings that may change in an open session. */
  change(settings: VoiceSettings): void {
    if (this.phase.value !== "open") return;
    this.#settings = settings;
    const { type, instructions, audio } = sessionOf(settings);
    this.#send({ type: "session.update", session: { type, ...(type === "realtime" ? { instructions } : {}), audio: { input: audio.input } } });
  }

  mute(isMuted: boolean): void {
    this.isMuted.value = isMuted;
    // The audio of transcriptions is charged, so none is sent, and the turn ends here.
    if (isMuted && this.#settings?.kind === "transcribe" && this.isSpeechHeard.value) {
      this.#send({ type: "input_audio_buffer.commit" });
    }
  }

  /** Stops the answer and its playback. */
  interrupt(): void {
    if (this.isResponding.value) this.#send({ type: "response.cancel" });
    this.#speaker?.clear();
  }

  /** Begins or ends a recording of a session without turn detection. */
  talk(isTalking: boolean): void {
    if (this.phase.value !== "open" || this.isTalking.value === isTalking) return;
    this.isTalking.value = isTalking;
    if (isTalking) {
      this.#recorded = 0;
      this.interrupt();
      return;
    }
    if (this.#recorded < MIN_RECORDING) {
      this.#send({ type: "input_audio_buffer.clear" });
      return;
    }
    this.#send({ type: "input_audio_buffer.commit" });
    if (this.#settings?.kind === "talk") this.#respond();
  }

  /** Writes a message instead of speaking. */
  write(text: string): void {
    const id = newId();
    this.#put({ id, who: "person", text, at: this.#now(), isPending: false, isTyped: true });
    this.#send({ type: "conversation.item.create", item: { id, type: "message", role: "user", content: [{ type: "input_text", text }] } });
    this.interrupt();
    this.#respond();
  }

  #respond(): void {
    this.#turnEndedAt = performance.now();
    this.isAwaited.value = true;
    if (this.isResponding.value) {
      // The running response must end first.
      this.#wantsResponse = true;
      return;
    }
    this.#send({ type: "response.create" });
  }

  #connect(secret: string, settings: VoiceSettings, attempt: number): void {
    const address = new URL("/v1/realtime", location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    address.searchParams.set("model", modelIn(settings));
    const socket = new WebSocket(address, ["realtime", `openai-insecure-api-key.${secret}`]);
    this.#socket = socket;
    socket.onmessage = (message: MessageEvent<string>) => {
      if (this.#attempt === attempt) this.#receive(JSON.parse(message.data) as ServerEvent);
    };
    socket.onclose = ({ code, reason }) => {
      if (this.#attempt !== attempt) return;
      this.#close();
      this.phase.value = "closed";
      // An error has already stated the reason.
      if (!this.fault.value || !this.#wasOpen) this.fault.value = explainClose(code, reason, this.#wasOpen);
      if (this.#wasOpen) this.#note("Session ended by the gateway.");
    };
  }

  #send(event: Record<string, unknown>): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(event));
  }

  /** Releases the connection, the microphone and the loudspeaker. */
  #close(): void {
    this.#attempt += 1;
    this.#speaker?.close();
    this.#speaker = null;
    this.#closeMicrophone();
    this.#socket?.close();
    this.#socket = null;
    this.#wantsResponse = false;
    this.#dropped.clear();
    this.isPlaying.value = false;
    this.isResponding.value = false;
    this.isSpeechHeard.value = false;
    this.isAwaited.value = false;
    this.outputLevel.value = 0;
    this.entries.value = this.entries.value.flatMap((entry) => {
      if (!entry.isPending) return [entry];
      return entry.text ? [{ ...entry, isPending: false }] : [];
    });
  }

  /** Drops a turn that can no longer end by silence. */
  #dropTurn(): void {
    if (!this.isSpeechHeard.value) return;
    this.isSpeechHeard.value = false;
    this.#send({ type: "input_audio_buffer.clear" });
    this.entries.value = this.entries.value.filter((entry) => entry.who !== "person" || !entry.isPending);
  }

  #closeMicrophone(): void {
    this.#microphone?.close();
    this.#microphone = null;
    this.hasMicrophone.value = false;
    this.isTalking.value = false;
    this.inputLevel.value = 0;
  }

  #now(): number {
    return this.startedAt.value === 0 ? 0 : Date.now() - this.startedAt.value;
  }

  #note(text: string): void {
    this.#put({ id: newId(), who: "note", text, at: this.#now(), isPending: false });
  }

  /** Adds an entry, or changes the one of the same id. */
  #put(entry: Entry): void {
    const entries = this.entries.peek();
    const at = entries.findIndex((one) => one.id === entry.id);
    this.entries.value = at < 0 ? [...entries, entry] : entries.with(at, entry);
  }

  #change(id: string | undefined, change: (entry: Entry) => Partial<Entry> | null): void {
    this.entries.value = this.entries.peek().flatMap((entry) => {
      if (entry.id !== id) return [entry];
      const changes = change(entry);
      return changes ? [{ ...entry, ...changes }] : [];
    });
  }

  #entryOf(id: string, who: "person" | "model"): void {
    if (this.entries.peek().some((entry) => entry.id === id)) return;
    this.#put({ id, who, text: "", at: this.#now(), isPending: true });
  }

  #hear(samples: Float32Array, level: number): void {
    const settings = this.#settings;
    if (!settings || this.phase.peek() !== "open") return;
    const isOpen = settings.detection === "off" ? this.isTalking.peek() : !this.isMuted.peek();
    this.inputLevel.value = isOpen ? level : 0;
    if (isOpen) {
      this.#recorded += samples.length;
      this.#send({ type: "input_audio_buffer.append", audio: toBase64(samples) });
    } else if (settings.detection !== "off" && settings.kind === "talk") {
      // Silence ends a turn that was open, and costs nothing.
      this.#send({ type: "input_audio_buffer.append", audio: toBase64(new Float32Array(samples.length)) });
    }
  }

  #setPlaying(isPlaying: boolean): void {
    if (isPlaying === this.isPlaying.peek()) return;
    this.isPlaying.value = isPlaying;
    if (!isPlaying) this.outputLevel.value = 0;
  }

  /** Tells the gateway how much of dropped answers was heard, and asks which words remain. */
  #cut(items: Dropped[]): void {
    for (const { id, heard, received } of items) {
      if (heard >= received) continue;
      this.#dropped.add(id);
      const heardMs = milliseconds(heard);
      this.#change(id, () => ({ heardMs }));
      this.#send({ type: "conversation.item.truncate", item_id: id, content_index: 0, audio_end_ms: heardMs });
      this.#send({ type: "conversation.item.retrieve", item_id: id });
    }
  }

  #receive(event: ServerEvent): void {
    switch (event.type) {
      case "session.created":
        this.#opened(event);
        break;
      case "session.updated":
        this.voice.value = event.session?.audio?.output?.voice ?? null;
        break;
      case "input_audio_buffer.speech_started":
        this.isSpeechHeard.value = true;
        this.isAwaited.value = false;
        if (event.item_id) this.#entryOf(event.item_id, "person");
        this.#speaker?.clear();
        break;
      case "input_audio_buffer.speech_stopped":
        this.isSpeechHeard.value = false;
        this.isAwaited.value = this.#settings?.kind === "talk";
        this.#turnEndedAt = performance.now();
        break;
      case "input_audio_buffer.committed":
        this.isSpeechHeard.value = false;
        if (event.item_id) this.#entryOf(event.item_id, "person");
        break;
      case "conversation.item.input_audio_transcription.delta":
        if (event.item_id) this.#entryOf(event.item_id, "person");
        this.#change(event.item_id, ({ text }) => ({ text: text + (event.delta ?? "") }));
        break;
      case "conversation.item.input_audio_transcription.completed":
        this.#transcribed(event);
        break;
      case "conversation.item.input_audio_transcription.failed":
        this.#change(event.item_id, () => ({ isPending: false, fault: event.error?.message ?? "The words were not recognized." }));
        this.isAwaited.value = false;
        break;
      case "response.created":
        this.isResponding.value = true;
        break;
      case "response.output_item.added":
        if (event.item?.id && event.item.type === "message") this.#entryOf(event.item.id, "model");
        break;
      case "response.output_audio_transcript.delta":
      case "response.output_text.delta":
        this.#change(event.item_id, ({ text }) => ({ text: text + (event.delta ?? "") }));
        break;
      case "response.output_audio.delta":
        this.#play(event);
        break;
      case "response.done":
        if (event.response) this.#responded(event.response);
        break;
      case "conversation.item.retrieved":
        this.#retrieved(event);
        break;
      case "error":
        this.#failed(event.error);
        break;
      default:
        break;
    }
  }

  #opened(event: ServerEvent): void {
    this.#wasOpen = true;
    const isContinued = this.startedAt.value !== 0;
    if (!isContinued) this.startedAt.value = Date.now();
    this.voice.value = event.session?.audio?.output?.voice ?? null;
    if (isContinued && this.#settings?.kind === "talk") this.#restore();
    this.#note(isContinued ? "Session continued." : this.hasMicrophone.value ? "Session started. The microphone is on." : "Session started without a microphone.");
    this.phase.value = "open";
  }

  /** Sends the conversation to a new session. */
  #restore(): void {
    for (const { who, text, heardLength, isTyped, fault } of this.entries.peek()) {
      const words = heardLength === undefined ? text : text.slice(0, heardLength);
      const isUnknown = who === "person" && fault !== undefined;
      if (who === "note" || isUnknown || !words.trim()) continue;
      const item =
        who === "model"
          ? { type: "message", role: "assistant", content: [{ type: "output_text", text: words }] }
          : { type: "message", role: "user", content: [isTyped ? { type: "input_text", text: words } : { type: "input_audio", transcript: words }] };
      this.#send({ type: "conversation.item.create", item });
    }
  }

  #transcribed(event: ServerEvent): void {
    const text = (event.transcript ?? "").trim();
    const { seconds = 0, cost } = event.usage ?? {};
    const isCharged = this.#settings?.kind === "transcribe" || Boolean(cost);
    const usage = isCharged ? { ...NO_USAGE, seconds, cost: cost ?? "0" } : null;
    if (usage) {
      this.total.value = sumOf(this.total.peek(), usage);
      void loadUsage();
    }
    // A turn without words is answered by nothing.
    if (!text) this.isAwaited.value = false;
    this.#change(event.item_id, () => (text ? { text, isPending: false, fault: undefined, ...(usage ? { usage } : {}) } : null));
  }

  #play(event: ServerEvent): void {
    if (!event.item_id || !event.delta || this.#dropped.has(event.item_id)) return;
    if (this.#turnEndedAt > 0) {
      this.replyMs.value = performance.now() - this.#turnEndedAt;
      this.#turnEndedAt = 0;
    }
    this.#speaker?.play(event.item_id, fromBase64(event.delta));
  }

  #responded(response: ResponseObject): void {
    this.isResponding.value = false;
    const { usage, status_details: details } = response;
    const spent: Usage = {
      audioIn: usage?.input_token_details?.audio_tokens ?? 0,
      textIn: usage?.input_token_details?.text_tokens ?? 0,
      audioOut: usage?.output_token_details?.audio_tokens ?? 0,
      textOut: usage?.output_token_details?.text_tokens ?? 0,
      seconds: 0,
      cost: usage?.cost ?? "0",
    };
    this.total.value = sumOf(this.total.peek(), spent);
    void loadUsage();
    const item = response.output?.find((one) => one.type === "message");
    const words = wordsOf(item?.content);
    this.#change(item?.id, ({ text }) =>
      words || text
        ? {
            isPending: false,
            text: words || text,
            usage: spent,
            fault: ENDS[details?.reason ?? ""],
            ...(response.request_id ? { requestId: response.request_id } : {}),
          }
        : null,
    );
    if (response.status === "failed") {
      this.#failed({ ...details?.error, request_id: response.request_id ?? null });
    }
    this.isAwaited.value = this.#wantsResponse;
    if (!this.#wantsResponse) return;
    this.#wantsResponse = false;
    this.#send({ type: "response.create" });
  }

  #retrieved(event: ServerEvent): void {
    const heard = wordsOf(event.item?.content);
    this.#change(event.item?.id, ({ text }) => (text.startsWith(heard) ? { heardLength: heard.length } : { text: heard, heardLength: heard.length }));
  }

  #failed(error: EventError | undefined): void {
    // The message of the person waits for the end of the running answer.
    if (error?.code === "conversation_already_has_active_response") this.#wantsResponse = true;
    const fault = explainError(error);
    if (!fault) return;
    this.fault.value = fault;
    this.isAwaited.value = false;
    // Words that no answer has transcribed are not known.
    this.#change(this.entries.peek().findLast((entry) => entry.who === "person" && entry.isPending)?.id, () => ({
      isPending: false,
      text: "Not transcribed: the answer was refused.",
      fault: fault.title,
    }));
  }
}
