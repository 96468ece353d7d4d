// The settings and the conversation of the voice mode.

import { place } from "../../shell/router.ts";
import type { Model } from "../../shell/types.ts";
import { modelsFor } from "./catalog.ts";
import { modeState } from "./forms.tsx";
import { Talk, type Kind, type VoiceSettings } from "./voice-session.ts";

const ENDPOINT = "/v1/realtime";

export function talkModels(): Model[] {
  return modelsFor(ENDPOINT).filter((model) => model.type === "realtime");
}

export function transcribeModels(): Model[] {
  return modelsFor(ENDPOINT).filter((model) => model.type === "transcription");
}

/** The settings of the mode. */
export const form = modeState<VoiceSettings>({
  kind: "talk",
  talkModel: "",
  transcribeModel: "",
  voice: "",
  instructions: "",
  language: "",
  detection: "server_vad",
  silence: null,
  threshold: null,
  speed: null,
  maxCost: "",
  device: "",
  isProcessed: true,
});

/** The conversation, which outlives the screen. Its session ends with the screen. */
export const talk = new Talk();

export const DETECTIONS = [
  { value: "server_vad", label: "Server" },
  { value: "semantic_vad", label: "Semantic" },
  { value: "off", label: "Push to talk" },
] as const;

export const KINDS = [
  { value: "talk", label: "Conversation" },
  { value: "transcribe", label: "Transcription" },
] as const;

/** Returns the settings with models that exist. */
export function completed(settings: VoiceSettings): VoiceSettings {
  const pick = (models: Model[], chosen: string) => {
    const linked = place.value.params.get("model");
    return [chosen, linked, models[0]?.id].find((id) => models.some((model) => model.id === id)) ?? "";
  };
  const [talks, transcribes] = [talkModels(), transcribeModels()];
  const kind: Kind = talks.length === 0 ? "transcribe" : transcribes.length === 0 ? "talk" : settings.kind;
  return { ...settings, kind, talkModel: pick(talks, settings.talkModel), transcribeModel: pick(transcribes, settings.transcribeModel) };
}
