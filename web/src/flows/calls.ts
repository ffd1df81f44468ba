/** Calls whose body is a definition: text, as it was typed. */
import { answerOf } from "../api";
import type { FlowCheckView, FlowDetailView, PublishedFlowView } from "../client";
import { getFlow } from "../client";
import { client } from "../client/client.gen";

const AS_TYPED = { bodySerializer: null, headers: { "content-type": "application/json" } } as const;

export function check(text: string): Promise<FlowCheckView> {
  return answerOf(client.post<{ 200: FlowCheckView }>({ url: "/api/flow-check", body: text, ...AS_TYPED }));
}

/** Refused when the flow has moved on since `revision`; 0 is for one that is to be new. */
export function publish(name: string, text: string, revision: number): Promise<PublishedFlowView> {
  return answerOf(
    client.put<{ 200: PublishedFlowView }>({
      url: "/api/flows/{name}",
      path: { name },
      body: text,
      bodySerializer: null,
      headers: { ...AS_TYPED.headers, "if-match": `"${revision}"` },
    }),
  );
}

export function flowQuery(name: string, version?: number) {
  return {
    queryKey: ["flow", name, version ?? null],
    queryFn: (): Promise<FlowDetailView> => answerOf(getFlow({ path: { name }, query: version === undefined ? {} : { version } })),
  };
}
