/** Lays out large graphs beside the page, which stays as quick as it was. */
import type { FlowGraph } from "./graph";
import { layoutOf } from "./layout";

addEventListener("message", ({ data }: MessageEvent<FlowGraph>) => postMessage(layoutOf(data)));
