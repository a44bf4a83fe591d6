"""What the name of a GPU kernel says: which collective it is, if any, or whether it multiplies matrices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

# Parts of names of kernels that move data between ranks, or wait for other ranks. NCCL and RCCL (ncclKernel_,
# ncclDevKernel_), MSCCL, oneCCL, PyTorch's symmetric memory (multimem_, one_shot_, two_shot_, barrier_kernel), vLLM,
# SGLang and aiter (cross_device_), quickreduce, FlashInfer and TensorRT-LLM (also by WORDS), Transformer Engine
# (userbuffers), NVSHMEM and rocSHMEM, and the dispatch and combine of experts: DeepEP, TensorRT-LLM, MORI, pplx.
COLLECTIVES = (
    "nccl", "rccl", "msccl", "oneccl", "multimem_", "one_shot_all_", "two_shot_all_", "symmetric_memory::",
    "cross_device_", "quickreduce::", "allreduce_fusion", "mnnvl_", "lamport_style", "userbuffers_", "nvshmem",
    "rocshmem", "barrier_all_on_stream", "barrier_on_stream", "sync_all_on_stream", "deep_ep::", "moea2a", "moe_comm::",
    "mori::", "pplx::",
)  # fmt: skip
# What only prepares them, and what Inductor names after the operations around it.
LOCAL = (
    "deep_ep::layout::",
    "moea2aprepare",
    "moea2asanitize",
    "triton_poi_",
    "triton_red_",
    "triton_per_",
    "triton_for_",
    "triton_tem_",
)
# What only collectives are called, in a name without its arguments and underscores.
WORDS = ("allreduce", "allgather", "reducescatter", "alltoall")
# What a kernel may be called that waits for others, and other kernels too.
HINT = re.compile("dispatch|barrier|exchange|shmem|lamport|peer|a2a|p2p|all2all|combine(?=.*(moe|expert|token))"
                  "|(moe|expert|token).*combine", re.IGNORECASE)  # fmt: skip
GEMM = re.compile("gemm|cutlass|cublas|cijk|xmma|nvjet", re.IGNORECASE)
MOST_NAME = 60  # characters of a kernel's name where people read it
ROOTED = {"broadcast", "reduce", "gather", "scatter"}
SYMMETRIC = {"all_reduce", "reduce_scatter", "all_gather", *ROOTED}  # every rank has the same size
LOOSE = {*ROOTED, "send_recv"}  # ranks need not end together
PAIRED = {"send", "recv"}  # of two ranks, whatever the group

_OPERATIONS = {  # in this order: an AllReduce is a Reduce too
    "reducescatter": "reduce_scatter", "allgather": "all_gather", "allreduce": "all_reduce",
    "crossdevicereduce": "all_reduce", "userbuffersfp16sum": "all_reduce", "onecclreduce": "collective",
    "alltoall": "all_to_all", "a2a": "all_to_all", "broadcast": "broadcast", "sendrecv": "send_recv", "send": "send",
    "recv": "recv", "reduce": "reduce", "gather": "gather", "scatter": "scatter", "barrier": "barrier",
    "dispatch": "all_to_all", "combine": "all_to_all",
}  # fmt: skip


def is_collective(kernel: str, more: Sequence[str] = ()) -> bool:
    """Whether a kernel moves data between ranks, by ``COLLECTIVES`` and ``more`` parts of names; case is no matter.

    >>> is_collective("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
    True
    >>> is_collective("my_exchange<float>"), is_collective("my_exchange<float>", ["My_Exchange"])
    (False, True)
    """
    name = kernel.lower()
    if any(part.lower() in name for part in more):
        return True
    if any(part in name for part in LOCAL):
        return False
    return any(part in name for part in COLLECTIVES) or any(word in _plain(name) for word in WORDS)


def short(kernel: str) -> str:
    """The part of a kernel's name by which a person knows it: without its type and arguments, and not too long.

    >>> short("void deep_ep::intranode::dispatch<4, 768, 8192>(int4*, float*, int*)")
    'deep_ep::intranode::dispatch'
    """
    base = re.split(r"[<(]", kernel.split("(anonymous namespace)::")[-1])[0]
    return base.strip().removeprefix("void ")[-MOST_NAME:] or kernel[:MOST_NAME]


def _plain(name: str) -> str:
    base = re.split(r"[<(]", name.replace("(anonymous namespace)", ""))[0]
    return base.lower().replace("_", "").replace(" ", "")


@lru_cache(maxsize=4096)
def operation(name: str) -> str:
    """What a kernel or collective of that name does, in the words of ``simulator.Kind`` where it has one.

    A kernel that says SendRecv may be an exchange of all ranks (``send_recv``); what is called a send, or a receive, is
    that of one rank to another.

    >>> operation("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)"), operation("_allgather_base")
    ('send_recv', 'all_gather')
    >>> operation("ncclDevKernel_Reduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"), operation("gather")
    ('reduce', 'gather')
    >>> operation("send"), operation("void deep_ep::intranode::combine<__nv_bfloat16, 4, 768, 8192>(int4*)")
    ('send', 'all_to_all')
    >>> operation("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(unsigned long)")
    'all_reduce'
    >>> operation("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)")
    'collective'
    """
    plain = _plain(name)
    return next((meaning for part, meaning in _OPERATIONS.items() if part in plain), "collective")
