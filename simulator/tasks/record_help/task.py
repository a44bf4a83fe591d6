"""``+experiment=record_help``: how to record what a trace report and a calibration read."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from simulator.task import FOLDER, Outcome, Progress, Task

RECORDER = Path(__file__).parents[2] / "data" / "record_traces.txt"  # read by nobody here: torch is not needed
TEXT = f"""\
Traces, for the synchronization tax, the straggler and the law of compute times:

  1. copy {FOLDER}/record_traces.py to your training code:
         from record_traces import recorder
         with recorder() as profiler:
             for batch in loader:
                 train(batch)
                 profiler.step()
  2. run the job as ever, all ranks with RANK set (torchrun sets it): traces/rankN.json.gz, one of each rank
  3. python -m simulator +experiment=trace_report traces=traces

  What decides whether a trace answers, and what it costs:
    every rank             a tax needs the rank that is last; of some ranks it is a lower bound, and said to be partial
    activities CPU, CUDA   CUDA has the kernels; CPU has process group, size and (PyTorch from 2026 on) sequence number
                           of each collective, which PyTorch copies to its kernel. Without CPU traces are far smaller,
                           and collectives are matched by their ends alone
    40 steps, 20 skipped   40 make a tail; the first steps allocate, compile and tune. The file grows with the steps
    one window (repeat=1)  two windows are two measurements, each of fewer steps
    record_shapes, with_stack, profile_memory off: they slow the CPU, which then is what ranks wait for

Bandwidths, for alpha and beta of the machine, with github.com/NVIDIA/nccl-tests (or rccl-tests):

  one node   ./build/all_reduce_perf -b 8K -e 4G -f 2 -n 50 -w 10 -g 8 > all_reduce.txt
  more       make MPI=1, then
             mpirun -np 16 -N 8 ./build/all_reduce_perf -b 8K -e 4G -f 2 -n 50 -w 10 -g 1 > all_reduce.txt
             (built without MPI each process measures itself, which is refused)
  then       python -m simulator +experiment=calibrate nccl_tests=all_reduce.txt

  From 8K the latency shows, up to 4G the bandwidth; all that the command prints belongs in the file."""


@dataclass(frozen=True, kw_only=True)
class RecordHelp(Task):
    """Says how to record, and leaves the file that does it."""

    name: str

    def execute(self, folder: Path, progress: Progress | None = None) -> Outcome:
        """Leaves ``record_traces.py``."""
        shutil.copyfile(RECORDER, folder / "record_traces.py")
        return Outcome(TEXT)
