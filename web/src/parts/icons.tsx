/** The few icons of the page, drawn on a grid of 16. */
import type { ReactNode } from "react";

export function drawn(children: ReactNode) {
  return function Icon({ size = 16 }: { size?: number }) {
    return (
      <svg
        width={size}
        height={size}
        viewBox="0 0 16 16"
        fill="none"
        stroke="currentColor"
        strokeWidth="1.5"
        strokeLinecap="round"
        strokeLinejoin="round"
        aria-hidden="true"
      >
        {children}
      </svg>
    );
  };
}

export const PlayIcon = drawn(<path d="M5 3.5v9l7-4.5z" />);
export const ForwardIcon = drawn(<path d="M3 4v8l5-4zM9 4v8l5-4z" />);
export const StopIcon = drawn(<rect x="4" y="4" width="8" height="8" rx="1" />);
export const ChevronIcon = drawn(<path d="M6 4l4 4-4 4" />);
export const DotsIcon = drawn(<path d="M3.5 8h.01M8 8h.01M12.5 8h.01" strokeWidth="2.2" />);
export const CopyIcon = drawn(
  <>
    <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
    <path d="M10.5 5.5v-2a1 1 0 0 0-1-1h-6a1 1 0 0 0-1 1v6a1 1 0 0 0 1 1h2" />
  </>,
);
export const PasteIcon = drawn(
  <>
    <rect x="3" y="3.5" width="10" height="10" rx="1.5" />
    <path d="M6 3.5v-1h4v1M6 8h4M6 10.5h2.5" />
  </>,
);
export const PlusIcon = drawn(<path d="M8 3v10M3 8h10" />);
export const AgainIcon = drawn(<path d="M13 8a5 5 0 1 1-1.5-3.5M13 2.5v2.75h-2.75" />);
export const LockIcon = drawn(
  <>
    <rect x="3.5" y="7" width="9" height="6.5" rx="1.5" />
    <path d="M5.5 7V5a2.5 2.5 0 0 1 5 0v2" />
  </>,
);
export const SunIcon = drawn(
  <>
    <circle cx="8" cy="8" r="2.75" />
    <path d="M8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M3.4 12.6l.7-.7M11.9 4.1l.7-.7" />
  </>,
);
export const MoonIcon = drawn(<path d="M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5z" />);
export const SearchIcon = drawn(
  <>
    <circle cx="7" cy="7" r="4" />
    <path d="M10 10l3.5 3.5" />
  </>,
);
export const TrashIcon = drawn(<path d="M3 4.5h10M6.5 4.5v-2h3v2M4.5 4.5l.6 8.5h5.8l.6-8.5M7 7v3.5M9 7v3.5" />);
export const OpenIcon = drawn(<path d="M6 3H3.5v9.5H13V10M9 3h4v4M13 3L7.5 8.5" />);
export const AlertIcon = drawn(<path d="M8 2.5l6 10.5H2zM8 6.5v3M8 11.25v.01" />);
export const CheckIcon = drawn(<path d="M3 8.5l3.5 3.5L13 4.5" />);
export const CrossIcon = drawn(<path d="M4 4l8 8M12 4l-8 8" />);
