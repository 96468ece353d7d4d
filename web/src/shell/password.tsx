import { Icon } from "../parts/icon.tsx";

export const MIN_PASSWORD_LENGTH = 12;
export const MAX_PASSWORD_LENGTH = 128;

interface Strength {
  /** Number of filled bars, 0 to 4. */
  level: number;
  label: string;
}

const LABELS = ["", "Weak", "Fair", "Good", "Strong"];

/** Estimates the strength from the length and the number of different characters. */
export function strengthOf(password: string): Strength {
  if (!password) return { level: 0, label: "" };
  const different = new Set(password).size;
  const kinds = [/[a-z]/, /[A-Z]/, /\d/, /[^A-Za-z\d]/].filter((kind) => kind.test(password)).length;
  const points = Math.min(password.length, different * 2) + kinds * 2;
  const isShort = [...password].length < MIN_PASSWORD_LENGTH;
  const level = isShort ? 1 : points < 18 ? 2 : points < 24 ? 3 : 4;
  return { level, label: LABELS[level] ?? "" };
}

/** Returns the fault of a new password; null if the server may accept it. */
export function passwordFault(password: string): string | null {
  const length = [...password].length;
  if (length < MIN_PASSWORD_LENGTH) return `Use at least ${MIN_PASSWORD_LENGTH} characters.`;
  if (length > MAX_PASSWORD_LENGTH) return `Use at most ${MAX_PASSWORD_LENGTH} characters.`;
  return null;
}

/** Strength and requirements of a new password. */
export function PasswordRules(props: { password: string }) {
  const { level, label } = strengthOf(props.password);
  const tone = level === 1 ? "b" : level === 2 ? "w" : "o";
  const isLong = passwordFault(props.password) === null;
  return (
    <div class="stack">
      <div class="strength" aria-hidden="true">
        {[1, 2, 3, 4].map((bar) => (
          <i key={bar} class={bar <= level ? tone : undefined} />
        ))}
        <span>{label}</span>
      </div>
      <ul class="rules">
        <li class={isLong ? "met" : undefined}>
          {isLong ? <Icon name="check" small /> : <span class="ring" aria-hidden="true" />}
          {MIN_PASSWORD_LENGTH} to {MAX_PASSWORD_LENGTH} characters
          {isLong && <span class="sr">, met</span>}
        </li>
        <li>
          <span class="ring" aria-hidden="true" />
          Not one of the 10,000 most common passwords
        </li>
      </ul>
    </div>
  );
}
