/** Which runs are listed; kept in the address, so that a list can be shared. */
import type { Status } from "../stream/model";

export const STATUSES: Status[] = ["queued", "running", "cancelling", "succeeded", "failed", "canceled", "timed_out", "rejected"];

export interface Filters {
  status?: Status[];
  key?: string;
  job?: string;
  lane?: string;
}

export function filtersOf(search: Record<string, unknown>): Filters {
  const filters: Filters = {};
  if (Array.isArray(search.status)) {
    const status = STATUSES.filter((one) => (search.status as unknown[]).includes(one));
    if (status.length > 0) filters.status = status;
  }
  for (const name of ["key", "job", "lane"] as const) {
    const value = search[name];
    // The address's numbers are words here: a key may be "42".
    if (typeof value === "string" || typeof value === "number") filters[name] = String(value);
  }
  return filters;
}
