"""What a job makes every rank do in one iteration: programs, and the workloads that write them."""
