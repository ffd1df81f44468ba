/** How the text of a definition looks: by the colours of the page, so that it follows its scheme. */
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";

function tint(colour: string, percent: number): string {
  return `color-mix(in srgb, var(${colour}) ${percent}%, transparent)`;
}

const COLOURS = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--hw-accent)" },
  { tag: tags.string, color: "var(--hw-done)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--hw-waiting)" },
  { tag: [tags.separator, tags.squareBracket, tags.brace], color: "var(--hw-dim)" },
]);

/** Underlines and marks are drawn without images: the content policy allows only the server's own. */
const MARKS = {
  ".cm-lintRange-error, .cm-lintRange-warning": { backgroundImage: "none", textDecorationLine: "underline", textDecorationStyle: "wavy", textDecorationSkipInk: "none", textUnderlineOffset: "3px" },
  ".cm-lintRange-error": { textDecorationColor: "var(--hw-failed)" },
  ".cm-lintRange-warning": { textDecorationColor: "var(--hw-waiting)" },
  ".cm-lintRange-active": { backgroundColor: tint("--hw-failed", 12) },
  ".cm-lintPoint::after": { borderBottomColor: "var(--hw-failed) !important" },
  ".cm-lint-marker": { content: "normal", width: "8px", height: "8px", margin: "6px 0 0 3px", borderRadius: "50%" },
  ".cm-lint-marker-error": { backgroundColor: "var(--hw-failed)" },
  ".cm-lint-marker-warning": { backgroundColor: "var(--hw-waiting)" },
  ".cm-diagnostic": { padding: "6px 10px", fontFamily: "var(--mantine-font-family)", fontSize: "13px" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--hw-failed)" },
  ".cm-diagnostic-warning": { borderLeftColor: "var(--hw-waiting)" },
};

const PANELS = {
  ".cm-tooltip": { border: "1px solid var(--hw-line)", borderRadius: "8px", overflow: "hidden", backgroundColor: "var(--hw-surface)", color: "var(--hw-text)" },
  ".cm-panels": { borderColor: "var(--hw-line) !important", backgroundColor: "var(--hw-sunken)", color: "var(--hw-text)" },
  ".cm-panel.cm-search": { padding: "8px 28px 8px 10px", fontFamily: "var(--mantine-font-family)" },
  ".cm-panel.cm-search label": { fontSize: "12.5px" },
  ".cm-panel.cm-search [name=close]": { top: "6px", right: "6px", color: "var(--hw-text)", fontSize: "18px" },
  ".cm-textfield": { padding: "4px 8px", border: "1px solid var(--hw-line)", borderRadius: "6px", backgroundColor: "var(--hw-surface)", color: "var(--hw-text)", fontSize: "12.5px" },
  ".cm-textfield:focus, .cm-button:focus-visible": { outline: "2px solid var(--hw-accent)", outlineOffset: "-1px" },
  ".cm-button": { padding: "4px 9px", border: "1px solid var(--hw-line)", borderRadius: "6px", backgroundColor: "var(--hw-surface)", backgroundImage: "none", color: "var(--hw-text)", fontSize: "12.5px" },
  ".cm-searchMatch": { backgroundColor: tint("--hw-waiting", 25) },
  ".cm-searchMatch-selected": { backgroundColor: tint("--hw-waiting", 50) },
  ".cm-selectionMatch": { backgroundColor: tint("--hw-accent", 12) },
};

const LOOK = EditorView.theme({
  "&": { height: "100%", backgroundColor: "var(--hw-surface)", color: "var(--hw-text)", fontSize: "12.5px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--hw-mono)", lineHeight: "20px" },
  ".cm-content": { padding: "10px 0", caretColor: "var(--hw-text)" },
  ".cm-cursor": { borderLeftColor: "var(--hw-text)" },
  ".cm-gutters": { borderRight: "1px solid var(--hw-line-soft)", backgroundColor: "var(--hw-sunken)", color: "var(--hw-dim)" },
  ".cm-activeLine": { backgroundColor: tint("--hw-accent", 5) },
  ".cm-activeLineGutter": { backgroundColor: tint("--hw-accent", 9), color: "var(--hw-text)" },
  ".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": { backgroundColor: tint("--hw-accent", 26) },
  "&.cm-focused .cm-matchingBracket": { outline: "1px solid var(--hw-accent)", backgroundColor: "transparent" },
  "&.cm-focused .cm-nonmatchingBracket": { outline: "1px solid var(--hw-failed)", backgroundColor: "transparent" },
  ".cm-foldPlaceholder": { border: "1px solid var(--hw-line)", backgroundColor: "var(--hw-sunken)", color: "var(--hw-dim)" },
  ...MARKS,
  ...PANELS,
});

export const EDITOR_LOOK = [LOOK, syntaxHighlighting(COLOURS)];
