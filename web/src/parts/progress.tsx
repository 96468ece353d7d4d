/** A bar for an action that runs; its share is from 0 to 1, or unknown. */
export function Progress(props: { label: string; share: number | null }) {
  const percent = props.share === null ? null : Math.floor(props.share * 100);
  return (
    <div class="stack g4">
      <div class="row between t12">
        <span>{props.label}</span>
        <span class="muted num">{percent !== null && `${percent} %`}</span>
      </div>
      <div
        class={percent === null ? "meter moving" : "meter"}
        role="progressbar"
        aria-label={props.label}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={percent ?? undefined}
      >
        <i style={{ width: `${percent ?? 30}%` }} />
      </div>
    </div>
  );
}
