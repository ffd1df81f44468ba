/** Keys in a drawing: Tab leads to one node of it, arrows from there to the others, and what gets the focus is in sight. */
import { useReactFlow, type Viewport } from "@xyflow/react";
import { type FocusEvent, type KeyboardEvent, useEffect, useState } from "react";
import type { Place } from "./layout";
import { isSeen, nextOf, type Room } from "./view";

interface Ground {
  places: Place[];
  room: Room;
  /** Whether all of it is in the page, and not only what is in sight. */
  isWhole: boolean;
  /** What of it is seen to begin with. */
  first: Viewport;
  /** Where Tab leads, until somebody was elsewhere. */
  wanted: string;
}

export function useWalk({ places, room, isWhole, first, wanted }: Ground) {
  const flow = useReactFlow();
  const [view, setView] = useState(first);
  const [visited, setVisited] = useState<string | null>(null);
  const [awaited, setAwaited] = useState<string | null>(null);

  useEffect(() => void flow.setViewport(first), [flow, first]);
  function reveal(place: Place) {
    if (isSeen(place, flow.getViewport(), room)) return;
    void flow.setCenter(place.x + place.width / 2, place.y + place.height / 2, { zoom: flow.getZoom() });
  }
  const known = places.find(({ key }) => key === (visited ?? wanted)) ?? places[0];
  const isThere = known !== undefined && (isWhole || isSeen(known, view, room));
  return {
    reachable: (isThere ? known : places.find((place) => isSeen(place, view, room)))?.key ?? null,
    awaited,
    onFocus(event: FocusEvent, place: Place) {
      setVisited(place.key);
      setAwaited(null);
      if (event.currentTarget.matches(":focus-visible")) reveal(place);
    },
    onKeyDown(event: KeyboardEvent, from: Place) {
      const next = nextOf(event.key, from, places);
      if (next === null) return;
      event.preventDefault();
      reveal(next);
      setAwaited(next.key);
    },
    onMoveEnd: (_: unknown, moved: Viewport) => setView(moved),
  };
}
