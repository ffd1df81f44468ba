import { useQuery } from "@tanstack/react-query";
import { answerOf } from "./api";
import { jobs, type JobView } from "./client";

/** The jobs of the server, by name. They change only with the server itself. */
export function useJobs(): Map<string, JobView> {
  const { data } = useQuery({
    queryKey: ["jobs"],
    queryFn: async () => {
      const found = await answerOf(jobs());
      return new Map(found.jobs.map((job) => [job.name, job]));
    },
  });
  return data ?? NO_JOBS;
}

const NO_JOBS: Map<string, JobView> = new Map();
