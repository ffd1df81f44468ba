import { Button } from "@mantine/core";
import { useEffect, useState } from "react";
import { live, useLive } from "../live";
import classes from "./Banner.module.css";

const PATIENCE_MS = 400;

/** Says that what is shown may be out of date: never a stale truth. */
export function Banner() {
  const isCut = useLive((live) => live.connection === "lost" || (live.hasSnapshot && live.connection === "connecting"));
  const isLost = useLive((live) => live.connection === "lost");
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    if (!isCut) {
      setShown(false);
      return;
    }
    const timer = setTimeout(() => setShown(true), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, [isCut]);
  if (!isShown) return null;
  return (
    <div className={classes.banner} role="alert">
      <span>
        <strong>{isLost ? "The server cannot be reached." : "Something was missed on the way."}</strong> What you see may be out of date.{" "}
        {isLost ? "Trying again by itself…" : "Taking a new look…"}
      </span>
      <Button size="compact-sm" variant="default" onClick={() => live.ask({ kind: "retry" })}>
        Try now
      </Button>
    </div>
  );
}
