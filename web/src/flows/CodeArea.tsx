/**
 * The text of a definition, in CodeMirror. It lives in a shadow root: there its styles are handed over as objects,
 * and no element is written that the content policy would refuse.
 */
import { json } from "@codemirror/lang-json";
import { type Diagnostic, forEachDiagnostic, lintGutter, setDiagnostics } from "@codemirror/lint";
import type { EditorState } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { basicSetup } from "codemirror";
import { type Ref, useEffect, useEffectEvent, useImperativeHandle, useRef } from "react";
import { EDITOR_LOOK } from "./editorTheme";
import type { Spot } from "./places";

export interface CodeHandle {
  /** Mark it, bring it into sight, and go there. */
  select: (spot: Spot) => void;
  /** Put something else in its place; it can be undone. */
  replace: (text: string) => void;
}

export interface Marks {
  /** What they were found in: of any other text they say nothing. */
  text: string;
  found: Diagnostic[];
}

interface Props {
  ref: Ref<CodeHandle>;
  label: string;
  initial: string;
  marks: Marks;
  onChange: (text: string) => void;
}

export default function CodeArea({ ref, label, initial, marks, onChange }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<EditorView>(null);
  const change = useEffectEvent(onChange);
  const begin = useEffectEvent(
    (root: ShadowRoot) =>
      new EditorView({
        doc: initial,
        root,
        parent: root,
        extensions: [
          basicSetup,
          json(),
          lintGutter(),
          EDITOR_LOOK,
          EditorView.contentAttributes.of((view) => ({ tabindex: "0", "aria-label": label, "aria-invalid": String(isFaulty(view.state)) })),
          EditorView.updateListener.of(({ docChanged, state }) => {
            if (docChanged) change(state.doc.toString());
          }),
        ],
      }),
  );
  useEffect(() => {
    const element = host.current as HTMLDivElement;
    const view = begin(element.shadowRoot ?? element.attachShadow({ mode: "open" }));
    editor.current = view;
    return () => view.destroy();
  }, []);
  useEffect(() => {
    const view = editor.current as EditorView;
    if (view.state.doc.toString() === marks.text) view.dispatch(setDiagnostics(view.state, marks.found));
  }, [marks]);
  useImperativeHandle(ref, () => ({
    select({ from, to }) {
      editor.current?.dispatch({ selection: { anchor: from, head: to }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
      editor.current?.focus();
    },
    replace(text) {
      editor.current?.dispatch({ changes: { from: 0, to: editor.current.state.doc.length, insert: text } });
    },
  }));
  return <div ref={host} style={{ height: "100%" }} />;
}

function isFaulty(state: EditorState): boolean {
  let isFound = false;
  forEachDiagnostic(state, ({ severity }) => {
    isFound ||= severity === "error";
  });
  return isFound;
}
