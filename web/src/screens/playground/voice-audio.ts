// The microphone and the loudspeaker of the voice mode.

import { levelOf, RATE, Resampler } from "./voice-pcm.ts";

/** Path of the audio processors, which the build inserts. */
const WORKLET = "tollgate-worklet:voice-worklet";

/** The reason why there is no microphone, in words for the person. */
export class MicrophoneError extends Error {}

const REASONS: Record<string, string> = {
  NotAllowedError:
    "The browser does not allow the microphone on this page. Allow it in the settings of the page, beside the address, and try again.",
  SecurityError: "The browser does not allow the microphone on this page.",
  NotFoundError: "No microphone was found. Connect one, and try again.",
  OverconstrainedError: "The selected microphone is not connected. Select another one.",
  NotReadableError: "The microphone cannot be opened. Another program may use it.",
  AbortError: "The microphone cannot be opened. Another program may use it.",
};

function microphoneError(error: unknown): MicrophoneError {
  const name = error instanceof DOMException ? error.name : "";
  const text = error instanceof Error ? error.message : String(error);
  return new MicrophoneError(REASONS[name] ?? `The microphone cannot be opened: ${text}`);
}

export interface MicrophoneOptions {
  /** Id of the device; empty for the default one. */
  device: string;
  /** Whether the browser removes echo and noise, and controls the level. */
  isProcessed: boolean;
  /** Receives samples at the rate of the session, and their level. */
  onSamples: (samples: Float32Array, level: number) => void;
  /** Called when the device was disconnected, or its permission was revoked. */
  onEnd: () => void;
}

/** An open microphone. */
export class Microphone {
  readonly #stream: MediaStream;
  readonly #context: AudioContext;

  private constructor(stream: MediaStream, context: AudioContext) {
    this.#stream = stream;
    this.#context = context;
  }

  /** Asks for the microphone. Throws a `MicrophoneError` with the reason if there is none. */
  static async open(options: MicrophoneOptions): Promise<Microphone> {
    // Browsers have no devices on pages without TLS.
    const devices = navigator.mediaDevices as MediaDevices | undefined;
    if (!devices || !("AudioWorkletNode" in window)) {
      throw new MicrophoneError("This browser offers no microphone on this page. Pages need HTTPS for it, except on localhost.");
    }
    const { isProcessed } = options;
    const audio: MediaTrackConstraints = {
      channelCount: 1,
      echoCancellation: isProcessed,
      noiseSuppression: isProcessed,
      autoGainControl: isProcessed,
      ...(options.device ? { deviceId: { exact: options.device } } : {}),
    };
    let stream: MediaStream;
    try {
      stream = await devices.getUserMedia({ audio });
    } catch (error) {
      throw microphoneError(error);
    }
    const context = new AudioContext({ latencyHint: "interactive" });
    const microphone = new Microphone(stream, context);
    try {
      await context.audioWorklet.addModule(WORKLET);
      const capture = new AudioWorkletNode(context, "capture", {
        numberOfOutputs: 0,
        channelCount: 1,
        channelCountMode: "explicit",
      });
      const resampler = new Resampler(context.sampleRate, RATE);
      capture.port.onmessage = (event: MessageEvent<Float32Array>) => {
        options.onSamples(resampler.push(event.data), levelOf(event.data));
      };
      context.createMediaStreamSource(stream).connect(capture);
      await context.resume();
    } catch (error) {
      microphone.close();
      throw microphoneError(error);
    }
    for (const track of stream.getAudioTracks()) track.onended = options.onEnd;
    return microphone;
  }

  close(): void {
    for (const track of this.#stream.getTracks()) {
      track.onended = null;
      track.stop();
    }
    void this.#context.close();
  }
}

/** Playback of an item that was dropped. */
export interface Dropped {
  id: string;
  /** Samples that the person has heard, of those that had arrived. */
  heard: number;
  received: number;
}

export interface SpeakerOptions {
  /** Receives the level while audio plays. */
  onLevel: (level: number) => void;
  /** Called when playback begins, and when everything that has arrived was played. */
  onPlaying: (isPlaying: boolean) => void;
  /** Receives the items that `clear` has dropped. */
  onDropped: (items: Dropped[]) => void;
}

type Report =
  | { kind: "progress"; id?: string; played: number; level: number; isDrained: boolean }
  | { kind: "cleared"; items: { id: string; played: number; received: number }[] };

/** The loudspeaker, which plays the items of the conversation one after the other. */
export class Speaker {
  readonly #context: AudioContext;
  readonly #node: AudioWorkletNode;
  readonly #options: SpeakerOptions;

  private constructor(context: AudioContext, options: SpeakerOptions) {
    this.#context = context;
    this.#options = options;
    this.#node = new AudioWorkletNode(context, "playback", { numberOfInputs: 0, outputChannelCount: [1] });
    this.#node.port.onmessage = (event: MessageEvent<Report>) => this.#receive(event.data);
    this.#node.connect(context.destination);
  }

  static async open(options: SpeakerOptions): Promise<Speaker> {
    // The browser converts the rate of the session to that of the device.
    const context = new AudioContext({ latencyHint: "interactive", sampleRate: RATE });
    try {
      await context.audioWorklet.addModule(WORKLET);
      await context.resume();
      return new Speaker(context, options);
    } catch (error) {
      void context.close();
      throw error;
    }
  }

  play(id: string, samples: Float32Array<ArrayBuffer>): void {
    this.#options.onPlaying(true);
    this.#node.port.postMessage({ kind: "play", id, samples }, [samples.buffer]);
  }

  /** Drops everything that was not played. `onDropped` then receives the items. */
  clear(): void {
    this.#node.port.postMessage({ kind: "clear" });
  }

  close(): void {
    this.#node.port.onmessage = null;
    void this.#context.close();
  }

  #receive(report: Report): void {
    if (report.kind === "progress") {
      this.#options.onLevel(report.level);
      if (report.isDrained) this.#options.onPlaying(false);
      return;
    }
    // Samples that left the processor are heard after the delay of the device.
    const delay = Math.round((this.#context.outputLatency || this.#context.baseLatency || 0) * RATE);
    this.#options.onPlaying(false);
    this.#options.onDropped(
      report.items.map(({ id, played, received }) => ({ id, received, heard: played < received ? Math.max(0, played - delay) : received })),
    );
  }
}

/** Lists the microphones. They have names once the person has allowed one. */
export async function microphones(): Promise<MediaDeviceInfo[]> {
  const devices = await navigator.mediaDevices.enumerateDevices();
  return devices.filter((device) => device.kind === "audioinput" && device.deviceId !== "" && device.label !== "");
}
