"""The machine: its device, cores, driver, and the kernels that the variants' weights want."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline import installed
from pipeline.params import Params, Runtime
from pipeline.preflight.texts import quantizer_settings
from pipeline.probes import hardware, placement
from pipeline.quantizers import Kernel
from pipeline.records import Gpu, Reading

GENERAL = "a general one turns the weights back to floats at each pass, which is right but slow"
SOLE = "nothing else runs these weights, so the variant will fail"


def problems(settings: Params) -> Iterator[str]:
    """Cores that are not there, a GPU asked for that cannot be used, and weights that no kernel here reads."""
    yield from device_problems(settings.runtime)
    yield from _kernel_problems(settings)


def device_problems(runtime: Runtime) -> Iterator[str]:
    """Cores that are not there, and a GPU asked for that cannot be used."""
    cores = placement.problem(runtime.cores)
    if cores:
        yield cores
    if runtime.device != "cuda":
        return
    gpus, reason = hardware.gpus()
    if not gpus:
        yield f"runtime.device: cuda, but there is no GPU here ({reason}); set it to auto or cpu"
        return
    unusable = gpu_unusable(gpus[0])
    if unusable:
        yield f"runtime.device: cuda, but {unusable}"


def notes(settings: Params) -> Iterator[str]:
    """A GPU that will lie idle, and variants whose weights no kernel here reads as they are stored."""
    device = device_here(settings)
    dtype = getattr(settings.runtime.compute_dtype, device)
    gpus, _ = hardware.gpus()
    if settings.runtime.device == "auto" and gpus and device == "cpu":
        yield f"runtime.device: auto means the CPU here, though there is a GPU: {gpu_unusable(gpus[0])}"
    for name, variant in settings.variants.items():
        kernel = quantizer_settings(variant).kernel(device, dtype)
        if kernel is None or kernel.breaks:
            continue
        why = kernel.unfit or too_old(kernel, hardware.compute_capability())
        if why:
            yield f"variants.{name}: kernel {kernel.name} {why}; {SOLE if kernel.sole else GENERAL}"


def too_old(kernel: Kernel, found: Reading) -> str | None:
    """Why a GPU of this compute capability does not run the kernel; None where it does, or where that is not known."""
    if found.value is None or found.value >= kernel.capability:
        return None
    return f"needs a GPU of compute capability {kernel.capability:g}, this one has {found.value:g}"


def _kernel_problems(settings: Params) -> Iterator[str]:
    device = device_here(settings)
    dtype = getattr(settings.runtime.compute_dtype, device)
    for name, variant in settings.variants.items():
        kernel = quantizer_settings(variant).kernel(device, dtype)
        if kernel is not None and kernel.breaks:
            yield f"variants.{name}: kernel {kernel.name} {kernel.breaks}; give other settings, or another device"


def device_here(settings: Params) -> str:
    """`cpu` or `cuda`: what the workers will run on, told without torch."""
    gpus, _ = hardware.gpus()
    usable = bool(gpus) and gpu_unusable(gpus[0]) is None
    return "cuda" if settings.runtime.device != "cpu" and usable else "cpu"


def gpu_unusable(gpu: Gpu) -> str | None:
    """Why the installed torch cannot use the GPU; None where it can, or where that cannot be told.

    A driver runs programs built for any minor version of its CUDA's major version (docs.nvidia.com, "CUDA
    Compatibility", minor version compatibility).
    """
    torch = installed.constants("torch", "version.py")
    if not torch:
        return "torch is not installed"
    built, version = torch.get("cuda"), torch.get("__version__")
    if built is None:
        return (
            f"torch {version} is a build without CUDA, which cannot use the {gpu.name}; install the CUDA build of the "
            "same version"
        )
    driver = hardware.driver_cuda_version()
    if driver.value is not None and int(built.split(".")[0]) > int(driver.value):
        return (
            f"torch {version} is built for CUDA {built}, and driver {gpu.driver} runs CUDA up to {driver.value:g}; "
            "update the driver, or install a torch built for an older CUDA"
        )
    return None
