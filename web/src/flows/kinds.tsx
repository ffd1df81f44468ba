/** What a node does, at a glance. */
import { AgainIcon, CheckIcon, CrossIcon, drawn, OpenIcon } from "../parts/icons";

const KIND_ICONS = new Map([
  ["approval", CheckIcon],
  ["choice", drawn(<path d="M8 2l6 6-6 6-6-6z" />)],
  [
    "executor",
    drawn(
      <>
        <rect x="2" y="2.5" width="12" height="4.5" rx="1" />
        <rect x="2" y="9" width="12" height="4.5" rx="1" />
        <path d="M4.75 4.75h.01M4.75 11.25h.01" strokeWidth="2" />
      </>,
    ),
  ],
  ["fail", CrossIcon],
  ["flow_ref", OpenIcon],
  ["foreach", AgainIcon],
  ["local", drawn(<path d="M5.5 2.5c-2.5 0-.5 4.5-3 5.5 2.5 1 .5 5.5 3 5.5M10.5 2.5c2.5 0 .5 4.5 3 5.5-2.5 1-.5 5.5-3 5.5" />)],
  ["parallel", drawn(<path d="M2 8h12M4 8c3 0 2-4.5 5-4.5h5M4 8c3 0 2 4.5 5 4.5h5" />)],
  [
    "subflow",
    drawn(
      <>
        <rect x="1.5" y="2.5" width="13" height="11" rx="2" />
        <path d="M4.5 8h.01M11.5 8h.01" strokeWidth="3" />
        <path d="M6.5 8h2.5" />
      </>,
    ),
  ],
  [
    "timer",
    drawn(
      <>
        <circle cx="8" cy="8" r="6" />
        <path d="M8 4.5V8l2.5 1.5" />
      </>,
    ),
  ],
  ["wait_event", drawn(<path d="M9 1.5L3.5 9H8l-1 5.5L12.5 7H8z" />)],
]);
const UnknownIcon = drawn(<circle cx="8" cy="8" r="5.5" />);

export function KindIcon({ kind }: { kind: string }) {
  const Icon = KIND_ICONS.get(kind) ?? UnknownIcon;
  return <Icon size={15} />;
}
