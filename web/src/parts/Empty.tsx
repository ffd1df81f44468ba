import type { ReactNode } from "react";
import classes from "./Empty.module.css";

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className={classes.empty}>
      <svg width="72" height="40" viewBox="0 0 72 40" fill="none" strokeWidth="3" strokeLinecap="round" aria-hidden="true">
        <path d="M4 12h30M48 12h20" stroke="currentColor" opacity=".35" />
        <path d="M4 28h12M28 28h40" stroke="currentColor" opacity=".35" />
        <circle cx="41" cy="12" r="4" fill="currentColor" opacity=".6" />
        <circle cx="22" cy="28" r="4" fill="currentColor" opacity=".6" />
      </svg>
      <h2>{title}</h2>
      {children && <div className={classes.more}>{children}</div>}
    </div>
  );
}
