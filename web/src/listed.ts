/** So many of a list, page by page: a page ends where it would be too large. */
interface Place {
  limit: number;
  cursor?: string;
}

interface Page<T> {
  rows: T[];
  cursor: string | null;
}

export async function listed<T>(read: (place: Place) => Promise<Page<T>>, limit: number): Promise<T[]> {
  const found: T[] = [];
  let cursor: string | null = null;
  do {
    const page: Page<T> = await read({ limit: limit - found.length, ...(cursor === null ? {} : { cursor }) });
    found.push(...page.rows);
    cursor = page.cursor;
  } while (cursor !== null && found.length < limit);
  return found;
}
