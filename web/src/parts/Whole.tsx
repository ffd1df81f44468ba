/** The way to a text that is shown in part: onto the clipboard where that is allowed, else as a file. */
import { Button } from "@mantine/core";
import { useClipboard } from "@mantine/hooks";

interface Props {
  text: () => string;
  name: string;
  /** What is copied, in words. */
  what?: string;
}

export function Whole({ text, name, what = "it whole" }: Props) {
  const clipboard = useClipboard();
  // Only pages of a safe origin have one.
  if (navigator.clipboard === undefined) {
    return (
      <Button size="compact-xs" variant="default" onClick={() => save(text(), name)}>
        Save {what}
      </Button>
    );
  }
  return (
    <Button size="compact-xs" variant="default" onClick={() => clipboard.copy(text())}>
      {clipboard.copied ? "Copied" : `Copy ${what}`}
    </Button>
  );
}

function save(text: string, name: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = `${name}.txt`;
  link.click();
  URL.revokeObjectURL(address);
}
