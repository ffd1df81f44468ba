import { useQuery } from "@tanstack/react-query";
import { answerOf } from "./api";
import { jobs, type JobView } from "./client";

type Jobs = Map<string, JobView>;

function useReading() {
  return useQuery({
    queryKey: ["jobs"],
    queryFn: async (): Promise<Jobs> => {
      const found = await answerOf(jobs());
      return new Map(found.jobs.map((job) => [job.name, job]));
    },
    staleTime: Number.POSITIVE_INFINITY, // They change only with the server itself.
  });
}

/** The jobs of the server, by name; none also for as long as they are not known. */
export function useJobs(): Jobs {
  return useReading().data ?? NO_JOBS;
}

/** Whether it is known which jobs there are, and else why not. */
export function useJobsKnown(): { isKnown: boolean; error: Error | null } {
  const { data, error } = useReading();
  return { isKnown: data !== undefined, error: data === undefined ? error : null };
}

const NO_JOBS: Jobs = new Map();
