/** Whoever has answered a question goes on with the next one, or is back at the heading. */
import { type RefObject, useEffect, useRef } from "react";
import { isFocusLost } from "./keptFocus";

/** Each question lies in an element of the list that has its id as `data-asked`. */
export function useFocusOn(ids: string[]): RefObject<HTMLDivElement | null> {
  const list = useRef<HTMLDivElement>(null);
  const at = useRef<{ id: string; index: number } | null>(null);
  useEffect(() => {
    const here = list.current;
    if (here === null) return;
    const see = ({ target }: FocusEvent) => {
      const id = (target as Element).closest<HTMLElement>("[data-asked]")?.dataset.asked;
      at.current = id === undefined ? null : { id, index: ids.indexOf(id) };
    };
    here.addEventListener("focusin", see);
    return () => here.removeEventListener("focusin", see);
  }, [ids]);
  useEffect(() => {
    const was = at.current;
    if (was === null || ids.includes(was.id) || !isFocusLost()) return;
    at.current = null;
    const cards = list.current?.querySelectorAll<HTMLElement>("[data-asked] > *");
    const next = cards?.[Math.min(was.index, cards.length - 1)] ?? document.querySelector<HTMLElement>("main h1");
    next?.focus();
  }, [ids]);
  return list;
}
