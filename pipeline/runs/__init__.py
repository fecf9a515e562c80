"""What happens inside a worker process: a `Job` (all a run needs to know, as JSON) and `run(job) -> Record`."""
