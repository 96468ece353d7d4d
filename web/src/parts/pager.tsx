import { Button } from "./button.tsx";

/** Moves between the pages of a list whose length is unknown. */
export function Pager(props: { page: number; shown: number; next: (() => void) | null; previous: (() => void) | null }) {
  if (!props.next && !props.previous) return null;
  return (
    <footer class="pager">
      <span class="num" role="status">
        Page {props.page}, {props.shown} rows
      </span>
      <span class="end row">
        <Button size="small" icon="left" disabled={!props.previous} onClick={() => props.previous?.()}>
          Previous
        </Button>
        <Button size="small" disabled={!props.next} onClick={() => props.next?.()}>
          Next
        </Button>
      </span>
    </footer>
  );
}
