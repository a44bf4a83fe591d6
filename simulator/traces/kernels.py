"""What the name of a GPU kernel says: which collective it is, if any, or whether it multiplies matrices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

# Parts of names of kernels that move data between ranks. NCCL and RCCL (ncclKernel_, ncclDevKernel_), MSCCL, PyTorch's
# symmetric memory (multimem_, one_shot_, two_shot_), vLLM and SGLang (cross_device_reduce), FlashInfer, TensorRT-LLM.
COLLECTIVES = (
    "nccl", "rccl", "msccl", "multimem_all_", "multimem_one_shot", "one_shot_all_", "two_shot_all_",
    "cross_device_reduce", "allreduce_fusion", "trtllm_allreduce",
)  # fmt: skip
GEMM = re.compile("gemm|cutlass|cublas|cijk|xmma|nvjet", re.IGNORECASE)
ROOTED = {"broadcast", "reduce", "gather", "scatter"}
SYMMETRIC = {"all_reduce", "reduce_scatter", "all_gather", *ROOTED}  # every rank has the same size
LOOSE = {*ROOTED, "send_recv"}  # ranks need not end together

_OPERATIONS = {  # in this order: an AllReduce is a Reduce too
    "reducescatter": "reduce_scatter", "allgather": "all_gather", "allreduce": "all_reduce",
    "crossdevicereduce": "all_reduce", "alltoall": "all_to_all", "broadcast": "broadcast", "sendrecv": "send_recv",
    "send": "send_recv", "recv": "send_recv", "reduce": "reduce", "gather": "gather", "scatter": "scatter",
}  # fmt: skip


def is_collective(kernel: str, more: Sequence[str] = ()) -> bool:
    """Whether a kernel moves data between ranks, by ``COLLECTIVES`` and ``more`` parts of names; case is no matter.

    >>> is_collective("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
    True
    >>> is_collective("my_exchange<float>"), is_collective("my_exchange<float>", ["My_Exchange"])
    (False, True)
    """
    name = kernel.lower()
    return any(part.lower() in name for part in (*COLLECTIVES, *more))


@lru_cache(maxsize=4096)
def operation(name: str) -> str:
    """What a kernel or collective of that name does, in the words of ``simulator.Kind`` where it has one.

    >>> operation("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)"), operation("_allgather_base")
    ('send_recv', 'all_gather')
    >>> operation("ncclDevKernel_Reduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"), operation("gather")
    ('reduce', 'gather')
    >>> operation("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(unsigned long)")
    'all_reduce'
    >>> operation("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)")
    'collective'
    """
    base = re.split(r"[<(]", name.replace("(anonymous namespace)", ""))[0]
    plain = base.lower().replace("_", "").replace(" ", "")
    return next((meaning for part, meaning in _OPERATIONS.items() if part in plain), "collective")
