/** Where the server is: the page lies under its `/ui/`, whatever prefix stands before that. */
export function serverAddress(here: string): string {
  const [before, after] = here.split("/ui/", 2);
  return after === undefined ? new URL(here).origin : (before as string);
}
