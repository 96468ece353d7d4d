import { useId } from "preact/hooks";

/** Chooses a number in a range, or none: then the model uses its default. */
export function Slider(props: {
  label: string;
  value: number | null;
  minimum: number;
  maximum: number;
  step: number;
  /** Place of the thumb while there is no value. */
  start: number;
  onChange: (value: number | null) => void;
}) {
  const id = useId();
  const { value } = props;
  return (
    <div class="field">
      <span class="lab">
        <label for={id}>{props.label}</label>
        <span class="muted num">{value ?? "Default"}</span>
      </span>
      <span class="row">
        <input
          id={id}
          type="range"
          class={value === null ? "range unset" : "range"}
          min={props.minimum}
          max={props.maximum}
          step={props.step}
          value={value ?? props.start}
          style={{ "--at": `${(((value ?? props.start) - props.minimum) / (props.maximum - props.minimum)) * 100}%` }}
          aria-valuetext={value === null ? "Default" : String(value)}
          onInput={(event) => props.onChange(Number(event.currentTarget.value))}
        />
        {value !== null && (
          <button type="button" class="btn sm bare" onClick={() => props.onChange(null)}>
            Default<span class="sr"> for {props.label}</span>
          </button>
        )}
      </span>
    </div>
  );
}
