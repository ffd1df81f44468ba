/** The files that a run has made, as the ledger knows them. */
import { Button } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { answerOf } from "../api";
import { listFiles, type RunView } from "../client";
import { isActive } from "../stream/model";
import { useNews } from "../news";
import { moment } from "../time";
import classes from "./Files.module.css";

const PAGE_COUNT = 100;
const AGAIN_MS = 2_000;

export function Files({ run }: { run: RunView }) {
  const { data, hasNextPage, fetchNextPage, isFetching, refetch } = useInfiniteQuery({
    queryKey: ["files", run.id],
    queryFn: ({ pageParam }) => answerOf(listFiles({ path: { run_id: run.id }, query: { limit: PAGE_COUNT, ...(pageParam === null ? {} : { cursor: pageParam }) } })),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.cursor,
    refetchInterval: isActive(run.status) ? AGAIN_MS : false, // A finished file is no event.
  });
  useNews(run.id, () => void refetch()); // The last ones come shortly before the end.
  const files = data?.pages.flatMap((page) => page.files) ?? [];
  if (files.length === 0) return null;
  return (
    <section className={classes.files} aria-label="Files" data-testid="files">
      <h2>Files</h2>
      <ul tabIndex={0} aria-label="Files of the run">
        {files.map((file) => (
          <li key={file.path} title={moment(file.at)}>
            <span dir="auto">{file.path}</span>
            <span className={classes.size}>{size(file.byte_count)}</span>
          </li>
        ))}
      </ul>
      {hasNextPage && (
        <Button size="xs" variant="default" loading={isFetching} onClick={() => void fetchNextPage()}>
          Show more
        </Button>
      )}
    </section>
  );
}

function size(byteCount: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = byteCount;
  let unit = 0;
  while (value >= 1_000 && unit < units.length - 1) {
    value /= 1_000;
    unit += 1;
  }
  return `${value.toFixed(value < 10 && unit > 0 ? 1 : 0)} ${units[unit]}`;
}
