"""What computes: recorded with results, since the same machine gives the same bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What results depend on besides the input, up to rounding."""

    processor: str  # Name of the CPU or GPU
    # What multiplies matrices: "BLAS" or "oneDNN" on a CPU, "CUDA 12.8" or "Metal" on a GPU
    library: str
    threads: int  # Threads that torch uses on the CPU
    # Memory budget of inversions, in units of 2**20 bytes; 0 for methods without one
    memory_mb: int = 0
    # Of torch's CPU kernels: "AVX512", "AVX2", "DEFAULT"...; empty in older results
    instructions: str = ""

    @classmethod
    def of(cls, device: torch.device, memory_mb: int) -> Machine:
        """Return the record of this machine, for work on a device."""
        import torch

        from ..engine.compute.devices import processor
        from ..engine.compute.matmul import cpu_library

        name, library = processor(), str(cpu_library())
        if device.type == "cuda":
            name = torch.cuda.get_device_name(device)
            library = f"CUDA {torch.version.cuda}"
        elif device.type == "mps":
            library = "Metal"
        return cls(
            processor=name,
            library=library,
            threads=torch.get_num_threads(),
            memory_mb=memory_mb,
            instructions=torch.backends.cpu.get_cpu_capability(),
        )
