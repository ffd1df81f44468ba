/** So many tasks, those that moved last first, page by page: a page ends where it would be too large. */
import { answerOf } from "../api";
import { type ListTasksData, listTasks, type TaskList, type TaskView } from "../client";

type Wanted = Omit<NonNullable<ListTasksData["query"]>, "limit" | "cursor">;

export async function listedTasks(wanted: Wanted, limit: number): Promise<TaskView[]> {
  const found: TaskView[] = [];
  let cursor: string | null = null;
  do {
    const page: TaskList = await answerOf(listTasks({ query: { ...wanted, limit: limit - found.length, ...(cursor === null ? {} : { cursor }) } }));
    found.push(...page.tasks);
    cursor = page.cursor;
  } while (cursor !== null && found.length < limit);
  return found;
}
