// Icons of 16 × 16 units, drawn as lines.

const circle = (x: number, y: number, r: number): string => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;

const ICONS = {
  overview: "M2.5 7 8 2.5 13.5 7v6.5h-4v-4h-3v4h-4z",
  people: `${circle(6, 5.5, 2.5)}M1.8 13.5c0-2.5 1.9-4 4.2-4s4.2 1.5 4.2 4M10.5 3.3a2.4 2.4 0 0 1 0 4.4M11.8 9.8c1.5.5 2.4 1.8 2.4 3.7`,
  settings: `${circle(8, 8, 2)}M8 1.8v2M8 12.2v2M1.8 8h2M12.2 8h2M3.6 3.6 5 5M11 11l1.4 1.4M12.4 3.6 11 5M5 11l-1.4 1.4`,
  audit: "M8 1.8 13 4v4c0 3-2 5-5 6.2C5 13 3 11 3 8V4zM6 8l1.5 1.5L10.2 6.5",
  accounts: "M2.5 13.5v-11h7v11M9.5 6.5h4v7M1.5 13.5h13M5 5.5h2M5 8.5h2",
  theme: `${circle(8, 8, 3)}M8 1.5v1.5M8 13v1.5M1.5 8H3M13 8h1.5M3.5 3.5l1 1M11.5 11.5l1 1M12.5 3.5l-1 1M4.5 11.5l-1 1`,
  search: `${circle(7, 7, 4.3)}M10.3 10.3l3.2 3.2`,
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  close: "m4 4 8 8M12 4l-8 8",
  check: "m3 8.5 3.2 3L13 4.5",
  plus: "M8 3v10M3 8h10",
  warning: "M8 2.5 14.2 13H1.8zM8 6.5v3M8 11.3h.01",
  info: `${circle(8, 8, 5.8)}M8 7.5v3.5M8 5h.01`,
  copy: "M7 5.5h5a1.5 1.5 0 0 1 1.5 1.5v5a1.5 1.5 0 0 1-1.5 1.5H7A1.5 1.5 0 0 1 5.5 12V7A1.5 1.5 0 0 1 7 5.5M10.5 5.5v-3h-8v8h3",
  retry: "M13 8a5 5 0 1 1-1.5-3.6M13 2.5v3h-3",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  updown: "m5 6 3-3 3 3M5 10l3 3 3-3",
  down: "m4 6.5 4 4 4-4",
  right: "m6.5 4 4 4-4 4",
  left: "m9.5 4-4 4 4 4",
  signout: "M6.5 2.5h-4v11h4M6 8h7.5M10.5 5l3 3-3 3",
  mail: "M2 3.5h12v9H2zM2 4.5l6 4.5 6-4.5",
  link: "M7 9a2.6 2.6 0 0 0 3.7 0l2-2A2.6 2.6 0 0 0 9 3.300l-.8.8M9 7a2.6 2.6 0 0 0-3.7 0l-2 2A2.6 2.6 0 0 0 7 12.7l.8-.8",
  usage: "M2.5 13.5h11M4.5 11V7.5M8 11V3M11.5 11V5.5",
  calls: "M5.5 4h8M5.5 8h8M5.5 12h8M2.5 4h.01M2.5 8h.01M2.5 12h.01",
  billing: "M3.5 3.5h9A1.5 1.5 0 0 1 14 5v6a1.5 1.5 0 0 1-1.5 1.5h-9A1.5 1.5 0 0 1 2 11V5a1.5 1.5 0 0 1 1.5-1.5M2 6.5h12M4.5 10h3",
  calendar: "M4 3h8a1.5 1.5 0 0 1 1.5 1.5V12a1.5 1.5 0 0 1-1.5 1.5H4A1.5 1.5 0 0 1 2.5 12V4.5A1.5 1.5 0 0 1 4 3M2.5 6.5h11M5.5 1.8v2.4M10.5 1.8v2.4",
  key: `${circle(5, 11, 2.7)}m4.7-2.7L13 3M11 5l2 2`,
  remove: "M3 4.500h10M6.500 4.500v-2h3v2M4.500 4.500l.6 9h5.800l.6-9",
  edit: "M3 13l.7-3L11 2.700l2.300 2.300L6 12.300z",
  guide: "M2.5 3.2C4.5 2.7 6.5 3 8 4.2c1.5-1.2 3.5-1.5 5.5-1v9.6c-2-.5-4-.2-5.5 1-1.5-1.2-3.5-1.5-5.5-1zM8 4.2v9.6",
  braces: "M6.5 2.5H5.5A1.5 1.5 0 0 0 4 4v2.5L2.5 8 4 9.5V12a1.5 1.5 0 0 0 1.5 1.5h1M9.5 2.5h1A1.5 1.5 0 0 1 12 4v2.5L13.5 8 12 9.5V12a1.5 1.5 0 0 1-1.5 1.5h-1",
  providers: "M3.5 2.5h9a1 1 0 0 1 1 1v2a1 1 0 0 1-1 1h-9a1 1 0 0 1-1-1v-2a1 1 0 0 1 1-1M3.5 9.5h9a1 1 0 0 1 1 1v2a1 1 0 0 1-1 1h-9a1 1 0 0 1-1-1v-2a1 1 0 0 1 1-1M5 4.5h.01M5 11.5h.01",
  models: "M8 1.8 13.5 5v6L8 14.2 2.5 11V5zM2.5 5 8 8l5.5-3M8 8v6",
  jobs: `${circle(8, 8, 5.7)}M8 4.8V8l2.2 1.5`,
  files: "M4 1.8h5L12.5 5v9.2H4zM9 1.8V5h3.5",
  batches: "m8 2 6 3-6 3-6-3zM2 8l6 3 6-3M2 11l6 3 6-3",
  templates: "M4 2.5h8a1.5 1.5 0 0 1 1.5 1.5v8a1.5 1.5 0 0 1-1.5 1.5H4A1.5 1.5 0 0 1 2.5 12V4A1.5 1.5 0 0 1 4 2.5M2.5 6h11M6 6v7.5",
  webhooks: "M5 9.5a2.5 2.5 0 1 0 2.4 3.2H12M8 5 5.5 10M8 5a2.3 2.3 0 1 1 2.2-1.5M9.5 5.2 12 10a2.5 2.5 0 1 1-2 1",
  download: "M8 2.5V10M4.8 7 8 10.2 11.2 7M3 13.5h10",
  upload: "M8 10.2V2.7M4.8 5.7 8 2.5l3.2 3.2M3 13.5h10",
  open: "M9 2.5h4.5V7M13.5 2.5 7.5 8.5M11.5 9.5v4h-9v-9h4",
  play: "m5 3 8 5-8 5z",
  stop: "M4 4h8v8H4z",
  chat: "M2.5 3.5h11v7.5H7l-3 2.5V11H2.5z",
  code: "M5.5 4.5 2 8l3.5 3.5M10.5 4.5 14 8l-3.5 3.5",
  branch: `${circle(4.5, 3.5, 1.5)}${circle(4.5, 12.5, 1.5)}${circle(11.5, 5.5, 1.5)}M4.5 5v6M11.5 7c0 3-4 2-7 4`,
  attach: "M13 7.5 7.7 12.8a3 3 0 0 1-4.3-4.3L9 3a2 2 0 0 1 2.900 2.900L6.500 11.300a1 1 0 0 1-1.500-1.400L9.500 5.500",
  tool: "M10 2.5a3.5 3.5 0 0 0-3 5L2.500 12 4 13.500 8.500 9a3.500 3.500 0 0 0 4.800-4.500L11 6.500 9.500 5z",
  image: `M3.500 3h9A1.500 1.500 0 0 1 14 4.500v7A1.500 1.500 0 0 1 12.500 13h-9A1.500 1.500 0 0 1 2 11.500v-7A1.500 1.500 0 0 1 3.500 3M3 12l3.500-3.500L9 11l2-2 3 3${circle(5.5, 6.5, 1.1)}`,
  microphone: "M8 1.8a2 2 0 0 1 2 2v3.5a2 2 0 0 1-4 0V3.8a2 2 0 0 1 2-2zM3.5 7.5a4.500 4.500 0 0 0 9 0M8 12v2.200",
  muted: "M6 5V4a2 2 0 0 1 4 0v3.500M3.500 7.500a4.500 4.500 0 0 0 7 3.700M8 12v2.200M2 2l12 12",
  filter: "M2.5 4h11M4.5 8h7M6.5 12h3",
} as const;

export type IconName = keyof typeof ICONS;

export function Icon({ name, small, class: extra }: { name: IconName; small?: boolean; class?: string }) {
  const width = name === "more" ? { "stroke-width": 2.2 } : {};
  return (
    <svg class={`i ${small ? "i12" : ""} ${extra ?? ""}`} viewBox="0 0 16 16" aria-hidden="true">
      <path d={ICONS[name]} {...width} />
    </svg>
  );
}

/** The mark of the product. */
export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 20 20" aria-hidden="true">
      <rect width="20" height="20" rx="5" fill="var(--accent)" />
      <path d="M4.5 9H8v7H4.5z" fill="var(--on-accent)" />
      <path d="M6 10.5 16.5 5.2" stroke="var(--on-accent)" stroke-width="2.6" stroke-dasharray="4.6 1.2" fill="none" />
    </svg>
  );
}
