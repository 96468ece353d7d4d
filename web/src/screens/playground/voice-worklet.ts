// Audio processors of the voice mode. They run in the audio thread of the browser, which loads this
// file by itself, so it imports nothing.

declare const sampleRate: number;

declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}

declare function registerProcessor(name: string, processor: new () => AudioWorkletProcessor): void;

{
  /** Samples that a processor reads or writes in one call. */
  const FRAME = 128;

  /** Duration of a captured block, and time between two reports of the playback, in seconds. */
  const BLOCK_SECONDS = 0.04;

  const blockSize = Math.ceil((sampleRate * BLOCK_SECONDS) / FRAME) * FRAME;

  /** Posts the samples of its first input in blocks. */
  class Capture extends AudioWorkletProcessor {
    #block = new Float32Array(blockSize);
    #filled = 0;

    process(inputs: Float32Array[][]): boolean {
      const samples = inputs[0]?.[0];
      if (!samples) return true;
      for (const sample of samples) {
        this.#block[this.#filled] = sample;
        this.#filled += 1;
        if (this.#filled < blockSize) continue;
        this.port.postMessage(this.#block, [this.#block.buffer]);
        this.#block = new Float32Array(blockSize);
        this.#filled = 0;
      }
      return true;
    }
  }

  /** Audio of one item of the conversation. */
  interface Track {
    id: string;
    chunks: Float32Array[];
    /** Samples that have arrived, and samples that were played. */
    received: number;
    played: number;
    /** Place of the next sample in the first chunk. */
    offset: number;
  }

  type Message = { kind: "play"; id: string; samples: Float32Array } | { kind: "clear" };

  /**
   * Plays the audio of items one after the other, without gaps between their chunks. Reports the
   * position and the level while it plays. `clear` drops everything and reports how much of each
   * item was played.
   */
  class Playback extends AudioWorkletProcessor {
    #tracks: Track[] = [];
    /** Samples of the cut chunk that fade out, so that the cut does not click. */
    #tail = new Float32Array(0);
    #energy = 0;
    #counted = 0;

    constructor() {
      super();
      this.port.onmessage = (event: MessageEvent<Message>) => {
        if (event.data.kind === "clear") this.#clear();
        else this.#add(event.data.id, event.data.samples);
      };
    }

    #add(id: string, samples: Float32Array): void {
      let track = this.#tracks.find((one) => one.id === id);
      if (!track) {
        track = { id, chunks: [], received: 0, played: 0, offset: 0 };
        this.#tracks.push(track);
      }
      track.chunks.push(samples);
      track.received += samples.length;
    }

    #clear(): void {
      const items = this.#tracks.map(({ id, played, received }) => ({ id, played, received }));
      const current = this.#tracks[0];
      this.#tail = current?.chunks[0]?.slice(current.offset, current.offset + FRAME) ?? new Float32Array(0);
      if (current?.played === 0) this.#tail = new Float32Array(0);
      this.#tracks = [];
      this.#restart();
      this.port.postMessage({ kind: "cleared", items });
    }

    #restart(): void {
      this.#energy = 0;
      this.#counted = 0;
    }

    /** Returns the next sample; null if all samples that have arrived were played. */
    #next(): number | null {
      for (;;) {
        const track = this.#tracks[0];
        if (!track) return null;
        const chunk = track.chunks[0];
        if (chunk && track.offset < chunk.length) {
          track.offset += 1;
          track.played += 1;
          return chunk[track.offset - 1] ?? 0;
        }
        track.offset = 0;
        if (track.chunks.length > 0) track.chunks.shift();
        else if (this.#tracks.length > 1) this.#tracks.shift();
        else return null;
      }
    }

    process(_: Float32Array[][], outputs: Float32Array[][]): boolean {
      const output = outputs[0]?.[0];
      if (!output) return true;
      const tail = this.#tail;
      this.#tail = new Float32Array(0);
      let hasPlayed = false;
      for (let at = 0; at < output.length; at += 1) {
        const faded = (tail[at] ?? 0) * (1 - at / FRAME);
        const sample = this.#next();
        output[at] = faded + (sample ?? 0);
        if (sample === null) continue;
        hasPlayed = true;
        this.#energy += sample * sample;
        this.#counted += 1;
      }
      const isDrained = hasPlayed && !this.#hasSamples();
      if (this.#counted >= blockSize || isDrained) this.#report(isDrained);
      return true;
    }

    #hasSamples(): boolean {
      return this.#tracks.some((track) => track.played < track.received);
    }

    #report(isDrained: boolean): void {
      const track = this.#tracks[0];
      const level = Math.sqrt(this.#energy / Math.max(this.#counted, 1));
      this.#restart();
      this.port.postMessage({ kind: "progress", id: track?.id, played: track?.played ?? 0, level, isDrained });
    }
  }

  registerProcessor("capture", Capture);
  registerProcessor("playback", Playback);
}
