export const PURPOSES = [
  { value: "user_data", label: "User data" },
  { value: "batch", label: "Batch" },
  { value: "vision", label: "Vision" },
  { value: "assistants", label: "Assistants" },
  { value: "fine-tune", label: "Fine-tune" },
  { value: "evals", label: "Evals" },
] as const;

export type Purpose = (typeof PURPOSES)[number]["value"];

/** Purpose of the files that a batch writes. */
export const BATCH_OUTPUT = { value: "batch_output", label: "Batch output" } as const;

export function purposeLabel(purpose: string): string {
  return [...PURPOSES, BATCH_OUTPUT].find((one) => one.value === purpose)?.label ?? purpose;
}
