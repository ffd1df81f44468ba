import type { ReactNode } from "react";
import classes from "./Crumbs.module.css";

/** Where one is: each part but the last is a link. */
export function Crumbs({ children }: { children: ReactNode[] }) {
  return (
    <nav className={classes.crumbs} aria-label="Where you are">
      {children.map((child, index) => (
        // oxlint-disable-next-line no-array-index-key -- They never change places.
        <span key={index}>{child}</span>
      ))}
    </nav>
  );
}
