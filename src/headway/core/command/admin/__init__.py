"""Commands on lanes, schedules, saved keys, instances, and retention."""
