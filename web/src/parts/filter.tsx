import { Icon } from "./icon.tsx";
import { Menu } from "./menu.tsx";

/** A chip that opens a menu with the values of one filter. The empty value selects all. */
export function Filter(props: {
  label: string;
  value: string;
  options: readonly { value: string; label: string }[];
  onChange: (value: string) => void;
}) {
  const chosen = props.options.find((option) => option.value === props.value);
  const items = [{ value: "", label: "All" }, ...props.options].map((option) => ({
    label: option.label,
    isChecked: option.value === props.value,
    onSelect: () => props.onChange(option.value),
  }));
  return (
    <Menu class={chosen ? "chip filter on" : "chip filter dash"} label={props.label} items={items}>
      {!chosen && <Icon name="plus" small />}
      {chosen ? `${props.label}: ${chosen.label}` : props.label}
      {chosen && <Icon name="down" small />}
    </Menu>
  );
}

/** A chip of a filter that is set; a click removes the filter. */
export function FilterChip(props: { label: string; onRemove: () => void }) {
  return (
    <button type="button" class="chip filter on" onClick={props.onRemove}>
      <span class="sr">Remove the filter </span>
      {props.label}
      <Icon name="close" small />
    </button>
  );
}
