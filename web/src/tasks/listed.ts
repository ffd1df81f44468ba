/** So many tasks, those that moved last first. */
import { answerOf } from "../api";
import { type ListTasksData, listTasks, type TaskResponse } from "../client";
import { listed } from "../listed";

type Wanted = Omit<NonNullable<ListTasksData["query"]>, "limit" | "cursor">;

export function listedTasks(wanted: Wanted, limit: number): Promise<TaskResponse[]> {
  return listed(async (place) => {
    const { tasks, cursor } = await answerOf(listTasks({ query: { ...wanted, ...place } }));
    return { rows: tasks, cursor };
  }, limit);
}
